"""Checks a SQLite database in the background: after a stop that was not clean, and after an error that means damage."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable

from indexer import sqlite_integrity as integrity
from indexer.store import Store, Writer
from overlay.jobs import PeriodicJob, Role

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0

AGAIN_SECONDS = 600
"""Least seconds between two checks that errors cause."""


PUT_OFF_SECONDS = 60.0
"""How long the check after a stop that was not clean waits for blocks that came meanwhile: at a million registrations
it takes some ten seconds of a core and of the disk."""


class IntegrityCheck:
    """Checks the database `file`. `writer` reports how its last writer ended, where this process is the next writer,
    and `is_catching_up` whether it has blocks to store."""

    def __init__(self, file: str, writer: Writer | None, is_catching_up: Callable[[], bool]) -> None:
        self._file, self._writer, self._guard = file, writer, integrity.guard_of(file)
        self._is_catching_up, self._until = is_catching_up, time.monotonic() + PUT_OFF_SECONDS

    async def run(self) -> None:
        """Check, if it is due."""
        is_put_off = self._is_catching_up() and time.monotonic() < self._until
        if self._writer is not None and self._writer.lock.was_unclean and not is_put_off:
            log.warning("the program did not stop cleanly the last time: checking its database")
            await self._check()
            self._writer.lock.was_unclean = False
        elif self._guard.suspected.is_set():
            self._guard.suspected.clear()
            last = integrity.read(self._file)
            if last is None or time.time() - last.written_at >= AGAIN_SECONDS:
                await self._check()

    async def _check(self) -> None:
        ended = threading.Event()
        self._guard.report(integrity.IntegrityReport(integrity.CHECKING, int(time.time())))
        try:
            report = await asyncio.to_thread(integrity.quick_check, self._file, ended)
        except asyncio.CancelledError:
            ended.set()
            raise
        self._guard.report(report)
        if report.state == integrity.DAMAGED:
            log.error("%s", integrity.advice(self._file, report.detail))
        else:
            log.info("the check of the database ended: %s %s", report.state, report.detail)


def integrity_jobs(store: Store, writer: Writer | None, is_catching_up: Callable[[], bool]) -> list[PeriodicJob]:
    """The job for a SQLite database; empty for a database on a server."""
    file = sqlite_file(store)
    if file is None:
        return []
    role = Role.SERVER if writer is None else Role.INDEXER
    check = IntegrityCheck(file, writer, is_catching_up)
    return [PeriodicJob(name="integrity", run=check.run, every=LOOK_SECONDS, role=role)]


def sqlite_file(store: Store) -> str | None:
    """The file of the database that is written to, None where it is on a server."""
    engine = store.primary
    return engine.url.database if engine.dialect.name == "sqlite" else None
