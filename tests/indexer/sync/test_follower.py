"""The loop in stories: blocks arrive, sources fail, branches lose, and the store follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from indexer.errors import OtherNetworkError, SourceRefusalError, SourceUnavailableError
from indexer.model import BlockRef
from indexer.retries import Backoff
from indexer.store import StoreError, block_writer
from indexer.sync import catchup
from indexer.sync.agreement import PATIENCE_SECONDS, STOP_SECONDS, DeepReorgError
from indexer.sync.follower import Follower
from parsers.bitcoin.tx import sha256d
from tests.chainkit import Block, ChainKit, agent
from tests.clocks import Clock
from tests.fakes import Halting, MemoryChain
from tests.indexing import Indexing
from tests.waiting import PATIENCE, until


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/a2b.db"


@asynccontextmanager
async def following(indexing: Indexing) -> AsyncIterator[Follower]:
    """The loop, running."""
    (follower,) = await indexing.open()
    task = asyncio.create_task(follower.run())
    try:
        yield follower
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def labels(indexing: Indexing, kit: ChainKit) -> list[str]:
    """The stored blocks by their labels."""
    tip = indexing.store.blocks.newest("demo")
    names = {block.hash: block.label for block in kit.blocks}
    stored = [indexing.store.blocks.get("demo", height) for height in range(tip.height + 1 if tip else 0)]
    return [names[ref.hash] for ref in stored if ref]


# -- following --------------------------------------------------------------------------------------------------------


async def test_a_growing_chain_is_followed_block_by_block(url: str, kit: ChainKit) -> None:
    chain = MemoryChain(*kit.blocks)
    with Indexing(url, chain) as indexing:
        async with following(indexing) as follower:
            for _ in range(3):
                chain.arrive(kit.mine(kit.inscribe(agent())))
                await until(lambda: follower.progress.height == kit.tip.height)
            await until(lambda: follower.progress.state == "following")
            assert (follower.progress.tip, follower.progress.hash) == (4, kit.tip.hash)
            assert (follower.progress.blocks, follower.progress.events) == (5, 3)
            assert follower.progress.bytes == sum(len(block.raw) for block in kit.blocks)
        assert len(indexing.live()) == 3


async def test_a_source_without_blocks_is_waited_for(url: str, kit: ChainKit) -> None:
    chain = MemoryChain()
    with Indexing(url, chain) as indexing:
        async with following(indexing) as follower:
            await until(lambda: follower.progress.state == "following")
            assert (follower.progress.height, follower.progress.tip) == (None, None)
            chain.arrive(*kit.blocks)
            await until(lambda: follower.progress.height == 1)


async def test_changes_are_announced_after_each_write(url: str, kit: ChainKit) -> None:
    kit.mine_empty(8)
    chain = MemoryChain(*kit.blocks)
    with Indexing(url, chain) as indexing, pytest.MonkeyPatch.context() as patched:
        patched.setattr(catchup, "BATCH_BLOCKS", 3)
        seen: list[int | None] = []
        follower = Follower(chain, indexing.store, indexing.writer, lambda: seen.append(follower.progress.height))
        await follower.open()
        await follower.catch_up()
        assert seen == [2, 5, 8, 9]
        chain.prefer(kit.mine(parent=kit["6"]))
        await follower.catch_up()
        assert seen == [2, 5, 8, 9, 6, 7]


async def test_reading_begins_where_the_chain_says(url: str, kit: ChainKit) -> None:
    early, late = kit.inscribe(agent("Early")), kit.inscribe(agent("Late"))
    kit.mine(early)
    kit.mine(late, kit.move(early))
    with Indexing(url, MemoryChain(*kit.blocks, first=3)) as indexing:
        await indexing.catch_up()
        assert indexing.store.blocks.get("demo", 2) is None
        assert indexing.live() == {str(late)}


@pytest.mark.parametrize(
    ("limit", "writes"), [({"BATCH_BLOCKS": 1}, 5), ({"BATCH_EVENTS": 2}, 2), ({"BATCH_BYTES": 1}, 5), ({}, 1)]
)
async def test_a_write_ends_at_whichever_limit_comes_first(
    url: str, kit: ChainKit, limit: dict[str, int], writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        kit.mine(kit.inscribe(agent()))
    for name, value in limit.items():
        monkeypatch.setattr(catchup, name, value)
    calls = []
    append = block_writer.append
    monkeypatch.setattr(
        block_writer,
        "append",
        lambda writer, *messages, sparse: (calls.append(messages), append(writer, *messages, sparse=sparse))[1],
    )
    with Indexing(url, MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
        assert len(indexing.live()) == 3
    assert len(calls) == writes


# -- forks ------------------------------------------------------------------------------------------------------------


async def test_the_branch_of_more_work_replaces_events(url: str, kit: ChainKit) -> None:
    first = kit.inscribe(agent("One"))
    kit.mine(first)
    kit.mine(kit.update(first, agent("Two")))
    chain = MemoryChain(*kit.blocks)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        kit.mine(kit.update(first, agent("Three")), parent=kit["2"])
        chain.arrive(kit["3a"])
        await indexing.catch_up()
        assert indexing.registration(first)["card"]["name"] == "Two"
        chain.arrive(kit.mine())
        await indexing.catch_up()
        assert indexing.registration(first)["card"]["name"] == "Three"
        assert labels(indexing, kit) == ["0", "1", "2", "3a", "4a"]
        assert indexing.followers[0].progress.reorgs == 1
        assert [change.reason for change in indexing.changes()] == ["inscribed", "reinscribed", "reorg", "reinscribed"]


async def test_a_reorg_of_everything_but_genesis_is_followed(url: str, kit: ChainKit) -> None:
    kit.mine_empty(5)
    chain = MemoryChain(*kit.blocks)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        kit.mine_empty(7, parent=kit["0"])
        chain.arrive(*kit.blocks)
        await indexing.catch_up()
        assert labels(indexing, kit) == ["0", *(f"{height}a" for height in range(1, 8))]


async def test_a_source_of_another_genesis_replaces_everything(url: str, kit: ChainKit) -> None:
    with Indexing(url, MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
    other = ChainKit("ltc", funds=2)
    with Indexing(url, MemoryChain(*other.blocks)) as indexing:
        await indexing.catch_up()
        assert labels(indexing, other) == ["0", "1"]


async def test_a_contradiction_of_a_final_block_with_events_that_is_repeated_for_an_hour_stops_the_chain_until_it_ends(
    url: str, kit: ChainKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.sync.follower.STOPPED_SECONDS", 0.05)
    first = kit.inscribe(agent())
    kit.mine(first)
    kit.mine_empty(3)
    chain = MemoryChain(*kit.blocks, finality=3)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        before, follower, clock = indexing.facts(), indexing.followers[0], Clock()
        follower.agreement.clock = clock
        kit.mine_empty(6, parent=kit["1"])
        chain.arrive(*kit.blocks)
        for _ in range(3):
            with pytest.raises(SourceUnavailableError, match="the source contradicts the stored blocks above 1"):
                await follower.catch_up()
            clock.now += STOP_SECONDS / 3
        with pytest.raises(DeepReorgError, match=r"demo: the source contradicts more than the last 3 stored blocks"):
            await follower.catch_up()
        following = asyncio.create_task(follower.run())
        await until(lambda: follower.progress.state == "stopped")
        assert "read it again with `a2b index --again demo`" in follower.progress.error
        assert indexing.facts() == before
        live = indexing.live()
        kit.mine_empty(5, parent=kit["5"])
        chain.arrive(*kit.blocks)
        await until(lambda: follower.progress.state == "following")
        following.cancel()
        assert labels(indexing, kit)[:6] == ["0", "1", "2", "3", "4", "5"]
        assert indexing.live() == live


async def test_final_blocks_without_events_are_given_up_after_ten_minutes(url: str, kit: ChainKit) -> None:
    kit.mine(kit.inscribe(agent()))
    kit.mine_empty(6)
    chain = MemoryChain(*kit.blocks, finality=3)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        before, follower, clock = indexing.live(), indexing.followers[0], Clock()
        follower.agreement.clock = clock
        kit.mine_empty(8, parent=kit["2"])
        chain.arrive(*kit.blocks)
        with pytest.raises(SourceUnavailableError, match="the source contradicts the stored blocks above 2"):
            await follower.catch_up()
        clock.now += PATIENCE_SECONDS
        await follower.catch_up()
        assert labels(indexing, kit) == ["0", "1", "2", *(f"{height}a" for height in range(3, 11))]
        assert indexing.live() == before


async def test_a_reorg_as_deep_as_finality_is_followed(url: str, kit: ChainKit) -> None:
    kit.mine_empty(4)
    chain = MemoryChain(*kit.blocks, finality=3)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        kit.mine_empty(4, parent=kit["2"])
        chain.arrive(*kit.blocks)
        await indexing.catch_up()
        assert labels(indexing, kit) == ["0", "1", "2", "3a", "4a", "5a", "6a"]


async def test_finality_counts_stored_blocks_also_where_reading_began_late(url: str, kit: ChainKit) -> None:
    kit.mine_empty(6)
    chain = MemoryChain(*kit.blocks, finality=3, first=6)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        kit.mine_empty(6, parent=kit["4"])
        chain.arrive(*kit.blocks)
        await indexing.catch_up()
        assert indexing.store.blocks.newest("demo") == chain.best[-1]


async def test_a_source_that_is_merely_behind_takes_nothing_back(url: str, kit: ChainKit) -> None:
    first = kit.inscribe(agent())
    kit.mine(first)
    kit.mine_empty(3)
    with Indexing(url, MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
        before = indexing.facts()
    for blocks in ([], kit.blocks[:1], kit.blocks[:3]):
        chain = MemoryChain(*blocks)
        with Indexing(url, chain) as indexing:
            await indexing.catch_up()
            assert indexing.facts() == before
            progress = indexing.followers[0].progress
            assert blocks or (progress.state, progress.error) == ("unreachable", "demo: the source has no newest block")
            assert indexing.changes() == [(1, "demo", "upsert", str(first), 2, "inscribed")]
            chain.arrive(*kit.blocks)
            await indexing.catch_up()
            assert indexing.facts() == before


class Forgetful(MemoryChain):
    """A node that starts again from genesis just after it has reported its tip."""

    async def tip(self) -> BlockRef | None:
        tip = await super().tip()
        self._best = []
        return tip


async def test_a_source_that_loses_its_blocks_between_two_questions_takes_nothing_back(url: str, kit: ChainKit) -> None:
    kit.mine(kit.inscribe(agent()))
    with Indexing(url, MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
        before = indexing.facts()
    with Indexing(url, Forgetful(*kit.blocks)) as indexing:
        await indexing.catch_up()
        assert indexing.facts() == before


async def test_a_shorter_chain_that_differs_is_a_reorg(url: str, kit: ChainKit) -> None:
    kit.mine_empty(4)
    chain = MemoryChain(*kit.blocks)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        chain.prefer(kit.mine(parent=kit["2"]))  # an operator has invalidated block 3
        await indexing.catch_up()
        assert labels(indexing, kit) == ["0", "1", "2", "3a"]


async def test_between_a_reorg_and_the_blocks_of_the_other_branch_a_chain_is_catching_up(
    url: str, kit: ChainKit
) -> None:
    """Or a state hash would be computed for a block that is not the newest for long, while the writer waits."""
    kit.mine_empty(4)
    chain = MemoryChain(*kit.blocks)
    states: list[tuple[int | None, str]] = []
    with Indexing(url, chain) as indexing:

        def note() -> None:
            states.append((follower.progress.height, follower.progress.state))

        follower = Follower(chain, indexing.store, indexing.writer, note)
        await follower.open()
        await follower.catch_up()
        chain.arrive(kit.mine(parent=kit["2"]), kit.mine(), kit.mine(), kit.mine())
        states.clear()
        await follower.catch_up()
        assert (states[0], states[-1][0]) == ((2, "catching-up"), kit.tip.height)
        assert {state for _, state in states} == {"catching-up"}
        assert follower.progress.state == "following"


class Fickle(MemoryChain):
    """A chain whose best branch changes just when its blocks are asked for."""

    def __init__(self, kit: ChainKit, then: Block) -> None:
        super().__init__(*kit.blocks)
        self.then = then

    async def blocks(self, first: int, last: int) -> AsyncIterator[tuple[BlockRef, memoryview]]:
        self.prefer(self.then)
        async for block in super().blocks(first, last):
            yield block


async def test_a_branch_that_wins_between_two_questions_is_taken_at_the_next_look(url: str, kit: ChainKit) -> None:
    kit.mine_empty(2)
    with Indexing(url, MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
    kit.mine()
    then = kit.mine_empty(4, parent=kit["2"])
    chain = Fickle(kit, then)
    chain.prefer(kit["4"])
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        assert labels(indexing, kit) == ["0", "1", "2", "3"]
        await indexing.catch_up()
        assert labels(indexing, kit) == ["0", "1", "2", "3a", "4a", "5a", "6a"]


# -- trouble ----------------------------------------------------------------------------------------------------------


async def test_a_source_that_does_not_answer_is_tried_again_with_longer_pauses(
    url: str, kit: ChainKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = MemoryChain(*kit.blocks)
    pauses: list[float] = []
    messages: set[tuple[str, str]] = set()
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        if not seconds:
            return await sleep(0)  # not a pause: it lets others have their turn between two blocks
        pauses.append(seconds)
        messages.add((follower.progress.state, follower.progress.error))
        chain.down = "" if len(pauses) == 8 else chain.down
        return await sleep(0)

    with Indexing(url, chain) as indexing:
        (follower,) = await indexing.open()
        chain.down = "http://node:8332 refuses connections"
        monkeypatch.setattr(asyncio, "sleep", note)
        task = asyncio.create_task(follower.run())
        while follower.progress.mempool is None:  # the last thing that a whole round looks at
            await sleep(0.001)
        assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
        assert messages == {("unreachable", "http://node:8332 refuses connections")}
        assert (follower.progress.error, follower.progress.height) == ("", 1)
        chain.down = "again"
        while len(pauses) == 8:
            await sleep(0.001)
        assert pauses[8] == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_was_read_and_not_written_when_the_source_failed_is_read_again(url: str, kit: ChainKit) -> None:
    """Registrations moved in the lost blocks are still watched where they were."""
    first = kit.inscribe(agent("One"))
    kit.mine(first)
    second = kit.move(first)
    with Indexing(url, MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
    kit.mine(second)
    kit.mine(kit.update(second, agent("Two")))
    kit.mine_empty(2)
    with Indexing(url, Stalling(*kit.blocks)) as indexing:
        (follower,) = await indexing.open()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await follower.catch_up()
        assert indexing.kinds(first) == ["inscribed"]
        await follower.catch_up()
        assert indexing.kinds(first) == ["inscribed", "moved", "reinscribed"]


class Stalling(MemoryChain):
    """A source that sends three blocks, and then nothing, once."""

    is_stalled = True

    async def blocks(self, first: int, last: int) -> AsyncIterator[tuple[BlockRef, memoryview]]:
        async for ref, data in super().blocks(first, last):
            if self.is_stalled and ref.height == first + 3:
                self.is_stalled = False
                await asyncio.Event().wait()
            yield ref, data


async def test_blocks_below_one_that_cannot_be_fetched_are_stored(url: str, kit: ChainKit) -> None:
    kit.mine(kit.inscribe(agent("One")))
    kit.mine_empty(4)
    with Indexing(url, Halting(*kit.blocks)) as indexing:
        (follower,) = await indexing.open()
        for height in (2, 5):
            with pytest.raises(SourceUnavailableError):
                await follower.catch_up()
            assert follower.progress.height == height
        assert len(indexing.live()) == 1


async def test_a_database_that_refuses_ends_the_loop_and_loses_nothing(
    url: str, kit: ChainKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kit.inscribe(agent())
    kit.mine(first)
    chain = MemoryChain(*kit.blocks)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        kit.mine(kit.move(first))
        chain.arrive(*kit.blocks)

        def full(*_: object, **__: object) -> None:
            raise StoreError("cannot write to sqlite: database or disk is full")

        with monkeypatch.context() as patched:
            patched.setattr("indexer.store.block_writer.append", full)
            with pytest.raises(StoreError, match="disk is full"):
                await asyncio.wait_for(indexing.followers[0].run(), PATIENCE)
        await indexing.catch_up()
        assert indexing.kinds(first) == ["inscribed", "moved"]


def broken(block: Block) -> Iterator[bytes]:
    """A block's header over bytes that it does not commit to, in several ways."""
    yield block.raw[:-1]
    yield block.raw + b"\0"
    yield block.raw[:80] + b"\xff" * 9
    yield block.raw[:80]
    position = block.raw.index(b"a2b-agent")
    yield block.raw[:position] + b"a2b-again" + block.raw[position + 9 :]
    yield block.raw[:80] + b"\x00"


