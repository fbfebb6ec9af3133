"""Reports the followers of this process to all others, with the time, so that silence is noticed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from indexer.store import Writer, followers
from indexer.sync.progress import SyncProgress

SIGN_SECONDS, LOOK_SECONDS = 10.0, 1.0
"""Pause between two signs of life, each a transaction with a row for each chain; and between two looks whether the
state of a follower has changed, which is reported at once."""


class SignOfLife:
    """Reports the progress of these followers, in a thread of its own, as all others may wait for sources or for the
    database."""

    def __init__(
        self, writer: Writer, followed: Sequence[SyncProgress], clock: Callable[[], float] = time.time
    ) -> None:
        self._writer, self._followed, self._clock = writer, followed, clock
        self._reported_at, self._reported = -SIGN_SECONDS, list[tuple[str, str]]()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sign-of-life")

    async def run(self) -> None:
        """Report, if that is due. Raises StoreError."""
        states = [(progress.state, progress.error) for progress in self._followed]
        if states == self._reported and time.monotonic() < self._reported_at + SIGN_SECONDS:
            return
        await asyncio.get_running_loop().run_in_executor(self._thread, self._report)
        self._reported_at, self._reported = time.monotonic(), states

    def _report(self) -> None:
        with self._writer.transaction() as connection:  # which may wait: the time is that of the write
            now = int(self._clock())
            followers.replace(connection, [progress.report(now) for progress in self._followed])
        for progress in self._followed:
            progress.seen_at, progress.signed = now, time.monotonic()

    async def close(self) -> None:
        """Report no more: a report under way ends before the writer is closed."""
        await asyncio.to_thread(self._thread.shutdown)
