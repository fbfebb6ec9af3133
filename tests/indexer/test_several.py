"""Several sources of one chain: which is read, who takes over, and what is said when they disagree."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from indexer.chains import SourceError, SourceUnavailableError
from indexer.chains.several import Pace, Several, join
from indexer.chains.several.comparing import lead
from indexer.chains.several.rows import SharedRows
from indexer.facts import BlockRef
from parsers.tx import Outpoint
from tests.chainkit import Block, ChainKit, agent
from tests.fakes import MemoryChain
from tests.indexing import Indexing

QUICK = Pace(grace=0.5, poll=0.002, first_pause=0.001, longest_pause=0.002, moment=30, steady=30, doubt=600, far=3)


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def kit() -> ChainKit:
    return ChainKit()


async def until(what: Callable[[], object]) -> None:
    """Wait until it is so; keepers run meanwhile."""
    async with asyncio.timeout(10):
        while not what():  # noqa: ASYNC110 - keepers have no event for it
            await asyncio.sleep(0.001)


@asynccontextmanager
async def opened(*chains: MemoryChain, clock: Clock | None = None, pace: Pace = QUICK) -> AsyncIterator[Several]:
    """Several sources, shown as a, b, c, opened."""
    several = Several("demo", list(zip("abc", chains, strict=False)), pace, clock or Clock())
    try:
        await several.open()
        yield several
    finally:
        for chain in chains:
            chain.down = ""
        await several.close()


def states(several: Several) -> list[str]:
    return [row["state"] for row in several.sources]


def at(several: Several) -> list[int | None]:
    return [row["height"] for row in several.sources]


async def heights(several: Several, first: int, last: int) -> list[int]:
    return [ref.height async for ref, _ in several.blocks(first, last)]


# -- opening ----------------------------------------------------------------------------------------------------------


async def test_the_first_configured_of_equals_is_read_and_the_others_stand_by(kit: ChainKit) -> None:
    async with opened(MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)) as several:
        assert (await several.tip()) == MemoryChain(*kit.blocks).best[-1]
        await until(lambda: states(several) == ["current", "ready"])
        row = {"source": "a", "state": "current", "height": 1, "hash": kit.tip.hex}
        assert several.sources == [row, {**row, "source": "b", "state": "ready"}]
        assert several.warnings == []
        assert (several.caip2, several.network, several.complete) == ("bsv:regtest", "regtest", True)


async def test_sources_of_two_networks_are_refused_naming_both(kit: ChainKit) -> None:
    several = Several("demo", [("a", MemoryChain(*kit.blocks)), ("b", MemoryChain(coin="bch"))], QUICK)
    with pytest.raises(SourceError, match="a is bsv:regtest, and b is bch:regtest: sources of one name must be of one"):
        await open_slowly(several)


async def open_slowly(several: Several) -> None:
    """Open with every source answering before the first one is taken."""
    for source in several._group.all:
        await several._group._look_at(source)
    await several.open()


async def test_a_source_of_another_network_that_joins_late_is_left_out_and_the_rest_goes_on(kit: ChainKit) -> None:
    other = MemoryChain(coin="bch")
    other.down = "booting"
    async with opened(MemoryChain(*kit.blocks), other) as several:
        await until(lambda: states(several) == ["current", "unreachable"])
        other.down = ""
        await until(lambda: states(several) == ["current", "stopped"])
        assert "give one of them another name" in several.sources[1]["error"]
        assert (await several.tip()) is not None


async def test_a_source_that_tells_only_part_of_each_block_is_not_taken(kit: ChainKit) -> None:
    partial = MemoryChain(*kit.blocks)
    partial.complete = False
    async with opened(MemoryChain(*kit.blocks), partial) as several:
        await until(lambda: states(several) == ["current", "stopped"])
        assert "tells only part of each block" in several.sources[1]["error"]


async def test_opening_waits_for_nobody_who_is_down(kit: ChainKit) -> None:
    gone = MemoryChain(*kit.blocks)
    gone.down = "no route"
    async with opened(gone, MemoryChain(*kit.blocks)) as several:
        assert states(several) == ["unreachable", "current"]
        assert several.sources[0]["error"] == "no route"


class Silent(MemoryChain):
    """A source that does not answer when it is opened, until it is told to."""

    def __init__(self, *blocks: Block) -> None:
        super().__init__(*blocks)
        self.speaks = asyncio.Event()

    async def open(self) -> None:
        await self.speaks.wait()


async def test_a_source_that_is_slow_to_open_is_not_waited_for_longer_than_the_grace(kit: ChainKit) -> None:
    slow, clock = Silent(*kit.blocks), Clock()
    several = Several("demo", [("a", slow), ("b", MemoryChain(*kit.blocks))], QUICK, clock)
    opening = asyncio.create_task(several.open())
    await until(lambda: several.sources[1]["state"] == "ready")
    assert not opening.done()
    clock.now += QUICK.grace
    await opening
    assert states(several) == ["starting", "current"]
    slow.speaks.set()
    await until(lambda: states(several) == ["ready", "current"])
    await several.close()


async def test_when_none_answers_opening_can_be_tried_again(kit: ChainKit) -> None:
    chains = [MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)]
    several = Several("demo", list(zip("ab", chains, strict=True)), QUICK)
    chains[0].down, chains[1].down = "no route", "warming up"
    with pytest.raises(SourceUnavailableError, match="none of the 2 sources answers: a: no route; b: warming up"):
        await several.open()
    chains[1].down = ""
    await until(lambda: states(several) == ["unreachable", "ready"])
    await several.open()
    assert (await several.tip()) == chains[1].best[-1]
    chains[0].down = ""
    await several.close()


class Barred(MemoryChain):
    """A source with wrong credentials."""

    barred = "the node refuses the password: correct it in A2B_CHAINS"

    async def open(self) -> None:
        raise SourceError(self.barred)


async def test_a_source_that_cannot_be_used_is_left_out_and_says_why(kit: ChainKit) -> None:
    async with opened(Barred(), MemoryChain(*kit.blocks)) as several:
        assert states(several) == ["stopped", "current"]
        assert several.sources[0]["error"] == Barred.barred
        assert await heights(several, 0, 1) == [0, 1]


async def test_when_all_have_stopped_nothing_goes_on() -> None:
    several = Several("demo", [("a", Barred()), ("b", Barred())], QUICK)
    with pytest.raises(SourceError, match="none of the 2 sources can be used: a: the node refuses") as caught:
        await several.open()
    assert not isinstance(caught.value, SourceUnavailableError)


# -- failing over -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["tip", "ref", "values", "transactions", "mempool", "blocks"])
async def test_whatever_is_asked_another_source_answers_when_one_does_not(kit: ChainKit, call: str) -> None:
    outpoint, first = kit.funds(3), MemoryChain(*kit.blocks)
    second = MemoryChain(*kit.blocks)
    second.unconfirmed[b"\x01" * 32] = b"raw"
    async with opened(first, second) as several:
        await until(lambda: states(several)[1] == "ready")
        first.down = "restarting"
        asked = {
            "tip": several.tip,
            "ref": lambda: several.ref(1),
            "values": lambda: several.values([outpoint], second.best[-1]),
            "transactions": lambda: several.transactions([b"\x01" * 32]),
            "mempool": several.mempool,
            "blocks": lambda: heights(several, 0, 1),
        }
        answer = await asked[call]()  # type: ignore[no-untyped-call]
        expected = {
            "tip": second.best[-1],
            "ref": second.best[1],
            "values": {outpoint: kit.satoshis(outpoint)},
            "transactions": {b"\x01" * 32: b"raw"},
            "mempool": frozenset([b"\x01" * 32]),
            "blocks": [0, 1],
        }
        assert answer == expected[call]
        assert several.sources[0]["state"] == "unreachable"


async def test_when_none_answers_any_more_all_say_why(kit: ChainKit) -> None:
    chains = [MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)]
    async with opened(*chains) as several:
        await until(lambda: states(several)[1] == "ready")
        for chain in chains:
            chain.down = "gone"
        for ask in (several.tip, several.mempool, lambda: several.transactions([bytes(32)])):
            with pytest.raises(SourceUnavailableError, match="none of the 2 sources answers: a: gone; b: gone"):
                await ask()
        with pytest.raises(SourceUnavailableError):
            await heights(several, 0, 1)
        chains[1].down = ""
        assert (await several.tip()) == chains[1].best[-1]


class Halting(MemoryChain):
    """A source that fails after so many blocks."""

    after = 3

    async def blocks(self, first: int, last: int) -> AsyncIterator[tuple[BlockRef, memoryview]]:
        count = 0
        async for each in super().blocks(first, last):
            if count == self.after:
                raise SourceUnavailableError("cut off")
            count += 1
            yield each


async def test_another_source_goes_on_in_the_middle_of_a_run_of_blocks(kit: ChainKit) -> None:
    kit.mine_empty(8)
    chains = [Halting(*kit.blocks), Halting(*kit.blocks), MemoryChain(*kit.blocks)]
    async with opened(*chains) as several:
        await until(lambda: states(several) == ["current", "ready", "ready"])
        assert await heights(several, 0, 9) == list(range(10))


async def test_sources_that_fail_by_turns_are_given_up_when_none_gets_further(kit: ChainKit) -> None:
    kit.mine_empty(3)
    chains = [Halting(*kit.blocks), Halting(*kit.blocks)]
    for chain in chains:
        chain.after = 0
    async with opened(*chains) as several:
        await until(lambda: states(several) == ["current", "ready"])
        with pytest.raises(SourceUnavailableError, match="a: cut off; b: cut off"):
            await heights(several, 0, 4)


async def test_blocks_end_early_where_the_next_source_is_on_another_branch(kit: ChainKit) -> None:
    kit.mine_empty(4)
    first = Halting(*kit.blocks)
    second = MemoryChain(*kit.blocks[:3])
    fork = [kit.mine(parent=kit["2"]), *(kit.mine() for _ in range(4))]
    second.arrive(*fork)
    async with opened(first, second) as several:
        await until(lambda: states(several) == ["current", "ready"])
        first.after = 4
        assert await heights(several, 0, 7) == [0, 1, 2, 3]


async def test_what_the_first_cannot_tell_is_asked_of_the_others(kit: ChainKit) -> None:
    first, second = MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)
    known, hidden, nowhere = kit.funds(0), kit.funds(1), Outpoint(bytes(32), 7)
    first.hidden.add(hidden)
    first.unconfirmed[b"a" * 32] = b"of a"
    second.unconfirmed |= {b"a" * 32: b"of b", b"b" * 32: b"of b"}
    async with opened(first, second) as several:
        await until(lambda: states(several) == ["current", "ready"])
        found = await several.values([known, hidden, nowhere], first.best[-1])
        assert found == {known: kit.satoshis(known), hidden: kit.satoshis(hidden)}
        assert set(second.asked) == {hidden, nowhere}
        assert await several.transactions([b"a" * 32, b"b" * 32]) == {b"a" * 32: b"of a", b"b" * 32: b"of b"}
        assert await several.mempool() == {b"a" * 32}
        assert states(several) == ["current", "ready"]


# -- which is read ----------------------------------------------------------------------------------------------------


async def test_the_preferred_source_is_returned_to_when_it_has_answered_for_a_while(kit: ChainKit) -> None:
    clock, first, second = Clock(), MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)
    async with opened(first, second, clock=clock) as several:
        await until(lambda: states(several) == ["current", "ready"])
        first.down = "restarting"
        await several.tip()
        assert states(several) == ["unreachable", "current"]
        first.down = ""
        await until(lambda: states(several) == ["ready", "current"])
        clock.now += QUICK.steady - 1
        await compared(several, 0)
        await several.tip()
        assert states(several) == ["ready", "current"]
        clock.now += 1
        await several.tip()
        assert states(several) == ["current", "ready"]


async def compared(several: Several, number: int) -> None:
    """Wait until that source is compared with the current one's tip."""
    group = several._group
    await until(lambda: group.current and group.current.tip and group.all[number].against == group.current.tip.hash)


