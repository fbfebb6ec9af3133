"""The Whoosh engine: the same results in pure Python, for small registries and platforms without a build of Tantivy.

Whoosh stores the terms; the fields for filters and orders are decoded once and stay in memory. It is meant for a few
thousand listings.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlay.engines import BusyError, Cursor, EngineError
from overlay.engines.index_versions import IndexVersions
from overlay.engines.whoosh.fields import ListingFields
from overlay.engines.whoosh.library import (
    CLEAR,
    INDEX,
    SCHEMA,
    TOC,
    Codec,
    DurableStorage,
    FileIndex,
    LockError,
    ReadStorage,
    SegmentWriter,
    few_segments,
)
from overlay.engines.whoosh.searching import search
from overlay.engines.whoosh.view import WhooshCommitState, WhooshView, state_name
from overlay.search.forward import FIELDS, Analysed
from overlay.search.planner import QueryPlan
from overlay.search.query import Matches, Query
from overlay.search.record_file import pack_document
from overlay.search.term_dictionary import TermChanges, TermDictionary

if TYPE_CHECKING:
    from overlay.search.document import Document

LAYOUT = "whoosh-13"
SLOW = True

_BUFFER = 32  # megabytes of postings, by Whoosh's estimate, before it sorts on disk
_ATTEMPTS = 5

log = logging.getLogger(__name__)


class WhooshEngine:
    """See `overlay.engines.Engine`."""

    def __init__(self, folder: Path, *, make: bool) -> None:
        """Open the index in a folder. Raises OSError or ValueError."""
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        elif not folder.is_dir():
            raise ValueError(f"there is no index in {folder}")
        self._writing = threading.Lock()
        self._reading = threading.RLock()  # Whoosh's readers are not thread-safe
        self._folder, self._storage = folder, DurableStorage(folder)
        self._index = _opened(self._storage)
        self._view = WhooshView([], -1, None, TermDictionary())
        self._refresh()

    def _read(self, before: WhooshView | None) -> WhooshView:
        """The newest commit; a damaged one has no state, and needs a rebuild."""
        for _ in range(_ATTEMPTS):
            try:
                view = WhooshView.read(self._folder, before)
                if view.generation == self._index.latest_generation():
                    return view
                view.close()  # its files may have been removed during the read
            except Exception:  # damage raises any error: Whoosh unpickles and unpacks unchecked
                log.warning("the index in %s is damaged or was just replaced", self._folder, exc_info=True)
        return WhooshView([], self._index.latest_generation(), None, TermDictionary())

    def _current(self) -> WhooshView:
        """The newest view, of this or another process; only while `_reading`."""
        try:
            if self._index.latest_generation() != self._view.generation:
                self._refresh()
        except OSError:
            log.warning("the index in %s was just removed", self._folder, exc_info=True)
        return self._view

    def _refresh(self) -> None:
        with self._reading:
            before = self._view
            self._view = self._read(before)
            before.close()

    def cursor(self) -> Cursor | None:
        """How far this index has read; does not wait for a running search."""
        if self._reading.acquire(blocking=False):
            try:
                self._current()
            finally:
                self._reading.release()
        state = self._view.state
        return state.cursor if state else None

    def search(self, query: Query, plan: QueryPlan, start: int, stop: int) -> Matches:
        """Run a plan with the filters of a query."""
        with self._reading:
            return search(self._current(), query, plan, start, stop)

    def terms(self) -> TermDictionary:
        """The term dictionary."""
        with self._reading:
            return self._current().terms

    def get(self, id: str) -> bytes | None:  # noqa: A002
        """The stored item of a current listing."""
        with self._reading:
            record = self._current().current(id)
        return record.item if record else None

    def close(self) -> None:
        """Release files."""
        with self._reading:
            self._view.close()

    def write(self, registrations: Sequence[str] | None, documents: Iterable[Document], cursor: Cursor | None) -> None:
        """Replace documents."""
        with self._writing:
            if registrations is None:
                self._clear()
            if cursor is not None:
                self._replace(registrations or (), documents, cursor)

    def _clear(self) -> None:
        with self._writer() as writer:
            (self._folder / state_name(writer.generation)).unlink(missing_ok=True)
            writer.commit(mergetype=CLEAR)
        self._refresh()
        self._sweep()

    def _replace(self, registrations: Sequence[str], documents: Iterable[Document], cursor: Cursor) -> None:
        with self._writer() as writer:
            before, changes = self._before(writer), TermChanges()
            self._forget(writer, registrations, changes)
            for document in documents:
                _add(writer, document, changes)
            words = self._count(writer.generation, before, changes)
            state = WhooshCommitState(epoch=cursor.epoch, seq=cursor.seq, words=words)
            state.save(self._folder / state_name(writer.generation))
            self._storage.flush(state_name(writer.generation))
            writer.commit(mergetype=few_segments)
        self._refresh()
        self._sweep()

    @contextmanager
    def _writer(self) -> Iterator[Any]:
        """A writer for the block to commit; uncommitted changes are dropped. Raises BusyError."""
        try:
            writer = SegmentWriter(self._index, codec=Codec(), limitmb=_BUFFER)
        except LockError:
            raise BusyError(f"another process writes to {self._folder}") from None
        try:
            yield writer
        finally:
            if not writer.is_closed:
                writer.cancel()

    def _before(self, writer: Any) -> WhooshCommitState | None:
        """The state before a commit. Raises EngineError when it is missing although there are documents."""
        with self._reading:
            state = self._current().state
        if state is None and writer.segments:
            raise EngineError(f"the index in {self._folder} is damaged: rebuild it")
        return state

    def _forget(self, writer: Any, registrations: Iterable[str], changes: TermChanges) -> None:
        """Delete all documents of registrations."""
        with self._reading:
            for registration in dict.fromkeys(registrations):
                for document, _ in self._view.postings("registration", registration):
                    record = self._view.record(document)
                    if record.is_listed:
                        changes.remove(record.words)
                    writer.delete_document(document)

    def _count(self, generation: int, before: WhooshCommitState | None, changes: TermChanges) -> str:
        """Write the term dictionary with changes applied to a new file; the name of the file, the former one if
        unchanged."""
        rows = changes.rows()
        if before and not rows and not changes.listings:
            return before.words
        terms = TermDictionary.load(self._folder / before.words) if before else TermDictionary()
        terms.apply(changes.listings, rows)
        name = f"words-{generation}"
        terms.merged().save(self._folder / name)
        return name

    def _sweep(self) -> None:
        """Remove unreferenced files, also those of a killed writer."""
        with self._reading:
            view = self._view
        used = {state_name(view.generation), view.state.words if view.state else ""}
        for pattern in ("state-*", "words-*", f"_{INDEX}_*.toc.*"):
            for path in self._folder.glob(pattern):
                if path.name not in used:
                    path.unlink(missing_ok=True)


def open_versions(place: str) -> IndexVersions:
    """The versions of the index in a folder."""
    return IndexVersions(Path(place), LAYOUT)


def open_engine(version: Path, *, make: bool) -> WhooshEngine:
    """Open the index in a folder."""
    return WhooshEngine(version, make=make)


def _opened(storage: DurableStorage) -> Any:
    """The index in a folder; one with an unreadable table of contents is replaced, and will be rebuilt."""
    newest = TOC._latest_generation(storage, INDEX)  # noqa: SLF001  there is no index yet to ask
    if newest < 0 or not _is_readable(Path(storage.folder)):
        TOC(SCHEMA, [], newest + 1).write(storage, INDEX)
    return FileIndex(storage, SCHEMA, INDEX)


def _is_readable(folder: Path) -> bool:
    """Whether Whoosh can read its table of contents. Raises OSError when the file itself cannot be read."""
    storage = ReadStorage(folder)
    try:
        FileIndex(storage, SCHEMA, INDEX)
    except OSError:
        raise
    except Exception:  # Whoosh unpickles and unpacks unchecked
        log.warning("the index in %s is unreadable and is created again", folder, exc_info=True)
        return False
    finally:
        storage.abandon()
    return True


def _add(writer: Any, document: Document, changes: TermChanges) -> None:
    analysed = Analysed.of(document)
    writer.add_document(
        registration=[document.registration],
        id=[document.id],
        row=tuple(ListingFields.of(document, analysed)),
        text="".join(f" {sequence} \n" for sequence in analysed.sequences()),
        record=pack_document(document, analysed, changes),
        **{name: analysed.field_terms(field) for field, name in enumerate(FIELDS)},
    )
