"""The job that makes the due fetches: cards of pointers, domain badges, and the due checks of `DueChecks`.

Due times are in the database, so a restart continues; only the order of the next fetches is in memory.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Protocol

from indexer.failures import LeftOut
from indexer.fetcher import outcomes
from indexer.fetcher.budgets import VisitRates
from indexer.fetcher.card_fetcher import CardFetcher, CardRequest
from indexer.fetcher.connections import Admit
from indexer.fetcher.domain_badges import BadgeChecks, BadgeQueue, host_of_card
from indexer.fetcher.host_names import DomainVerifier
from indexer.fetcher.key_sets import signed_card
from indexer.fetcher.reasons import FetchError, Refusal, shown
from indexer.fetcher.schedule import Job, Priority, Schedule
from indexer.store import DATABASE_ERRORS, FetchOutcome, Store, Writer, visits
from indexer.store.checks import START, CheckKind, DueCheck
from parsers.claims.card_signature import SIGNATURES
from parsers.pointers.locator import host_of

log = logging.getLogger(__name__)

WORKERS = 64
"""Concurrent fetches: each holds at most two bodies of 2 MB."""

POLL_SECONDS = 1.0
"""Seconds between two queries for due fetches, unless a row was written meanwhile."""

NEWS_SECONDS = 0.2
"""Seconds between two queries under heavy writing: catching up is not slowed down."""

AGAIN_SECONDS = 600.0
"""Seconds between two queries from the beginning, which include jobs that had no room before."""

PAGE, PAGES = 500, 40
"""Rows of one page, and pages of one query: more rows are read over several queries."""

HELD_SECONDS = 0.25
"""Seconds between the starts of two fetches during catch-up: a fetch and storing its outcome take more than 2 ms of a
processor, as much as several registrations until they are searchable."""

ENLIST_SECONDS = 0.05
"""Seconds of each query in which new registrations are read for their hosts."""

LATE_MS = 60_000
"""Milliseconds before a look up to which checks that are due since then may have been stored after it. Older ones are
not looked through again: of a host that has to wait, there may be any number."""

_START = (-1, "")


class DueChecks(Protocol):
    """Checks of one kind, each named by its target in `indexer.store.checks`, a URL or a host."""

    kind: CheckKind
    priority: Priority

    async def check(self, name: str, now: int, admit: Admit, /) -> tuple[int, FetchError | None]:
        """Check, and store the result. Returns how many listings may have changed, and what could not be fetched
        of it. Raises FetchError where nothing could be, which `fail` stores, and StoreError."""
        ...

    async def fail(self, name: str, reason: str, now: int, /) -> int:
        """Store that a check failed with a reason code; returns how many listings may have changed. Raises
        StoreError."""
        ...


class FetchLoop:
    """Fetches cards, badges, and what `checks` name. `came_to` counts the outcomes of fetches, by state or reason code.
    `changed` is called, in the event loop, when the outbox may have changes, `ended` when a fetch has ended; `news` is
    set by others when there may be more to do, and `is_held` returns whether to start only few fetches. `clock` gives
    Unix seconds, `ticking` monotonic seconds."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        cards: CardFetcher,
        domain_verifier: DomainVerifier,
        *,
        checks: Iterable[DueChecks] = (),
        changed: Callable[[], None] = lambda: None,
        ended: Callable[[], None] = lambda: None,
        rates: VisitRates | None = None,
        clock: Callable[[], float] = time.time,
        ticking: Callable[[], float] = time.monotonic,
        left_out: LeftOut | None = None,
    ) -> None:
        self._store, self._writer, self._cards = store, writer, cards
        badges: DueChecks = BadgeChecks(domain_verifier, writer)
        self._checks: dict[str, DueChecks] = {due_checks.kind: due_checks for due_checks in (badges, *checks)}
        self._changed, self._ended, self._clock, self._ticking = changed, ended, clock, ticking
        self._left_out = left_out if left_out is not None else LeftOut(ticking)
        self._badge_queue = BadgeQueue(store, writer, self._left_out)
        self.schedule = Schedule(ticking, rates)
        self.came_to: Counter[str] = Counter()
        self.tasks: set[asyncio.Task[None]] = set()
        self.news = asyncio.Event()
        self.is_held: Callable[[], bool] = lambda: False
        self._start_at = float("-inf")
        self._locators = _START
        self._checked = START
        self._looked_at = self._look_at = self._all_at = float("-inf")

    async def run(self) -> float:
        """Start the due fetches that budgets allow now, and return the seconds until the next run, which is due at once
        when `news` was set, or a fetch has ended. Raises StoreError when the database fails."""
        self._collect()
        if self.news.is_set():
            self._look_at = min(self._look_at, self._looked_at + NEWS_SECONDS)
            self.news.clear()
        if self._ticking() >= self._look_at:
            await self.look()
        self.start()
        wait = self.schedule.wait() if len(self.tasks) < WORKERS else None
        until_look = max(self._look_at - self._ticking(), 0.0)
        return until_look if wait is None else min(max(wait, self._held_for()), until_look)

    def _held_for(self) -> float:
        """Seconds until the next fetch may start."""
        return max(self._start_at - self._ticking(), 0.0) if self.is_held() else 0.0

    async def close(self) -> None:
        """Cancel the fetches under way."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def _collect(self) -> None:
        """Raise the error of a finished fetch: only the database raises one."""
        for task in [task for task in self.tasks if task.done()]:
            self.tasks.discard(task)
            try:
                task.result()
            except DATABASE_ERRORS:
                self._all_at = float("-inf")  # what was not stored is still due, and was read already
                raise

    async def settle(self) -> None:
        """Wait for all fetches under way."""
        while self.tasks:
            await asyncio.wait(self.tasks)
            self._collect()

    # -- what is due

    async def look(self) -> None:
        """Add the jobs that became due to the schedule."""
        now = self._ticking()
        if now >= self._all_at:
            self._locators = _START
            self._checked = START
            self._all_at = now + AGAIN_SECONDS
        self._looked_at, self._look_at = now, now + POLL_SECONDS
        await self._queue_badges()
        await self._take_locators()
        await self._take_checks()

    async def _queue_badges(self) -> None:
        began = self._ticking()
        while await asyncio.to_thread(self._badge_queue.step, self._now()):
            if self._ticking() - began >= ENLIST_SECONDS:
                break

    async def _take_locators(self) -> None:
        for _ in range(PAGES):
            waiting = await asyncio.to_thread(self._store.fetches.queued, self._now(), PAGE, self._locators)
            for locator in waiting:
                with self._left_out.leaving_out("queueing", locator.locator):
                    self._add(
                        locator.locator, visited_host(locator.locator), outcomes.priority(locator), locator.next_at
                    )
            if waiting:
                self._locators = waiting[-1][:2]
            if len(waiting) < PAGE:
                return

    async def _take_checks(self) -> None:
        now = self._now()
        for _ in range(PAGES):
            due = await asyncio.to_thread(self._store.checks.due, self._now(), PAGE, self._checked)
            for since, kind, target in due:
                if (checks := self._checks.get(kind)) is not None:
                    with self._left_out.leaving_out("queueing", target):
                        self._add(f"{kind}:{target}", visited_host(target), checks.priority, since)
            if due:
                self._checked = due[-1]
            if len(due) < PAGE:
                self._checked = max(self._checked, DueCheck(now - LATE_MS, "", ""))
                return

    def _add(self, key: str, host: str, priority: Priority, due_ms: int) -> None:
        if self._left_out.is_waiting("fetch", key):
            return
        late = max((self._now() - due_ms) / 1000, 0.0)
        self.schedule.add(Job(key, host, priority, self._ticking() - late))

    def _now(self) -> int:
        return int(self._clock() * 1000)

    # -- one fetch

    def start(self) -> None:
        """Start the fetches that budgets allow now."""
        while len(self.tasks) < WORKERS and not self._held_for() and (job := self.schedule.next()) is not None:
            self._start_at = self._ticking() + HELD_SECONDS
            task = asyncio.create_task(self._visit(job))
            task.add_done_callback(lambda _: self._ended())
            self.tasks.add(task)

    async def _visit(self, job: Job) -> None:
        """Run one job, for any answer of the host; one that fails is left out for an hour. Raises only StoreError."""
        work = self._check if job.key.partition(":")[0] in self._checks else self._fetch
        error: FetchError | None = None
        try:
            with self._left_out.leaving_out("fetch", job.key):
                error = await work(job)
        finally:
            self.schedule.finish(job.key, error)
        if error is not None and error.refusal.code == "fetch-budget":
            self.schedule.add(replace(job, due=self._ticking() + (error.retry_after or POLL_SECONDS)))

    async def _fetch(self, job: Job) -> FetchError | None:
        due = await asyncio.to_thread(self._store.fetches.get_due, job.key)
        now = self._now()
        if due is None or due.next_at > now:
            return None
        request = CardRequest(due.digests, due.hashless, partial(self._is_named, job.key))
        try:
            fetched = await self._cards.fetch_card(
                job.key, request, outcomes.previous_responses(due), admit=self.schedule.admission(job)
            )
        except DATABASE_ERRORS:
            raise
        except Exception as fault:
            log.exception("fetching %s failed", shown(job.key))
            refusal = Refusal("fetch-fault", shown(f"{type(fault).__name__}: {fault}"))
            await self._note(job.key, outcomes.failed(due, refusal, now, self._now()))
            return None
        error = fetched.error
        if fetched.accepted is None and error is not None and error.refusal.code == "fetch-budget":
            return error
        await self._note(job.key, outcomes.outcome(due, fetched, self._now()))
        return error

    async def _is_named(self, locator: str, digest: bytes) -> bool:
        return await asyncio.to_thread(self._store.fetches.is_named, locator, digest)

    async def _note(self, locator: str, outcome: FetchOutcome) -> None:
        changed = await asyncio.to_thread(visits.record_fetch, self._writer, locator, outcome)
        bodies = [
            (response.sha256, response.body)
            for response in outcome.served
            if response.body and SIGNATURES in response.body
        ]
        signed = [
            response
            for digest, body in bodies
            if (response := signed_card(digest, body, host_of_card(body))) is not None
        ]
        if signed:
            await asyncio.to_thread(visits.enlist_signatures, self._writer, signed, self._now())
        self.came_to[outcome.reason or outcome.state.value] += 1
        log.debug("%s is %s %s", shown(locator), outcome.state.value, outcome.reason)
        if changed:
            self._changed()
        # a new anchor or a recheck may have come while the fetch was under way
        again = (await asyncio.to_thread(self._store.fetches.statuses, [locator])).get(locator)
        if again is not None and again.next_at is not None and again.next_at <= self._now():
            self._locators = min(self._locators, (again.next_at - 1, ""))

    async def _check(self, job: Job) -> FetchError | None:
        kind, _, name = job.key.partition(":")
        checks, now = self._checks[kind], self._now()
        try:
            changed, error = await checks.check(name, now, self.schedule.admission(job))
        except DATABASE_ERRORS:
            raise
        except FetchError as refused:
            if refused.refusal.code == "fetch-budget":  # nothing was requested
                return refused
            changed, error = await checks.fail(name, refused.refusal.code, now), refused
        except Exception:
            log.exception("checking %s failed", shown(job.key))
            changed, error = await checks.fail(name, "fetch-fault", now), None
        if changed:
            self._changed()
        return error


def visited_host(name: str) -> str:
    """The host of a locator, a URL or a host; "" for one without, which is fetched through the gateway or not at
    all."""
    return host_of(name) if ":" in name else name
