"""Several sources of one chain: another takes over when one fails or serves bad blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from indexer.chains.failover import FailoverChain
from indexer.errors import SourceUnavailableError
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import Block, ChainKit, agent
from tests.fakes import Halting, MemoryChain
from tests.indexer.chains.sources import heights, opened, states
from tests.indexing import Indexing
from tests.waiting import until


@pytest.mark.parametrize("call", ["tip", "ref", "values", "transactions", "mempool", "blocks"])
async def test_another_source_answers_any_request_when_one_does_not(kit: ChainKit, call: str) -> None:
    outpoint, first = kit.funds(3), MemoryChain(*kit.blocks)
    second = MemoryChain(*kit.blocks)
    second.unconfirmed[b"\x01" * 32] = b"raw"
    async with opened(first, second) as failover:
        await until(lambda: states(failover)[1] == "ready")
        first.down = "restarting"
        requests = {
            "tip": failover.tip,
            "ref": lambda: failover.ref(1),
            "values": lambda: failover.values([outpoint], second.best[-1]),
            "transactions": lambda: failover.transactions([b"\x01" * 32]),
            "mempool": failover.mempool,
            "blocks": lambda: heights(failover, 0, 1),
        }
        answer = await requests[call]()  # type: ignore[no-untyped-call]
        expected = {
            "tip": second.best[-1],
            "ref": second.best[1],
            "values": {outpoint: kit.satoshis(outpoint)},
            "transactions": {b"\x01" * 32: b"raw"},
            "mempool": frozenset([b"\x01" * 32]),
            "blocks": [0, 1],
        }
        assert answer == expected[call]
        assert failover.sources[0]["state"] == "unreachable"


async def test_when_none_answers_any_more_all_say_why(kit: ChainKit) -> None:
    chains = [MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)]
    async with opened(*chains) as failover:
        await until(lambda: states(failover)[1] == "ready")
        for chain in chains:
            chain.down = "gone"
        for ask in (failover.tip, failover.mempool, lambda: failover.transactions([bytes(32)])):
            with pytest.raises(SourceUnavailableError, match="none of the 2 sources answers: a: gone; b: gone"):
                await ask()
        with pytest.raises(SourceUnavailableError):
            await heights(failover, 0, 1)
        chains[1].down = ""
        assert (await failover.tip()) == chains[1].best[-1]


async def test_another_source_goes_on_in_the_middle_of_a_run_of_blocks(kit: ChainKit) -> None:
    kit.mine_empty(8)
    chains = [Halting(*kit.blocks), Halting(*kit.blocks), MemoryChain(*kit.blocks)]
    async with opened(*chains) as failover:
        await until(lambda: states(failover) == ["current", "ready", "ready"])
        numbers = [failover.served_by(ref.height) async for ref, _ in failover.blocks(0, 9)]
        assert numbers == [1] * 3 + [2] * 3 + [3] * 4
        assert [failover.served_by(height) for height in range(10)] == numbers


async def test_sources_that_fail_by_turns_are_given_up_when_none_gets_further(kit: ChainKit) -> None:
    kit.mine_empty(3)
    chains = [Halting(*kit.blocks), Halting(*kit.blocks)]
    for chain in chains:
        chain.after = 0
    async with opened(*chains) as failover:
        await until(lambda: states(failover) == ["current", "ready"])
        with pytest.raises(SourceUnavailableError, match="a: cut off; b: cut off"):
            await heights(failover, 0, 4)


async def test_blocks_end_early_where_the_next_source_is_on_another_branch(kit: ChainKit) -> None:
    kit.mine_empty(4)
    first = Halting(*kit.blocks)
    second = MemoryChain(*kit.blocks[:3])
    fork = [kit.mine(parent=kit["2"]), *(kit.mine() for _ in range(4))]
    second.arrive(*fork)
    async with opened(first, second) as failover:
        await until(lambda: states(failover) == ["current", "ready"])
        first.after = 4
        assert await heights(failover, 0, 7) == [0, 1, 2, 3]


async def test_data_that_the_first_source_lacks_is_requested_of_the_others(kit: ChainKit) -> None:
    first, second = MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)
    existing, hidden, nowhere = kit.funds(0), kit.funds(1), Outpoint(bytes(32), 7)
    first.hidden.add(hidden)
    first.unconfirmed[b"a" * 32] = b"of a"
    second.unconfirmed |= {b"a" * 32: b"of b", b"b" * 32: b"of b"}
    async with opened(first, second) as failover:
        await until(lambda: states(failover) == ["current", "ready"])
        values = await failover.values([existing, hidden, nowhere], first.best[-1])
        assert values == {existing: kit.satoshis(existing), hidden: kit.satoshis(hidden)}
        assert set(second.requests) == {hidden, nowhere}
        assert await failover.transactions([b"a" * 32, b"b" * 32]) == {b"a" * 32: b"of a", b"b" * 32: b"of b"}
        assert await failover.mempool() == {b"a" * 32}
        assert states(failover) == ["current", "ready"]


class Spoiled(MemoryChain):
    """A source whose disk has lost some bits of the blocks of these labels."""

    def spoil(self, *blocks: Block) -> Spoiled:
        for block in blocks:
            self._raws[block.hash] = block.raw[:-3] + b"\xff\xff\xff"
        return self


@pytest.fixture
def indexing(tmp_path: Path) -> Iterator[Callable[[FailoverChain], Indexing]]:
    created = []

    def make(failover_chain: FailoverChain) -> Indexing:
        created.append(Indexing(f"sqlite:///{tmp_path}/a2b.db", failover_chain))
        return created[-1]

    yield make
    for item in created:
        item.__exit__()


async def test_bad_bytes_of_one_source_are_read_from_another(
    kit: ChainKit, indexing: Callable[[FailoverChain], Indexing]
) -> None:
    first = kit.inscribe(agent())
    bad = kit.mine(first)
    kit.mine_empty(3)
    spoiled, good = Spoiled(*kit.blocks).spoil(bad), MemoryChain(*kit.blocks)
    async with opened(spoiled, good) as failover:
        await until(lambda: states(failover) == ["current", "ready"])
        context = indexing(failover)
        await context.catch_up()
        await context.catch_up()
        assert context.store.blocks.newest("demo") == good.best[-1]
        assert context.live() == {str(first)}
        assert (spoiled.refused, good.refused) == ([], [])
        assert states(failover) == ["ready", "current"]


async def test_a_block_that_is_bad_wherever_it_is_read_is_left_out_by_all(
    kit: ChainKit, indexing: Callable[[FailoverChain], Indexing]
) -> None:
    good = kit.mine(kit.inscribe(agent("Good")), parent=kit["1"])
    bad = kit.mine(kit.inscribe(agent("Bad")), parent=kit["1"])
    kit.mine(parent=bad)
    chains = [Spoiled(*kit.blocks).spoil(bad), Spoiled(*kit.blocks).spoil(bad)]
    async with opened(*chains) as failover:
        await until(lambda: states(failover) == ["current", "ready"])
        context = indexing(failover)
        for _ in range(3):
            await context.catch_up()
        newest = context.store.blocks.newest("demo")
        assert newest is not None
        assert newest.hash == good.hash
        assert [[ref.hash for ref, _ in chain.refused] for chain in chains] == [[bad.hash], [bad.hash]]
