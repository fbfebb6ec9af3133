"""Exceptions of the program at every stage of following: the chain waits below a block that fails, and goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from indexer.failures import MOST, RETRY_SECONDS, SHOWN, LeftOut, is_of_machine
from indexer.model import BlockRef
from indexer.resolution.block_reader import BlockReader
from indexer.retries import Backoff
from indexer.store import StoreError, block_writer
from indexer.sync import mempool
from indexer.sync.follower import Follower
from tests.chainkit import ChainKit, agent
from tests.clocks import Clock
from tests.fakes import MemoryChain
from tests.indexer.sync.following import following
from tests.indexing import Indexing
from tests.mempool_chain import MempoolChain
from tests.waiting import until


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/a2b.db"


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.sync.follower.BACKOFF", Backoff(0.01, 0.01))


class Exploding(MemoryChain):
    """A source whose answers cause an exception at one stage, while it is set."""

    stage = ""

    def _explode(self, stage: str) -> None:
        if self.stage == stage:
            raise KeyError(stage)

    async def open(self) -> None:
        self._explode("open")
        await super().open()

    async def tip(self) -> BlockRef | None:
        self._explode("tip")
        return await super().tip()

    async def ref(self, height: int) -> BlockRef | None:
        self._explode("ref")
        return await super().ref(height)

    async def blocks(self, first: int, last: int) -> AsyncIterator[tuple[BlockRef, memoryview]]:
        async for ref, data in super().blocks(first, last):
            if ref.height == 3:
                self._explode("blocks")
            yield ref, data

    async def mempool(self) -> frozenset[bytes] | None:
        self._explode("mempool")
        return await super().mempool()

    async def wait(self, seconds: float) -> None:
        self._explode("wait")
        await super().wait(seconds)


@pytest.mark.parametrize("stage", ["open", "tip", "ref", "blocks", "mempool", "wait", "read", "write"])
async def test_an_exception_at_any_stage_is_shown_and_ends_when_its_cause_does(
    stage: str, url: str, kit: ChainKit, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(4):
        kit.mine(kit.inscribe(agent(f"Agent {number}")))
    chain = Exploding(*kit.blocks)
    chain.stage = stage
    failing = {"is_failing": True}
    open_reader, append = BlockReader, block_writer.append

    def open_block(ref: BlockRef, *more: Any) -> Any:
        if stage == "read" and failing["is_failing"] and ref.height == 3:
            raise KeyError(stage)
        return open_reader(ref, *more)

    def write(writer: Any, name: str, readings: Any, **more: Any) -> None:
        if stage == "write" and failing["is_failing"] and any(item.ref.height == 3 for item in readings):
            raise KeyError(stage)
        append(writer, name, readings, **more)

    monkeypatch.setattr("indexer.sync.catchup.BlockReader", open_block)
    monkeypatch.setattr(block_writer, "append", write)
    with Indexing(url, chain) as indexing:
        async with following(indexing, chain) as follower:
            progress = follower.progress
            await until(lambda: progress.state == "unreachable" and progress.fault == "program")
            assert "KeyError" in progress.error
            if stage in ("blocks", "read", "write"):
                await until(lambda: progress.height == 2)
                assert (progress.tip, progress.lag) == (5, 3)
            if stage in ("read", "write"):
                await until(lambda: "demo: block 3 cannot be read (KeyError: " in progress.error)
            chain.stage, failing["is_failing"] = "", False
            await until(lambda: progress.state == "following" and progress.height == 5)
            assert progress.error == ""
        assert len(indexing.live()) == 4
    assert any(record.exc_info for record in caplog.records), "the log has the trace"


async def test_a_source_that_causes_an_exception_is_replaced_by_another(url: str, kit: ChainKit) -> None:
    from indexer.chains.failover import FailoverChain

    bad = Exploding(*kit.blocks)
    chain = FailoverChain("demo", [("node 1", bad), ("node 2", MemoryChain(*kit.blocks))])
    with Indexing(url, chain) as indexing:
        async with following(indexing, chain) as follower:  # type: ignore[arg-type]
            await until(lambda: follower.progress.state == "following")
            bad.stage = "tip"
            await until(lambda: chain.sources[0]["state"] == "unreachable")
            await until(lambda: chain.sources[1]["state"] == "current")
            assert "KeyError" in chain.sources[0]["error"]
            assert follower.progress.state == "following"
        await chain.close()


async def test_an_unconfirmed_transaction_that_fails_is_left_out_alone(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = MempoolChain("bsv")
    good, bad = registry.kit.inscribe(agent("Good")), registry.kit.inscribe(agent("Bad"))
    registry.announce(good, bad)
    clock = Clock(0.0)
    left_out = LeftOut(lambda: clock.now)
    read = mempool.read_unconfirmed

    def reading(transactions: Any, *more: Any) -> Any:
        listed = list(transactions)
        if any(transaction.txid == bad.txid for transaction in listed):
            raise OverflowError("date value out of range")
        return read(listed, *more)

    with Indexing(url, registry.chain) as indexing:
        follower = Follower(registry.chain, indexing.store, indexing.writer, left_out=left_out)
        await follower.open()
        await follower.catch_up()
        with monkeypatch.context() as patched:
            patched.setattr(mempool, "read_unconfirmed", reading)
            for _ in range(2):
                await follower.refresh_mempool()
                assert [event.txid for event in indexing.store.pending.events("demo")] == [good.txid]
            assert left_out.as_json() == {
                "count": 1, "first": [{"id": bad.txid[::-1].hex(), "reason": "mempool demo: OverflowError"}],
            }  # fmt: skip
        await follower.refresh_mempool()
        assert len(indexing.store.pending.events("demo")) == 1
        clock.now += RETRY_SECONDS
        await follower.refresh_mempool()
        assert len(indexing.store.pending.events("demo")) == 2


# -- what is left out -------------------------------------------------------------------------------------------------


def test_errors_of_database_disk_and_memory_are_none_of_a_listing() -> None:
    assert all(map(is_of_machine, (StoreError("x"), OSError(28, "full"), MemoryError())))
    assert not any(map(is_of_machine, (KeyError("x"), TimeoutError(), ConnectionResetError(), OverflowError())))


@pytest.fixture
def left_out() -> tuple[LeftOut, Clock]:
    clock = Clock(0.0)
    return LeftOut(lambda: clock.now), clock


def test_what_fails_is_due_after_an_hour_and_forgotten_when_it_succeeds(
    left_out: tuple[LeftOut, Clock], caplog: pytest.LogCaptureFixture
) -> None:
    failed, clock = left_out
    for _ in range(3):
        with failed.leaving_out("index", "a"):
            raise KeyError("x")
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1, "one log line"
    assert failed.is_waiting("index", "a")
    assert not failed.is_waiting("rating", "a")
    assert failed.due("index", 10) == []
    clock.now += RETRY_SECONDS
    assert failed.due("index", 10) == ["a"]
    assert (failed.counts(), failed.as_json()["count"]) == ({"index": 1}, 1)
    with failed.leaving_out("index", "a"):
        pass
    assert (failed.counts(), len(failed)) == ({}, 0)
    with pytest.raises(StoreError), failed.leaving_out("index", "a"):
        raise StoreError("disk full")
    assert len(failed) == 0


def test_what_is_remembered_and_shown_is_bounded(left_out: tuple[LeftOut, Clock]) -> None:
    failed, _ = left_out
    failed.restore("index", {str(number): "index: KeyError" for number in range(2 * MOST)})
    failed.add("rating", "x" * 10_000, KeyError("x"))
    shown = failed.as_json()
    assert (shown["count"], len(shown["first"])) == (MOST, SHOWN)
    failed.restore("index", {})
    assert [len(item["id"]) for item in failed.as_json()["first"]] == [200]
