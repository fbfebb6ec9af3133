"""One scheduler for the periodic work of a process: a job that fails is named, retried, and ends nothing."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import monotonic, time
from typing import TYPE_CHECKING

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from indexer.errors import SourceError
from indexer.masking import masked
from indexer.store import DATABASE_ERRORS
from overlay.app.supervision import BACKOFF, Supervisor
from overlay.engines import UnavailableError
from overlay.jobs import JobStatus, PeriodicJob, Role
from overlay.listings.change_notifier import ChangeNotifier
from overlay.text.safe_text import on_one_line

if TYPE_CHECKING:
    from indexer.store.process_lock import ProcessLock
    from overlay.api.counters import Counters

log = logging.getLogger(__name__)

CLOCK_SECONDS = 10.0
"""Seconds between two looks whether the system's clock was set back, and the least that counts."""

MAX_ERROR = 200
"""Characters of an error that a status shows."""


class Scheduler:
    """Runs jobs, none of them twice at once. `lock` is held by the process that runs the jobs of
    `Role.SINGLE_SERVER`."""

    def __init__(self, lock: ProcessLock, counters: Counters, notifier: ChangeNotifier) -> None:
        self._lock, self._notifier, self._supervisor = lock, notifier, Supervisor(counters)
        self._jobs: dict[str, PeriodicJob] = {}
        self._statuses: dict[str, JobStatus] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._woken: set[str] = set()
        self._attempts: set[asyncio.Future[bool]] = set()
        self._failures: Counter[str] = Counter()
        self._timer = AsyncIOScheduler(timezone=UTC)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._offset = time() - monotonic()

    def add(self, jobs: Iterable[PeriodicJob]) -> None:
        """Run these, too: to be called before `run`."""
        for job in jobs:
            self._jobs[job.name] = job
            self._statuses[job.name] = JobStatus(name=job.name, role=job.role)

    def statuses(self) -> tuple[JobStatus, ...]:
        """How the runs of all jobs went."""
        return tuple(self._statuses.values())

    def wake(self, name: str) -> None:
        """Run a job now, or again after the run under way; from any thread. One that failed waits for its retry."""
        if self._loop is not None and name in self._jobs:
            self._loop.call_soon_threadsafe(self._wake, self._jobs[name])

    def _wake(self, job: PeriodicJob) -> None:
        if job.name in self._running:
            self._woken.add(job.name)
        elif self._loop is not None and not self._failures[job.name] and not self._is_due(job):
            self._plan(job, 0.0)

    def _is_due(self, job: PeriodicJob) -> bool:
        """Whether a run is planned for now: the timer would log a second one as a run that it skips."""
        planned = self._statuses[job.name].next_at
        return planned is not None and planned <= time()

    async def run(self) -> None:
        """Run all jobs until cancelled."""
        # it logs a line before and after every run
        logging.getLogger("apscheduler").setLevel(logging.WARNING)
        self._loop = asyncio.get_running_loop()
        self._timer.start()
        try:
            for job in self._jobs.values():
                self._plan(job, 0.0)
            with self._notifier.listen() as changed:
                while True:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(CLOCK_SECONDS):
                            await changed.wait()
                    if changed.is_set():  # also where the time was up in the same moment
                        changed.clear()
                        for job in self._jobs.values():
                            if job.on_change:
                                self._wake(job)
                    self._follow_clock()
        finally:
            await self._end()

    def _follow_clock(self) -> None:
        """Run all jobs after the system's clock was set back: the timer follows the clock, and jobs would wait for that
        long."""
        before, self._offset = self._offset, time() - monotonic()
        if self._offset < before - CLOCK_SECONDS:
            for job in self._jobs.values():
                if job.name not in self._running:
                    self._plan(job, 0.0)

    async def _end(self) -> None:
        self._loop = None
        self._timer.shutdown(wait=False)
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        for job in self._jobs.values():
            try:
                await job.close()
            except Exception:
                log.exception("job %s cannot be closed", job.name)
        await asyncio.gather(*self._attempts, return_exceptions=True)
        await asyncio.to_thread(self._lock.release)

    def _plan(self, job: PeriodicJob, pause: float) -> None:
        self._statuses[job.name] = replace(self._statuses[job.name], next_at=time() + pause)
        self._timer.add_job(
            self._start, "date", (job,), run_date=datetime.now(UTC) + timedelta(seconds=pause), id=job.name,
            replace_existing=True, misfire_grace_time=None,
        )  # fmt: skip

    async def _start(self, job: PeriodicJob) -> None:
        """Begin a run in a task that is not the timer's, which would log its end by cancellation as an error."""
        if self._loop is not None and job.name not in self._running:  # the timer may call this once after its end
            self._running[job.name] = asyncio.create_task(self._run(job))

    async def _run(self, job: PeriodicJob) -> None:
        self._woken.discard(job.name)
        try:
            if job.role is not Role.SINGLE_SERVER or await self._is_single():
                pause = await self._outcome(job)
            else:
                pause = job.every
        except DATABASE_ERRORS as error:  # of the lock
            pause = self._failed(job, error)
        del self._running[job.name]
        self._plan(job, 0.0 if job.name in self._woken and not self._failures[job.name] else pause)

    async def _is_single(self) -> bool:
        """Whether this process holds the lock. An attempt continues in its thread when the run is cancelled."""
        attempt = asyncio.ensure_future(asyncio.to_thread(self._lock.acquire))
        self._attempts.add(attempt)
        attempt.add_done_callback(self._attempts.discard)
        return await asyncio.shield(attempt)

    async def _outcome(self, job: PeriodicJob) -> float:
        """The seconds until the next run, after this one."""
        self._statuses[job.name] = replace(self._statuses[job.name], ran_at=time(), next_at=None)
        began = monotonic()
        try:
            pause = await job.run()
        except (Exception, asyncio.CancelledError) as error:  # whatever it is, the other jobs and the process continue
            if self._loop is None:
                raise
            pause = self._failed(job, error)
        else:
            del self._failures[job.name]
            self._statuses[job.name] = replace(self._statuses[job.name], error="")
        self._statuses[job.name] = replace(self._statuses[job.name], seconds=monotonic() - began)
        return job.every if pause is None else pause

    def _failed(self, job: PeriodicJob, error: BaseException) -> float:
        """Report a failed run; the seconds until the next."""
        self._failures[job.name] += 1
        status, failures = self._statuses[job.name], self._failures[job.name]
        is_expected = isinstance(error, (*DATABASE_ERRORS, UnavailableError, SourceError))
        text = on_one_line(masked(str(error)))[:MAX_ERROR] if is_expected else type(error).__name__
        self._statuses[job.name] = replace(status, failures=status.failures + 1, error=text)
        if isinstance(error, (*DATABASE_ERRORS, UnavailableError)):
            return self._supervisor.report(f"job {job.name}", error, failures)
        pause = max(job.every, BACKOFF.pause(failures))
        if not is_expected:
            log.error("job %s failed, and is tried again in %g s", job.name, pause, exc_info=error)
        elif text != status.error:
            log.warning("job %s failed, and is tried again in %g s: %s", job.name, pause, text)
        return pause
