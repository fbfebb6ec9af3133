"""Every kind of source with the same blocks, so that one contract can be put to all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from indexer.chains import Chain
from indexer.chains.failover import FailoverChain, Pace
from indexer.chains.files import create as files
from indexer.chains.node import create as node
from indexer.chains.overlay import create as mirror
from indexer.retries import Backoff
from tests.chainkit import Block, ChainKit
from tests.fakes import MemoryChain
from tests.junglebus_server import JungleBus
from tests.nodes import Node
from tests.peer_server import PeerServer
from tests.serving import new_app, serving

PACE = Pace(grace=20, poll=0.005, backoff=Backoff(0.005, 0.01))


@dataclass
class Plug:
    """A source under test. `learn` makes it know more blocks, `announce` unconfirmed transactions; `fresh` makes
    another `Chain` of the same source. `whole`: it gives all bytes of blocks; `mempool`: it tells what is unconfirmed;
    `values`: it can tell those of all outputs; `strangers`: it has transactions that are none of the registry's;
    `by_id`: it can be asked for transactions of blocks."""

    fresh: Callable[[], Chain]
    learn: Callable[[Block], None]
    announce: Callable[[bytes, bytes], None]
    whole: bool = True
    mempool: bool = True
    values: bool = True
    strangers: bool = True
    by_id: bool = True


@asynccontextmanager
async def memory(kit: ChainKit, _folder: Path) -> AsyncIterator[Plug]:
    """The fake of the story tests: the contract tests it against the behaviour of the real ones."""
    chain = MemoryChain(*kit.blocks)
    yield Plug(lambda: chain, chain.arrive, chain.unconfirmed.__setitem__)


@asynccontextmanager
async def folder(kit: ChainKit, folder: Path) -> AsyncIterator[Plug]:
    """Block files."""
    (path,) = kit.write(folder)
    yield Plug(
        lambda: files("demo", f"files:{folder}?chain=bsv&network=regtest"),
        lambda block: kit.append(path, block),
        lambda _txid, _raw: None,
        mempool=False,
    )


@asynccontextmanager
async def http(kit: ChainKit, _folder: Path) -> AsyncIterator[Plug]:
    """A node."""
    chain = MemoryChain(*kit.blocks)
    async with Node(chain) as server:
        yield Plug(lambda: node("demo", f"{server.url}?chain=bsv"), chain.arrive, chain.unconfirmed.__setitem__)


@asynccontextmanager
async def peers(kit: ChainKit, _folder: Path) -> AsyncIterator[Plug]:
    """Two peers."""
    async with PeerServer(MemoryChain(*kit.blocks)) as first, PeerServer(MemoryChain(*kit.blocks)) as second:

        def learn(block: Block) -> None:
            first.arrive(block)
            second.arrive(block)

        yield Plug(
            lambda: first.chain(second, mempool="off"),
            learn,
            lambda _txid, _raw: None,
            mempool=False,
            values=False,
            by_id=False,
        )


@asynccontextmanager
async def failover(kit: ChainKit, path: Path) -> AsyncIterator[Plug]:
    """A node and a folder of the same blocks, and a source that has gone."""
    gone = MemoryChain(*kit.blocks)
    gone.down = "no route"
    async with AsyncExitStack() as stack:
        plugs = [await stack.enter_async_context(item(kit, path)) for item in (http, folder)]

        def learn(block: Block) -> None:
            for plug in plugs:
                plug.learn(block)

        yield Plug(
            lambda: FailoverChain("demo", [("gone", gone), *((str(plug), plug.fresh()) for plug in plugs)], PACE),
            learn,
            plugs[0].announce,
        )


@asynccontextmanager
async def subscription(kit: ChainKit, _folder: Path) -> AsyncIterator[Plug]:
    """A JungleBus."""
    async with JungleBus(kit) as server:
        yield Plug(
            server.chain, lambda _: server.follow(), lambda _txid, _raw: None, whole=False, mempool=False, values=False
        )


@asynccontextmanager
async def overlay(kit: ChainKit, folder: Path) -> AsyncIterator[Plug]:
    """Another overlay that follows the same blocks."""
    chain = MemoryChain(*kit.blocks)
    async with serving(new_app(folder / "overlay", chain, limits="off")) as client:

        def fresh() -> Chain:
            created = mirror("demo", f"overlay:{client._base_url}?network=regtest")
            created.poll_seconds = 0
            return created

        yield Plug(
            fresh, chain.arrive, lambda _txid, _raw: None, whole=False, mempool=False, values=False, strangers=False
        )


PLUGS = {
    "memory": memory,
    "files": folder,
    "http": http,
    "peers": peers,
    "several": failover,
    "junglebus": subscription,
    "overlay": overlay,
}
