"""Word counts stored in the index: a base that one commit wrote, and the changes by later commits.

Readers load the base once and apply changes commit by commit. A new base is written when the changes exceed a quarter
of it, so that the cost of a commit does not depend on the number of words.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from overlay.search.term_dictionary import CountChange, TermChanges, TermDictionary

if TYPE_CHECKING:
    from overlay.engines.opensearch.cluster import Cluster
    from overlay.engines.opensearch.state import OpenSearchCommitState

PART = 20_000
"""Rows of one document."""
_LEAST = 50_000  # rows of changes below which no new base is written
_PAGE = 10

Json = dict[str, Any]


class StoredTermCounts:
    """The term dictionary of one index at a commit. Thread-safe."""

    def __init__(self, cluster: Cluster, index: str) -> None:
        self._cluster, self._index = cluster, index
        self._lock = threading.Lock()
        self._terms, self._base, self._commit = TermDictionary(), 0, 0

    def as_of(self, state: OpenSearchCommitState) -> TermDictionary:
        """The term dictionary at a state, or at a newer one that another thread has read."""
        with self._lock:
            if state.commit > self._commit:
                if self._base < state.base:
                    self._terms = self._load(state)
                self._apply(self._terms, max(self._commit, state.base), state)
                self._base, self._commit = state.base, state.commit
            return self._terms

    def _load(self, state: OpenSearchCommitState) -> TermDictionary:
        bodies = [hit["_source"]["body"] for hit in self._read({"term": {"batch": state.base}}, is_base=True)]
        rows = [tuple(row) for body in bodies for row in body["rows"]]
        return TermDictionary.counted(sum(body["listings"] for body in bodies), rows)

    def _apply(self, terms: TermDictionary, after: int, state: OpenSearchCommitState) -> None:
        changes = {"range": {"batch": {"gt": after, "lte": state.commit}}}
        for hit in list(self._read(changes, is_base=False)):  # all of them, or none when the cluster is unavailable
            if hit["_source"]["batch"] not in state.void:
                terms.apply(hit["_source"]["body"]["listings"], hit["_source"]["body"]["rows"])

    def _read(self, batches: Json, *, is_base: bool) -> Iterator[Json]:
        body: Json = {
            "query": {"bool": {"filter": [batches, {"term": {"is_base": is_base}}]}},
            "_source": ["batch", "body"],
            "sort": [{"batch": "asc"}, {"part": "asc"}],
            "size": _PAGE,
        }
        while hits := self._cluster.search(self._index, body)["hits"]["hits"]:
            yield from hits
            body["search_after"] = hits[-1]["sort"]

    def changed(self, state: OpenSearchCommitState, changes: TermChanges) -> tuple[list[Json], OpenSearchCommitState]:
        """The documents that the commit `state.taken` adds for its changes, and the state with them. A `state` whose
        base is this commit starts without words."""
        rows, listings = changes.rows(), changes.listings
        if state.base == state.taken:
            return _base(state, listings, rows)
        if state.changed + len(rows) < max(_LEAST, state.words // 4):
            documents = list(_documents(state.taken, listings, rows))
            return documents, replace(state, changed=state.changed + len(rows))
        terms = self.as_of(state)
        counts = terms.counts()
        for word, surfaces, stems in rows:
            before = counts.get(word, (0, 0))
            counts[word] = before[0] + surfaces, before[1] + stems
        return _base(state, terms.listings + listings, [(word, *pair) for word, pair in counts.items() if any(pair)])


def _base(
    state: OpenSearchCommitState, listings: int, rows: list[CountChange]
) -> tuple[list[Json], OpenSearchCommitState]:
    documents = list(_documents(state.taken, listings, sorted(rows), is_base=True))
    return documents, replace(state, base=state.taken, changed=0, words=len(rows))


def _documents(batch: int, listings: int, rows: list[CountChange], *, is_base: bool = False) -> Iterator[Json]:
    if not rows and not listings:
        return
    for start in range(0, max(1, len(rows)), PART):
        body = {"listings": 0 if start else listings, "rows": rows[start : start + PART]}
        yield {"batch": batch, "part": start // PART, "is_base": is_base, "body": body}
