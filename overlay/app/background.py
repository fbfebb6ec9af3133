"""The jobs of a process that follows chains: what sends requests to hosts, other overlays and rate feeds; and the loop
that keeps the search index up to date with the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING

from indexer.failures import LeftOut, is_of_machine
from indexer.retries import Backoff
from indexer.settings import Settings
from indexer.store.rates import Quotes
from indexer.store.requests import Requests
from indexer.sync import request_loop
from indexer.sync.follower import Follower
from overlay.app.chain_loops import transaction_source
from overlay.app.fetching import build_fetch_loop, sends_requests
from overlay.app.hidden_listings import hide_job
from overlay.app.memory import FreedMemory, release_memory
from overlay.app.scheduler import Scheduler
from overlay.app.status_service import LOOK_SECONDS, StatusService
from overlay.app.storage import index_write_errors
from overlay.engines import BusyError, EngineError, UnavailableError
from overlay.jobs import PeriodicJob, Role
from overlay.listings.change_notifier import ChangeNotifier
from overlay.projection.projector import IndexProjector

if TYPE_CHECKING:
    from indexer.fetcher.fetch_loop import FetchLoop
    from indexer.store import Store, Writer

log = logging.getLogger(__name__)


class IndexerJobs:
    """The jobs that the settings call for, where there is a writer and chains are followed."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        writer: Writer,
        followers: Sequence[Follower],
        notifier: ChangeNotifier,
        status: StatusService,
        scheduler: Scheduler,
        left_out: LeftOut,
    ) -> None:
        self._settings, self._store, self._writer, self._followers = settings, store, writer, followers
        self._notifier, self._status, self._scheduler = notifier, status, scheduler
        self._left_out = left_out
        self._fetch_loop: FetchLoop | None = None

    def jobs(self) -> list[PeriodicJob]:
        """The periodic jobs of a process that indexes."""
        settings = self._settings
        jobs: list[PeriodicJob] = [hide_job(self._store, self._writer, self._notifier.notify)]
        if self._followers:
            jobs += self._fetch_requested()
            if sends_requests(settings):
                jobs.append(self._fetch())
            if settings.submit_broadcast:
                jobs += self._send_submissions()
        if settings.rates:
            jobs.append(self._fetch_rates())
        return jobs

    def _fetch_requested(self) -> list[PeriodicJob]:
        """Fetch the transactions that publishers requested, here or in another process."""
        sources = [transaction_source(follower) for follower in self._followers]
        loop = request_loop.RequestLoop(Requests(self._store.engine), sources)
        return [
            PeriodicJob(name="requests", run=loop.run, every=request_loop.POLL_SECONDS, role=Role.INDEXER),
            PeriodicJob(name="old-requests", run=loop.trim, every=request_loop.TRIM_SECONDS, role=Role.INDEXER),
        ]

    def _fetch(self) -> PeriodicJob:
        """The job that makes the due fetches, at the interval that each fetch returns."""
        run, close = self._fetch_due, self._end_fetches
        return PeriodicJob(name="fetches", run=run, every=1.0, role=Role.INDEXER, on_change=True, close=close)

    async def _fetch_due(self) -> float:
        """Fetch the cards that pointers name, and the statements of hosts about agents."""
        if self._fetch_loop is None:
            ended = partial(self._scheduler.wake, "fetches")
            build = partial(build_fetch_loop, self._settings, self._store, self._writer)
            self._fetch_loop = await asyncio.to_thread(build, self._notifier.notify, ended, self._left_out)
            self._fetch_loop.news = self._notifier.add()
            self._fetch_loop.is_held = self._status.is_behind
            self._status.fetch_outcomes = self._fetch_loop.came_to
        return await self._fetch_loop.run()

    async def _end_fetches(self) -> None:
        if self._fetch_loop is not None:
            await self._fetch_loop.close()

    def _send_submissions(self) -> list[PeriodicJob]:
        """Send submitted transactions to the sources of BSV chains."""
        from indexer.sync.submission_sender import SEND_SECONDS, SubmissionSender

        jobs = []
        for follower in self._followers:
            sender = SubmissionSender(follower.chain, self._store.submissions, partial(_follows_bsv, follower))
            name = f"submissions {follower.progress.name}"
            jobs.append(PeriodicJob(name=name, run=sender.run, every=SEND_SECONDS, role=Role.INDEXER))
        return jobs

    def _fetch_rates(self) -> PeriodicJob:
        """Fetch exchange rates from the configured feeds."""
        from indexer.rates.rates_fetcher import RatesFetcher

        settings, quotes = self._settings, Quotes(self._store.engine)
        changed = partial(self._scheduler.wake, "stored-rates")
        fetcher = RatesFetcher(settings.rates, quotes, max_age=settings.rates_max_age, changed=changed)
        self._status.rates_fetcher = fetcher
        return PeriodicJob(
            name="rates", run=fetcher.run, every=settings.rates_every, role=Role.INDEXER, close=fetcher.close
        )


