"""What a search may cost: long ones are answered in threads of their own, few at a time, and never hold up the others.

Most searches take a millisecond or two, less than handing them to a thread would delay them. What can take a hundred
times as long (measured at 100,000 offers: orders by name and price, facets, cursors and pages far down, many words or
values) waits for one of a few places, and is given up after a while. A search cannot be interrupted: one that was given
up keeps its place until it ends, so that their number is bounded whatever is asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from operator import attrgetter

from overlay.api.problems import ProblemError
from overlay.engines import Engine
from overlay.query import Hits, Query
from overlay.search import recounting

SECONDS = 5.0
"""What a long search gets, waiting included."""

LONG_AT_ONCE, SLOW_AT_ONCE = 2, 16
"""Places for long searches; places for all searches of an engine that says it is slow: it may only be waiting."""

MOST_WAITING, A_CLIENT = 64, 8
"""Searches that wait or are under way in all, and of these long ones for one client."""

_FAR, _MANY_LETTERS, _MANY_VALUES = 500, 120, 12
_filters = attrgetter("skills", "currencies", "intervals", "tags", "chains", "domains", "owners")


def is_long(query: Query) -> bool:
    """Whether a search can take much longer than most."""
    return (
        bool(query.facets)
        or query.after is not None
        or query.sort in ("name", "price")
        or query.descending is not None
        or query.as_of is not None
        or query.operators is not None
        or query.offset + query.limit > _FAR
        or len(query.text) > _MANY_LETTERS
        or sum(map(len, _filters(query))) > _MANY_VALUES
    )


class Costs:
    """The places of one process. Make it in an event loop; `close` it when nothing is asked any more."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._slow = engine, bool(getattr(engine, "slow", False))
        places = SLOW_AT_ONCE if self._slow else LONG_AT_ONCE
        self._places = asyncio.Semaphore(places)
        self._threads = ThreadPoolExecutor(places, thread_name_prefix="search")
        self._a_client = MOST_WAITING if self._slow else A_CLIENT
        self._asking: Counter[str] = Counter()

    def close(self) -> None:
        """Let the threads end when they can."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def are_low(self, query: Query) -> bool:
        """Whether a search may be answered at once, by `search`; else `wait` for its answer."""
        return not (self._slow or is_long(query))

    def search(self, query: Query) -> Hits:
        """The engine's answer, at once."""
        return self._engine.search(query)

    async def wait(self, query: Query, client: str) -> Hits:
        """The engine's answer, from a thread. Raises ProblemError: 503 where there is no place for it or it takes too
        long, and 429 where one client asks too many at once."""
        try:
            async with asyncio.timeout(SECONDS):
                with self._asked(client):
                    return await self._in_thread(query)
        except TimeoutError:
            detail = f"this search could not be answered within {SECONDS:g} s; ask for less, or again later"
            raise ProblemError(503, detail, headers={"Retry-After": "5"}) from None

    @contextmanager
    def _asked(self, client: str) -> Iterator[None]:
        """A search of this client waits or is under way."""
        if self._asking[client] >= self._a_client:
            detail = f"{self._a_client} long searches from your address are under way; wait for their answers"
            raise ProblemError(429, detail, headers={"Retry-After": "1"})
        if self._asking.total() >= MOST_WAITING:
            raise ProblemError(503, "too many long searches are under way", headers={"Retry-After": "2"})
        self._asking[client] += 1
        try:
            yield
        finally:
            self._asking -= Counter({client: 1})

    async def _in_thread(self, query: Query) -> Hits:
        await self._places.acquire()
        try:
            loop, context = asyncio.get_running_loop(), copy_context()
            work = loop.run_in_executor(self._threads, context.run, recounting.search, self._engine, query)
        except BaseException:
            self._places.release()
            raise
        work.add_done_callback(self._done)
        return await asyncio.shield(work)

    def _done(self, work: asyncio.Future[Hits]) -> None:
        self._places.release()
        if not work.cancelled():
            work.exception()  # who asked is told, unless it was given up
