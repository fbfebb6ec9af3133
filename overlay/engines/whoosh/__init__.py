"""The Whoosh engine: the same answers from pure Python, for small registries and where Tantivy has no build.

Whoosh holds the words; what filters and orders look at is decoded once and kept. A few thousand listings are its size.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from overlay.engines import BusyError, Cursor, EngineError, Suggestion
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
from overlay.engines.whoosh.row import Row
from overlay.engines.whoosh.saying import said
from overlay.engines.whoosh.search import search
from overlay.engines.whoosh.suggest import Hints
from overlay.engines.whoosh.view import State, View, state_name
from overlay.generations import Generations, InGenerations
from overlay.query import Hits, Query
from overlay.search import closeness
from overlay.search.ranking import weigh
from overlay.search.suggesting import hints, name_words, suggest
from overlay.search.vocabulary import Change, Vocabulary

if TYPE_CHECKING:
    from overlay.document import Document

_VERSION = "whoosh-8"
"""The folder inside the index folder: a new layout gets a new name, and the old one is left to be rebuilt."""
_BUFFER = 32  # megabytes of postings, by Whoosh's estimate, before it sorts on the disk
_ATTEMPTS = 5

_Found = TypeVar("_Found")

log = logging.getLogger(__name__)


class WhooshEngine(InGenerations):
    """See `overlay.engines.Engine`. One process writes, others may read the same folder and see each commit.

    A search takes milliseconds, so who serves others meanwhile asks in a thread (`slow`).
    """

    name = "whoosh"
    slow = True

    def __init__(self, path: str, beside: Path | None = None) -> None:
        """Open the index in a folder, making it when there is none; or one `beside` it that does not answer yet.
        Raises OSError when that cannot be done."""
        self._generations = Generations(Path(path), _VERSION)
        self.is_live = beside is None
        self._writing = threading.Lock()
        self._looking = threading.RLock()  # Whoosh's readers are not made for several threads at a time
        self._view = View([], -1, None, Vocabulary())
        self._enter(beside or self._generations.live())
        self._current()

    def _enter(self, folder: Path) -> None:
        """Open a generation, making it when there is none. Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        storage = DurableStorage(folder)
        self._index = _open(storage)
        self._folder, self._storage = folder, storage
        before, self._view = self._view, View([], -1, None, Vocabulary())  # its words may have the name of others here
        before.close()
        self._show()

    def _read(self, before: View | None) -> View:
        """The newest commit; one whose files are damaged has no state, and wants a rebuild."""
        for _ in range(_ATTEMPTS):
            try:
                view = View.read(self._folder, before)
                if view.generation == self._index.latest_generation():
                    return view
                view.close()  # its files may have been removed while they were read
            except Exception:  # damage shows as any error: Whoosh unpickles and unpacks without checking
                log.warning("the index in %s is damaged or was just replaced", self._folder, exc_info=True)
        return View([], self._index.latest_generation(), None, Vocabulary())

    def _current(self) -> View:
        """The newest view, also when another process wrote it, or another generation answers; to be used while
        `_looking` is held."""
        for _ in range(_ATTEMPTS):
            live = self._generations.live() if self.is_live else self._folder
            try:
                if live != self._folder:
                    self._enter(live)
                elif self._index.latest_generation() != self._view.generation:
                    self._show()
            except OSError:
                log.warning("the index in %s was just exchanged", live, exc_info=True)
                continue
            if self._view.state is not None or not self.is_live or self._generations.live() == live:
                break
        return self._view

    def _show(self) -> None:
        """Let searches see what was committed."""
        with self._looking:
            before = self._view
            self._view = self._read(before)
            before.close()

    def cursor(self) -> Cursor | None:
        """Where this index stands; does not wait for a search that is under way."""
        if self._looking.acquire(blocking=False):
            try:
                self._current()
            finally:
                self._looking.release()
        state = self._view.state
        return state.cursor if state else None

    def search(self, query: Query) -> Hits:
        """Answer a query."""
        with self._looking:
            return search(self._current(), query)

    def suggest(self, text: str, limit: int) -> list[Suggestion]:
        """Completions of what is being typed, the best first."""
        with self._looking:
            return suggest(Hints(self._current()), text, limit)

    def consult(self, look: Callable[[Vocabulary], _Found]) -> _Found:
        """What a function finds in the words in use."""
        with self._looking:
            return look(self._current().vocabulary)

    def get(self, id: str) -> bytes | None:  # noqa: A002
        """The stored item of a current listing."""
        with self._looking:
            found = self._current().current(id)
        return found["item"] if found else None

    def count(self) -> int:
        """Number of current documents."""
        with self._looking:
            state = self._current().state
        return state.current if state else 0

    def close(self) -> None:
        """Release files."""
        with self._looking:
            self._view.close()

    def clear(self) -> None:
        """Forget everything."""
        with self._writing, self._allowed(), self._writer() as writer:
            (self._folder / state_name(writer.generation)).unlink(missing_ok=True)
            writer.commit(mergetype=CLEAR)
        self._show()
        self._sweep()

    def replace(self, registrations: Sequence[str], documents: Iterable[Document], cursor: Cursor) -> None:
        """Forget all documents of `registrations`, add `documents`, and remember `cursor`."""
        with self._writing, self._allowed(), self._writer() as writer:
            before, change = self._before(writer), Change()
            current = before.current if before else 0
            current -= self._forget(writer, registrations, change)
            current += sum(_add(writer, document, change) for document in documents)
            counted = self._count(writer.generation, before, change)
            state = State(epoch=cursor.epoch, seq=cursor.seq, current=current, words=counted)
            state.save(self._folder / state_name(writer.generation))
            self._storage.flush(state_name(writer.generation))
            writer.commit(mergetype=few_segments)
        self._show()
        self._sweep()

    @contextmanager
    def _allowed(self) -> Iterator[None]:
        """While this generation is the one to be written. Raises BusyError."""
        if not self.is_live:
            yield
            return
        before = self._folder
        with self._generations.writing(self._look()):
            if self._folder != before:
                raise BusyError(f"the index in {before.parent} was exchanged meanwhile; look again")
            yield

    # -- making it anew

    def _beside(self, folder: Path) -> WhooshEngine:
        return WhooshEngine(str(folder.parent), folder)

    def finish(self) -> Path:
        """The folder of this one: there is nothing left to be done."""
        return self._folder

    def _go_over(self) -> None:
        self._look()

    def _leave(self, before: Path) -> None:
        """Everybody looks with each question which index answers."""

    def _look(self) -> Path:
        """The folder of the generation that answers, after going over to it."""
        with self._looking:
            self._current()
            return self._folder

    # -- writing

    @contextmanager
    def _writer(self) -> Iterator[Any]:
        """A writer that the block commits; what it did not commit is dropped. Raises BusyError."""
        try:
            writer = SegmentWriter(self._index, codec=Codec(), limitmb=_BUFFER)
        except LockError:
            raise BusyError(f"another process writes to {self._folder}") from None
        try:
            yield writer
        finally:
            if not writer.is_closed:
                writer.cancel()

    def _before(self, writer: Any) -> State | None:
        """The state to go on from. Raises EngineError when there is none and yet there are documents."""
        with self._looking:
            state = self._current().state
        if state is None and writer.segments:
            raise EngineError(f"the index in {self._folder} is damaged: rebuild it")
        return state

    def _forget(self, writer: Any, registrations: Iterable[str], change: Change) -> int:
        """Delete all documents of registrations; how many were current."""
        current = 0
        with self._looking:
            for registration in dict.fromkeys(registrations):
                for document, _ in self._view.postings("registration", registration):
                    row = self._view.row(document)
                    current += row.until is None
                    if row.listed:
                        change.go(self._view.stored(document)["words"].split())
                    writer.delete_document(document)
        return current

    def _count(self, generation: int, before: State | None, change: Change) -> str:
        """Write the words as counted after a change to a new file, unless nothing changed; the file that holds."""
        rows = change.rows()
        if before and not rows and not change.listings:
            return before.words
        vocabulary = Vocabulary.load(self._folder / before.words) if before else Vocabulary()
        vocabulary.apply(change.listings, rows)
        name = f"words-{generation}"
        vocabulary.merged().save(self._folder / name)
        return name

    def _sweep(self) -> None:
        """Remove files that no commit names any more, also those of a writer that was killed."""
        with self._looking:
            view = self._view
        kept = {state_name(view.generation), view.state.words if view.state else ""}
        for pattern in ("state-*", "words-*", f"_{INDEX}_*.toc.*"):
            for path in self._folder.glob(pattern):
                if path.name not in kept:
                    path.unlink(missing_ok=True)


def open_engine(path: str) -> WhooshEngine:
    """Open the index in a folder."""
    return WhooshEngine(path)


def _open(storage: DurableStorage) -> Any:
    """The index in a folder; one whose table of contents cannot be read is made anew, for it can be rebuilt."""
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
    except Exception:  # Whoosh unpickles and unpacks without checking
        log.warning("the index in %s cannot be read, and is made anew", folder, exc_info=True)
        return False
    finally:
        storage.abandon()
    return True


def _add(writer: Any, document: Document, change: Change) -> bool:
    """Add a document; whether it is the current one of its listing."""
    levels, surfaces = weigh(document)
    row = Row.of(document)
    if row.listed:
        change.come(surfaces, levels)
    writer.add_document(
        registration=[document.registration],
        id=[document.id],
        terms=[term for term, level in levels.items() for _ in range(level)],
        hints=list(hints(document)) if row.listed else [],
        names=name_words(document) if row.listed else [],
        row=row.kept(),
        words=" ".join(sorted(surfaces)) if row.listed else "",
        said=said(document),
        order=closeness.said(document),
        item=document.item,
    )
    return row.until is None
