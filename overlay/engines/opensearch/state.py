"""The state of an index: one document, which every commit replaces by a conditional write.

Documents have the numbers of the commits that added and removed them: a commit becomes visible when this document is
replaced, and the writes of a killed writer never do. Each attempt to write takes a new number. A number without a
commit is void: searches ignore all writes with it, however late.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from math import inf
from time import monotonic, time
from typing import Any, NamedTuple

from overlay.engines import EARLIER, BusyError, EngineError, IndexContent, IndexPosition, UnavailableError
from overlay.engines.opensearch.cluster import Cluster, StoredValue

RECENT_SECONDS = 0.05
"""Seconds for which the requests of a search use a state that was read."""
_MOST_RECENT = 8
_MOST_VOID = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSearchCommitState:
    """`commit` is the newest commit; the additions of commits up to `floor` are deleted. `base` is the commit that
    wrote the counts of all `words`, and `changed` the number of rows of changes since. `taken` is the newest number
    taken, by `writer`, which has the lease until `until` (seconds since 1970). `void` are numbers taken and not
    committed. `content` is the content that the documents were made by."""

    epoch: str = ""
    seq: int | None = None
    commit: int = 0
    floor: int = 0
    base: int = 0
    words: int = 0
    changed: int = 0
    taken: int = 0
    writer: str = ""
    until: float = 0.0
    void: tuple[int, ...] = ()
    content: IndexContent = EARLIER

    @property
    def position(self) -> IndexPosition | None:
        """How far the outbox has been read."""
        return None if self.seq is None else IndexPosition(self.epoch, self.seq)

    def visible(self) -> list[dict[str, Any]]:
        """Filters for the visible documents."""
        gone: list[dict[str, Any]] = [
            {"bool": {"filter": [{"range": {"removed": {"lte": self.commit}}}], "must_not": self._void("removed")}},
            *self._void("added"),
        ]
        return [{"range": {"added": {"gt": self.floor, "lte": self.commit}}}, {"bool": {"must_not": gone}}]

    def _void(self, field: str) -> list[dict[str, Any]]:
        return [{"terms": {field: list(self.void)}}] if self.void else []

    def taking(self, writer: str, lease: float) -> OpenSearchCommitState:
        """The state with the next number taken by a writer. Raises BusyError while another writer holds the lease."""
        if self.writer not in ("", writer) and self.until > time():
            raise BusyError("another process writes to the index")
        void = self.released().void
        return replace(self, taken=self.taken + 1, writer=writer, until=time() + lease, void=void)

    def released(self) -> OpenSearchCommitState:
        """The state after a writer gave up: without a lease, and with its number void."""
        void = (*self.void, self.taken)[-_MOST_VOID:] if self.taken > self.commit else self.void
        return replace(self, writer="", until=0.0, void=tuple(dict.fromkeys(void)))


class StoredState(NamedTuple):
    """A state, and the document that it was read from."""

    state: OpenSearchCommitState
    document: StoredValue


def read(cluster: Cluster, index: str) -> StoredState | None:
    """The state of an index or alias; None when it is missing. Raises EngineError when the index is of another
    program."""
    document = cluster.get(index, "state")
    if document is None:
        return None
    try:
        items, projection, systems = document.value.get("content", EARLIER)
        read_fields = {
            "void": tuple(document.value["void"]),
            "content": IndexContent(items, projection, tuple(systems)),
        }
        state = OpenSearchCommitState(**document.value | read_fields)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EngineError(f"{cluster.shown} holds an index {index} of another program: choose another name") from error
    return _remembered(cluster, state, document)


def recent(cluster: Cluster, index: str) -> OpenSearchCommitState:
    """The state of an index, as it was read `RECENT_SECONDS` ago at most; an empty one of a missing index. The requests
    of one search thus read it once."""
    read_at, state = cluster.recent.get(index, (-inf, OpenSearchCommitState()))
    if monotonic() - read_at > RECENT_SECONDS:
        stored = read(cluster, index)
        return stored.state if stored else OpenSearchCommitState()
    newest: OpenSearchCommitState = state
    return newest


def write(cluster: Cluster, state: OpenSearchCommitState, before: StoredState) -> StoredState:
    """Replace the state. Raises ConflictError when it has changed since it was read."""
    return _remembered(cluster, state, cluster.put("state", asdict(state), before.document))


def create(cluster: Cluster, index: str) -> StoredState:
    """The state of a new index, which another process may have written. Raises UnavailableError when the index is
    removed meanwhile."""
    with suppress(BusyError):
        cluster.put("state", asdict(OpenSearchCommitState()), StoredValue(None, index, {"op_type": "create"}))
    stored = read(cluster, index)
    if stored is None:
        raise UnavailableError(f"{cluster.shown}: the index was removed meanwhile")
    return stored


def _remembered(cluster: Cluster, state: OpenSearchCommitState, document: StoredValue) -> StoredState:
    if len(cluster.recent) > _MOST_RECENT:
        cluster.recent.clear()
    cluster.recent[document.index_name] = monotonic(), state
    return StoredState(state, document)
