"""Where search plugs in: one file an engine, chosen by the scheme of `A2B_SEARCH`, imported only then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, cast

from indexer.settings import masked
from overlay.query import Hits, Query

if TYPE_CHECKING:
    from overlay.document import Document
    from overlay.search.vocabulary import Vocabulary

_Found = TypeVar("_Found")


class EngineError(Exception):
    """An index cannot be used as asked; the message says what to do."""


class BusyError(EngineError):
    """Another process writes to the index."""


class UnavailableError(EngineError):
    """The index is somewhere else, and does not answer for now: worth another try later."""


class UnknownEngineError(EngineError):
    """`A2B_SEARCH` names no engine."""


class Cursor(NamedTuple):
    """How far an index has read the store's changes: the outbox' epoch and the last sequence number applied."""

    epoch: str
    seq: int


def is_further(one: Cursor | None, other: Cursor | None) -> bool:
    """Whether an index has read more of the same changes than another."""
    return one is not None and other is not None and one.epoch == other.epoch and one.seq > other.seq


class Renewal(NamedTuple):
    """How far an index that is made anew has come: registrations carried, of how many."""

    done: int
    of: int


class Suggestion(NamedTuple):
    """A completion: the text to show, what it is (`listing`, `skill`, `tag`), and the listing's id if it is one."""

    text: str
    kind: str
    id: str | None = None


class Engine(Protocol):
    """A search index: a projection of the store, disposable, with its own cursor."""

    name: str

    def cursor(self) -> Cursor | None:
        """Where this index stands, None when it is new or was left unusable (then it wants a rebuild)."""
        ...

    def replace(self, registrations: Sequence[str], documents: Iterable[Document], cursor: Cursor) -> None:
        """Forget all documents of `registrations`, add `documents`, and remember `cursor`: all or nothing, durably.

        When it returns, searches see the new state.
        """
        ...

    def clear(self) -> None:
        """Forget everything, the cursor too."""
        ...

    def search(self, query: Query) -> Hits:
        """Answer a query. Never raises for a query that `Query` can express."""
        ...

    def suggest(self, text: str, limit: int) -> list[Suggestion]:
        """Completions of what is being typed, the best first."""
        ...

    def consult(self, look: Callable[[Vocabulary], _Found]) -> _Found:
        """What a function finds in the words in use; they do not change meanwhile."""
        ...

    def get(self, id: str) -> bytes | None:  # noqa: A002
        """The stored item of a current listing, None when there is none."""
        ...

    def count(self) -> int:
        """Number of current documents (listings, whatever their status)."""
        ...

    def renewing(self) -> AbstractContextManager[Engine]:
        """An empty index beside this one, which goes on answering and being fed: to be filled and then shown, and
        removed where it is not. Raises BusyError while another process makes one."""
        ...

    def show(self, fresh: Engine, *, back: bool = False) -> bool:
        """Let an index that was made beside this one answer in its place, in all processes, at one stroke and durably;
        False, and nothing is done, where this one has read further, unless the new one is to go `back`."""
        ...

    def tell(self, done: int, of: int) -> None:
        """Say, to all processes, how far the index is that is being made beside this one; only while `renewing`."""
        ...

    def renewal(self) -> Renewal | None:
        """How far the index is that some process makes beside this one; None where none does, or has not said yet."""
        ...

    def tidy(self) -> None:
        """Remove what was being made beside this one when a process was killed; not what another one is making."""
        ...

    def close(self) -> None:
        """Release files and locks; the object is not used afterwards."""
        ...


ENGINES = {
    "tantivy": "overlay.engines.tantivy",
    "whoosh": "overlay.engines.whoosh",
}
"""The scheme of `A2B_SEARCH` and the module that serves it, imported only when it is chosen."""


def open_engine(url: str) -> Engine:
    """Open the index that a URL `<scheme>:<path>` names, making it when there is none.

    Raises UnknownEngineError for another scheme or no path, OSError when the folder cannot be made or read.
    """
    scheme, colon, path = url.partition(":")
    if not colon or scheme not in ENGINES or not path:
        raise UnknownEngineError(f"{masked(url)!r} names no index: say tantivy:PATH or whoosh:PATH")
    return cast("Engine", import_module(ENGINES[scheme]).open_engine(path))