async def test_a_source_that_falls_behind_is_left_after_a_moment(kit: ChainKit) -> None:
    clock, first, second = Clock(), MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)
    async with opened(first, second, clock=clock) as several:
        second.arrive(kit.mine())
        await until(lambda: at(several) == [1, 2])
        await compared(several, 1)
        assert (await several.tip()) == first.best[-1]
        clock.now += QUICK.moment
        assert (await several.tip()) == second.best[-1]
        assert states(several) == ["ready", "current"]
        first.arrive(kit.blocks[-1])
        await until(lambda: at(several) == [2, 2])
        await compared(several, 0)
        assert (await several.tip()) == first.best[-1]
        assert states(several) == ["current", "ready"]


async def test_a_block_that_reaches_one_source_sooner_changes_nothing(kit: ChainKit) -> None:
    clock, first, second = Clock(), MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)
    async with opened(first, second, clock=clock) as several:
        for _ in range(3):
            second.arrive(kit.mine())
            await until(lambda: at(several)[1] == kit.tip.height)
            await compared(several, 1)
            first.arrive(kit.tip)
            await several.tip()
            await compared(several, 1)
            clock.now += QUICK.moment
            assert (await several.tip()) == first.best[-1]
            assert states(several) == ["current", "ready"]
        assert several.warnings == []


