"""The OpenSearch engine, for registries that outgrow one machine: OpenSearch does sharding, replication and failover.

Many processes read, and one at a time writes: the writer holds a lease in the state of the index, and its commit is a
conditional write of that state (`state`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING
from uuid import uuid4

from overlay.engines import EARLIER, EngineError, IndexContent, IndexPosition
from overlay.engines.opensearch import state as states
from overlay.engines.opensearch.cluster import Json, RemovedError
from overlay.engines.opensearch.mapping import LAYOUT, record_of, source
from overlay.engines.opensearch.searching import Searcher
from overlay.engines.opensearch.state import OpenSearchCommitState, StoredState
from overlay.engines.opensearch.term_counts import StoredTermCounts
from overlay.engines.opensearch.translation import every
from overlay.engines.opensearch.versions import ClusterVersion, ClusterVersions, make_index
from overlay.search.candidates import ranked
from overlay.search.planner import QueryPlan
from overlay.search.query import NO_MATCHES, Matches, Query
from overlay.search.suggesting import MAX_LISTINGS, Completed, Typed, completed_by_items
from overlay.search.term_dictionary import TermCounts, TermDictionary

if TYPE_CHECKING:
    from overlay.search.document import Document

__all__ = ["LAYOUT", "SLOW", "open_engine", "open_versions"]

SLOW = True

_GRACE = 10.0
"""Seconds that removed documents stay for running searches."""
_AT_ONCE = 5_000
_REGISTRATIONS = 1_000


class OpenSearchEngine:
    """See `overlay.engines.Engine`."""

    has_vectors = False

    def __init__(self, version: ClusterVersion) -> None:
        self._cluster, self._index = version
        self._writer = self._cluster.for_writing()
        self._term_counts = StoredTermCounts(self._cluster, self._index)
        self._writing = threading.Lock()
        self._me = uuid4().hex
        self._swept = monotonic()
        self._sweepable = 0  # the commit as of then

    def _state(self) -> OpenSearchCommitState:
        return states.recent(self._cluster, self._index)

    def position(self) -> IndexPosition | None:
        """How far this index has read."""
        return self._state().position

    def content(self) -> IndexContent | None:
        """The content that its documents were made by."""
        state = self._state()
        return state.content if state.commit else None

    def damage(self) -> str:
        """No damage: the cluster has the files."""
        return ""

    def search(self, query: Query, plan: QueryPlan, start: int, stop: int) -> Matches:
        """Run a plan with the filters of a query."""
        state = self._state()
        if not state.commit:
            return NO_MATCHES
        return ranked(Searcher(self._cluster, self._index, state).search, query, plan, start, stop)

    def with_document(self, document: Document) -> None:
        """None: only the default engine can."""

    def complete(self, typed: Typed) -> Completed:
        """The completions of a text."""
        return completed_by_items(self.search(Query(), typed.plan, 0, MAX_LISTINGS).rows, typed)

    def terms(self) -> TermDictionary:
        """The term dictionary."""
        return self._term_counts.as_of(self._state())

    def get(self, id: str) -> bytes | None:  # noqa: A002
        """The stored item of a current listing."""
        facts: list[Json] = [{"term": {"fact": fact}} for fact in (f"id:{id}", "current")]
        body = {"query": every(*self._state().visible(), *facts), "_source": False, "stored_fields": ["record"]}
        try:
            hits = self._cluster.search(self._index, body)["hits"]["hits"]
        except RemovedError:
            return None
        return record_of(hits[0]).item if hits else None

    def close(self) -> None:
        """Do nothing: the connection is shared with the versions of the index."""

    # -- writing

    def write(
        self,
        registrations: Sequence[str] | None,
        documents: Iterable[Document],
        position: IndexPosition | None,
        content: IndexContent = EARLIER,
    ) -> None:
        """Replace documents. A failure leaves the previous commit."""
        with self._writing:
            before = self._begin()
            try:
                state = self._written(before.state, registrations, documents, position)
                state = replace(state, content=content)
                self._writer.refresh(self._index)
                states.write(self._writer, state, before)
            except BaseException:
                with suppress(EngineError):
                    states.write(self._writer, before.state.released(), before)
                raise

    def _begin(self) -> StoredState:
        """Take the lease and the next commit number. Raises BusyError."""
        stored = states.read(self._writer, self._index) or make_index(self._writer, self._index)
        taken = states.write(self._writer, stored.state.taking(self._me, self._writer.lease), stored)
        if stored.state.taken > stored.state.commit:
            # makes the removal marks of an abandoned commit visible, so that they can be replaced
            self._writer.refresh(self._index)
        return taken

    def _written(
        self,
        state: OpenSearchCommitState,
        registrations: Sequence[str] | None,
        documents: Iterable[Document],
        position: IndexPosition | None,
    ) -> OpenSearchCommitState:
        """Write the documents of a commit; returns the state that makes it visible."""
        changes = TermCounts()
        if registrations is None:
            state = replace(state, floor=state.commit, base=state.taken)
        self._sweep(state)
        self._writer.bulk(self._index, self._removals(state, registrations or (), changes))
        sources = (source(document, state.taken, changes) for document in documents)
        self._writer.bulk(self._index, _indexed(state.taken, "listing", sources))
        rows, state = self._term_counts.changed(state, changes)
        self._writer.bulk(self._index, _indexed(state.taken, "terms", rows))
        seq, epoch = (None, "") if position is None else (position.seq, position.epoch)
        return replace(state, epoch=epoch, seq=seq, commit=state.taken, writer="", until=0.0)

    def _removals(
        self, state: OpenSearchCommitState, registrations: Sequence[str], changes: TermCounts
    ) -> Iterator[Json]:
        """Mark the documents of registrations as removed, by conditional writes."""
        for start in range(0, len(registrations), _REGISTRATIONS):
            some = list(dict.fromkeys(registrations[start : start + _REGISTRATIONS]))
            part = every(*state.visible(), {"terms": {"registration": some}})
            for hit in self._hits(part):
                record = record_of(hit)
                if record.is_listed:
                    changes.remove(record.words)
                yield _removed(hit, state.taken)

    def _hits(self, part: Json) -> Iterator[Json]:
        body: Json = {
            "query": part,
            "_source": False,
            "stored_fields": ["record"],
            "seq_no_primary_term": True,
            "sort": [{"added": "asc"}, {"id": "asc"}, {"newest": "asc"}, {"since": "asc"}],
            "size": _REGISTRATIONS,
        }
        while hits := self._writer.search(self._index, body)["hits"]["hits"]:
            yield from hits
            body["search_after"] = hits[-1]["sort"]

    def _sweep(self, state: OpenSearchCommitState) -> None:
        """Delete a batch of invisible documents, and void marks of removal."""
        if monotonic() - self._swept < _GRACE:
            return
        gone: list[Json] = [
            {"range": {"removed": {"lte": self._sweepable}}},
            {"range": {"added": {"lte": state.floor}}},
            {"range": {"batch": {"lt": state.base}}},
        ]
        void = list(state.void)
        dead = {"bool": {"should": [*gone, {"terms": {"added": void}}], "must_not": {"terms": {"removed": void}}}}
        actions = [{"_op_type": "delete", "_id": hit["_id"]} for hit in self._some(dead)]
        actions += [_removed(hit, None) for hit in self._some({"terms": {"removed": void}})]
        self._writer.bulk(self._index, actions)
        self._swept, self._sweepable = monotonic(), state.commit

    def _some(self, part: Json) -> list[Json]:
        body = {"query": part, "_source": False, "size": _AT_ONCE, "seq_no_primary_term": True}
        hits: list[Json] = self._writer.search(self._index, body)["hits"]["hits"]
        return hits


def _removed(hit: Json, commit: int | None) -> Json:
    """The action that marks a document as removed by a commit, or by none, unless it was written since."""
    condition = {"if_seq_no": hit["_seq_no"], "if_primary_term": hit["_primary_term"]}
    return {"_op_type": "update", "_id": hit["_id"], **condition, "doc": {"removed": commit}}


def _indexed(commit: int, kind: str, sources: Iterable[Json]) -> Iterator[Json]:
    """Actions that add documents; idempotent."""
    for number, document in enumerate(sources):
        yield {"_id": f"{kind}-{commit}-{number}", "_source": document}


def open_versions(location: str) -> ClusterVersions:
    """The versions of an index on a cluster. Raises UnknownEngineError, EngineError."""
    return ClusterVersions(location)


def open_engine(version: ClusterVersion, *, make: bool, for_search: bool = True) -> OpenSearchEngine:  # noqa: ARG001
    """Open a version; with `make`, a new one where it is missing."""
    cluster = version.cluster.for_writing()
    if make and states.read(cluster, version.name) is None:
        make_index(cluster, version.name)
    return OpenSearchEngine(version)
