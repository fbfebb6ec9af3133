"""Failures while database, disk and memory work: a block holds its chain, and a listing, row or host is left out."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

log = logging.getLogger(__name__)

RETRY_SECONDS = 3_600.0
"""The seconds before a listing, row or host that was left out is tried again, if it does not change before."""

MOST, SHOWN = 10_000, 20
"""Entries that are remembered, and shown in status. With more, those that failed first are tried again earlier."""


def is_of_machine(error: BaseException) -> bool:
    """Whether database, disk or memory failed: then the listing, row or host that was being processed is not the
    cause."""
    from indexer.store.database import DATABASE_ERRORS  # slow: the database is not needed for a search

    is_disk = isinstance(error, OSError) and not isinstance(error, (ConnectionError, TimeoutError))
    return is_disk or isinstance(error, (*DATABASE_ERRORS, MemoryError))


@dataclass(slots=True)
class LeftOutEntry:
    """`id` names a listing, row or host; `reason` the failed work, and the kind of exception; `next_at` is by the
    monotonic clock."""

    id: str
    reason: str
    next_at: float


class LeftOut:
    """The listings, rows and hosts that failed in this process, by the kind of failed `work`. Thread-safe. `clock`
    gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._entries: dict[tuple[str, str], LeftOutEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, work: str, id_: str, error: Exception) -> str:
        """Leave something out, for an hour or until it changes; the reason. Logged once for a reason."""
        reason = f"{work}: {type(error).__name__}"
        with self._lock:
            before = self._entries.pop((work, id_), None)
            self._entries[work, id_] = LeftOutEntry(id_, reason, self._clock() + RETRY_SECONDS)
            if len(self._entries) > MOST:
                del self._entries[next(iter(self._entries))]
        if before is None or before.reason != reason:
            text = "%s of %s failed, and is left out until it changes, or for an hour: %s"
            log.error(text, work, ascii(id_[:200])[1:-1], error, exc_info=error)
        return reason

    def restore(self, work: str, reasons: Mapping[str, str]) -> None:
        """Replace what failed at some work by these ids with their reasons; those that are new here are due at once."""
        now = self._clock()
        with self._lock:
            before = {id_: self._entries.pop((of, id_)) for of, id_ in list(self._entries) if of == work}
            for id_, reason in islice(reasons.items(), MOST):
                next_at = before[id_].next_at if id_ in before else now
                self._entries[work, id_] = LeftOutEntry(id_, reason, next_at)

    def remove(self, work: str, id_: str) -> bool:
        """Note that a listing, row or host succeeded, or is gone; returns whether it had failed."""
        with self._lock:
            return self._entries.pop((work, id_), None) is not None

    def is_waiting(self, work: str, id_: str) -> bool:
        """Whether something failed less than an hour ago."""
        entry = self._entries.get((work, id_))
        return entry is not None and entry.next_at > self._clock()

    def due(self, work: str, most: int) -> list[str]:
        """The ids of entries of a kind of work that are tried again now, `most` at most."""
        now = self._clock()
        with self._lock:
            due = [entry.id for (of, _), entry in self._entries.items() if of == work and entry.next_at <= now]
        return due[:most]

    @contextmanager
    def leaving_out(self, work: str, id_: str) -> Iterator[None]:
        """Leave out the listing, row or host whose processing fails in this context. Raises errors of the machine."""
        try:
            yield
        except Exception as error:
            if is_of_machine(error):
                raise
            self.add(work, id_, error)
        else:
            self.remove(work, id_)

    def counts(self) -> dict[str, int]:
        """The number of entries by kind of work."""
        with self._lock:
            return dict(Counter(of for of, _ in self._entries))

    def as_json(self) -> dict[str, Any]:
        """The member `failed` of the status: how many, and those that failed first."""
        with self._lock:
            entries = list(self._entries.values())
        return {
            "count": len(entries),
            "first": [{"id": entry.id[:200], "reason": entry.reason} for entry in entries[:SHOWN]],
        }
