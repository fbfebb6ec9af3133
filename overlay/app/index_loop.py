"""Keep the search index up to date with the store: one batch of changes at a time, after every write."""

from __future__ import annotations

import asyncio
from threading import Event

from indexer.settings import Settings
from overlay.app.memory import release_memory
from overlay.app.status_service import StatusService
from overlay.app.storage import index_write_errors
from overlay.engines import BusyError
from overlay.listings.change_notifier import ChangeNotifier
from overlay.projection.projector import IndexProjector

BULK = 2_000
"""Changes projected without a pause, after which freed memory is returned to the system."""

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
        self._is_ending = Event()

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
        projected = 0
        while True:
            changed.clear()
            heights = self._status.stored_heights()
            try:
                with index_write_errors(self._settings):
                    count = await asyncio.to_thread(self._projector.step, self._check_ending)
            except BusyError:
                # another process on the same data writes the index; searches here see its commits
                await asyncio.sleep(BUSY_SECONDS)
                continue
            projected += count
            if not count:
                self._status.publish(heights)
                if projected >= BULK:
                    await asyncio.to_thread(release_memory)
                projected = 0
                await changed.wait()

    def _check_ending(self, _done: int) -> None:
        if self._is_ending.is_set():
            raise CancelledWorkError
