"""Every kind of source that tells what its blocks said, so that one contract can be put to all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from indexer.chains import Chain
from indexer.chains.evm import EvmChain
from indexer.chains.evm.erc8004 import create as entries
from indexer.chains.failover import FailoverChain, Pace
from indexer.retries import Backoff
from indexer.store.source_store import SourceStore
from tests import registry_kit
from tests.chainkit import agent
from tests.evm_server import CONTRACT, EvmServer, says
from tests.solana_server import SolanaServer

PACE = Pace(grace=20, poll=0.005, backoff=Backoff(0.005, 0.01))


@dataclass
class Plug:
    """A source under test. `say` makes it say one thing more in a later block, `pass_by` lets blocks pass that say
    nothing; `fork` takes back what was said last and says another thing instead, None where nothing is taken back.
    `garble` has it answer what none answers, `mend` the truth again. `fresh` makes another `Chain` of the same source.
    """

    caip2: str
    fresh: Callable[[SourceStore], Chain]
    say: Callable[[], None]
    pass_by: Callable[[], None]
    fork: Callable[[], None] | None
    garble: Callable[[], None]
    mend: Callable[[], None]


def _plug(
    servers: list[EvmServer], fresh: Callable[[SourceStore], Chain], log: Callable[[int], dict[str, Any]]
) -> Plug:
    """A plug over endpoints that all know the same chain; `log` makes the log of that number."""
    count = 0

    def number() -> int:
        nonlocal count
        count += 1
        return count

    def all_of_them(do: Callable[[EvmServer], object]) -> None:
        for server in servers:
            do(server)

    def say() -> None:
        message = log(number())
        all_of_them(lambda server: server.mine(message))

    def fork() -> None:
        message = log(number())
        last = max(int(block.row["number"], 16) for block in servers[0].blocks if block.logs)
        all_of_them(lambda server: server.fork(last - 1, message))

    def garble() -> None:
        for method in ("eth_getBlockByNumber", "eth_getLogs"):
            all_of_them(lambda server, method=method: server.alter(method, lambda _: {"garbage": ["\0", -1]}))  # type: ignore[misc]

    return Plug(
        "eip155:1", fresh, say, lambda: all_of_them(lambda server: server.mine_empty(40)), fork, garble,
        lambda: all_of_them(lambda server: server.faults.clear()),
    )  # fmt: skip


def _pointer(number: int) -> dict[str, Any]:
    return says(f"https://n{number}.example/card.json")


def _entry(number: int) -> dict[str, Any]:
    log = registry_kit.registered(number, f"https://n{number}.example/card.json", "0x" + "a1" * 20)
    return {"address": CONTRACT, "topics": [f"0x{topic.hex()}" for topic in log.topics], "data": f"0x{log.data.hex()}"}


@asynccontextmanager
async def evm() -> AsyncIterator[Plug]:
    """An endpoint of an EVM chain."""
    async with EvmServer() as server:
        yield _plug([server], lambda _: server.chain(), _pointer)


@asynccontextmanager
async def failover_plug() -> AsyncIterator[Plug]:
    """Two such endpoints of one chain."""
    async with EvmServer() as one, EvmServer() as other:
        yield _plug(
            [one, other],
            lambda _: FailoverChain("demo", [(server.base, server.chain()) for server in (one, other)], PACE),
            _pointer,
        )


@asynccontextmanager
async def erc8004() -> AsyncIterator[Plug]:
    """An endpoint of an EVM chain with an identity registry."""
    async with EvmServer() as server:

        def fresh(_: SourceStore) -> EvmChain:
            created = entries("demo", f"{server.base}?contract={CONTRACT}")
            created.poll_seconds = 0.0
            created.endpoint.rpc.pauses = (0.0, 0.01, 0.02)
            return created

        yield _plug([server], fresh, _entry)


@asynccontextmanager
async def solana() -> AsyncIterator[Plug]:
    """An endpoint of Solana: finalized slots, of which none is ever taken back."""
    async with SolanaServer() as server:
        count = 0

        def say() -> None:
            nonlocal count
            count += 1
            server.put(f"account {count}", agent(name=f"Agent {count}"))

        yield Plug(
            server.caip2,
            lambda rows: server.chain(rows, name="demo"),
            say,
            lambda: server.advance(40),
            None,
            lambda: server.alter("getProgramAccounts", lambda _: {"garbage": ["\0", -1]}),
            server.honest,
        )


PLUGS = {"evm": evm, "several": failover_plug, "erc8004": erc8004, "solana": solana}