async def test_of_branches_the_one_of_more_work_is_read_though_it_is_shorter_elsewhere(kit: ChainKit) -> None:
    kit.mine_empty(2)
    clock, first = Clock(), MemoryChain(*kit.blocks)
    second = MemoryChain(*kit.blocks[:2])
    second.arrive(kit.mine(parent=kit["1"]), kit.mine(), kit.mine())
    async with opened(first, second, clock=clock) as several:
        await several.tip()
        await compared(several, 1)
        clock.now += QUICK.moment
        assert several.warnings == [
            f"the sources disagree: above block 1, b is on another branch than a; its tip is block 4 ({kit.tip.hex})"
        ]
        assert (await several.tip()) == second.best[-1]


async def test_sources_that_disagree_for_longer_than_a_moment_raise_an_alarm_until_they_agree(kit: ChainKit) -> None:
    clock, first, second = Clock(), MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)
    mine, theirs = kit.mine(), kit.mine(parent=kit["1"])
    first.arrive(mine)
    second.arrive(theirs)
    async with opened(first, second, clock=clock) as several:
        await several.tip()
        await compared(several, 1)
        assert several.warnings == []
        clock.now += QUICK.moment
        assert several.warnings == [
            f"the sources disagree: above block 1, b is on another branch than a; its tip is block 2 ({theirs.hex})"
        ]
        assert (await several.tip()) == first.best[-1]
        second.arrive(mine, kit.mine(parent=mine))
        first.arrive(kit.tip)
        await several.tip()
        await until(lambda: several.warnings == [])


