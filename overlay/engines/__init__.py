"""Where search plugs in: one module an engine, chosen by the scheme of `A2B_SEARCH`, imported only then.

An engine holds one index, in a folder or a cluster: it stores documents, finds those that a plan and filters ask for,
and scores them by its own BM25. Planning, the second stage of ranking, suggestions and the promotion of a rebuilt index
are the same for all (`overlay.index`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from indexer.settings import masked

if TYPE_CHECKING:
    from overlay.document import Document
    from overlay.index_versions import Progress
    from overlay.query import Query
    from overlay.search.planner import QueryPlan
    from overlay.search.records import LazyRecord, Record
    from overlay.search.rerank import Scored
    from overlay.search.term_dictionary import TermDictionary


class EngineError(Exception):
    """An index cannot be used as configured; the message says what to do."""


class BusyError(EngineError):
    """Another process writes to the index."""


class UnavailableError(EngineError):
    """The index is on another machine that does not answer for now: worth another try later."""


class UnknownEngineError(EngineError):
    """`A2B_SEARCH` names no engine."""


class Cursor(NamedTuple):
    """How far an index has read the store's changes: the outbox' epoch and the last sequence number applied."""

    epoch: str
    seq: int


def is_further(one: Cursor | None, other: Cursor | None) -> bool:
    """Whether an index has read more of the same changes than another."""
    return one is not None and other is not None and one.epoch == other.epoch and one.seq > other.seq


class Row(NamedTuple):
    """A result: its place in the order, its score (0.0 in other orders than relevance), its record, and what stage two
    computed for it (`rerank.Scored`)."""

    key: tuple[Any, ...]
    score: float
    record: Record | LazyRecord
    scored: Scored | None = None


class Matches(NamedTuple):
    """The results of a search: those between two places of the order, how many there are in all, how many of them hold
    all words, and for each facet how many results have each value."""

    rows: list[Row]
    total: int
    matched: int
    facets: dict[str, dict[str, int]]


NO_MATCHES = Matches([], 0, 0, {})


class Engine(Protocol):
    """One search index: a projection of the store, disposable, with its own cursor. One process writes; others may read
    the same index and see each commit. Safe to call from several threads."""

    def cursor(self) -> Cursor | None:
        """How far this index has read; None when it is new, cleared or damaged (then it wants a rebuild)."""
        ...

    def write(self, registrations: Sequence[str] | None, documents: Iterable[Document], cursor: Cursor | None) -> None:
        """Remove all documents of `registrations` (None: of all), add `documents`, and store `cursor`: all or nothing,
        durably. When it returns, searches see the new state. Raises BusyError and EngineError."""
        ...

    def search(self, query: Query, plan: QueryPlan, start: int, stop: int) -> Matches:
        """Find what a plan and the filters of a query ask for, and read the results from place `start` to `stop`."""
        ...

    def terms(self) -> TermDictionary:
        """The words of the listings that a plain search finds."""
        ...

    def get(self, id: str) -> bytes | None:  # noqa: A002
        """The stored item of a current listing, None when there is none."""
        ...

    def close(self) -> None:
        """Finish merging, and release files and locks; the object is not used afterwards."""
        ...


class Versions(Protocol):
    """The versions of one index: one answers, another may be built beside it. What names a version is the engine's own;
    equal ones are the same."""

    def live(self) -> Any:
        """The one that answers; it may not have been made yet."""
        ...

    def writing(self, version: Any) -> AbstractContextManager[None]:
        """While something is committed to the one that answers. Raises BusyError while it is exchanged, or when it is
        another one by now."""
        ...

    def promoting(self) -> AbstractContextManager[None]:
        """While nobody commits; waits for who does."""
        ...

    def rebuilding(self) -> AbstractContextManager[Any]:
        """Another one, removed in the end if it does not answer. Raises BusyError while another process builds one."""
        ...

    def promote(self, version: Any) -> None:
        """Let this one answer from now on, durably. Only while `promoting`."""
        ...

    def report_progress(self, done: int, of: int) -> None:
        """Say how far a rebuild has come; only while `rebuilding`."""
        ...

    def progress(self) -> Progress | None:
        """How far the process has come that rebuilds; None where none does."""
        ...

    def cleanup(self) -> None:
        """Remove what a killed process was building."""
        ...


class EngineModule(Protocol):
    """A module of an engine."""

    SLOW: bool
    """Whether a search takes so long that it is answered in a thread."""

    def open_versions(self, place: str) -> Versions:
        """The versions of the index that a URL names after its scheme. Raises EngineError, OSError."""
        ...

    def open_engine(self, version: Any, *, make: bool) -> Engine:
        """Open a version of an index; with `make`, a new one where there is none, or none that can be read. Raises
        OSError or ValueError when it cannot be made or read."""
        ...


ENGINES = {
    "tantivy": "overlay.engines.tantivy",
    "whoosh": "overlay.engines.whoosh",
    "opensearch": "overlay.engines.opensearch",
}
"""The scheme of `A2B_SEARCH` and the module that serves it, imported only when it is chosen."""

IN_FILES = frozenset(("tantivy", "whoosh"))
"""The schemes whose URLs name a folder."""


def engine_module(url: str) -> tuple[EngineModule, str]:
    """The module and the place that a URL `<scheme>:<place>` names. Raises UnknownEngineError."""
    scheme, colon, place = url.partition(":")
    if not colon or scheme not in ENGINES or not place:
        raise UnknownEngineError(
            f"{masked(url)!r} names no index: use tantivy:PATH, whoosh:PATH or opensearch:https://HOST:9200/NAME"
        )
    return cast("EngineModule", import_module(ENGINES[scheme])), place
