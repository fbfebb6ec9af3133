"""Work in threads: bounded calls of clients, reads of listings, and long searches.

Most searches take a millisecond or two, less than the detour through a thread. What can take a hundred times as long
(measured at 100,000 offers: orders by name and price, facets, cursors and pages far down, many words or values) waits
for one of a few threads, and is abandoned after a timeout.
"""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from aiohttp import web

from indexer.client_networks import networks_of
from overlay.api.counters import SharedLoad
from overlay.api.problems import ProblemError
from overlay.api.request_context import CONTEXT
from overlay.api.request_cost import measured_call
from overlay.search.query import PRICE_SORTS, Query
from overlay.search.value_lists import has_lists
from overlay.text.compact_json import encode

_T = TypeVar("_T")


class BoundedExecutor:
    """At most `workers` calls at a time, `waiting` calls that wait or run, and `per_client` calls of one client
    (`client_networks`), in all processes that share `load`.

    `kind` names a call in messages, `seconds` is what one for a request may take (`run_in`). Threads cannot be
    interrupted: an abandoned call occupies its thread until it ends. Create it in an event loop.
    """

    def __init__(
        self,
        kind: str,
        load: SharedLoad | None = None,
        *,
        workers: int,
        waiting: int,
        per_client: int,
        seconds: float = 10.0,
    ) -> None:
        self.seconds = seconds
        self._kind, self._waiting, self._per_client = kind, waiting, per_client
        self._load, self._under_way = load or SharedLoad(), 0
        self._running = asyncio.Semaphore(workers)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix=kind)

    def close(self) -> None:
        """Start no more work, and let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def run(self, client: str, seconds: float, work: Callable[..., _T], *args: Any) -> _T:
        """The result of `work(*args)` in a thread with this context. Raises its errors, and ProblemError: 429 where
        this client has too many calls, 503 where all clients together have, or after `seconds`, waiting included."""
        try:
            async with asyncio.timeout(seconds):
                with self._counted(client):
                    return await self._in_thread(work, *args)
        except TimeoutError:
            detail = f"this {self._kind} could not be answered within {seconds:g} s; request less, or try again later"
            raise ProblemError(503, detail, headers={"Retry-After": "5"}) from None

    @contextmanager
    def _counted(self, client: str) -> Iterator[None]:
        """Count a call of this client while it waits or runs."""
        keys = {f"{self._kind} {network.name}": network for network in networks_of(client)}
        for key, network in keys.items():
            if self._load.count(key) >= (most := self._per_client * network.factor):
                detail = f"{most} {self._kind} calls of {network.title} are under way; wait for their answers"
                raise ProblemError(429, detail, headers={"Retry-After": "1"})
        if self._under_way >= self._waiting:
            raise ProblemError(503, f"too many {self._kind} calls are under way", headers={"Retry-After": "2"})
        self._add(keys, 1)
        try:
            yield
        finally:
            self._add(keys, -1)

    def _add(self, keys: Iterable[str], calls: int) -> None:
        self._under_way += calls
        for key in keys:
            self._load.add(key, calls)

    async def _in_thread(self, work: Callable[..., _T], *args: Any) -> _T:
        await self._running.acquire()
        try:
            context = copy_context()
            call = partial(context.run, measured_call, work, *args)
            task = asyncio.get_running_loop().run_in_executor(self._threads, call)
        except BaseException:
            self._running.release()
            raise
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._running.release()
        if not task.cancelled():
            task.exception()  # raised to the client, unless the call was given up


PUBLISHING = web.AppKey("PUBLISHING", BoundedExecutor)
"""Diagnoses of raw bytes, and checks: the bytes that a client sends are parsed, up to 0.3 s of one core (a card of 1
MiB)."""

LOOKUPS = web.AppKey("LOOKUPS", BoundedExecutor)
"""Diagnoses by txid: most of their time, up to 3 s, they wait for sources."""

RECORDS = web.AppKey("RECORDS", BoundedExecutor)
"""Histories and proofs, which may be thousands of revisions."""

SEARCHES = web.AppKey("SEARCHES", BoundedExecutor)
"""Long searches, and all searches of a slow engine."""

SECONDS = 5.0
"""The seconds that a search in a thread has, waiting included."""

LONG_AT_ONCE, SLOW_AT_ONCE = 2, 16
"""The number of long searches at once, and of all searches of a slow engine, which may only be waiting."""

MOST_WAITING, A_CLIENT = 64, 8
"""Searches that wait or are under way in all, and of these long ones for one client."""


def bounded_executors(
    load: SharedLoad, *, here: bool, slow: bool
) -> dict[web.AppKey[BoundedExecutor], BoundedExecutor]:
    """The executors of an application. `here`: the database is a local file, and more than two threads would only
    compete for the interpreter lock, as would two diagnoses or checks; `slow`: the search engine is a server."""
    long, per_client = (SLOW_AT_ONCE, MOST_WAITING) if slow else (LONG_AT_ONCE, A_CLIENT)
    reading = 2 if here else 8
    return {
        PUBLISHING: BoundedExecutor("diagnosis or check", load, workers=1, waiting=16, per_client=4, seconds=15.0),
        LOOKUPS: BoundedExecutor("diagnosis", load, workers=4, waiting=32, per_client=8, seconds=15.0),
        RECORDS: BoundedExecutor("history or proof", load, workers=reading, waiting=64, per_client=16),
        SEARCHES: BoundedExecutor("search", load, workers=long, waiting=MOST_WAITING, per_client=per_client),
    }


async def run_in(request: web.Request, key: web.AppKey[BoundedExecutor], work: Callable[..., _T], *args: Any) -> _T:
    """The result of work for a request in a bounded executor of its application. Raises what `work` raises, and
    ProblemError (429, 503)."""
    executor = request.app[key]
    return await executor.run(request.app[CONTEXT].clients.of(request), executor.seconds, work, *args)


async def read_json(request: web.Request, work: Callable[..., Any], *args: Any) -> bytes:
    """The result of a read of the store as JSON, encoded in its thread, too. Raises as `run_in`."""
    return await run_in(request, RECORDS, lambda: encode(work(*args)))


_READS_AT_ONCE = 2


class ReadExecutor:
    """Threads that read listings and cards. With a local database (`here`) more threads only compete for the
    interpreter lock: one answers 600 reads a second, two 530, six 430 (measured)."""

    def __init__(self, *, here: bool) -> None:
        self._threads = ThreadPoolExecutor(_READS_AT_ONCE, thread_name_prefix="reader") if here else None

    async def read(self, work: Callable[..., _T], *args: object) -> _T:
        """The result of `work(*args)` in a thread with this context."""
        return await get_running_loop().run_in_executor(self._threads, copy_context().run, measured_call, work, *args)

    def close(self) -> None:
        """Start nothing more."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


READ_EXECUTOR = web.AppKey("READERS", ReadExecutor)

_REPORTS = ThreadPoolExecutor(1, thread_name_prefix="report")


async def report(work: Callable[..., _T], *args: Any) -> _T:
    """The result of `work(*args)` in a thread with this context, one call of a process at a time: eight readers of
    metrics, or thirty of the status, in many threads delayed each search by 0.1 s (measured)."""
    return await get_running_loop().run_in_executor(_REPORTS, copy_context().run, measured_call, work, *args)


_FAR, _MANY_LETTERS, _MANY_VALUES = 500, 120, 12
_filters = attrgetter("skills", "currencies", "intervals", "tags", "chains", "domains", "owners")


def is_long(query: Query) -> bool:
    """Whether a search can take much longer than most."""
    return (
        bool(query.facets)
        or query.after is not None
        or query.sort in ("name", *PRICE_SORTS)
        or query.descending is not None
        or query.as_of is not None
        or query.operators is not None
        or bool(query.preferred)
        or query.offset + query.limit > _FAR
        or len(query.text) > _MANY_LETTERS
        or sum(map(len, _filters(query))) > _MANY_VALUES
        or has_lists(query)
    )