@pytest.mark.parametrize("which", range(6))
async def test_a_bad_block_is_refused_and_the_loop_goes_on_with_the_next_best(
    url: str, kit: ChainKit, which: int
) -> None:
    first, later = kit.inscribe(agent("One")), kit.inscribe(agent("Two"))
    kit.mine()
    kit.mine(first)
    bad = list(broken(kit["3"]))[which]
    kit.mine(later)
    good = kit.mine(later, parent=kit["2"])
    chain = MemoryChain(*kit.blocks[:3], bad, kit["4"])
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        assert labels(indexing, kit) == ["0", "1", "2"]
        assert [(ref.height, ref.hash, bool(why)) for ref, why in chain.refused] == [(3, kit["3"].hash, True)]
        assert indexing.followers[0].progress.refused == 1
        chain.arrive(good)
        await indexing.catch_up()
        assert indexing.live() == {str(later)}


async def test_a_block_whose_transactions_do_not_match_its_merkle_root_says_nothing(url: str, kit: ChainKit) -> None:
    kit.mine(kit.inscribe(agent()))
    other = ChainKit()
    other.mine(other.inscribe(agent("Mallory")))
    forged = kit["2"].header + other["2"].raw[80:]
    assert sha256d(forged[:80]) == kit["2"].hash
    chain = MemoryChain(*kit.blocks[:2], forged)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        assert indexing.live() == set()
        assert "do not match its merkle root" in chain.refused[0][1]
        chain.arrive(kit["2"])
        await indexing.catch_up()
        assert len(indexing.live()) == 1


