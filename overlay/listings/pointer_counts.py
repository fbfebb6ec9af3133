"""The number of listings from pointers, for the totals of the status."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from indexer.resolution.pointer_service import is_outpoint, pointer_listings
from indexer.store.listed_pointers import store_statuses

if TYPE_CHECKING:
    from indexer.store import Store, Writer

BATCH = 500

STORED_EVERY = 10_000
"""Changes after which the position is stored although no status has changed: later processes read those after it."""


class ListedPointers:
    """Counts listings from pointers by status, live or burned. The first count of a database reads all of them, some
    milliseconds per ten; later ones, also of other processes once it was stored, read only the ids in new rows of the
    outbox. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._epoch, self._seq, self._stored_seq = "", 0, -1
        self._statuses: dict[str, str] = {}
        self._changed: set[str] = set()

    def counts(self) -> Mapping[str, int]:
        """The number of live and of burned listings."""
        with self._lock:
            self._read()
            return Counter(self._statuses.values())

    def save(self, writer: Writer) -> None:
        """Count, and store the statuses that have changed."""
        with self._lock:
            self._read()
            has_all = self._stored_seq < 0
            if has_all or self._changed or self._seq - self._stored_seq >= STORED_EVERY:
                statuses = {id_: self._statuses.get(id_) for id_ in (self._statuses if has_all else self._changed)}
                store_statuses(writer, statuses, self._seq, has_all=has_all)
                self._stored_seq, self._changed = self._seq, set()

    def _read(self) -> None:
        """Read the outbox to its end; all listings, where another database was read before, or none."""
        if not self._epoch and (counted := self._store.listed_pointers.counted()) is not None:
            self._epoch, self._seq, self._statuses = counted
            self._stored_seq = self._seq
        page = self._store.outbox.page(self._seq, BATCH, self._epoch)
        if not page.continues:
            outbox = self._store.outbox.position()
            self._statuses, self._stored_seq = {}, -1
            for ids in self._all():
                self._look(ids)
            self._epoch, self._seq = outbox.epoch, outbox.newest_seq
            page = self._store.outbox.page(self._seq, BATCH)
        while page.changes:
            self._look({change.id for change, _ in page.changes if not is_outpoint(change.id)})
            last, self._epoch = page.changes[-1]
            self._seq = last.seq
            page = self._store.outbox.page(self._seq, BATCH)

    def _all(self) -> Iterator[list[str]]:
        last: str | None = None
        while ids := list(self._store.pointers.ids(last, BATCH)):
            yield ids
            last = ids[-1]

    def _look(self, ids: Iterable[str]) -> None:
        """Update the status of these ids. A registry entry with its own revisions is counted with those."""
        missing = set(ids)
        if self._stored_seq >= 0:
            self._changed |= missing
        for id_ in missing:
            self._statuses.pop(id_, None)
        registered = self._store.history.with_pending(missing) if missing else {}
        for pointers in pointer_listings(self._store, missing - registered.keys()):
            if pointers.resolution is not None and pointers.body is not None:
                self._statuses[pointers.id] = "burned" if pointers.ended else "live"
