"""Several sources of one chain are opened: who is read, who is waited for, who is left out."""

from __future__ import annotations

import asyncio

import pytest

from indexer.chains.failover import FailoverChain
from indexer.errors import SourceError, SourceUnavailableError
from tests.chainkit import Block, ChainKit
from tests.clocks import Clock
from tests.fakes import MemoryChain
from tests.indexer.chains.sources import QUICK, heights, opened, states
from tests.waiting import until


async def test_the_first_configured_of_equals_is_read_and_the_others_stand_by(kit: ChainKit) -> None:
    async with opened(MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)) as failover:
        assert (await failover.tip()) == MemoryChain(*kit.blocks).best[-1]
        await until(lambda: states(failover) == ["current", "ready"])
        row = {"source": "a", "state": "current", "height": 1, "hash": kit.tip.hex}
        assert failover.sources == [row, {**row, "source": "b", "state": "ready"}]
        assert failover.warnings == []
        assert (failover.caip2, failover.network, failover.complete) == ("bsv:regtest", "regtest", True)


async def test_a_later_source_of_another_network_does_not_end_the_first(kit: ChainKit) -> None:
    failover_chain = FailoverChain("demo", [("a", MemoryChain(*kit.blocks)), ("b", MemoryChain(coin="bch"))], QUICK)
    await open_slowly(failover_chain)
    assert states(failover_chain) == ["current", "unreachable"]
    assert (
        "a is bsv:regtest, and b is bch:regtest: sources of one name must be of one"
        in failover_chain.sources[1]["error"]
    )
    assert (await failover_chain.tip()) is not None
    await failover_chain.close()


async def open_slowly(failover_chain: FailoverChain) -> None:
    """Open with every source answering before the first one is taken."""
    for source in failover_chain.group.sources:
        await failover_chain.group.poll(source)
    await failover_chain.open()


async def test_a_source_of_another_network_that_joins_late_is_left_out_and_the_rest_goes_on(kit: ChainKit) -> None:
    other = MemoryChain(coin="bch")
    other.down = "booting"
    async with opened(MemoryChain(*kit.blocks), other) as failover:
        await until(lambda: states(failover) == ["current", "unreachable"])
        other.down = ""
        await until(lambda: "give one" in failover.sources[1].get("error", ""))
        assert states(failover) == ["current", "unreachable"]
        assert "give one of them another name" in failover.sources[1]["error"]
        assert (await failover.tip()) is not None


async def test_a_source_that_tells_only_part_of_each_block_is_not_taken(kit: ChainKit) -> None:
    partial = MemoryChain(*kit.blocks)
    partial.complete = False
    async with opened(MemoryChain(*kit.blocks), partial) as failover:
        await until(lambda: states(failover) == ["current", "stopped"])
        assert "delivers only part of each block" in failover.sources[1]["error"]


async def test_opening_does_not_wait_for_sources_that_are_down(kit: ChainKit) -> None:
    gone = MemoryChain(*kit.blocks)
    gone.down = "no route"
    async with opened(gone, MemoryChain(*kit.blocks)) as failover:
        assert states(failover) == ["unreachable", "current"]
        assert failover.sources[0]["error"] == "no route"


class Silent(MemoryChain):
    """A source that does not answer when it is opened, until a test allows it."""

    def __init__(self, *blocks: Block) -> None:
        super().__init__(*blocks)
        self.speaks = asyncio.Event()

    async def open(self) -> None:
        await self.speaks.wait()


async def test_a_source_that_is_slow_to_open_is_not_waited_for_longer_than_the_grace(kit: ChainKit) -> None:
    slow, clock = Silent(*kit.blocks), Clock()
    failover_chain = FailoverChain("demo", [("a", slow), ("b", MemoryChain(*kit.blocks))], QUICK, clock)
    opening = asyncio.create_task(failover_chain.open())
    await until(lambda: failover_chain.sources[1]["state"] == "ready")
    assert not opening.done()
    clock.now += QUICK.grace
    await opening
    assert states(failover_chain) == ["starting", "current"]
    slow.speaks.set()
    await until(lambda: states(failover_chain) == ["ready", "current"])
    await failover_chain.close()


async def test_when_none_answers_opening_can_be_tried_again(kit: ChainKit) -> None:
    chains = [MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)]
    failover_chain = FailoverChain("demo", list(zip("ab", chains, strict=True)), QUICK)
    chains[0].down, chains[1].down = "no route", "warming up"
    with pytest.raises(SourceUnavailableError, match="none of the 2 sources answers: a: no route; b: warming up"):
        await failover_chain.open()
    chains[1].down = ""
    await until(lambda: states(failover_chain) == ["unreachable", "ready"])
    await failover_chain.open()
    assert (await failover_chain.tip()) == chains[1].best[-1]
    chains[0].down = ""
    await failover_chain.close()


class Barred(MemoryChain):
    """A source with wrong credentials."""

    barred = "the node refuses the password: correct it in A2B_CHAINS"

    async def open(self) -> None:
        raise SourceError(self.barred)


async def test_a_source_that_cannot_be_used_is_left_out_and_says_why(kit: ChainKit) -> None:
    async with opened(Barred(), MemoryChain(*kit.blocks)) as failover:
        assert states(failover) == ["stopped", "current"]
        assert failover.sources[0]["error"] == Barred.barred
        assert await heights(failover, 0, 1) == [0, 1]


async def test_when_all_have_stopped_nothing_goes_on() -> None:
    failover_chain = FailoverChain("demo", [("a", Barred()), ("b", Barred())], QUICK)
    with pytest.raises(SourceError, match="none of the 2 sources can be used: a: the node refuses") as caught:
        await failover_chain.open()
    assert not isinstance(caught.value, SourceUnavailableError)