async def test_a_source_of_another_chain_is_refused_by_name(url: str, kit: ChainKit) -> None:
    with Indexing(url, MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
    says = "holds bsv:regtest under the name 'demo', and the source is ltc:regtest"
    with Indexing(url, MemoryChain(coin="ltc")) as indexing, pytest.raises(OtherNetworkError, match=says):
        await indexing.open()


async def test_another_network_stops_the_chain_after_an_hour_until_the_source_is_right_again(
    url: str, kit: ChainKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.mine(kit.inscribe(agent()))
    with Indexing(url, MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
    monkeypatch.setattr("indexer.sync.follower.BACKOFF", Backoff(0.01, 0.01))
    monkeypatch.setattr("indexer.sync.follower.REFUSED", Backoff(0.01, 0.01))
    monkeypatch.setattr("indexer.sync.follower.STOP_SECONDS", 0.2)
    monkeypatch.setattr("indexer.sync.follower.STOPPED_SECONDS", 0.01)
    monkeypatch.setattr("indexer.sync.follower.PATIENCE_SECONDS", 0.1)
    chain = MemoryChain(*kit.blocks, coin="ltc")
    with Indexing(url, chain) as indexing:
        follower = Follower(chain, indexing.store, indexing.writer)
        starting = asyncio.create_task(follower.start())
        await until(lambda: follower.progress.state == "unreachable")
        await until(lambda: follower.progress.state == "stopped")
        assert "or remove what is stored with `a2b forget demo`" in follower.progress.error
        chain.caip2 = "bsv:regtest"
        await asyncio.wait_for(starting, PATIENCE)


async def test_a_name_of_which_nothing_was_read_takes_the_network_that_is_repeated_for_ten_minutes(
    url: str, kit: ChainKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Indexing(url, MemoryChain(coin="ltc")) as indexing:
        await indexing.catch_up()
        monkeypatch.setattr("indexer.sync.follower.REFUSED", Backoff(0.01, 0.01))
        monkeypatch.setattr("indexer.sync.follower.PATIENCE_SECONDS", 0.1)
        follower = Follower(MemoryChain(*kit.blocks), indexing.store, indexing.writer)
        await asyncio.wait_for(follower.start(), PATIENCE)
        assert indexing.store.chains() == {"demo": "bsv:regtest"}


class Refusing(MemoryChain):
    """A node behind a proxy that answers a number of requests with a page of HTML."""

    refusals = 0

    async def tip(self) -> BlockRef | None:
        if self.refusals:
            self.refusals -= 1
            raise SourceRefusalError("demo: answers with status 404 and not as a node does")
        return await super().tip()


async def test_a_refusal_ends_nothing(url: str, kit: ChainKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.sync.follower.REFUSED", Backoff(0.01, 0.01))
    chain = Refusing(*kit.blocks)
    with Indexing(url, chain) as indexing:
        async with following(indexing) as follower:
            await until(lambda: follower.progress.state == "following")
            chain.refusals = 10
            await until(lambda: follower.progress.state == "unreachable")
            assert "status 404" in follower.progress.error
            chain.arrive(kit.mine(kit.inscribe(agent())))
            await until(lambda: follower.progress.height == kit.tip.height)


async def test_two_chains_are_followed_into_one_database(url: str) -> None:
    bsv, doge = ChainKit(), ChainKit("doge", funds=4)
    first = bsv.inscribe(agent())
    bsv.mine(first)
    pointer = doge.point("agent.example", bytes(32))
    doge.mine(pointer, doge.inscribe(agent("Not here")))
    chains = MemoryChain(*bsv.blocks), MemoryChain(*doge.blocks, name="doge", coin="doge")
    with Indexing(url, *chains) as indexing:
        await indexing.catch_up()
        assert indexing.live() == {str(first)}
        assert indexing.live("doge") == set()
        assert [item["domain"] for item in indexing.records("doge")["pointers"]] == ["agent.example"]
        assert indexing.rejections("doge") == []
        assert indexing.store.chains() == {"demo": "bsv:regtest", "doge": "doge:regtest"}


async def test_a_database_keeps_its_start(url: str, kit: ChainKit, caplog: pytest.LogCaptureFixture) -> None:
    early, late = kit.inscribe(agent("Early")), kit.inscribe(agent("Late"))
    kit.mine(early)
    kit.mine(late)
    with Indexing(url, MemoryChain(*kit.blocks, first=3)) as indexing:
        await indexing.catch_up()
    assert "keeps its start" not in caplog.text
    kit.mine_empty(1)
    chain = MemoryChain(*kit.blocks, first=1)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        assert [indexing.store.blocks.lowest_height("demo"), indexing.store.blocks.newest("demo")] == [
            3,
            chain.best[-1],
        ]
        assert indexing.live() == {str(late)}
    assert "begins at block 3 and not at 1, and keeps its start" in caplog.text


async def test_a_start_that_is_not_reached_yet_is_waited_for(url: str, kit: ChainKit) -> None:
    chain = MemoryChain(*kit.blocks, first=3)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        assert indexing.store.blocks.newest("demo") is None
        kit.mine_empty(3)
        chain.arrive(*kit.blocks)
        await indexing.catch_up()
        assert indexing.store.blocks.lowest_height("demo") == 3
