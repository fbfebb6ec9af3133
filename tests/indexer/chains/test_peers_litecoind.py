"""Real litecoinds followed as peers: what is read of them is what the RPC source of the same node reads."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from indexer.chains import Chain
from indexer.chains.node import create as node_source
from indexer.chains.peers import create
from indexer.chains.peers.chain import PeersChain
from indexer.retries import Backoff
from indexer.store import RegistrationHistory
from parsers.bitcoin.block import tx_offsets
from parsers.bitcoin.tx import Outpoint
from tests.conftest import missing
from tests.fakes import MemoryChain
from tests.indexer.chains.test_node_litecoind import card
from tests.indexing import Indexing
from tests.litecoind import Litecoind, binary
from tests.peer_server import PeerServer
from tests.ports import free_port
from tests.waiting import PATIENCE, until

Follow = Callable[..., Awaitable[Indexing]]
Start = Callable[..., "ListeningNode"]


class ListeningNode(Litecoind):
    """A litecoind that accepts peers; `more` are further switches."""

    def __init__(self, folder: Path, *more: str) -> None:
        self.peer_port = free_port()
        super().__init__(folder, more=["-listen=1", f"-port={self.peer_port}", "-bind=127.0.0.1", *more])

    @property
    def address(self) -> str:
        """Where it accepts peers."""
        return f"127.0.0.1:{self.peer_port}"


def peers(*addresses: str) -> PeersChain:
    """A chain that follows these peers."""
    return create("ltc", f"peers:?network=regtest&connect={','.join(addresses)}")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts nodes, and kills them at the end; the first is funded."""
    if binary() is None:
        missing("litecoind")
    nodes: list[ListeningNode] = []

    def start_(*more: str) -> ListeningNode:
        node = ListeningNode(tmp_path / f"node-{len(nodes)}", *more)
        node.start()
        if not nodes:
            node.fund()
        nodes.append(node)
        return node

    yield start_
    for node in nodes:
        node.kill()


@pytest.fixture
async def follow(tmp_path: Path) -> AsyncIterator[Follow]:
    """Indexes a chain in a store of its own up to its tip; all is closed at the end."""
    created: list[tuple[Indexing, Chain]] = []
    numbers = count()

    async def follow_(chain: Chain) -> Indexing:
        indexing = Indexing(f"sqlite:///{tmp_path}/{next(numbers)}.db", chain)
        created.append((indexing, chain))
        return await indexing.catch_up()

    yield follow_
    for indexing, chain in created:
        indexing.__exit__()
        await chain.close()


async def reach(indexing: Indexing, node: Litecoind, name: str = "ltc") -> None:
    """Catch up until the newest block of the node is stored: a peer announces it a moment after it is mined."""

    def is_stored() -> bool:
        newest = indexing.store.blocks.newest(name)
        return newest is not None and newest.hash[::-1].hex() == node.rpc("getbestblockhash")

    async with asyncio.timeout(PATIENCE):
        while not is_stored():
            await indexing.chains[0].wait(0.2)
            await indexing.catch_up()


async def test_what_a_peer_delivers_is_what_the_rpc_source_reads(start: Start, follow: Follow) -> None:
    node = start()
    node.activate_mweb()
    indexing = await follow(peers(node.address))
    first, second = node.inscribe(card("one", description="y" * 3_000), chunk=400), node.inscribe(card("two"))
    node.peg_in()
    node.mine()
    await reach(indexing, node)
    update = node.update(first, card("one-again"))
    node.point("agent.example", bytes(range(32)))
    node.mine()
    node.move(update)
    node.burn(second)
    node.mine()
    await reach(indexing, node)
    assert indexing.live("ltc") == {str(first)}
    by_rpc = await follow(node_source("ltc", node.url))
    assert indexing.facts("ltc") == by_rpc.facts("ltc")
    assert indexing.records("ltc") == by_rpc.records("ltc")
    assert [pointer["domain"] for pointer in indexing.records("ltc")["pointers"]] == ["agent.example"]
    height = node.rpc("getblockcount")
    assert indexing.hashes([height], "ltc")[height] is not None


async def test_reorganisations_of_a_peer_are_followed(start: Start, follow: Follow) -> None:
    node = start()
    indexing = await follow(peers(node.address))
    (follower,) = indexing.followers
    for depth in range(1, 9):
        newcomer = node.inscribe(card(f"new-{depth}"))
        node.mine(depth)
        await reach(indexing, node)
        assert str(newcomer) in indexing.live("ltc")
        node.undo(depth)
        node.mine_empty(depth + 1)
        await reach(indexing, node)
        assert str(newcomer) not in indexing.live("ltc")
        assert follower.progress.reorgs == depth
        node.mine()
        await reach(indexing, node)
    assert indexing.facts("ltc") == (await follow(node_source("ltc", node.url))).facts("ltc")