async def test_a_source_that_lags_far_behind_raises_an_alarm(kit: ChainKit) -> None:
    kit.mine_empty(QUICK.far)
    clock = Clock()
    async with opened(MemoryChain(*kit.blocks), MemoryChain(*kit.blocks[:2]), clock=clock) as several:
        await compared(several, 1)
        clock.now += QUICK.moment
        assert several.warnings == ["b is 3 blocks behind a"]


# -- comparing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shared", "ours", "theirs"), [(5, 0, 0), (5, 3, 0), (0, 9, 4), (30, 2, 2), (1, 20, 33)])
async def test_a_lead_is_the_work_above_the_last_block_in_common(
    kit: ChainKit, shared: int, ours: int, theirs: int
) -> None:
    base = kit.mine_empty(shared) if shared else kit.tip
    known = list(kit.blocks)
    mine = [kit.mine(parent=base), *(kit.mine() for _ in range(ours - 1))][:ours]
    other = [kit.mine(parent=base), *(kit.mine() for _ in range(theirs - 1))][:theirs]
    one, two = MemoryChain(*known, *mine), MemoryChain(*known, *other)
    found = await lead(one, one.best[-1], two, two.best[-1])
    # every block of regtest is worth two hashes
    assert found == (2 * (theirs - ours), base.height + min(ours, theirs, 0), bool(ours and theirs)) or (
        found == (2 * (theirs - ours), min(one.best[-1].height, two.best[-1].height), False) and not (ours and theirs)
    )


