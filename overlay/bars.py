"""Progress bars of the chains that are catching up: height, blocks and megabytes a second, time left."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from indexer.progress import Progress as Following
from overlay.logs import log_lines
from overlay.visible import one_line

REFRESH_SECONDS = 0.2
WINDOW = 25
"""Samples that speeds are taken over: five seconds of them."""


class Bars:
    """A bar for each chain while it catches up, on standard error; log lines of weight appear above them."""

    def __init__(self, following: Mapping[str, Following]) -> None:
        self._following = following
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f}", markup=False),
            TextColumn("{task.fields[speed]}", markup=False),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}
        self._samples: dict[str, deque[tuple[float, int, int]]] = {}

    async def show(self) -> None:
        """Keep the bars up to date until cancelled."""
        log_lines(self._print, logging.WARNING)
        try:
            while True:
                for each in list(self._following.values()):
                    self._draw(each)
                await asyncio.sleep(REFRESH_SECONDS)
        finally:
            self._progress.stop()

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _draw(self, each: Following) -> None:
        catching_up = each.state == "catching-up" and each.tip is not None
        if catching_up:
            if each.name not in self._tasks:
                self._tasks[each.name] = self._progress.add_task(each.name, total=each.tip, speed="")
                self._samples[each.name] = deque(maxlen=WINDOW)
                self._progress.start()
            self._progress.update(
                self._tasks[each.name], completed=each.height or 0, total=each.tip, speed=self._speed(each)
            )
        elif each.name in self._tasks:
            self._finish(each)

    def _speed(self, each: Following) -> str:
        samples = self._samples[each.name]
        samples.append((monotonic(), each.blocks, each.bytes))
        (began, blocks, size), (now, blocks_now, size_now) = samples[0], samples[-1]
        if now == began:
            return ""
        return (
            f"{(blocks_now - blocks) / (now - began):,.0f} blocks/s {(size_now - size) / (now - began) / 1e6:,.1f} MB/s"
        )

    def _finish(self, each: Following) -> None:
        self._progress.remove_task(self._tasks.pop(each.name))
        if not self._tasks:
            self._progress.stop()
        at = "before the first block" if each.height is None else f"at block {each.height:,}"
        told = f": {each.error.removeprefix(f'{each.name}: ')}" if each.error else ""
        self._print(one_line(f"{each.name}: {each.state} {at}{told}"))