async def live_through_forks(indexing: Indexing, node: Litecoind, chance: random.Random, name: str) -> None:
    """A random history with forks, in which the indexer is killed and started again."""
    tips: list[Outpoint] = []
    for number in range(12):
        for _ in range(chance.randrange(3)):
            step = chance.choice(["inscribe", "update", "move"]) if tips else "inscribe"
            if step == "inscribe":
                tips.append(node.inscribe(card(f"agent-{number}")))
            else:
                old = tips.pop(chance.randrange(len(tips)))
                tips.append(node.update(old, card(f"again-{number}")) if step == "update" else node.move(old))
        node.mine(chance.randrange(1, 4))
        if chance.random() < 0.6:
            running = asyncio.create_task(reach(indexing, node, name))
            await asyncio.sleep(chance.random() * 0.1)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            indexing.restart()
        if chance.random() < 0.4:
            depth = chance.randrange(1, 4)
            node.undo(depth)
            node.mine_empty(depth + 1)
    await reach(indexing, node, name)


@pytest.mark.parametrize("seed", range(2))
async def test_any_history_is_read_as_the_rpc_source_reads_it(seed: int, start: Start, follow: Follow) -> None:
    node = start()
    indexing = await follow(peers(node.address))
    await live_through_forks(indexing, node, random.Random(seed), "ltc")
    assert indexing.facts("ltc") == (await follow(node_source("ltc", node.url))).facts("ltc")


async def test_a_killed_peer_is_connected_to_again(
    start: Start, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.sync.follower.BACKOFF", Backoff(0.05, 60))
    monkeypatch.setattr("indexer.chains.peers.chain.WAIT_SECONDS", 0.5)
    node = start()
    indexing = await follow(peers(node.address))
    (follower,) = indexing.followers
    running = asyncio.create_task(follower.run())
    for _ in range(2):
        node.mine(3)
        await until(lambda: follower.progress.height == node.rpc("getblockcount"))
        node.flush()
        node.kill()
        await until(lambda: follower.progress.state == "unreachable")
        await asyncio.to_thread(node.start)
        await until(lambda: follower.progress.state == "following")
    node.mine(5)
    await until(lambda: follower.progress.hash[::-1].hex() == node.rpc("getbestblockhash"))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("lie", ["witness", "transaction"])
async def test_of_two_peers_a_liar_is_left(lie: str, start: Start, follow: Follow) -> None:
    node = start()
    expected = node.inscribe(card("one"))
    node.mine(3)
    liar = PeerServer(MemoryChain(*node.blocks, name="ltc", coin="ltc"))
    liar.altered = without_last if lie == "transaction" else other_witnesses
    async with liar:
        chain = peers(liar.address, node.address)
        await chain.open()
        await until(lambda: sum(peer.is_synced for peer in chain.pool.peers) == 2)
        indexing = await follow(chain)
        assert indexing.live("ltc") == {str(expected)}
        assert chain.violation_count >= 1
        assert liar.blocks
        assert indexing.facts("ltc") == (await follow(node_source("ltc", node.url))).facts("ltc")


def without_last(raw: bytes) -> bytes:
    """A block without its last transaction; of a single one, with another lock time."""
    offsets = tx_offsets(raw, segwit=True).tolist()
    if len(offsets) == 2:
        return raw[:-1] + b"\1"
    return raw[:80] + bytes([len(offsets) - 2]) + raw[81 : offsets[-2]]


def other_witnesses(raw: bytes) -> bytes:
    """A block with another card, and another reserved value in the witness of its coinbase: no txid changes."""
    return raw.replace(b'"one"', b'"two"').replace(b"\x01\x20" + bytes(32), b"\x01\x20" + bytes([1]) * 32)


async def test_what_a_peer_announces_is_pending_until_it_is_mined(start: Start, follow: Follow) -> None:
    node = start("-whitelist=127.0.0.1")
    indexing = await follow(peers(node.address))

    async def reaches(id_: Outpoint, confirmed: list[str], pending: list[str]) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                story = indexing.store.history.with_pending([str(id_)]).get(str(id_), RegistrationHistory())
                kinds = [[item.event.kind.value for item in items] for items in (story.confirmed, story.pending)]
                if kinds == [confirmed, pending]:
                    return
                await indexing.chains[0].wait(0.2)
                await indexing.refresh()

    await indexing.refresh()  # nothing is requested before
    first = node.inscribe(card("one"))
    await reaches(first, [], ["inscribed"])
    node.mine()
    await reaches(first, ["inscribed"], [])
    node.update(first, card("two"))
    await reaches(first, ["inscribed"], ["moved", "reinscribed"])
    height = node.rpc("getblockcount")
    node.rpc("invalidateblock", node.rpc("getblockhash", height))
    node.mine_empty(2)
    await reaches(first, [], ["inscribed", "moved", "reinscribed"])
    node.mine()
    await reaches(first, ["inscribed", "moved", "reinscribed"], [])
    assert indexing.facts("ltc") == (await follow(node_source("ltc", node.url))).facts("ltc")


async def test_two_real_peers_deliver_blocks_and_one_may_go(start: Start, follow: Follow) -> None:
    node, other = start(), start()
    other.rpc("addnode", node.address, "onetry")
    await until(lambda: other.rpc("getblockcount") == node.rpc("getblockcount"))
    chain = peers(node.address, other.address)
    indexing = await follow(chain)
    node.kill()
    miner = node
    await asyncio.to_thread(miner.start)
    other.kill()
    node.mine(30)
    await reach(indexing, node)
    assert indexing.facts("ltc") == (await follow(node_source("ltc", node.url))).facts("ltc")