async def test_a_chain_that_moved_on_while_it_was_compared_is_compared_again(kit: ChainKit) -> None:
    chain, other = MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)
    tip = chain.best[-1]
    chain.prefer(kit.mine(parent=kit["0"]))
    assert await lead(chain, tip, other, other.best[-1]) is None


# -- bad blocks -------------------------------------------------------------------------------------------------------


class Spoiled(MemoryChain):
    """A source whose disk has lost some bits of the blocks of these labels."""

    def spoil(self, *blocks: Block) -> Spoiled:
        for block in blocks:
            self._raws[block.hash] = block.raw[:-3] + b"\xff\xff\xff"
        return self


@pytest.fixture
def indexing(tmp_path: Path) -> Iterator[Callable[[Several], Indexing]]:
    made = []

    def make(several: Several) -> Indexing:
        made.append(Indexing(f"sqlite:///{tmp_path}/a2b.db", several))
        return made[-1]

    yield make
    for each in made:
        each.__exit__()


async def test_bad_bytes_of_one_source_are_read_from_another(
    kit: ChainKit, indexing: Callable[[Several], Indexing]
) -> None:
    first = kit.inscribe(agent())
    bad = kit.mine(first)
    kit.mine_empty(3)
    spoiled, good = Spoiled(*kit.blocks).spoil(bad), MemoryChain(*kit.blocks)
    async with opened(spoiled, good) as several:
        await until(lambda: states(several) == ["current", "ready"])
        house = indexing(several)
        await house.catch_up()
        await house.catch_up()
        assert house.store.newest("demo") == good.best[-1]
        assert house.live() == {str(first)}
        assert (spoiled.refused, good.refused) == ([], [])
        assert states(several) == ["ready", "current"]


async def test_a_block_that_is_bad_wherever_it_is_read_is_left_out_by_all(
    kit: ChainKit, indexing: Callable[[Several], Indexing]
) -> None:
    good = kit.mine(kit.inscribe(agent("Good")), parent=kit["1"])
    bad = kit.mine(kit.inscribe(agent("Bad")), parent=kit["1"])
    kit.mine(parent=bad)
    chains = [Spoiled(*kit.blocks).spoil(bad), Spoiled(*kit.blocks).spoil(bad)]
    async with opened(*chains) as several:
        await until(lambda: states(several) == ["current", "ready"])
        house = indexing(several)
        for _ in range(3):
            await house.catch_up()
        newest = house.store.newest("demo")
        assert newest is not None
        assert newest.hash == good.hash
        assert [[ref.hash for ref, _ in chain.refused] for chain in chains] == [[bad.hash], [bad.hash]]


# -- waiting, closing, settings ---------------------------------------------------------------------------------------


