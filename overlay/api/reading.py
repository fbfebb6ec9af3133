"""Reads of single registrations, beside the event loop."""

from __future__ import annotations

from asyncio import get_running_loop
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from aiohttp import web

from overlay.ports import Store

_T = TypeVar("_T")
_AT_ONCE = 2


class Readers:
    """Where the store is in this process, more threads than these would only wait for each other's turn with Python:
    one answers 600 a second, two 530, six 430 (measured); of two, one may wait for the disk."""

    def __init__(self, store: Store) -> None:
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="reader") if store.is_here else None

    async def read(self, work: Callable[..., _T], *given: object) -> _T:
        """What a function answers, in a thread that knows what this one is about."""
        return await get_running_loop().run_in_executor(self._threads, copy_context().run, work, *given)

    def close(self) -> None:
        """Begin nothing more."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


READERS = web.AppKey("READERS", Readers)
