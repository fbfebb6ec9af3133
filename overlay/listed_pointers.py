"""How many listings there are of what is pointed at, beside those that are inscribed: for totals."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from indexer.pointing import is_outpoint, pointings
from indexer.store import Store, pointed

BATCH = 500


class ListedPointers:
    """Counts them by status, live or burned. What the outbox names is looked at again, all else is remembered: the
    first count reads all that anything points at, some milliseconds for each ten. May be used by several threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._epoch, self._seq = "", 0
        self._statuses: dict[str, str] = {}

    def counts(self) -> Mapping[str, int]:
        """How many are live and burned now, as far as the store is read."""
        with self._lock:
            if self._store.epoch != self._epoch or self._store.newest_seq() < self._seq:
                self._count_all()
            while changed := self._store.changes(self._seq, BATCH):
                self._look({change.id for change in changed if not is_outpoint(change.id)})
                self._seq = changed[-1].seq
            return Counter(self._statuses.values())

    def _count_all(self) -> None:
        outbox = self._store.outbox()
        self._statuses = {}
        for ids in self._all():
            self._look(ids)
        self._epoch, self._seq = outbox.epoch, outbox.newest_seq

    def _all(self) -> Iterator[list[str]]:
        last: str | None = None
        while ids := list(pointed.ids(self._store.engine, last, BATCH)):
            yield ids
            last = ids[-1]

    def _look(self, ids: Iterable[str]) -> None:
        """Note how these stand. An entry of a registry that has revisions of its own is counted with those."""
        wanted = set(ids)
        for id_ in wanted:
            self._statuses.pop(id_, None)
        registered = self._store.stories(wanted) if wanted else {}
        for found in pointings(self._store, wanted - registered.keys()):
            if found.standing is not None and found.body is not None:
                self._statuses[found.id] = "burned" if found.ended else "live"
