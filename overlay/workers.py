"""Several processes that serve on one port, for `a2b serve --workers N`: forked before anything is built."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress

WATCH_SECONDS = 0.5
STOP_SECONDS = 1.8


class WorkerError(Exception):
    """A process of the group ended by itself: the message says how."""


class Workers:
    """The processes of a group, as one of them sees it: the first has all others as `children`. `number` counts them
    from 0."""

    def __init__(self, count: int) -> None:
        """Fork `count` - 1 processes; each goes on from here."""
        self._parent = os.getpid()
        self.number = 0
        self.is_shared = count > 1
        self.children: list[int] = []
        for number in range(1, count):
            child = os.fork()
            if child == 0:
                self.children, self.number = [], number
                return
            self.children.append(child)

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that was started."""
        return os.getpid() == self._parent

    async def watch(self) -> None:
        """Raise WorkerError when the first process is gone, or one of the others."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if not self.is_first and os.getppid() != self._parent:
                raise WorkerError("the process that started this one is gone")
            self._look()

    def _look(self) -> None:
        for child in self.children:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                self.children.remove(child)
                raise WorkerError(f"a worker ended with code {os.waitstatus_to_exitcode(status)}; see above")

    def stop(self) -> None:
        """End the others, and wait for them a little while."""
        for child in self.children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
        until = time.monotonic() + STOP_SECONDS
        while self.children and time.monotonic() < until:
            self.children = [child for child in self.children if os.waitpid(child, os.WNOHANG)[0] == 0]
            time.sleep(0.01)
