"""The number of listings from pointers, for the totals of the status."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from indexer.resolution.pointer_service import is_outpoint, pointer_listings

if TYPE_CHECKING:
    from indexer.store import Store

BATCH = 500


class ListedPointers:
    """Counts listings from pointers by status, live or burned. The first count reads all of them, some milliseconds
    per ten; later ones read only the ids in new rows of the outbox. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._epoch, self._seq = "", 0
        self._statuses: dict[str, str] = {}

    def counts(self) -> Mapping[str, int]:
        """The number of live and of burned listings."""
        with self._lock:
            page = self._store.outbox.page(self._seq, BATCH, self._epoch)
            if not page.continues:
                outbox = self._store.outbox.position()
                self._statuses = {}
                for ids in self._all():
                    self._look(ids)
                self._epoch, self._seq = outbox.epoch, outbox.newest_seq
                page = self._store.outbox.page(self._seq, BATCH)
            while page.changes:
                self._look({change.id for change, _ in page.changes if not is_outpoint(change.id)})
                last, self._epoch = page.changes[-1]
                self._seq = last.seq
                page = self._store.outbox.page(self._seq, BATCH)
            return Counter(self._statuses.values())

    def _all(self) -> Iterator[list[str]]:
        last: str | None = None
        while ids := list(self._store.pointers.ids(last, BATCH)):
            yield ids
            last = ids[-1]

    def _look(self, ids: Iterable[str]) -> None:
        """Update the status of these ids. A registry entry with its own revisions is counted with those."""
        missing = set(ids)
        for id_ in missing:
            self._statuses.pop(id_, None)
        registered = self._store.history.with_pending(missing) if missing else {}
        for pointers in pointer_listings(self._store, missing - registered.keys()):
            if pointers.resolution is not None and pointers.body is not None:
                self._statuses[pointers.id] = "burned" if pointers.ended else "live"
