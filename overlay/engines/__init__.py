"""Search engines: one module per engine, chosen by the scheme of `A2B_SEARCH` and imported only then.

An engine is one index, in a folder or on a cluster: it stores documents, selects them by plan and filters, and orders
them. Planning, suggestions and the promotion of a rebuilt index are common to all (`overlay.projection.search_index`);
the order by relevance is that of `overlay.search.rerank` in each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from indexer.masking import masked

if TYPE_CHECKING:
    from overlay.search.document import Document
    from overlay.search.planner import QueryPlan
    from overlay.search.query import Matches, Query
    from overlay.search.suggesting import Completed, Typed
    from overlay.search.term_dictionary import Terms


class EngineError(Exception):
    """An index cannot be used as configured; the message gives the remedy."""


class BusyError(EngineError):
    """Another process writes to the index."""


class UnavailableError(EngineError):
    """The index is on another machine that does not respond; retry later."""


class NotReadyError(UnavailableError):
    """Nothing is searched until work in progress is complete, which the message names; retry in some seconds."""


class CompilingError(NotReadyError):
    """Kernels that every search needs are being compiled, once for a user of the machine."""

    def __init__(self) -> None:
        super().__init__("the search is being compiled, once for this version; try again in a few seconds")


class OutdatedIndexError(NotReadyError):
    """The items of the index have other members than those of this program."""

    def __init__(self) -> None:
        super().__init__("the index is of another release, and is rebuilt when a server starts; try again in a while")


class UnknownEngineError(EngineError):
    """`A2B_SEARCH` names no engine."""


class IndexPosition(NamedTuple):
    """How far an index has read the outbox: its epoch and the last sequence number applied."""

    epoch: str
    seq: int


class IndexContent(NamedTuple):
    """The origin of the documents of an index: a digest of the schema of items and of the names of facts, the version
    of the projection, and the names of the systems that add to items. Indexes of earlier releases, which stored none,
    have the defaults."""

    items: str = ""
    projection: int = 0
    systems: tuple[str, ...] = ()


class Progress(NamedTuple):
    """The progress of a rebuild: registrations written, of how many."""

    done: int
    of: int


EARLIER = IndexContent()
"""The content of an index of a release before it was stored."""


def is_further(left: IndexPosition | None, right: IndexPosition | None) -> bool:
    """Whether the index on the left has read more of one database than the one on the right."""
    return left is not None and right is not None and left.seq > right.seq


class Searchable(Protocol):
    """An index, or an index with one more document, to be searched."""

    def search(self, query: Query, plan: QueryPlan, start: int, stop: int) -> Matches:
        """Run a plan with the filters of a query; the results from position `start` to `stop` are read. In other orders
        than relevance, positions count from the first result after the sort key `query.after`, where there is one."""
        ...

    def terms(self) -> Terms:
        """The term dictionary of the listings that a plain search finds."""
        ...


class Engine(Searchable, Protocol):
    """One search index: a disposable projection of the store with its own position. One process writes; others read the
    same index and see each commit. Thread-safe."""

    has_vectors: bool
    """Whether text vectors count in its order by relevance, for plans with a weight of `meaning`."""

    def position(self) -> IndexPosition | None:
        """How far this index has read; None when it is new, cleared or damaged, and needs a rebuild."""
        ...

    def damage(self) -> str:
        """The faults of the files of the index, until it is rebuilt; "" without any. Searches use the intact files."""
        ...

    def content(self) -> IndexContent | None:
        """The content that the documents of this index were made by; None before the first commit."""
        ...

    def write(
        self,
        registrations: Sequence[str] | None,
        documents: Iterable[Document],
        position: IndexPosition | None,
        content: IndexContent = EARLIER,
    ) -> None:
        """Remove all documents of `registrations` (None: of all), add `documents`, and store `position` and `content`,
        in one durable commit, which searches see when it returns. Raises BusyError, EngineError."""
        ...

    def with_document(self, document: Document) -> Searchable | None:
        """The current listings and this document, as if it were of the newest block; None where the engine cannot."""
        ...

    def complete(self, typed: Typed) -> Completed:
        """The completions of a text in the latest listings that contain its words."""
        ...

    def get(self, id: str) -> bytes | None:  # noqa: A002
        """The stored item of a current listing, None without one."""
        ...

    def close(self) -> None:
        """Finish merging, and release files and locks; the object is not used afterwards."""
        ...


class Versions(Protocol):
    """The versions of one index: one is live, another may be built beside it. The type of a version is the engine's
    own; versions compare by equality."""

    def live(self) -> Any:
        """The live version; it may not exist yet."""
        ...

    def watch(self, version: Any) -> Callable[[], bool]:
        """Whether a version that was opened is there still, in files. Raises OSError."""
        ...

    def writing(self, version: Any) -> AbstractContextManager[None]:
        """Hold the lock for a commit to the live version. Raises BusyError while another version is promoted, or when
        `version` is no longer live."""
        ...

    def promoting(self) -> AbstractContextManager[None]:
        """Exclude commits; waits for those in progress."""
        ...

    def rebuilding(self) -> AbstractContextManager[Any]:
        """A new version, removed at the end if it was not promoted. Raises BusyError while another process rebuilds."""
        ...

    def promote(self, version: Any) -> None:
        """Make a version live, durably. Only while `promoting`."""
        ...

    def report_progress(self, done: int, of: int) -> None:
        """Publish the progress of a rebuild; only while `rebuilding`."""
        ...

    def progress(self) -> Progress | None:
        """The progress of the process that rebuilds; None without one."""
        ...

    def cleanup(self) -> None:
        """Remove versions that a killed process left."""
        ...


class EngineModule(Protocol):
    """The interface of an engine's module."""

    SLOW: bool
    """Whether a search takes so long that it needs a thread."""

    def open_versions(self, location: str) -> Versions:
        """The versions of the index that a URL names after its scheme. Raises EngineError, OSError."""
        ...

    def open_engine(self, version: Any, *, make: bool, for_search: bool = True) -> Engine:
        """Open a version of an index; with `make`, create it where it does not exist or cannot be read. Without
        `for_search`, the index only reports its position and the damage that shows at a glance. Raises OSError or
        ValueError when it cannot be created or read."""
        ...


ENGINES = {
    "native": "overlay.engines.native",
    "whoosh": "overlay.engines.whoosh",
    "opensearch": "overlay.engines.opensearch",
}
"""The module of each scheme of `A2B_SEARCH`."""

NATIVE_LAYOUT = "native-5"
"""The folder of the default engine's files of this format."""

IN_FILES = frozenset(("native", "whoosh"))
"""The schemes of URLs that name a folder."""


def engine_module(url: str) -> tuple[EngineModule, str]:
    """The module and the location that a URL `<scheme>:<location>` names. Raises UnknownEngineError."""
    scheme, colon, location = url.partition(":")
    if not colon or scheme not in ENGINES or not location:
        raise UnknownEngineError(
            f"{masked(url)!r} names no index: use native:PATH, whoosh:PATH or opensearch:https://HOST:9200/NAME"
        )
    return cast("EngineModule", import_module(ENGINES[scheme])), location
