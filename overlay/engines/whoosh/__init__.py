"""The Whoosh engine: the same results, of an index in pure Python, for small registries.

Whoosh stores the documents and their terms; documents are decoded once and stay in memory, and words are counted when
an index is opened. It is designed for a few thousand listings.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from overlay.engines import EARLIER, EngineError, IndexContent, IndexPosition
from overlay.engines.index_versions import IndexVersions
from overlay.engines.whoosh.library import CLEAR, WhooshFiles, few_segments
from overlay.engines.whoosh.searching import search
from overlay.engines.whoosh.view import WhooshView, stored
from overlay.search.candidates import ranked
from overlay.search.forward import FIELDS, Analysed
from overlay.search.planner import QueryPlan
from overlay.search.query import Matches, Query
from overlay.search.suggesting import MAX_LISTINGS, Completed, Typed, completed_by_items
from overlay.search.term_dictionary import TermDictionary

if TYPE_CHECKING:
    from overlay.search.document import Document

LAYOUT = "whoosh-20"
SLOW = True

_ATTEMPTS = 5

log = logging.getLogger(__name__)


class WhooshEngine:
    """See `overlay.engines.Engine`."""

    has_vectors = False

    def __init__(self, folder: Path, *, make: bool) -> None:
        """Open the index in a folder. Raises OSError or ValueError."""
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        elif not folder.is_dir():
            raise ValueError(f"there is no index in {folder}")
        self._writing = threading.Lock()
        self._reading = threading.RLock()  # Whoosh's readers are not thread-safe
        self._files, self._view = WhooshFiles(folder), WhooshView()
        self._current()

    def _current(self) -> WhooshView:
        """The newest view, of this or another process; only while `_reading`. One of a damaged commit has no position,
        and needs a rebuild."""
        for _ in range(_ATTEMPTS):
            try:
                if self._files.generation() != self._view.generation:
                    self._view = WhooshView.read(self._files, self._view)
            except Exception:  # damage raises any error: Whoosh unpickles and unpacks unchecked
                log.warning("the index in %s is damaged or was just replaced", self._files.path, exc_info=True)
            else:
                return self._view
        with suppress(OSError):  # the folder is removed: another version is live
            generation = self._files.generation()
            if generation >= 0:  # else its files are being removed
                self._view = WhooshView(generation)
        return self._view

    def position(self) -> IndexPosition | None:
        """How far this index has read."""
        with self._reading:
            return self._current().position

    def content(self) -> IndexContent | None:
        """The content that its documents were made by."""
        with self._reading:
            return self._current().content

    def damage(self) -> str:
        """No damage: an index that cannot be read has no position."""
        return ""

    def search(self, query: Query, plan: QueryPlan, start: int, stop: int) -> Matches:
        """Run a plan with the filters of a query."""
        with self._reading:
            return ranked(partial(search, self._current()), query, plan, start, stop)

    def with_document(self, document: Document) -> None:
        """None: only the default engine can."""

    def complete(self, typed: Typed) -> Completed:
        """The completions of a text."""
        return completed_by_items(self.search(Query(), typed.plan, 0, MAX_LISTINGS).rows, typed)

    def terms(self) -> TermDictionary:
        """The term dictionary."""
        with self._reading:
            return self._current().terms

    def get(self, id: str) -> bytes | None:  # noqa: A002
        """The stored item of a current listing."""
        with self._reading:
            rows = self._current().rows.values()
        return next((row.record.item for row in rows if row.record.id == id and "until" not in row.heights), None)

    def close(self) -> None:
        """Do nothing: files are open only while they are read or written."""

    def write(
        self,
        registrations: Sequence[str] | None,
        documents: Iterable[Document],
        position: IndexPosition | None,
        content: IndexContent = EARLIER,
    ) -> None:
        """Replace documents."""
        with self._writing, self._files.writing() as writer:
            with self._reading:
                view = self._current()
            if view.position is None and writer.segments and registrations is not None:
                raise EngineError(f"the index in {self._files.path} is damaged: rebuild it")
            gone = frozenset(registrations or ())
            former = [number for number, row in view.rows.items() if row.registration in gone]
            for number in [*former, view.position_number] if view.position else former:
                writer.delete_document(number)
            for document in documents:
                analysed = Analysed.of(document)
                terms = {name: analysed.field_terms(field) for field, name in enumerate(FIELDS)}
                writer.add_document(row=stored(document, analysed), **terms)
            if position is not None:
                writer.add_document(cursor=(*position, tuple(content)))
            writer.commit(mergetype=CLEAR if registrations is None else few_segments)


def open_versions(location: str) -> IndexVersions:
    """The versions of the index in a folder."""
    return IndexVersions(Path(location), LAYOUT)


def open_engine(version: Path, *, make: bool, for_search: bool = True) -> WhooshEngine:  # noqa: ARG001
    """Open the index in a folder."""
    return WhooshEngine(version, make=make)
