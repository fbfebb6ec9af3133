"""Long work in threads of its own, few at a time and with bounds on what waits, so that it holds up nothing else."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

from aiohttp import web

from overlay.api.problems import ProblemError

_T = TypeVar("_T")


class BoundedExecutor:
    """At most `workers` calls at a time, `waiting` that wait or are under way, and `per_client` of these of one client.

    `kind` names a call in messages. Work cannot be interrupted: what was given up keeps its place until it ends, so
    that the number of places is bounded whatever is asked. Make it in an event loop.
    """

    def __init__(self, kind: str, *, workers: int, waiting: int, per_client: int) -> None:
        self._kind, self._waiting, self._per_client = kind, waiting, per_client
        self._places = asyncio.Semaphore(workers)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix=kind)
        self._clients: Counter[str] = Counter()

    def close(self) -> None:
        """Begin nothing more, and let the threads end when they can."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def run(self, client: str, seconds: float, work: Callable[..., _T], *args: Any) -> _T:
        """What `work(*args)` returns, in a thread with this context. Raises what it raises, and ProblemError: 429 where
        this client has too many calls under way, 503 where all together have, or it takes more than `seconds`, waiting
        included."""
        try:
            async with asyncio.timeout(seconds):
                with self._counted(client):
                    return await self._in_thread(work, *args)
        except TimeoutError:
            detail = f"this {self._kind} could not be answered within {seconds:g} s; ask for less, or again later"
            raise ProblemError(503, detail, headers={"Retry-After": "5"}) from None

    @contextmanager
    def _counted(self, client: str) -> Iterator[None]:
        """A call of this client waits or is under way."""
        if self._clients[client] >= self._per_client:
            detail = f"{self._per_client} {self._kind} calls from your address are under way; wait for their answers"
            raise ProblemError(429, detail, headers={"Retry-After": "1"})
        if self._clients.total() >= self._waiting:
            raise ProblemError(503, f"too many {self._kind} calls are under way", headers={"Retry-After": "2"})
        self._clients[client] += 1
        try:
            yield
        finally:
            self._clients -= Counter({client: 1})

    async def _in_thread(self, work: Callable[..., _T], *args: Any) -> _T:
        await self._places.acquire()
        try:
            context = copy_context()
            task = asyncio.get_running_loop().run_in_executor(self._threads, lambda: context.run(work, *args))
        except BaseException:
            self._places.release()
            raise
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._places.release()
        if not task.cancelled():
            task.exception()  # raised to the client, unless the call was given up


PUBLISHING = web.AppKey("PUBLISHING", BoundedExecutor)
"""Diagnoses of raw bytes, and checks: what a client hands in is parsed, up to 0.3 s of one core (a card of 1 MiB)."""

LOOKUPS = web.AppKey("LOOKUPS", BoundedExecutor)
"""Diagnoses by txid: most of their time, up to 3 s, they wait for sources that know of it."""

RECORDS = web.AppKey("RECORDS", BoundedExecutor)
"""Histories and proofs, which may be thousands of revisions."""

PUBLISHING_SECONDS, RECORDS_SECONDS = 15.0, 10.0


def publishing() -> BoundedExecutor:
    """One at a time: two would only wait for each other's turn with Python."""
    return BoundedExecutor("diagnosis or check", workers=1, waiting=16, per_client=4)


def lookups() -> BoundedExecutor:
    """More than one, as they wait."""
    return BoundedExecutor("diagnosis", workers=4, waiting=32, per_client=8)


def records(*, here: bool) -> BoundedExecutor:
    """`here`: the database is in this process' reach, and more threads than two would only wait for each other."""
    return BoundedExecutor("history or proof", workers=2 if here else 8, waiting=64, per_client=16)
