"""Fetches what is due: cards that pointers name, and what hosts say of inscribed agents. The loop of `a2b up`.

What is due, and when, stands in the database, where a restart finds it; here is only the order in which it is done
next. So retries, the watch for drift and the checks of badges are one look at the database a second: a scheduler of
jobs beside it would be a second truth, and a failing job there would not end this process, as a database that refuses
must.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from indexer.badges import Badger, Enlisting
from indexer.fetching import outcomes
from indexer.fetching.budgets import Rates
from indexer.fetching.cards import CardFetcher, Wanted
from indexer.fetching.reasons import FetchError, Refusal, shown
from indexer.fetching.schedule import Job, Priority, Schedule
from indexer.logos import LogoDesk
from indexer.store import Outcome, Store, StoreError, Writer
from parsers.locator import host_of

log = logging.getLogger(__name__)

WORKERS = 64
"""Fetches under way at once: each holds at most two bodies of 2 MB."""

POLL_SECONDS = 1.0
"""Between two looks at what is due, unless something was written meanwhile."""

NEWS_SECONDS = 0.2
"""Between two looks however much is written, so that catching up is not slowed down."""

AGAIN_SECONDS = 600.0
"""Between two looks at all that is due, also at what was seen before and found no room."""

PAGE, PAGES = 500, 40
"""Rows read at once, and how often in one look: a larger flood is taken in over several looks."""

WAITING = 200_000
"""Jobs that wait here at once, at some 700 bytes each; the others wait in the database."""

ENLIST_SECONDS = 0.05
"""Of each look, how long new registrations are read for their hosts."""

_BADGE, _LOGO = "badge:", "logo:"
_START = (-1, "")


class FetchLoop:
    """Fetches until cancelled. `came_to` counts what fetches came to, by state or by the code of what was refused.
    `changed` is called, in the event loop, when readers of the outbox may find news;
    `clock` gives Unix seconds, `ticking` seconds that never go back."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        cards: CardFetcher,
        badger: Badger,
        *,
        logos: LogoDesk | None = None,
        changed: Callable[[], None] = lambda: None,
        rates: Rates | None = None,
        clock: Callable[[], float] = time.time,
        ticking: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._writer, self._cards, self._badger = store, writer, cards, badger
        self._logos = logos
        self._changed, self._clock, self._ticking = changed, clock, ticking
        self._enlisting = Enlisting(store, writer)
        self.schedule = Schedule(ticking, rates)
        self.came_to: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()
        self._locators = self._hosts = self._pictures = _START
        self._looked_at = self._look_at = self._all_at = float("-inf")

    async def run(self, news: asyncio.Event | None = None) -> None:
        """Work until cancelled; `news`, when set, says that there may be more to do, and is cleared here. Raises
        StoreError when the database refuses."""
        self._woken = news or self._woken
        try:
            while True:
                if self._woken.is_set():
                    self._look_at = min(self._look_at, self._looked_at + NEWS_SECONDS)
                    self._woken.clear()
                if self._ticking() >= self._look_at:
                    await self.look()
                self.start()
                await self._rest()
                self._collect()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _rest(self) -> None:
        """Wait for news, the end of a fetch, or for what is due next."""
        wait = self.schedule.wait() if len(self._tasks) < WORKERS else None
        until_look = max(self._look_at - self._ticking(), 0.0)
        with suppress(TimeoutError):
            async with asyncio.timeout(until_look if wait is None else min(wait, until_look)):
                await self._wake_up()

    async def _wake_up(self) -> None:
        waking = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait([waking, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waking.cancel()

    def _collect(self) -> None:
        """Raise what ended a fetch: only the database can."""
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.discard(task)
            task.result()

    async def settle(self) -> None:
        """Wait for all fetches under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)
            self._collect()

    # -- what is due

    async def look(self) -> None:
        """Take in what has become due."""
        now = self._ticking()
        if now >= self._all_at:
            self._locators = self._hosts = self._pictures = _START
            self._all_at = now + AGAIN_SECONDS
        self._looked_at, self._look_at = now, now + POLL_SECONDS
        await self._enlist()
        await self._take_locators()
        await self._take_hosts()
        await self._take_logos()

    async def _enlist(self) -> None:
        began = self._ticking()
        while await asyncio.to_thread(self._enlisting.step, self._now()):
            if self._ticking() - began >= ENLIST_SECONDS:
                break

    async def _take_locators(self) -> None:
        for _ in range(PAGES):
            found = await asyncio.to_thread(self._store.waiting, self._now(), PAGE, self._locators)
            for each in found:
                self._add(each.locator, _host(each.locator), outcomes.priority(each), each.next_at)
            if found:
                self._locators = found[-1][:2]
            if len(found) < PAGE:
                return

    async def _take_hosts(self) -> None:
        for _ in range(PAGES):
            found = await asyncio.to_thread(self._store.due_hosts, self._now(), PAGE, self._hosts)
            for at, host in found:
                self._add(f"{_BADGE}{host}", host, Priority.BADGE, at)
            if found:
                self._hosts = found[-1]
            if len(found) < PAGE:
                return

    async def _take_logos(self) -> None:
        if self._logos is None:
            return
        found = await asyncio.to_thread(self._logos.logos.due, self._now(), PAGE, self._pictures)
        for at, url in found:
            self._add(f"{_LOGO}{url}", host_of(url), Priority.LOGO, at)
        if found:
            self._pictures = found[-1]

    def _add(self, key: str, host: str, priority: Priority, due_ms: int) -> None:
        if len(self.schedule) < WAITING:
            late = max((self._now() - due_ms) / 1000, 0.0)
            self.schedule.add(Job(key, host, priority, self._ticking() - late))

    def _now(self) -> int:
        return int(self._clock() * 1000)

    # -- one fetch

    def start(self) -> None:
        """Start what may be fetched now."""
        while len(self._tasks) < WORKERS and (job := self.schedule.next()) is not None:
            self._tasks.add(asyncio.create_task(self._visit(job)))

    async def _visit(self, job: Job) -> None:
        """One job, whatever a stranger's host makes of it. Raises StoreError alone."""
        kind = job.key.partition(":")[0] + ":"
        work = {_BADGE: self._ask_host, _LOGO: self._fetch_logo}.get(kind, self._fetch)
        error: FetchError | None = None
        try:
            error = await work(job)
        finally:
            self.schedule.finish(job.key, error)
        if error is not None and error.refusal.code == "fetch-budget":
            self.schedule.add(replace(job, due=self._ticking() + (error.retry_after or POLL_SECONDS)))

    async def _fetch(self, job: Job) -> FetchError | None:
        due = await asyncio.to_thread(self._store.due_locator, job.key)
        now = self._now()
        if due is None or due.next_at > now:
            return None
        wanted = Wanted(due.wanted, due.hashless, partial(self._is_wanted, job.key))
        try:
            fetched = await self._cards.fetch_card(
                job.key, wanted, outcomes.known(due), admit=self.schedule.admission(job)
            )
        except StoreError:
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

    async def _is_wanted(self, locator: str, digest: bytes) -> bool:
        return await asyncio.to_thread(self._store.is_wanted, locator, digest)

    async def _note(self, locator: str, outcome: Outcome) -> None:
        changed = await asyncio.to_thread(self._writer.note_fetched, locator, outcome)
        self.came_to[outcome.reason or outcome.state.value] += 1
        log.debug("%s is %s %s", shown(locator), outcome.state.value, outcome.reason)
        if changed:
            self._changed()
        # an anchor may have been seen, or somebody have asked, while the fetch was under way
        again = (await asyncio.to_thread(self._store.known_locators, [locator])).get(locator)
        if again is not None and again.next_at is not None and again.next_at <= self._now():
            self._locators = min(self._locators, (again.next_at - 1, ""))

    async def _ask_host(self, job: Job) -> FetchError | None:
        host = job.key.removeprefix(_BADGE)
        try:
            said = await self._badger.ask(host, self.schedule.admission(job))
        except FetchError as error:
            return error
        except Exception as fault:
            log.exception("asking %s for badges failed", shown(host))
            said = Badger.silence(shown(f"{type(fault).__name__}: {fault}"))
        if await asyncio.to_thread(self._writer.note_host, said.verdict(host), self._now()):
            self._changed()
        return FetchError(*said.refusal) if said.refusal else None

    async def _fetch_logo(self, job: Job) -> FetchError | None:
        if self._logos is None:
            return None
        url = job.key.removeprefix(_LOGO)
        try:
            return await self._logos.fetch(url, self._now(), self.schedule.admission(job))
        except StoreError:
            raise
        except Exception:
            log.exception("fetching the logo %s failed", shown(url))
            await asyncio.to_thread(self._logos.logos.fail, url, "fetch-fault", self._now())
            return None


def _host(locator: str) -> str:
    """The host that is asked for a locator; "" for `ipfs://`, which is the gateway's business."""
    return host_of(locator) if "://" in locator else locator
