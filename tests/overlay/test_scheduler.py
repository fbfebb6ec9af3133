"""Jobs of one scheduler: their intervals and wakes, their failures, the lock of a single server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

from indexer.errors import SourceUnavailableError
from indexer.retries import Backoff
from indexer.store import StoreError, StoreUnavailableError, connect
from indexer.store.process_lock import servers_lock
from overlay.api.counters import Counters
from overlay.app import scheduler as module
from overlay.app import supervision
from overlay.app.scheduler import Scheduler
from overlay.app.supervision import DATABASE_FAULTS
from overlay.jobs import JobStatus, PeriodicJob, Role
from overlay.listings.change_notifier import ChangeNotifier
from tests.waiting import until

HOUR = 3_600.0


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for patched in (supervision, module):
        monkeypatch.setattr(patched, "BACKOFF", Backoff(0.001, 0.004))


class Work:
    """A job that counts its runs, and fails the first times."""

    def __init__(self, error: Exception | None = None, times: int = 0, pause: float | None = None) -> None:
        self.error, self.times, self.pause = error, times, pause
        self.runs = self.under_way = self.most = self.closed = 0
        self.go = asyncio.Event()
        self.go.set()

    async def run(self) -> float | None:
        self.runs += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.go.wait()
        finally:
            self.under_way -= 1
        if self.error is not None and self.runs <= self.times:
            raise self.error
        return self.pause

    async def close(self) -> None:
        self.closed += 1

    def job(
        self, name: str = "work", *, every: float = HOUR, role: Role = Role.SERVER, on_change: bool = False
    ) -> PeriodicJob:
        return PeriodicJob(name=name, run=self.run, every=every, role=role, on_change=on_change, close=self.close)


class Process:
    """A scheduler of its own on a database."""

    def __init__(self, url: str) -> None:
        self.counters, self.notifier = Counters(), ChangeNotifier()
        self.engine = connect(url)
        self.scheduler = Scheduler(servers_lock(self.engine), self.counters, self.notifier)

    def status(self, name: str = "work") -> JobStatus:
        return next(status for status in self.scheduler.statuses() if status.name == name)

    @asynccontextmanager
    async def running(self, *jobs: PeriodicJob) -> AsyncIterator[asyncio.Task[None]]:
        self.scheduler.add(jobs)
        task = asyncio.create_task(self.scheduler.run())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self.engine.dispose()


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(f"sqlite:///{tmp_path}/jobs.db")


async def test_a_job_runs_again_after_its_interval_and_says_how_its_runs_went(process: Process) -> None:
    work = Work()
    async with process.running(work.job(every=0.01)):
        await until(lambda: work.runs >= 3)
        await until(lambda: process.status().next_at is not None)
        status = process.status()
    assert status.ran_at is not None
    assert status.seconds is not None
    assert status.next_at is not None
    assert status.next_at >= status.ran_at
    assert (status.failures, status.error) == (0, "")
    assert status.as_json().keys() == {"name", "role", "lastRunAt", "seconds", "failures", "nextRunAt"}
    assert work.closed == 1


async def test_a_run_may_say_itself_when_the_next_is_due(process: Process) -> None:
    work = Work(pause=0.0)
    async with process.running(work.job(every=HOUR)):
        await until(lambda: work.runs >= 5)


async def test_a_job_is_woken_by_name_from_any_thread_and_by_changes_and_never_runs_twice_at_once(
    process: Process,
) -> None:
    named, changed, idle = Work(), Work(), Work()
    async with process.running(named.job("named"), changed.job("changed", on_change=True), idle.job("idle")):
        await until(lambda: (named.runs, changed.runs, idle.runs) == (1, 1, 1))
        threading.Thread(target=process.scheduler.wake, args=("named",)).start()
        await until(lambda: named.runs == 2)
        process.notifier.notify()
        await until(lambda: changed.runs == 2)
        named.go.clear()
        process.scheduler.wake("named")
        await until(lambda: named.under_way == 1)
        for _ in range(10):
            process.scheduler.wake("named")
        await asyncio.sleep(0)
        named.go.set()
        await until(lambda: named.runs == 4)
    assert (named.runs, named.most, changed.runs, idle.runs) == (4, 1, 2, 1)


@pytest.mark.parametrize(
    ("error", "text", "faults"),
    [
        (StoreError("cannot write: the disk is full"), "cannot write: the disk is full", 3),
        (StoreUnavailableError("gone"), "gone", 3),
        (SourceUnavailableError("http://u:secret@node does not answer"), "http://u:***@node does not answer", 0),
        (KeyError("a defect with a stranger's text"), "KeyError", 0),
    ],
)
async def test_a_job_that_fails_is_named_and_retried_and_ends_nothing(
    process: Process, caplog: pytest.LogCaptureFixture, error: Exception, text: str, faults: int
) -> None:
    failing, other = Work(error, 3), Work()
    failing.go.clear()
    async with process.running(failing.job("broken", every=0.001), other.job("other", every=0.001)) as task:
        failing.go.set()
        await until(lambda: process.status("broken").error == text or failing.runs > 3)
        await until(lambda: failing.runs > 4)
        runs = other.runs
        await until(lambda: other.runs > runs)
        assert not task.done()
        status = process.status("broken")
    assert (status.failures, status.error) == (3, "")
    assert process.counters.gauge(DATABASE_FAULTS) == faults
    assert "broken" in caplog.text or "waiting for the database: gone" in caplog.text
    assert "secret" not in caplog.text


async def test_a_wake_does_not_shorten_the_pause_after_a_failure(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "BACKOFF", Backoff(HOUR, HOUR))
    failing = Work(StoreError("full"), 1)
    async with process.running(failing.job()):
        await until(lambda: process.status().failures == 1 and process.status().next_at is not None)
        process.scheduler.wake("work")
        for _ in range(20):
            await asyncio.sleep(0)
    assert failing.runs == 1


async def test_a_job_of_a_single_server_runs_in_one_process_and_in_the_next_when_that_ends(
    database_url: str,
) -> None:
    first, second, everywhere = Work(), Work(), Work()
    process, other, third = (Process(database_url) for _ in range(3))
    role = Role.SINGLE_SERVER
    async with other.running(second.job(every=0.01, role=role), everywhere.job("everywhere", every=0.01)):
        await until(lambda: second.runs >= 1)
        async with process.running(first.job(every=0.01, role=role)):
            runs = second.runs
            await until(lambda: second.runs >= runs + 3)
            assert first.runs == 0
            assert process.status().ran_at is None
    async with third.running(first.job(every=0.01, role=role)):
        await until(lambda: first.runs >= 1)


async def test_a_change_in_the_moment_in_which_a_wait_ends_is_not_lost(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, waits = Work(), 0

    class Late(asyncio.Event):
        """A change that comes when the time is up."""

        async def wait(self) -> Literal[True]:
            nonlocal waits
            waits += 1
            if waits > 1:
                return await super().wait()
            await until(lambda: process.status().seconds is not None)
            self.set()
            raise TimeoutError

    monkeypatch.setattr(process.notifier, "add", Late)
    async with process.running(work.job(on_change=True)):
        await until(lambda: work.runs == 2)


async def test_a_run_that_something_else_cancelled_is_a_failed_one(process: Process) -> None:
    runs = 0

    async def run() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise asyncio.CancelledError

    async with process.running(PeriodicJob(name="work", run=run, every=0.001, role=Role.SERVER)):
        await until(lambda: runs > 1)
        assert process.status().failures == 1


async def test_a_clock_that_is_set_back_keeps_no_job_waiting(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLOCK_SECONDS", 0.01)
    work = Work()
    async with process.running(work.job(every=HOUR)):
        await until(lambda: process.status().seconds is not None)
        monkeypatch.setattr(module, "time", lambda: time.time() - HOUR)
        await until(lambda: work.runs == 2)


async def test_a_job_that_cannot_be_closed_is_named_and_the_others_are(
    process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse() -> None:
        raise OSError("no")

    work = Work()
    bad = PeriodicJob(name="bad", run=work.run, every=HOUR, role=Role.SERVER, close=refuse)
    async with process.running(bad, work.job()):
        await until(lambda: work.runs == 2)
    assert "job bad cannot be closed" in caplog.text
    assert work.closed == 1


async def test_a_cancelled_run_ends_before_its_job_is_closed(process: Process) -> None:
    stuck, order = asyncio.Event(), list[str]()

    async def run() -> None:
        try:
            await stuck.wait()
        finally:
            order.append("ended")

    async def close() -> None:
        order.append("closed")

    async with process.running(PeriodicJob(name="stuck", run=run, every=1.0, role=Role.SERVER, close=close)):
        await until(lambda: process.status("stuck").ran_at is not None)
    assert order == ["ended", "closed"]


async def test_no_run_begins_while_the_scheduler_ends(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    for pauses in range(60):  # turns of the event loop between the start and the end
        process, work = Process(url), Work()
        async with process.running(work.job(every=0.0, role=Role.SINGLE_SERVER)):
            for _ in range(pauses % 20):
                await asyncio.sleep(0)
        runs = work.runs
        await asyncio.sleep(0.02)
        assert (work.runs, work.under_way) == (runs, 0), pauses
        other = Process(url)
        lock = servers_lock(other.engine)
        assert lock.acquire(), pauses
        lock.release()
        other.engine.dispose()


async def test_many_wakes_at_one_time_are_one_run_without_a_warning(
    process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work()
    async with process.running(work.job()):
        await until(lambda: work.runs == 1 and process.status().next_at is not None)
        for _ in range(20):
            runs = work.runs
            for _ in range(5):
                process.scheduler.wake("work")
                await asyncio.sleep(0)
            await until(lambda runs=runs: work.runs > runs)
    assert [record.getMessage() for record in caplog.records] == []
