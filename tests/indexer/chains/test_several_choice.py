"""Several sources of one chain: which is read, and what is said when they disagree."""

from __future__ import annotations

import pytest

from indexer.chains.failover.source import compare
from tests.chainkit import ChainKit
from tests.clocks import Clock
from tests.fakes import MemoryChain
from tests.indexer.chains.sources import QUICK, compared, opened, source_heights, states
from tests.waiting import until


async def test_the_preferred_source_is_returned_to_when_it_has_answered_for_a_while(kit: ChainKit) -> None:
    clock, first, second = Clock(), MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)
    async with opened(first, second, clock=clock) as failover:
        await until(lambda: states(failover) == ["current", "ready"])
        first.down = "restarting"
        await failover.tip()
        assert states(failover) == ["unreachable", "current"]
        first.down = ""
        await until(lambda: states(failover) == ["ready", "current"])
        clock.now += QUICK.probation - 1
        await compared(failover, 0)
        await failover.tip()
        assert states(failover) == ["ready", "current"]
        clock.now += 1
        await failover.tip()
        assert states(failover) == ["current", "ready"]


async def test_a_source_that_falls_behind_is_left_after_a_moment(kit: ChainKit) -> None:
    clock, first, second = Clock(), MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)
    async with opened(first, second, clock=clock) as failover:
        second.arrive(kit.mine())
        await until(lambda: source_heights(failover) == [1, 2])
        await compared(failover, 1)
        assert (await failover.tip()) == first.best[-1]
        clock.now += QUICK.tolerance
        assert (await failover.tip()) == second.best[-1]
        assert states(failover) == ["ready", "current"]
        first.arrive(kit.blocks[-1])
        await until(lambda: source_heights(failover) == [2, 2])
        await compared(failover, 0)
        assert (await failover.tip()) == first.best[-1]
        assert states(failover) == ["current", "ready"]


async def test_a_block_that_reaches_one_source_sooner_changes_nothing(kit: ChainKit) -> None:
    clock, first, second = Clock(), MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)
    async with opened(first, second, clock=clock) as failover:
        for _ in range(3):
            second.arrive(kit.mine())
            await until(lambda: source_heights(failover)[1] == kit.tip.height)
            await compared(failover, 1)
            first.arrive(kit.tip)
            await failover.tip()
            await compared(failover, 1)
            clock.now += QUICK.tolerance
            assert (await failover.tip()) == first.best[-1]
            assert states(failover) == ["current", "ready"]
        assert failover.warnings == []


async def test_of_branches_the_one_of_more_work_is_read_though_it_is_shorter_elsewhere(kit: ChainKit) -> None:
    kit.mine_empty(2)
    clock, first = Clock(), MemoryChain(*kit.blocks)
    second = MemoryChain(*kit.blocks[:2])
    second.arrive(kit.mine(parent=kit["1"]), kit.mine(), kit.mine())
    async with opened(first, second, clock=clock) as failover:
        await failover.tip()
        await compared(failover, 1)
        clock.now += QUICK.tolerance
        assert failover.warnings == [
            f"the sources disagree: above block 1, b is on another branch than a; its tip is block 4 ({kit.tip.hex})"
        ]
        assert (await failover.tip()) == second.best[-1]


async def test_sources_that_disagree_for_longer_than_a_moment_raise_an_alarm_until_they_agree(kit: ChainKit) -> None:
    clock, first, second = Clock(), MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)
    mine, theirs = kit.mine(), kit.mine(parent=kit["1"])
    first.arrive(mine)
    second.arrive(theirs)
    async with opened(first, second, clock=clock) as failover:
        await failover.tip()
        await compared(failover, 1)
        assert failover.warnings == []
        clock.now += QUICK.tolerance
        assert failover.warnings == [
            f"the sources disagree: above block 1, b is on another branch than a; its tip is block 2 ({theirs.hex})"
        ]
        assert (await failover.tip()) == first.best[-1]
        second.arrive(mine, kit.mine(parent=mine))
        first.arrive(kit.tip)
        await failover.tip()
        await until(lambda: failover.warnings == [])


async def test_a_source_that_lags_far_behind_raises_an_alarm(kit: ChainKit) -> None:
    kit.mine_empty(QUICK.lag_blocks)
    clock = Clock()
    async with opened(MemoryChain(*kit.blocks), MemoryChain(*kit.blocks[:2]), clock=clock) as failover:
        await compared(failover, 1)
        clock.now += QUICK.tolerance
        assert failover.warnings == ["b is 3 blocks behind a"]


@pytest.mark.parametrize(("shared", "ours", "theirs"), [(5, 0, 0), (5, 3, 0), (0, 9, 4), (30, 2, 2), (1, 20, 33)])
async def test_a_lead_is_the_work_above_the_last_block_in_common(
    kit: ChainKit, shared: int, ours: int, theirs: int
) -> None:
    base = kit.mine_empty(shared) if shared else kit.tip
    existing = list(kit.blocks)
    mine = [kit.mine(parent=base), *(kit.mine() for _ in range(ours - 1))][:ours]
    other = [kit.mine(parent=base), *(kit.mine() for _ in range(theirs - 1))][:theirs]
    one, two = MemoryChain(*existing, *mine), MemoryChain(*existing, *other)
    result = await compare(one, one.best[-1], two, two.best[-1])
    # every block of regtest is worth two hashes
    assert result == (2 * (theirs - ours), base.height + min(ours, theirs, 0), bool(ours and theirs)) or (
        result == (2 * (theirs - ours), min(one.best[-1].height, two.best[-1].height), False) and not (ours and theirs)
    )


async def test_a_chain_that_moved_on_while_it_was_compared_is_compared_again(kit: ChainKit) -> None:
    chain, other = MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)
    tip = chain.best[-1]
    chain.prefer(kit.mine(parent=kit["0"]))
    assert await compare(chain, tip, other, other.best[-1]) is None
