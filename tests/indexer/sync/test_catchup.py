"""Catching up is a pipeline: the next blocks are read while a batch is written, and what is not written has not
happened, whenever it is interrupted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from indexer.model import BlockFacts, BlockRef
from indexer.store import StoreError, Writer, block_writer
from indexer.sync import catchup
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.proved import check_proofs


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/a2b.db"


@pytest.fixture
def kit() -> ChainKit:
    """A chain on which three registrations move in every block, past each other."""
    chain_kit = ChainKit()
    outpoints = [chain_kit.inscribe(agent(name)) for name in ("One", "Two", "Three")]
    chain_kit.mine(*outpoints)
    for number in range(8):
        outpoints = [
            chain_kit.update(outpoint, agent(f"{number}")) if (number + index) % 3 else chain_kit.move(outpoint)
            for index, outpoint in enumerate(outpoints)
        ]
        chain_kit.mine(*outpoints, chain_kit.inscribe(agent(f"New {number}")))
    return chain_kit


@pytest.fixture
def fresh(kit: ChainKit, tmp_path: Path) -> Iterator[Indexing]:
    """An index that was never disturbed and wrote one block at a time."""

    async def index() -> Indexing:
        indexing = Indexing(f"sqlite:///{tmp_path}/fresh.db", MemoryChain(*kit.blocks))
        return await indexing.catch_up()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(catchup, "BATCH_BLOCKS", 1)
        indexing = asyncio.run(index())
    with indexing:
        yield indexing


class Watching(MemoryChain):
    """A chain that tells which blocks were asked for."""

    def __init__(self, kit: ChainKit) -> None:
        super().__init__(*kit.blocks)
        self.reached = [threading.Event() for _ in kit.blocks]

    async def blocks(self, first: int, last: int) -> AsyncIterator[tuple[BlockRef, memoryview]]:
        async for ref, data in super().blocks(first, last):
            self.reached[ref.height].set()
            yield ref, data


async def test_a_batch_waits_for_readers_of_the_store_but_not_for_ever(
    kit: ChainKit, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catchup, "BATCH_BLOCKS", 3)
    monkeypatch.setattr(catchup, "HOLD_PAUSE", 0)
    with Indexing(url, MemoryChain(*kit.blocks)) as indexing:
        [follower] = await indexing.open()
        looks: list[int | None] = []

        def is_held() -> bool:
            looks.append(follower.progress.height)
            if len(looks) > 20:
                monkeypatch.setattr(catchup, "HELD_SECONDS", 0)
            return True

        follower.hold_by(is_held)
        await follower.catch_up()
        assert follower.progress.height == kit.tip.height
        assert looks[:20] == [None] * 20
        assert looks[-1] is not None


def test_blocks_are_read_while_others_are_written(
    url: str, kit: ChainKit, fresh: Indexing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No batch is written before the next one has been read: where registrations are is known all the same."""
    chain, append, order = Watching(kit), block_writer.append, []
    top = len(kit.blocks) - 1

    def late(writer: Writer, name: str, readings: Sequence[BlockFacts], *, sparse: bool) -> None:
        newest = readings[-1].ref.height
        order.append(chain.reached[min(newest + 2, top)].wait(10))
        append(writer, name, readings, sparse=sparse)

    monkeypatch.setattr(catchup, "BATCH_BLOCKS", 2)
    monkeypatch.setattr(block_writer, "append", late)

    async def follow() -> None:
        with Indexing(url, chain) as indexing:
            await indexing.catch_up()
            assert indexing.facts() == fresh.facts()
            assert check_proofs(indexing.store, "demo") == check_proofs(fresh.store, "demo")

    asyncio.run(follow())
    assert len(order) == -(-len(kit.blocks) // 2)
    assert all(order), "a batch was written before the next one had been read"


@pytest.mark.parametrize("blocks_a_write", [1, 2, 5])
def test_a_cancelled_catch_up_goes_on_as_if_nothing_had_been(
    url: str, kit: ChainKit, fresh: Indexing, blocks_a_write: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelled after one turn of the event loop, after two, … until it gets to the end: always the same follower."""
    monkeypatch.setattr(catchup, "BATCH_BLOCKS", blocks_a_write)

    async def follow() -> None:
        with Indexing(url, MemoryChain(*kit.blocks)) as indexing:
            (follower,) = await indexing.open()
            turns, done = 0, False
            while not done:
                turns += 1
                task = asyncio.create_task(follower.catch_up())
                for _ in range(turns):
                    await asyncio.sleep(0.0002)
                done = task.done()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                tip = indexing.store.blocks.newest("demo")
                assert follower.progress.height == (tip.height if tip else None)
            await follower.catch_up()
            assert indexing.facts() == fresh.facts()

    asyncio.run(follow())


@pytest.mark.parametrize("failing", range(1, 6))
def test_a_write_that_fails_loses_what_was_read_behind_it(
    url: str, kit: ChainKit, fresh: Indexing, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catchup, "BATCH_BLOCKS", 2)
    calls, append = [], block_writer.append

    def fails(writer: Writer, name: str, readings: Sequence[BlockFacts], *, sparse: bool) -> None:
        calls.append(readings)
        if len(calls) == failing:
            raise StoreError("cannot write to sqlite: disk is full")
        append(writer, name, readings, sparse=sparse)

    monkeypatch.setattr(block_writer, "append", fails)

    async def follow() -> None:
        with Indexing(url, MemoryChain(*kit.blocks)) as indexing:
            (follower,) = await indexing.open()
            with pytest.raises(StoreError, match="disk is full"):
                await follower.catch_up()
            tip = indexing.store.blocks.newest("demo")
            assert (tip.height + 1 if tip else 0) == 2 * (failing - 1)
            await follower.catch_up()
            assert indexing.facts() == fresh.facts()

    asyncio.run(follow())
