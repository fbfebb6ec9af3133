"""The default engine: Tantivy, a search library in Rust, in a folder of files."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4
from weakref import WeakSet

import tantivy

from overlay.aging import ages
from overlay.engines import BusyError, Cursor, EngineError, Suggestion
from overlay.engines.tantivy.files import made, opened, seen
from overlay.engines.tantivy.listings import Appending, Listings
from overlay.engines.tantivy.queries import Translator
from overlay.engines.tantivy.run import counted
from overlay.engines.tantivy.schema import to_fields
from overlay.engines.tantivy.search import search
from overlay.engines.tantivy.state import State, read_changes, read_state, read_words, write_change, write_state
from overlay.engines.tantivy.suggest import suggest
from overlay.engines.tantivy.view import View
from overlay.generations import Generations, InGenerations
from overlay.query import Hits, Query
from overlay.search.closeness import said
from overlay.search.facts import is_listed
from overlay.search.postings import Postings
from overlay.search.prices import pack, usual
from overlay.search.ranking import weigh
from overlay.search.records import Record, Records
from overlay.search.sorting import seniority
from overlay.search.vocabulary import Change, Vocabulary

if TYPE_CHECKING:
    from overlay.document import Document

_VERSION = "tantivy-14"
"""The folder inside the index folder: a new layout gets a new name, and the old one is left to be rebuilt."""
_META = "meta.json"
"""What every commit replaces, and all look at before they answer."""
_HEAP = 24_000_000
_SMALL_BATCH = 64  # registrations; larger ones are a rebuild, or catching up
_QUIET_FRESH, _MOST_FRESH = 4_000, 100_000  # words outside the sorted arrays
_QUIET_UNCOUNTED, _MOST_UNCOUNTED = 20_000, 400_000  # changed counts since the last file of words
_ATTEMPTS = 3
_ONE_LOOK = 0.005
"""Seconds that a look for another process' commit holds where much is asked: looking costs as much as reading ten
records."""
_PATIENCE = 0.2
"""Seconds that a process with nothing to answer from waits for the first index that it sees, its event loop too."""

_Found = TypeVar("_Found")

log = logging.getLogger(__name__)


class TantivyEngine(InGenerations):
    """See `overlay.engines.Engine`. Searches may run in other threads than `replace`; one process writes, others may
    read the same folder and see each commit."""

    name = "tantivy"

    def __init__(self, path: str, beside: Path | None = None) -> None:
        """Open the index in a folder, making it when there is none; or one `beside` it that does not answer yet.
        Raises OSError when that cannot be done."""
        self._generations = Generations(Path(path), _VERSION)
        self.is_live = beside is None
        self._writer: tantivy.IndexWriter | None = None
        self._appending: tuple[str, Records] | None = None
        self._committing = threading.Lock()
        self._counting = threading.Lock()
        self._opened: WeakSet[Records] = WeakSet()
        self._uncounted = 0
        self._is_asked_much, self._looked_at = False, 0.0
        self._enter(beside or self._generations.live())
        self._view = self._empty()
        self._look()

    def _enter(self, folder: Path, attempts: int = _ATTEMPTS) -> None:
        """Open a generation, making it when there is none; again if another one took its place meanwhile."""
        try:
            self._use(folder, made(folder))
        except (OSError, ValueError):
            live = self._generations.live()
            if not self.is_live or live == folder or not attempts:
                raise
            self._enter(live, attempts - 1)

    def _use(self, folder: Path, index: tantivy.Index, *, holding: bool = False) -> None:
        self._index = index
        self._folder, self._meta = folder, folder / _META
        self._listings = Listings(folder, holding=holding)
        self._writer = self._appending = None
        self._uncounted = 0

    def _empty(self) -> View:
        return View(Translator(self._index.schema, self._index.searcher()), None, Vocabulary(), None)

    def _look(self) -> None:
        """Show the newest commit of the generation that answers; one whose files are damaged or gone has no state, and
        wants a rebuild. Only while `_committing`."""
        for _ in range(_ATTEMPTS):
            stamp = seen(self._meta)
            try:
                if self.is_live and (live := self._generations.live()) != self._folder:
                    self._move(live)
                    stamp = seen(self._meta)
                self._view, self._stamp = self._read_commit(self._view), stamp
            except (OSError, ValueError):
                log.warning("the index in %s is damaged or was just replaced", self._folder, exc_info=True)
            else:
                return
        self._view, self._stamp = self._empty(), stamp

    def _move(self, folder: Path) -> None:
        """Go over to another generation. Raises OSError or ValueError when it cannot be read."""
        before = self._listings
        self._use(folder, opened(folder), holding=before.holding)
        before.close()
        log.info("index: the one in %s answers from now on", folder)

    def _read_commit(self, before: View) -> View:
        self._index.reload()
        ask = Translator(self._index.schema, self._index.searcher())
        state = read_state(ask.schema, ask.searcher)
        if state is None:
            return View(ask, None, Vocabulary(), None)
        if before.state and before.state.records == state.records:
            records = before.records
        else:
            records = self._open_records(state.records, write=False)
            if records.size() < state.size:
                raise ValueError(f"{state.records} holds {records.size():,} of {state.size:,} bytes")
        return View(ask, state, self._words(before, state, ask), records, self._postings(before, state))

    def _postings(self, before: View, state: State) -> Postings | None:
        return self._listings.postings(state, before.state, before.postings)

    def _words(self, before: View, state: State, ask: Translator) -> Vocabulary:
        """The vocabulary of a commit: the one before, brought up to date, unless it was written anew since."""
        if before.state and before.state.words == state.words and before.state.records == state.records:
            vocabulary = before.vocabulary
            changes = read_changes(ask.schema, ask.searcher, before.state.generation)
            with self._counting:
                for listings, rows in changes:
                    vocabulary.apply(listings, rows)
        else:
            vocabulary = read_words(ask.schema, ask.searcher, self._folder, state)
        vocabulary = vocabulary if vocabulary.fresh <= _QUIET_FRESH else vocabulary.merged()
        if self._is_asked_much:
            vocabulary.hold()
        return vocabulary

    def _open_records(self, name: str, *, write: bool) -> Records:
        records = Records(self._folder / name, write=write)
        self._opened.add(records)
        return records

    def _current(self) -> View:
        """The newest view; another process' commit, a finished merge, or that another generation answers, is noticed by
        the file it replaced."""
        is_empty = self._view.state is None  # then nothing is answered until there is something to be seen
        if self._is_asked_much and not is_empty:
            now = monotonic()
            if now - self._looked_at < _ONE_LOOK:
                return self._view
            self._looked_at = now
        if seen(self._meta) != self._stamp and self._committing.acquire(blocking=False):
            if self._is_asked_much and self._generations.live() != self._folder:
                # reading all anew takes a second for 100,000 offers, and the old files answer as well as ever
                self._look_aside(_PATIENCE if is_empty else 0.0)
            else:
                self._look_and_release()
        return self._view

    def _look_aside(self, patience: float) -> None:
        looking = threading.Thread(target=self._look_and_release, name="a2b-index")
        try:
            looking.start()
        except RuntimeError:  # this process may start no more threads
            self._look_and_release()
        else:
            looking.join(patience)

    def _look_and_release(self) -> None:
        try:
            self._look()
        finally:
            self._committing.release()

    def hold(self) -> None:
        """Hold what most questions are about in memory from now on, for processes that answer many (100,000 offers: a
        second and 70 MB). Searches go on meanwhile, and commits are seen."""
        from overlay.search.preparing import prepare

        self._current()  # what is there by now answers meanwhile
        self._is_asked_much = True
        prepare()  # loading compiled loops takes a second, too
        with self._committing:
            self._listings.hold()
            self._look()

    def cursor(self) -> Cursor | None:
        """Where this index stands."""
        state = self._current().state
        return state.cursor if state else None

    def search(self, query: Query) -> Hits:
        """Answer a query."""
        return search(self._current(), self._counting, query)

    def suggest(self, text: str, limit: int) -> list[Suggestion]:
        """Completions of what is being typed, the best first."""
        return suggest(self._current(), self._counting, text, limit)

    def consult(self, look: Callable[[Vocabulary], _Found]) -> _Found:
        """What a function finds in the words in use."""
        view = self._current()
        with self._counting:
            return look(view.vocabulary)

    def get(self, id: str) -> bytes | None:  # noqa: A002
        """The stored item of a current listing."""
        return self._current().item(id)

    def count(self) -> int:
        """Number of current documents."""
        ask = self._current().ask
        return counted(ask.searcher.search(ask.term("fact", "current"), 1))

    def close(self) -> None:
        """Release files and locks."""
        with self._committing:
            self._writer = self._appending = None
            for records in self._opened:
                records.close()
            self._listings.close()

    def clear(self) -> None:
        """Forget everything."""
        with self._committing, self._allowed():
            writer = self._writing()
            writer.delete_all_documents()
            self._commit(writer)
            self._view = self._empty()
            self._look()
            self._uncounted = 0
            self._sweep(set())

    def replace(self, registrations: Sequence[str], documents: Iterable[Document], cursor: Cursor) -> None:
        """Forget all documents of `registrations`, add `documents`, and remember `cursor`."""
        with self._committing, self._allowed():
            if seen(self._meta) != self._stamp:
                self._look()
            try:
                self._replace(self._view, registrations, documents, cursor)
                self._settle(len(registrations))
            except BaseException:
                self._writer = None  # whatever was not committed is dropped with it
                raise

    @contextmanager
    def _allowed(self) -> Iterator[None]:
        """While this generation is the one to be written; only while `_committing`. Raises BusyError."""
        if not self.is_live:
            yield
            return
        if self._generations.live() != self._folder:
            self._look()
            self._generations.tidy()  # so that all who only read notice, whatever became of who exchanged it
            raise BusyError(f"the index in {self._folder.parent} was exchanged meanwhile; look again")
        with self._generations.writing(self._folder):
            yield

    # -- making it anew

    def _beside(self, folder: Path) -> TantivyEngine:
        return TantivyEngine(str(folder.parent), folder)

    def finish(self) -> Path:
        """Make this one quick to open, and write no more to it for now; its folder."""
        with self._committing:
            self._count_anew()
            if self._writer is not None:
                self._writer.wait_merging_threads()
            self._writer = self._appending = None
            return self._folder

    def _go_over(self) -> None:
        with self._committing:
            self._look()

    def _leave(self, before: Path) -> None:
        (before / _META).unlink(missing_ok=True)

    def _replace(self, view: View, registrations: Sequence[str], documents: Iterable[Document], cursor: Cursor) -> None:
        writer = self._writing()
        state, records = self._next(view, cursor)
        change = Change()
        listings = self._listings.appending(state)
        kept = _forget(view, writer, registrations, change, listings)
        for document in documents:
            _add(writer, records, document, kept, change, listings)
        state = replace(state, size=records.sync(), logged=listings.finish())
        uncounted = write_change(writer, state.generation, change)
        write_state(writer, state)
        self._commit(writer)
        with self._counting:
            view.vocabulary.apply(change.listings, change.rows())
        self._uncounted += uncounted
        self._show(state, view.vocabulary, records)

    def _next(self, view: View, cursor: Cursor) -> tuple[State, Records]:
        """The state to commit, and the file its records go to."""
        before = view.state
        generation = before.generation + 1 if before else 1
        made = uuid4().hex[:12]
        name, log = (before.records, before.log) if before else (f"records-{made}", f"listed-{made}")
        state = State(epoch=cursor.epoch, seq=cursor.seq, generation=generation, records=name, log=log)
        if before:
            state = replace(state, words=before.words, counted=before.counted, logged=before.logged)
        if self._appending is None or self._appending[0] != name:
            self._appending = name, self._open_records(name, write=True)
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

    def _settle(self, batch: int) -> None:
        """Keep what waits outside files and arrays small, more so between small batches than during a rebuild."""
        vocabulary = self._view.vocabulary
        quiet = batch < _SMALL_BATCH
        if vocabulary.fresh > (_QUIET_FRESH if quiet else _MOST_FRESH):
            self._view = self._view._replace(vocabulary=vocabulary.merged())
        if self._uncounted > (_QUIET_UNCOUNTED if quiet else _MOST_UNCOUNTED):
            self._count_anew()

    def _count_anew(self) -> None:
        """Write the words to a file, so that the changes since the last one need not be kept and read one by one."""
        before = self._view.state
        if before is None:
            return
        vocabulary = self._view.vocabulary.merged()
        name = f"words-{before.generation}-{uuid4().hex[:6]}"
        vocabulary.save(self._folder / name)
        state = replace(before, generation=before.generation + 1, words=name, counted=before.generation)
        writer = self._writing()
        writer.delete_documents_by_term("meta", "counts")
        write_state(writer, state)
        self._commit(writer)
        self._show(state, vocabulary, self._view.records)
        self._uncounted = 0
        self._sweep({name, before.words, state.records, state.log})

    def _show(self, state: State, vocabulary: Vocabulary, records: Records | None) -> None:
        """Let searches see what was committed."""
        self._index.reload()
        self._stamp = seen(self._meta)
        ask = Translator(self._index.schema, self._index.searcher())
        self._view = View(ask, state, vocabulary, records, self._postings(self._view, state))

    def _sweep(self, kept: set[str]) -> None:
        """Remove files of words, records and listings that no commit names any more; who has them open keeps them."""
        for pattern in ("words-*", "records-*", "listed-*"):
            for path in self._folder.glob(pattern):
                if path.name not in kept:
                    path.unlink(missing_ok=True)


def open_engine(path: str) -> TantivyEngine:
    """Open the index in a folder."""
    return TantivyEngine(path)


def _forget(
    view: View, writer: tantivy.IndexWriter, registrations: Iterable[str], change: Change, listings: Appending
) -> dict[bytes, int]:
    """Delete all documents of registrations; their records and where they lie, since most come back unchanged."""
    kept = {}
    for registration in dict.fromkeys(registrations):
        for place, data in view.of_registration(registration):
            kept[data] = place
            record = Record.unpack(data)
            if record.listed:
                change.go(record.words.decode().split())
                listings.go(place)
        writer.delete_documents_by_term("fact", f"registration:{registration}")
    return kept


def _add(
    writer: tantivy.IndexWriter, records: Records, document: Document, kept: dict[bytes, int], change: Change,
    listings: Appending,
) -> None:  # fmt: skip
    levels, surfaces = weigh(document)
    listed = is_listed(document)
    if listed:
        change.come(surfaces, levels)
    offers = pack(document)
    data = Record(
        document.id,
        seniority(document),
        listed,
        usual(offers),
        offers,
        document.item,
        " ".join(sorted(surfaces)).encode() if listed else b"",
        said(document),
        ages(document.item),
    ).pack()
    place = kept.get(data)
    if place is None:
        place = records.append(data)
    if listed:
        listings.come(place, document, levels)
    writer.add_document(to_fields(document, levels, place))
