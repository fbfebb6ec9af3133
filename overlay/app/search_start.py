"""Makes the search index usable: its kernels are compiled or loaded, and that of an empty database can answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from indexer.settings import Settings
from indexer.store import StoreUnavailableError
from overlay.app.compilation import (
    MOST_INTERPRETED,
    SEARCH_LOOPS,
    CompiledLoops,
    compile_in_subprocess,
    is_compiled,
    prepare,
)
from overlay.app.storage import index_write_errors
from overlay.projection.projector import IndexProjector
from parsers.interpretation import interpret

if TYPE_CHECKING:
    from overlay.projection.search_index import SearchIndex

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

LOAD_SECONDS = 3.0
"""How long a server waits for compiled kernels to be loaded before it serves without them."""


LOOK_SECONDS = 0.5
"""Seconds between two looks at the number of registrations meanwhile."""


class SearchStart:
    """Searches are refused from `begin` on, until kernels are ready; in a small registry kernels are interpreted
    meanwhile. `most` is the greatest number of registrations for that."""

    def __init__(
        self,
        settings: Settings,
        projector: IndexProjector,
        engine: SearchIndex,
        loops: CompiledLoops = SEARCH_LOOPS,
        most: int = MOST_INTERPRETED,
    ) -> None:
        self._settings, self._engine, self.projector = settings, engine, projector
        self._loops, self._most, self._is_done = loops, most, asyncio.Event()

    async def begin(self) -> asyncio.Task[None]:
        """Start to compile in a separate process, and then to load in a thread. Kernels that were compiled before are
        loaded when this returns, if they take no longer than LOAD_SECONDS. Raises EngineError, StoreUnavailableError,
        as does the task."""
        self._engine.is_compiling = True
        was_compiled = is_compiled(self._loops)
        if not was_compiled and await asyncio.to_thread(self._is_small):
            interpret(on=True)
            self._engine.is_interpreted, self._engine.is_compiling = True, False
        task = asyncio.create_task(self._run())
        await asyncio.wait({task}, timeout=LOAD_SECONDS if was_compiled else 0)
        if task.done():
            task.result()
        return task

    async def _run(self) -> None:
        preparing = asyncio.create_task(self._prepare())
        try:
            if self._engine.is_interpreted:
                await self._interpret_until(preparing)
            await preparing
        finally:
            interpret(on=False)
            preparing.cancel()
            await asyncio.wait({preparing})
        self._engine.is_compiling = self._engine.is_interpreted = False
        if not self._is_done.is_set():
            await asyncio.to_thread(self._initialize)
            self._is_done.set()

    async def _prepare(self) -> None:
        await compile_in_subprocess(self._loops)
        try:
            await asyncio.to_thread(prepare, self._loops)
        except OSError as error:  # there is no room for temporary files: the first searches load what they need
            log.warning("kernels are not loaded before they are needed: %s", error)

    async def _interpret_until(self, preparing: asyncio.Task[None]) -> None:
        """Search and index by interpreted kernels until they are prepared, or the registry is too large for that."""
        await asyncio.to_thread(self._initialize)
        self._is_done.set()
        while not preparing.done():
            await asyncio.wait({preparing}, timeout=LOOK_SECONDS)
            if not preparing.done() and await asyncio.to_thread(self._has_outgrown):
                self._engine.is_compiling = True
                self._is_done.clear()
                return

    def _has_outgrown(self) -> bool:
        """Whether the registry has become too large for interpreted kernels; not while its database is away."""
        with suppress(StoreUnavailableError):
            return not self._is_small()
        return False

    def _is_small(self) -> bool:
        return self.projector.count() <= self._most

    def _initialize(self) -> None:
        with index_write_errors(self._settings):
            self.projector.initialize()

    async def before(self, work: Callable[[], Awaitable[_Result]]) -> _Result:
        """Run what searches or writes the index, once it can be used."""
        await self._is_done.wait()
        return await work()
