"""One committed state of the index, as searches see it."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from overlay.engines import Cursor
from overlay.engines.whoosh.library import INDEX, SCHEMA, TOC, ReadStorage, SegmentReader, TermNotFound
from overlay.engines.whoosh.row import Row
from overlay.search.vocabulary import Vocabulary

_MOST_TERMS = 2_000  # whose postings are kept decoded


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What an index knows of itself: how far it has read, how many documents are current, where its words are counted.

    It lies beside the table of contents of the same generation, and is on the disk before that appears.
    """

    epoch: str
    seq: int
    current: int
    words: str

    @property
    def cursor(self) -> Cursor:
        """How far the store's changes have been read."""
        return Cursor(self.epoch, self.seq)

    def save(self, path: Path) -> None:
        """Write to a file. Raises OSError."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> State | None:
        """Read from a file; None when there is none: nothing was written yet, or all was cleared."""
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def state_name(generation: int) -> str:
    """The file of the state that goes with a table of contents."""
    return f"state-{generation}.json"


class Leaf(NamedTuple):
    """A segment; its documents have the numbers from `base` on. `rows` holds those that were looked at."""

    base: int
    reader: Any
    rows: dict[int, Row]


class View:
    """Documents have numbers from 0 up, which mean nothing in another view. Not for several threads at a time."""

    def __init__(self, leaves: list[Leaf], generation: int, state: State | None, vocabulary: Vocabulary) -> None:
        self.leaves, self.generation, self.state, self.vocabulary = leaves, generation, state, vocabulary
        self._bases = [leaf.base for leaf in leaves]
        self._levels: dict[str, dict[int, int]] = {}

    @classmethod
    def read(cls, folder: Path, before: View | None) -> View:
        """The newest commit. Raises OSError, ValueError or whatever comes of unpickling when its files are damaged."""
        storage = ReadStorage(folder)
        try:
            toc = TOC.read(storage, INDEX, schema=SCHEMA)
            state = State.load(folder / state_name(toc.generation))
            words = _words(folder, state, before)
            return cls(list(_open(storage, toc.segments, before)), toc.generation, state, words)
        except BaseException:
            storage.abandon()
            raise

    def close(self) -> None:
        """Close the files."""
        while self.leaves:
            self.leaves.pop().reader.close()

    def documents(self) -> Iterator[int]:
        """All documents."""
        for leaf in self.leaves:
            yield from (leaf.base + number for number in leaf.reader.all_doc_ids())

    def row(self, document: int) -> Row:
        """What is kept of a document."""
        leaf, number = self._place(document)
        found = leaf.rows.get(number)
        if found is None:
            found = leaf.rows[number] = Row.load(leaf.reader.stored_fields(number)["row"])
        return found

    def stored(self, document: int) -> dict[str, Any]:
        """All that is stored of a document: `row`, `words`, `order` and `item`."""
        leaf, number = self._place(document)
        found: dict[str, Any] = leaf.reader.stored_fields(number)
        return found

    def _place(self, document: int) -> tuple[Leaf, int]:
        leaf = self.leaves[bisect_right(self._bases, document) - 1]
        return leaf, document - leaf.base

    def levels(self, term: str) -> dict[int, int]:
        """The documents that hold an index term, and at what level."""
        found = self._levels.get(term)
        if found is None:
            if len(self._levels) >= _MOST_TERMS:
                self._levels.clear()
            found = self._levels[term] = dict(self.postings("terms", term))
        return found

    def postings(self, field: str, term: str) -> Iterator[tuple[int, int]]:
        """The documents that hold a term in a field, and how often."""
        for leaf in self.leaves:
            try:
                matcher = leaf.reader.postings(field, term)
            except TermNotFound:
                continue
            while matcher.is_active():
                yield leaf.base + matcher.id(), int(matcher.weight())
                matcher.next()

    def beginning(self, field: str, prefix: str) -> dict[str, int]:
        """The terms of a field that begin so, and how many documents hold each; some may have been deleted."""
        counts: dict[str, int] = {}
        for leaf in self.leaves:
            for raw in leaf.reader.expand_prefix(field, prefix):
                term = raw.decode()
                counts[term] = counts.get(term, 0) + leaf.reader.doc_frequency(field, raw)
        return counts

    def current(self, id_: str) -> dict[str, Any] | None:
        """All that is stored of the current document of a listing."""
        for document, _ in self.postings("id", id_):
            if self.row(document).until is None:
                return self.stored(document)
        return None


def _words(folder: Path, state: State | None, before: View | None) -> Vocabulary:
    if state is None:
        return Vocabulary()
    if before and before.state and before.state.words == state.words:
        return before.vocabulary
    return Vocabulary.load(folder / state.words)


def _open(storage: ReadStorage, segments: list[Any], before: View | None) -> Iterator[Leaf]:
    """Segments never change but for what is deleted of them, so rows that were looked at are kept."""
    known = {leaf.reader.segment().segment_id(): leaf.rows for leaf in before.leaves} if before else {}
    base = 0
    for segment in segments:
        yield Leaf(base, SegmentReader(storage, SCHEMA, segment), known.get(segment.segment_id(), {}))
        base += segment.doc_count_all()
