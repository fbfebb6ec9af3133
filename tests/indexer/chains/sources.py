"""Helpers of tests of several sources: opening them, their states, and waiting for their keepers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from indexer.chains.failover import FailoverChain, Pace
from indexer.retries import Backoff
from tests.clocks import Clock
from tests.fakes import MemoryChain
from tests.waiting import until

QUICK = Pace(
    grace=0.5, poll=0.002, backoff=Backoff(0.001, 0.002), tolerance=30, probation=30, penalty=600, lag_blocks=3
)


@asynccontextmanager
async def opened(*chains: MemoryChain, clock: Clock | None = None, pace: Pace = QUICK) -> AsyncIterator[FailoverChain]:
    """Several sources, shown as a, b, c, opened."""
    failover_chain = FailoverChain("demo", list(zip("abc", chains, strict=False)), pace, clock or Clock())
    try:
        await failover_chain.open()
        yield failover_chain
    finally:
        for chain in chains:
            chain.down = ""
        await failover_chain.close()


def states(failover_chain: FailoverChain) -> list[str]:
    return [row["state"] for row in failover_chain.sources]


def source_heights(failover_chain: FailoverChain) -> list[int | None]:
    return [row["height"] for row in failover_chain.sources]


async def heights(failover_chain: FailoverChain, first: int, last: int) -> list[int]:
    return [ref.height async for ref, _ in failover_chain.blocks(first, last)]


async def compared(failover_chain: FailoverChain, number: int) -> None:
    """Wait until that source is compared with the current one's tip."""
    group = failover_chain.group
    await until(
        lambda: group.current and group.current.tip and group.sources[number].compared_tip == group.current.tip.hash
    )
