"""Keep background loops running: an error of the database is logged and counted, and the loop is started again."""

from __future__ import annotations

import asyncio
import gc
import logging
from functools import partial
from time import monotonic

from indexer.retries import Backoff
from indexer.store import DATABASE_ERRORS, StoreUnavailableError
from overlay.api.counters import Counters
from overlay.app.chain_loops import Loop
from overlay.engines import UnavailableError

log = logging.getLogger(__name__)

BACKOFF = Backoff(0.5, 30.0)
"""Pauses before a loop is started again: the first is repeated while the database is unavailable."""

WARNING_SECONDS = 10.0
"""Least time between two warnings about an unavailable database: about six loops wait for it."""

DATABASE_FAULTS = 7
"""The number of the gauge that counts errors of the database that ended a loop."""


class Supervisor:
    """Starts the loops of one process again."""

    def __init__(self, counters: Counters) -> None:
        self._counters, self._warned_at = counters, -WARNING_SECONDS

    async def keep_running(self, loop: Loop) -> None:
        """Run a loop to its end; start it again after an error of the database, and while the index is unavailable.
        Raises any other error that ends it."""
        failures = 0
        while True:
            began = monotonic()
            try:
                await loop()
                return
            except (*DATABASE_ERRORS, UnavailableError) as error:
                failures = 1 if monotonic() - began > BACKOFF.longest else failures + 1
                pause = self.report(_name(loop), error, failures)
            # the frames of the error are a reference cycle, which holds the lock for writing the index
            await asyncio.to_thread(gc.collect)
            await asyncio.sleep(pause)

    def report(self, name: str, error: Exception, failures: int) -> float:
        """Count and log an error of the database, the last of so many in a row; the seconds until the next try."""
        self._counters.add(DATABASE_FAULTS, 1)
        is_away = isinstance(error, (StoreUnavailableError, UnavailableError))
        pause = BACKOFF.pause(1 if is_away else failures)
        # as text: the log record must not keep the frames of the error
        if not is_away:
            log.error("%s is started again in %g s, as the database failed: %s", name, pause, str(error))
        elif monotonic() - self._warned_at >= WARNING_SECONDS:
            self._warned_at = monotonic()
            log.warning("waiting for the database: %s", str(error))
        return pause


def _name(loop: Loop) -> str:
    while isinstance(loop, partial):
        loop = loop.func
    return getattr(loop, "__qualname__", repr(loop)).strip("_")
