"""Carry the store's changes into the search index. The index is a projection: its cursor says how far it has read."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from itertools import islice

from indexer.store import Store, pointed
from overlay.catalogue import Catalogue
from overlay.engines import Cursor, Engine

log = logging.getLogger(__name__)

BATCH = 2_000
"""Changes or registrations carried into the index in one commit."""


class Feed:
    """Keeps one index in step with the store. Every call may take its time: call it from a worker thread."""

    def __init__(self, store: Store, engine: Engine) -> None:
        self._store, self._engine = store, engine
        self._catalogue = Catalogue(store)

    def behind(self) -> int:
        """How many changes the index has not seen."""
        cursor = self._engine.cursor()
        return self._store.newest_seq() - (cursor.seq if cursor and self._continues(cursor) else 0)

    def _continues(self, cursor: Cursor) -> bool:
        """Whether a cursor is of this outbox: a restored or failed-over database has another epoch, or fewer rows."""
        return cursor.epoch == self._store.epoch and cursor.seq <= self._store.newest_seq()

    def step(self, progress: Callable[[int], None] = lambda _: None) -> int:
        """Carry over the next batch of changes; the number of changes carried, 0 when the index is up to date.

        An index that is of no use here is rebuilt, which takes its time: `progress` is told of each batch, and may
        raise to give up.
        """
        cursor = self._engine.cursor()
        if cursor is None or not self._continues(cursor):
            return self.rebuild(progress)
        changes = self._store.changes(cursor.seq, BATCH)
        if not changes:
            return 0
        touched = list(dict.fromkeys(change.id for change in changes))
        began = time.monotonic()
        self._engine.replace(touched, self._catalogue.documents(touched), Cursor(cursor.epoch, changes[-1].seq))
        log.info("index: %d changes carried over in %.0f ms", len(changes), 1000 * (time.monotonic() - began))
        return len(changes)

    def run(self) -> int:
        """Carry over all there is; the number of changes carried."""
        total = 0
        while carried := self.step():
            total += carried
        return total

    def rebuild(self, progress: Callable[[int], None] = lambda _: None) -> int:
        """Make the index anew from the store; the number of registrations carried.

        Interrupted at any point it leaves an index at sequence number 0, which the next `step` completes.
        """
        self._engine.clear()
        epoch, newest = self._store.epoch, self._store.newest_seq()
        total = 0
        for batch in self._batches():
            self._engine.replace(batch, self._catalogue.documents(batch), Cursor(epoch, 0))
            total += len(batch)
            progress(total)
        for batch in self._pointed():
            self._engine.replace(batch, self._catalogue.documents(batch), Cursor(epoch, 0))
            progress(total)
        self._engine.replace([], [], Cursor(epoch, newest))
        log.info("index: rebuilt from the store, %d registrations", total)
        return total

    def _batches(self) -> Iterator[list[str]]:
        after: tuple[str, str] | None = None
        while found := self._store.ids(after, BATCH):
            yield list(dict.fromkeys(id_ for _, id_ in islice(found, BATCH)))
            after = found[-1]
        newcomers = self._store.newcomer_ids()
        for start in range(0, len(newcomers), BATCH):
            yield newcomers[start : start + BATCH]

    def _pointed(self) -> Iterator[list[str]]:
        """All that anything points at, listed or not."""
        last: str | None = None
        while ids := list(pointed.ids(self._store.engine, last, BATCH)):
            yield ids
            last = ids[-1]
