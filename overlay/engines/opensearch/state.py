"""What an index knows of itself: one document, which every commit replaces on condition that nobody else did.

Documents name the commit that added them and the one that removed them, so that all of a commit becomes visible when
this document does, and nothing of a writer that was killed. Each attempt to write takes a number of its own; a number
that was taken and never committed is void: whatever such a writer still writes, however late, no search sees.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from time import time
from typing import Any, NamedTuple

from opensearchpy.exceptions import NotFoundError

from overlay.engines import BusyError, Cursor, EngineError
from overlay.engines.opensearch.cluster import Cluster

_MOST_VOID = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """`commit` is the newest; what commits up to `floor` added is gone. `base` is the commit that wrote the counts of
    all `words`, and `changed` how many rows of changes came after. `taken` is the newest number that a writer took,
    which is `writer`'s until it commits, or is silent beyond `until` (seconds since 1970)."""

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

    @property
    def cursor(self) -> Cursor | None:
        """How far the store's changes have been read."""
        return None if self.seq is None else Cursor(self.epoch, self.seq)

    def visible(self) -> list[dict[str, Any]]:
        """Filters for what searches see."""
        gone: list[dict[str, Any]] = [
            {"bool": {"filter": [{"range": {"removed": {"lte": self.commit}}}], "must_not": self._void("removed")}},
            *self._void("added"),
        ]
        return [{"range": {"added": {"gt": self.floor, "lte": self.commit}}}, {"bool": {"must_not": gone}}]

    def _void(self, field: str) -> list[dict[str, Any]]:
        return [{"terms": {field: list(self.void)}}] if self.void else []

    def taking(self, writer: str, lease: float) -> State:
        """The state while a writer works under the next number. Raises BusyError while another one does."""
        if self.writer not in ("", writer) and self.until > time():
            raise BusyError("another process writes to the index")
        void = self.released().void
        return replace(self, taken=self.taken + 1, writer=writer, until=time() + lease, void=void)

    def released(self) -> State:
        """The state after a writer gave up: its number is void."""
        void = (*self.void, self.taken)[-_MOST_VOID:] if self.taken > self.commit else self.void
        return replace(self, writer="", until=0.0, void=tuple(dict.fromkeys(void)))


class Versioned(NamedTuple):
    """A state as it was read, and what a write is conditional on."""

    state: State
    name: str
    number: int
    term: int


def read(cluster: Cluster, index: str) -> Versioned | None:
    """The state of an index or of the one that an alias names; None when there is none. Raises EngineError when it is
    not one of ours."""
    try:
        found = cluster.request("GET", f"/{index}/_doc/state")
    except NotFoundError:
        return None
    try:
        held = found["_source"]["state"]
        state = State(**held | {"void": tuple(held["void"])})
    except (KeyError, TypeError) as error:
        raise EngineError(f"{cluster.shown} holds an index {index} of another program: choose another name") from error
    return Versioned(state, found["_index"], found["_seq_no"], found["_primary_term"])


def write(cluster: Cluster, state: State, before: Versioned) -> Versioned:
    """Replace the state. Raises ConflictError when it is not the one that was read."""
    found = cluster.request(
        "PUT", f"/{before.name}/_doc/state", {"state": asdict(state)}, if_seq_no=before.number,
        if_primary_term=before.term,
    )  # fmt: skip
    return Versioned(state, before.name, found["_seq_no"], found["_primary_term"])


def create(cluster: Cluster, index: str) -> None:
    """Write the state of a new index, unless there is one."""
    try:
        cluster.request("PUT", f"/{index}/_create/state", {"state": asdict(State())})
    except BusyError:
        return
