"""The words of `degraded`, in one process: followers that errors ended, clocks that differ, a database that is away."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from indexer.errors import SourceError, SourceUnavailableError
from indexer.retries import Backoff
from indexer.store import (
    Store,
    StoreError,
    StoreUnavailableError,
    block_writer,
    chain_marks,
    connect,
)
from indexer.store.followers import FollowerReport
from indexer.store.outbox import OutboxQueries
from indexer.sync.progress import GREATEST, SILENT_SECONDS, SyncProgress
from indexer.sync.sign_of_life import SIGN_SECONDS, SignOfLife
from overlay.app import status_service
from overlay.app.status_service import StatusService
from overlay.jobs import JobStatus, Role
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.overlay.answer_models import fits
from tests.overlay.calls import get
from tests.serving import new_app, running, serving, settings
from tests.waiting import until


def chain() -> tuple[ChainKit, MemoryChain]:
    kit = ChainKit()
    kit.mine(kit.inscribe(agent("Router")))
    return kit, MemoryChain(*kit.blocks, name="live")


ENDS = [
    (StoreError("cannot write to sqlite: disk full"), "unreachable", "database", "the database cannot be used"),
    (StoreUnavailableError("gone"), "unreachable", "database", "the database cannot be used"),
    (OperationalError("INSERT", {}, Exception("locked")), "unreachable", "database", "the database cannot be used"),
    (SourceUnavailableError("no route"), "unreachable", "source", "the source does not answer"),
    (SourceError("wrong login"), "stopped", "source", "the source cannot be used"),
]


@pytest.mark.parametrize(("error", "state", "fault", "public"), ENDS, ids=lambda value: type(value).__name__)
async def test_whatever_ends_a_follower_is_in_state_and_error(
    error: Exception, state: str, fault: str, public: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit, live = chain()
    async with running(new_app(tmp_path, live)) as (runner, _):
        await until(lambda: runner.status.ready() is None)
        assert runner.status.degraded() == []
        progress = runner.status.progress["live"]

        def fail(*_: Any, **__: Any) -> None:
            raise error

        monkeypatch.setattr(block_writer, "append", fail)
        live.arrive(kit.mine())
        await until(lambda: progress.error)
        assert (progress.state, progress.fault) == (state, fault)
        row = runner.status.status()["chains"][0]
        assert (row["state"], row["height"], row["tip"], row["lag"]) == (state, 2, 3, 1)
        assert row["error"].startswith(public)
        assert runner.status.degraded() == ["database"] * (fault == "database") + ["follower:live"]
        assert runner.status.ready() is None, "it answers searches"
        reported = await until(lambda: reported_as(runner.context.store, state))
        assert (reported.fault, reported.height, reported.tip) == (fault, 2, 3)
        monkeypatch.undo()
        if state == "unreachable":
            await until(lambda: runner.status.degraded() == [] and progress.state == "following")
            assert progress.height == 3


async def test_an_error_of_the_program_is_in_state_and_error_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.sync.follower.BACKOFF", Backoff(0.01, 0.01))
    async with running(new_app(tmp_path, chain()[1])) as (runner, task):
        with monkeypatch.context() as patched:
            patched.setattr(block_writer, "append", lambda *_, **__: 1 // 0)
            progress = runner.status.progress["live"]
            await until(lambda: "block 0 cannot be read" in progress.error)
            assert (progress.state, progress.fault) == ("unreachable", "program")
            assert "ZeroDivisionError" in progress.error
            row = runner.status.status()["chains"][0]
            assert row["error"] == "following failed; the log of this server says why"
        await until(lambda: progress.state == "following" and progress.height == 2)
        assert not task.done()


async def test_an_error_of_the_disk_is_in_state_and_error_before_it_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = new_app(tmp_path, chain()[1])

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(block_writer, "append", full)
    with pytest.raises(OSError, match="No space left"):
        async with running(app) as (_, task):
            await task
    progress = app.status.progress["live"]
    assert (progress.state, progress.fault) == ("stopped", "program")
    assert "No space left" in progress.error


def reported_as(store: Store, state: str) -> FollowerReport | None:
    report = store.followers.reports()["live"]
    return report if report.state == state else None


async def test_while_only_the_database_is_away_searches_readiness_and_status_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, away = new_app(tmp_path, chain()[1]), False
    newest_seq = OutboxQueries.newest_seq

    def read(queries: OutboxQueries) -> int:
        if away:
            raise StoreUnavailableError("gone")
        return newest_seq(queries)

    monkeypatch.setattr(OutboxQueries, "newest_seq", read)
    async with serving(app) as client:
        before = await get(client, "/v1/status")
        assert before["degraded"] == []
        away = True
        monkeypatch.setattr(app.store.fetches, "counts", lambda: read(app.store.outbox))
        assert (await get(client, "/readyz"))["degraded"] == ["database"]
        status = await get(client, "/v1/status")
        fits(status, "Status")
        assert (status["degraded"], status["listings"]) == (["database"], before["listings"])
        assert (await get(client, "/v1/search?q=router"))["total"] == 1
        async with client.get("/metrics") as answer:
            text = await answer.text()
        assert "a2b_database_up 0.0" in text
        assert 'a2b_chain_state{chain="live",state="following"} 1.0' in text
        away = False
        monkeypatch.undo()
        await until(lambda: app.status.ready() is None and not app.status.degraded())


async def sign(folder: Path, progress: SyncProgress, clock: float) -> None:
    with Indexing(settings(folder).database) as indexing:
        job = SignOfLife(indexing.writer, [progress], lambda: clock)
        await job.run()
        await job.close()


async def test_a_follower_whose_clock_differs_is_silent_only_without_new_signs(tmp_path: Path) -> None:
    now = time.time()
    (tmp_path / "data").mkdir()
    with Indexing(settings(tmp_path).database) as indexing:
        followed = SyncProgress("live", "bsv:regtest", "following", 7, tip=9)
        chain_marks.name_chain(indexing.writer, "live", "bsv:regtest")
    for skew in (-3_600, 3_600):  # seconds
        await sign(tmp_path, followed, now + skew)
        with closing(Store(connect(settings(tmp_path).database))) as store:
            service = StatusService(settings(tmp_path), store, None, "1")
            states = []
            for passed in (0, 10, 10, 25):  # seconds since the last look
                if passed == 10 and len(states) == 1:
                    await sign(tmp_path, followed, now + skew + 10)
                service.progress["live"].signed -= passed
                service.refresh()
                states.append(service.status()["chains"][0]["state"])
            assert states[1:] == ["following", "following", "silent"], skew


async def test_that_sources_disagree_is_shown_by_every_process_while_the_follower_lives(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with Indexing(settings(tmp_path).database) as indexing:
        chain_marks.name_chain(indexing.writer, "live", "eip155:1")
    followed = SyncProgress("live", "eip155:1", "following", 7, tip=9, disagreement="above block 5, b is elsewhere")
    await sign(tmp_path, followed, time.time())
    with closing(Store(connect(settings(tmp_path).database))) as store:
        service = StatusService(settings(tmp_path), store, None, "1")
        status = service.status()
        fits(status, "Status")
        assert status["degraded"] == ["sources-disagree:live"]
        assert status["chains"][0]["sourcesDisagree"] == "above block 5, b is elsewhere"
        service.progress["live"].signed -= SILENT_SECONDS + 1
        status = service.status()
        assert status["degraded"] == ["follower:live"]
        assert "sourcesDisagree" not in status["chains"][0]


async def test_a_report_has_bounds_for_what_sources_say(tmp_path: Path) -> None:
    text = "\0\ud800" * 10_000
    wild = SyncProgress("live", error=text, disagreement=text, tip=1 << 80, caught=1 << 70)
    (tmp_path / "data").mkdir()
    await sign(tmp_path, wild, 1_000.0)
    with closing(Store(connect(settings(tmp_path).database))) as store:
        report = store.followers.reports()["live"]
    assert (report.tip, report.caught) == (GREATEST, GREATEST)
    assert (len(report.error), len(report.disagreement)) == (1_000, 1_000)


async def test_a_sign_is_written_at_once_when_a_state_changes_and_else_every_ten_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = [0.0]
    monkeypatch.setattr("indexer.sync.sign_of_life.time.monotonic", lambda: passed[0])
    (tmp_path / "data").mkdir()
    with Indexing(settings(tmp_path).database) as indexing:
        followed, seconds = SyncProgress("live"), iter(range(1, 9))
        job = SignOfLife(indexing.writer, [followed], lambda: next(seconds))
        for moment, state, seen in (
            (0.0, "starting", 1), (1.0, "starting", 1), (2.0, "following", 2), (3.0, "following", 2),
            (2.0 + SIGN_SECONDS, "following", 3),
        ):  # fmt: skip
            passed[0], followed.state = moment, state
            await job.run()
            assert followed.seen_at == seen
        assert indexing.store.followers.reports()["live"].seen_at == 3
        await SignOfLife(indexing.writer, [], lambda: 9.0).run()
        assert indexing.store.followers.reports() == {}, "no other process follows that chain"
        await job.close()


def test_jobs_that_wait_for_the_database_show_that_it_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(status_service.time, "time", lambda: 100.0)
    with Indexing(settings(tmp_path).database) as indexing:
        service = StatusService(settings(tmp_path), indexing.store, None, "1")

        def degraded(**members: Any) -> list[str]:
            job = JobStatus(**{"name": status_service.SIGNS, "role": Role.INDEXER, **members})
            service.jobs = lambda: (job,)
            return service.degraded()

        assert degraded() == []
        assert degraded(ran_at=79.0, next_at=101.0) == []
        assert degraded(ran_at=81.0) == []
        assert degraded(ran_at=79.0) == ["database"]
        assert degraded(ran_at=99.0, next_at=101.0, error="locked") == ["database"]
        assert degraded(name="rates", error="away") == []
