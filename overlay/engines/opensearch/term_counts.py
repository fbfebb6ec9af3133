"""Word counts stored in the index: a base that one commit wrote, and the changes by later commits.

Readers load the base once and apply changes commit by commit. A new base is written when the changes exceed a quarter
of it: the cost of a commit does not depend on the number of words.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from overlay.search.term_dictionary import TermCounts, TermDictionary

if TYPE_CHECKING:
    from overlay.engines.opensearch.cluster import Cluster, Json
    from overlay.engines.opensearch.state import OpenSearchCommitState

PART = 20_000
"""Words of one document."""
_LEAST = 50_000  # changed words below which no new base is written
_PAGE = 10


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
                is_rebased = self._base < state.base
                changes = self._read(state, state.base - 1 if is_rebased else self._commit)
                if is_rebased:
                    self._terms = TermDictionary(changes)
                else:
                    for change in changes:
                        self._terms.apply(change)
                self._base, self._commit = state.base, state.commit
            return self._terms

    def _read(self, state: OpenSearchCommitState, after: int) -> list[TermCounts]:
        """The term counts that commits wrote after a commit."""
        body: Json = {
            "query": {"bool": {"filter": [{"range": {"batch": {"gt": after, "lte": state.commit}}}]}},
            "_source": ["batch", "body"],
            "sort": [{"batch": "asc"}, {"part": "asc"}],
            "size": _PAGE,
        }
        changes: list[TermCounts] = []
        while hits := self._cluster.search(self._index, body)["hits"]["hits"]:
            sources = [hit["_source"] for hit in hits]
            changes += [
                TermCounts.decode(source["body"]["counts"].encode())
                for source in sources
                if source["batch"] not in state.void
            ]
            body["search_after"] = hits[-1]["sort"]
        return changes

    def changed(self, state: OpenSearchCommitState, changes: TermCounts) -> tuple[list[Json], OpenSearchCommitState]:
        """The documents that the commit `state.taken` adds for its changes, and the state with them. A `state` with
        this commit as its base starts without words."""
        words = len(changes.surfaces.keys() | changes.terms.keys())
        if state.base != state.taken:
            if state.changed + words < max(_LEAST, state.words // 4):
                return list(_documents(state.taken, changes)), replace(state, changed=state.changed + words)
            changes = TermDictionary((self.as_of(state).counts, changes)).counts
        state = replace(state, base=state.taken, changed=0, words=len(changes.surfaces.keys() | changes.terms.keys()))
        return list(_documents(state.taken, changes)), state


def _documents(batch: int, counts: TermCounts) -> Iterator[Json]:
    if not counts:
        return
    words = sorted(counts.surfaces.keys() | counts.terms.keys())
    for start in range(0, max(1, len(words)), PART):
        some = words[start : start + PART]
        surfaces, terms = (Counter({word: of[word] for word in some}) for of in (counts.surfaces, counts.terms))
        part = TermCounts(0 if start else counts.listings, surfaces, terms)
        yield {"batch": batch, "part": start // PART, "body": {"counts": part.encode().decode()}}