def _follows_bsv(follower: Follower) -> bool:
    """Whether a follower is at the tip of a BSV chain."""
    return follower.progress.state == "following" and follower.progress.caip2.startswith("bsv:")


BULK = 2_000
"""Changes projected without a pause, after which freed memory is returned to the system."""

FAILED = Backoff(1.0, 60.0)
"""Pauses after writing the index has failed, as on a full disk."""

IDLE_SECONDS = 60.0
"""The pause between two steps without any change."""

BUSY_SECONDS = 1.0
"""Pause between attempts to become the process that writes the index."""


class CancelledWorkError(Exception):
    """Work in a thread ended early because the process ends."""


class IndexLoop:
    """The loop that projects changes into the index, and publishes the heights up to which searches answer."""

    def __init__(
        self, settings: Settings, projector: IndexProjector, status: StatusService, notifier: ChangeNotifier
    ) -> None:
        self._settings, self._projector, self._status, self._notifier = settings, projector, status, notifier
        self._is_ending, self._freed = Event(), FreedMemory()

    async def run(self) -> None:
        """Project until cancelled. Raises EngineError, StoreUnavailableError."""
        await asyncio.to_thread(self._projector.cleanup)
        try:
            with self._notifier.listen() as changed:
                await self._project(changed)
        except asyncio.CancelledError:
            self._is_ending.set()  # a step may still run in its thread
            raise

    async def _project(self, changed: asyncio.Event) -> None:
        projected = failures = 0
        while True:
            changed.clear()
            heights = self._status.stored_heights()
            try:
                with index_write_errors(self._settings):
                    count = await asyncio.to_thread(self._step)
            except BusyError:
                # another process on the same data writes the index; searches here see its commits
                await asyncio.sleep(BUSY_SECONDS)
                continue
            except Exception as error:
                is_unexpected = not isinstance(error, EngineError)
                if isinstance(error, (UnavailableError, CancelledWorkError)) or (
                    is_unexpected and is_of_machine(error)
                ):
                    raise
                failures += 1
                pause = FAILED.pause(failures)
                self._status.index_error = f"it failed ({type(error).__name__})" if is_unexpected else str(error)
                await self._status.look_again()
                text = "searches answer by the last commit; it is tried again in %g s: %s"
                log.error(text, pause, str(error), exc_info=error if is_unexpected and failures == 1 else None)
                await asyncio.sleep(pause)
                continue
            failures, self._status.index_error = 0, ""
            projected += count
            if not count:
                self._status.publish(heights)
                if projected >= BULK:
                    await asyncio.to_thread(release_memory)
                projected = 0
                await self._wait(changed)

    async def _wait(self, changed: asyncio.Event) -> None:
        """Wait for a change, but no longer than IDLE_SECONDS, as listings that failed an hour ago may be due, nor where
        a look at the index shows that it was lost."""
        until = monotonic() + IDLE_SECONDS
        while monotonic() < until:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await changed.wait()
            if changed.is_set() or self._status.unread_count:
                return

    def _step(self) -> int:
        count = self._projector.step(self._after_batch)
        self._freed.give_back()
        return count

    def _after_batch(self, _done: int) -> None:
        if self._is_ending.is_set():
            raise CancelledWorkError
        self._freed.give_back()