async def test_waiting_ends_with_news_of_any_source(kit: ChainKit) -> None:
    first, second = MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)
    async with opened(first, second) as several:
        await until(lambda: states(several) == ["current", "ready"])
        for chain in (second, first):
            await several.wait(0)
            await several.wait(0)
            waiting = asyncio.create_task(several.wait(60))
            await asyncio.sleep(0)
            assert not waiting.done()
            chain.arrive(kit.mine())
            await asyncio.wait_for(waiting, 5)


async def test_a_source_that_fails_while_it_is_waited_for_is_left(kit: ChainKit) -> None:
    first, second = MemoryChain(*kit.blocks), MemoryChain(*kit.blocks)
    async with opened(first, second) as several:
        await until(lambda: states(several) == ["current", "ready"])
        first.down = "gone"
        await asyncio.wait_for(several.wait(60), 5)
        assert states(several) == ["unreachable", "ready"]
        await several.tip()
        assert states(several) == ["unreachable", "current"]


async def test_closing_closes_all_and_ends_every_task_twice_if_need_be(kit: ChainKit) -> None:
    gone = MemoryChain(*kit.blocks)
    several = Several("demo", [("a", MemoryChain(*kit.blocks)), ("b", gone)], QUICK)
    await several.open()
    gone.down = "no route"
    before = asyncio.all_tasks()
    await several.close()
    await several.close()
    assert len(before) == 3
    assert asyncio.all_tasks() == {asyncio.current_task()}
    gone.down = ""
    await several.open()
    assert (await several.tip()) is not None
    await several.close()


class Broken(MemoryChain):
    """A source that fails in a way that is no source's matter, such as a full disk under its headers."""

    full = False

    async def tip(self) -> BlockRef | None:
        if self.full:
            raise OSError(28, "No space left on device")
        return await super().tip()


async def test_what_is_not_a_sources_fault_is_not_hidden(kit: ChainKit) -> None:
    broken = Broken(*kit.blocks)
    several = Several("demo", [("a", MemoryChain(*kit.blocks)), ("b", broken)], QUICK)
    await several.open()
    broken.full = True
    await until(several._group._keepers[1].done)
    with pytest.raises(OSError, match="No space left"):
        await several.tip()
    await several.close()


class Kept:
    """Kept headers that note who saved."""

    def __init__(self) -> None:
        self.saved: list[tuple[str, int, bytes]] = []

    def load_headers(self, chain: str) -> Iterator[tuple[int, bytes]]:
        yield 0, chain.encode() * 20

    def save_headers(self, chain: str, first: int, headers: bytes) -> None:
        self.saved.append((chain, first, headers))


def test_only_the_first_source_that_saves_headers_goes_on_saving() -> None:
    kept = Kept()
    shared = SharedRows(kept)
    one, two = shared.view(), shared.view()
    assert list(one.load_headers("demo")) == list(two.load_headers("demo")) == [(0, b"demo" * 20)]
    two.save_headers("demo", 1, b"b" * 80)
    one.save_headers("demo", 1, b"a" * 80)
    two.save_headers("demo", 2, b"c" * 80)
    assert kept.saved == [("demo", 1, b"b" * 80), ("demo", 2, b"c" * 80)]


async def test_block_folders_are_joined_by_their_urls(kit: ChainKit, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        kit.write(tmp_path / name)
    urls = [f"files:{tmp_path}/{name}?chain=bsv&network=regtest" for name in ("one", "two")]
    assert not isinstance(join("demo", urls[:1]), Several)
    several = join("demo", urls)
    assert isinstance(several, Several)
    await several.open()
    await until(lambda: states(several) == ["current", "ready"])
    assert [row["source"] for row in several.sources] == urls
    assert await heights(several, 0, 1) == [0, 1]
    await several.close()


def test_a_subscription_cannot_be_one_of_several_sources(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"bsv: junglebus:.* tells only part of each block"):
        join("bsv", [f"files:{tmp_path}?network=mainnet", f"junglebus:{'ab' * 32}"])
