"""Makes the search index usable: its kernels are compiled or loaded, and that of an empty database can answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from indexer.settings import Settings
from overlay.app.compilation import SEARCH_LOOPS, CompiledLoops, compile_in_subprocess, is_compiled, prepare
from overlay.app.storage import index_write_errors
from overlay.projection.projector import IndexProjector

if TYPE_CHECKING:
    from overlay.projection.search_index import SearchIndex

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

LOAD_SECONDS = 3.0
"""How long a server waits for compiled kernels to be loaded before it serves without them."""


class SearchStart:
    """Searches are refused from `begin` on, until kernels are ready."""

    def __init__(
        self,
        settings: Settings,
        projector: IndexProjector,
        engine: SearchIndex,
        loops: CompiledLoops = SEARCH_LOOPS,
    ) -> None:
        self._settings, self._engine, self.projector = settings, engine, projector
        self._loops, self._is_done = loops, asyncio.Event()

    async def _run(self) -> None:
        await compile_in_subprocess(self._loops)
        try:
            await asyncio.to_thread(prepare, self._loops)
        except OSError as error:  # there is no room for temporary files: the first searches load what they need
            log.warning("kernels are not loaded before they are needed: %s", error)
        self._engine.is_compiling = False
        await asyncio.to_thread(self._initialize)
        self._is_done.set()

    def _initialize(self) -> None:
        with index_write_errors(self._settings):
            self.projector.initialize()

    async def begin(self) -> asyncio.Task[None]:
        """Start to compile in a separate process, and then to load in a thread. Kernels that were compiled before are
        loaded when this returns, if they take no longer than LOAD_SECONDS. Raises EngineError, StoreUnavailableError,
        as does the task."""
        self._engine.is_compiling = True
        task = asyncio.create_task(self._run())
        await asyncio.wait({task}, timeout=LOAD_SECONDS if is_compiled(self._loops) else 0)
        if task.done():
            task.result()
        return task

    async def before(self, work: Callable[[], Awaitable[_Result]]) -> _Result:
        """Run what searches or writes the index, once it can be used."""
        await self._is_done.wait()
        return await work()
