"""Progress bars of the chains that are catching up: height, blocks and megabytes a second, time left."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from indexer.sync.progress import SyncProgress
from overlay.app.logs import set_up_logging
from overlay.text.safe_text import one_line

REFRESH_SECONDS = 0.2
WINDOW = 25
"""Samples that speeds are taken over: five seconds of them."""


class ProgressBars:
    """A bar for each chain while it catches up, on standard error, and a line when it has; log lines of weight appear
    above them. A catch-up that ends between two drawings has the line alone."""

    def __init__(self, following: Mapping[str, SyncProgress]) -> None:
        self._following = following
        self._console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f}", markup=False),
            TextColumn("{task.fields[speed]}", markup=False),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}
        self._caught_up: set[str] = set()
        self._samples: dict[str, deque[tuple[float, int, int]]] = {}

    async def show(self) -> None:
        """Keep the bars up to date until cancelled."""
        set_up_logging(self._print, logging.WARNING)
        try:
            while True:
                for progress in list(self._following.values()):
                    self.draw(progress)
                await asyncio.sleep(REFRESH_SECONDS)
        finally:
            self.progress.stop()

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def draw(self, progress: SyncProgress) -> None:
        catching_up = progress.state == "catching-up" and progress.tip is not None
        if catching_up:
            if progress.name not in self._tasks:
                self._tasks[progress.name] = self.progress.add_task(progress.name, total=progress.tip, speed="")
                self._samples[progress.name] = deque(maxlen=WINDOW)
                self.progress.start()
            self.progress.update(
                self._tasks[progress.name],
                completed=progress.height or 0,
                total=progress.tip,
                speed=self._speed(progress),
            )
        elif progress.name in self._tasks or (progress.state == "following" and progress.name not in self._caught_up):
            self._finish(progress)

    def _speed(self, progress: SyncProgress) -> str:
        samples = self._samples[progress.name]
        samples.append((monotonic(), progress.blocks, progress.bytes))
        (began, blocks, size), (now, blocks_now, size_now) = samples[0], samples[-1]
        if now == began:
            return ""
        return (
            f"{(blocks_now - blocks) / (now - began):,.0f} blocks/s {(size_now - size) / (now - began) / 1e6:,.1f} MB/s"
        )

    def _finish(self, progress: SyncProgress) -> None:
        if progress.state == "following":
            self._caught_up.add(progress.name)
        if (task := self._tasks.pop(progress.name, None)) is not None:
            self.progress.remove_task(task)
            if not self._tasks:
                self.progress.stop()
        height = "before the first block" if progress.height is None else f"at block {progress.height:,}"
        error = f": {progress.error.removeprefix(f'{progress.name}: ')}" if progress.error else ""
        self._print(one_line(f"{progress.name}: {progress.state} {height}{error}"))
