"""The default engine: Tantivy, a search library in Rust, in a folder of files."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import tantivy

from overlay.engines import BusyError, Cursor, EngineError
from overlay.engines.index_versions import IndexVersions
from overlay.engines.tantivy.schema import schema, to_fields
from overlay.engines.tantivy.searching import search
from overlay.engines.tantivy.state import TantivyCommitState, read_counts, read_state, write_counts, write_state
from overlay.engines.tantivy.view import TantivyView
from overlay.search.forward import Analysed
from overlay.search.planner import QueryPlan
from overlay.search.query import Matches, Query
from overlay.search.record_file import RecordFile, pack_document
from overlay.search.term_dictionary import TermCounts, TermDictionary

if TYPE_CHECKING:
    from overlay.search.document import Document

LAYOUT = "tantivy-24"
SLOW = False

_META = "meta.json"
"""The file that every commit replaces."""
_HEAP = 24_000_000
_ATTEMPTS = 3

log = logging.getLogger(__name__)


class TantivyEngine:
    """See `overlay.engines.Engine`."""

    ranks = False

    def __init__(self, folder: Path, *, make: bool) -> None:
        """Open the index in a folder. Raises OSError or ValueError."""
        self._folder, self._meta = folder, folder / _META
        self._index = _created(folder) if make else _opened(folder)
        self._writer: tantivy.IndexWriter | None = None
        self._appending: tuple[str, RecordFile] | None = None
        self._committing = threading.Lock()
        self._stamp = (0, 0)
        self._view = self._empty()
        with self._committing:
            self._refresh()

    def _empty(self) -> TantivyView:
        return TantivyView(self._index.schema, self._index.searcher(), None, TermDictionary(), None)

    def _current(self) -> TantivyView:
        """The newest view; commits of other processes are detected by the replaced file."""
        if self._seen() != self._stamp and self._committing.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._committing.release()
        return self._view

    def _seen(self) -> tuple[int, int]:
        """Identifies the newest commit."""
        try:
            stat = self._meta.stat()
        except FileNotFoundError:
            return 0, 0
        return stat.st_mtime_ns, stat.st_ino

    def _refresh(self) -> None:
        """Read the newest commit; a damaged one has no state, and needs a rebuild. Only while `_committing`."""
        for _ in range(_ATTEMPTS):
            stamp = self._seen()
            try:
                self._view, self._stamp = self._read_commit(self._view), stamp
            except (OSError, ValueError):
                log.warning("the index in %s is damaged or was just replaced", self._folder, exc_info=True)
            else:
                return
        self._view, self._stamp = self._empty(), stamp

    def _read_commit(self, before: TantivyView) -> TantivyView:
        self._index.reload()
        searcher, fields = self._index.searcher(), self._index.schema
        state = read_state(fields, searcher)
        if state is None:
            return TantivyView(fields, searcher, None, TermDictionary(), None)
        if before.state and before.state.records == state.records:
            records = before.records
        else:
            records = RecordFile(self._folder / state.records, write=False)
            if records.size() < state.size:
                raise ValueError(f"{state.records} holds {records.size():,} of {state.size:,} bytes")
        if before.state and before.state.words == state.words:
            terms = before.terms
            for changes in read_counts(self._folder, state, before.state.words_size):
                terms.apply(changes)
        else:
            terms = TermDictionary(read_counts(self._folder, state))
        return TantivyView(fields, searcher, state, terms, records)

    def cursor(self) -> Cursor | None:
        """How far this index has read."""
        state = self._current().state
        return state.cursor if state else None

    def search(self, query: Query, plan: QueryPlan, start: int, stop: int) -> Matches:
        """Run a plan with the filters of a query."""
        return search(self._current(), query, plan, start, stop)

    def terms(self) -> TermDictionary:
        """The term dictionary."""
        return self._current().terms

    def get(self, id: str) -> bytes | None:  # noqa: A002
        """The stored item of a current listing."""
        record = self._current().current(id)
        return record.item if record else None

    def close(self) -> None:
        """Finish merging, and release files and locks."""
        with self._committing:
            if self._writer is not None:
                self._writer.wait_merging_threads()
            self._writer = self._appending = None

    def write(self, registrations: Sequence[str] | None, documents: Iterable[Document], cursor: Cursor | None) -> None:
        """Replace documents."""
        with self._committing:
            if self._seen() != self._stamp:
                self._refresh()
            try:
                if registrations is None:
                    self._clear()
                if cursor is not None:
                    self._replace(registrations or (), documents, cursor)
            except BaseException:
                self._writer = None  # drops uncommitted changes
                raise

    def _clear(self) -> None:
        writer = self._writing()
        writer.delete_all_documents()
        self._commit(writer)
        self._view, self._appending = self._empty(), None
        self._refresh()
        self._sweep(set())

    def _replace(self, registrations: Sequence[str], documents: Iterable[Document], cursor: Cursor) -> None:
        view, writer, changes = self._view, self._writing(), TermCounts()
        state, records = self._next(view, cursor)
        unchanged: dict[bytes, int] = {}
        for registration in dict.fromkeys(registrations):
            unchanged |= _forget(view, writer, registration, changes)
        for document in documents:
            _add(writer, records, document, unchanged, changes)
        state = write_counts(self._folder, replace(state, size=records.sync()), view.terms, changes)
        write_state(writer, state)
        self._commit(writer)
        view.terms.apply(changes)
        self._index.reload()
        self._stamp = self._seen()
        self._view = TantivyView(self._index.schema, self._index.searcher(), state, view.terms, records)
        if view.state and view.state.words != state.words:
            self._sweep({view.state.words, state.words, state.records})

    def _next(self, view: TantivyView, cursor: Cursor) -> tuple[TantivyCommitState, RecordFile]:
        """The state to commit, and the file for its records."""
        before = view.state
        if before is None:
            state = TantivyCommitState(epoch=cursor.epoch, seq=cursor.seq, records=f"records-{uuid4().hex[:12]}")
        else:
            state = replace(before, epoch=cursor.epoch, seq=cursor.seq)
        if self._appending is None or self._appending[0] != state.records:
            self._appending = state.records, RecordFile(self._folder / state.records, write=True)
        return state, self._appending[1]

    def _commit(self, writer: tantivy.IndexWriter) -> None:
        try:
            writer.commit()
        except ValueError as error:
            raise EngineError(f"the index in {self._folder} cannot be written: {error}") from error

    def _writing(self) -> tantivy.IndexWriter:
        if self._writer is None:
            try:
                self._writer = self._index.writer(_HEAP, 1)
            except ValueError as error:
                raise BusyError(
                    f"{self._folder} cannot be written, or another process writes to it: {error}"
                ) from error
        return self._writer

    def _sweep(self, used: set[str]) -> None:
        """Remove unreferenced term and record files; open ones stay readable."""
        for pattern in ("words-*", "records-*"):
            for path in self._folder.glob(pattern):
                if path.name not in used:
                    path.unlink(missing_ok=True)


def open_versions(place: str) -> IndexVersions:
    """The versions of the index in a folder."""
    return IndexVersions(Path(place), LAYOUT)


def open_engine(version: Path, *, make: bool) -> TantivyEngine:
    """Open the index in a folder."""
    return TantivyEngine(version, make=make)


def _created(folder: Path) -> tantivy.Index:
    """The index in a folder, created if missing; an unreadable one is replaced and will be rebuilt. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / _META).exists():
        try:
            return _opened(folder)
        except ValueError:
            shutil.rmtree(folder)
            folder.mkdir(parents=True)
    return _prepared(tantivy.Index(schema(), str(folder)))


def _opened(folder: Path) -> tantivy.Index:
    """The index in a folder. Raises ValueError when it is missing or unreadable."""
    return _prepared(tantivy.Index.open(str(folder)))


def _prepared(index: tantivy.Index) -> tantivy.Index:
    index.register_tokenizer("whitespace", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())
    index.config_reader("manual")
    return index


def _forget(view: TantivyView, writer: tantivy.IndexWriter, registration: str, changes: TermCounts) -> dict[bytes, int]:
    """Delete all documents of a registration; the addresses of their records, most of which are written unchanged."""
    addresses: dict[bytes, int] = {}
    for address, record in view.of_registration(registration):
        addresses[record.packed] = address
        if record.is_listed:
            changes.remove(record.words)
    writer.delete_documents_by_term("fact", f"registration:{registration}")
    return addresses


def _add(
    writer: tantivy.IndexWriter,
    records: RecordFile,
    document: Document,
    unchanged: dict[bytes, int],
    changes: TermCounts,
) -> None:
    analysed = Analysed.of(document)
    record = pack_document(document, analysed, changes)
    address = unchanged.get(record)
    writer.add_document(to_fields(document, analysed, records.append(record) if address is None else address))
