"""One commit of the index, for reading."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from overlay.engines import Cursor
from overlay.engines.whoosh.fields import ListingFields
from overlay.engines.whoosh.library import INDEX, SCHEMA, TOC, ReadStorage, SegmentReader, TermNotFound
from overlay.search.forward import FIELDS
from overlay.search.record_file import IndexRecord
from overlay.search.rerank import MEAN_LENGTHS, NORMALISATION, WEIGHTS
from overlay.search.term_dictionary import TermDictionary

_MAX_TERMS = 2_000  # terms whose frequencies are cached
_FIELDS = tuple(zip(FIELDS, WEIGHTS.tolist(), NORMALISATION.tolist(), MEAN_LENGTHS.tolist(), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class WhooshCommitState:
    """The cursor of an index, and its term file. Stored beside the table of contents of the same generation, and synced
    before it."""

    epoch: str
    seq: int
    words: str

    @property
    def cursor(self) -> Cursor:
        """How far the outbox has been read."""
        return Cursor(self.epoch, self.seq)

    def save(self, path: Path) -> None:
        """Write to a file. Raises OSError."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> WhooshCommitState | None:
        """Read from a file; None when it is missing: the index is new or cleared."""
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def state_name(generation: int) -> str:
    """The file of the state that goes with a table of contents."""
    return f"state-{generation}.json"


class Leaf(NamedTuple):
    """A segment; its documents are numbered from `base` on. `rows` caches the decoded fields."""

    base: int
    reader: Any
    rows: dict[int, ListingFields]


class WhooshView:
    """Documents are numbered from 0; numbers are valid in this view only. Not thread-safe."""

    def __init__(
        self, leaves: list[Leaf], generation: int, state: WhooshCommitState | None, terms: TermDictionary
    ) -> None:
        self.leaves, self.generation, self.state, self.terms = leaves, generation, state, terms
        self._bases = [leaf.base for leaf in leaves]
        self._frequencies: dict[str, dict[int, float]] = {}

    @classmethod
    def read(cls, folder: Path, before: WhooshView | None) -> WhooshView:
        """The newest commit. Raises OSError, ValueError or any error of unpickling when its files are damaged."""
        storage = ReadStorage(folder)
        try:
            toc = TOC.read(storage, INDEX, schema=SCHEMA)
            state = WhooshCommitState.load(folder / state_name(toc.generation))
            terms = _terms(folder, state, before)
            return cls(list(_open(storage, toc.segments, before)), toc.generation, state, terms)
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

    def row(self, document: int) -> ListingFields:
        """The fields of a document."""
        leaf, number = self._place(document)
        fields = leaf.rows.get(number)
        if fields is None:
            fields = leaf.rows[number] = ListingFields.load(leaf.reader.stored_fields(number)["row"])
        return fields

    def record(self, document: int) -> IndexRecord:
        """The record of a document."""
        return IndexRecord(self._stored(document)["record"])

    def text(self, document: int) -> str:
        """The term sequences of a document (`analysis.sequences`), one per line, each between spaces."""
        return str(self._stored(document)["text"])

    def _stored(self, document: int) -> dict[str, Any]:
        leaf, number = self._place(document)
        stored: dict[str, Any] = leaf.reader.stored_fields(number)
        return stored

    def _place(self, document: int) -> tuple[Leaf, int]:
        leaf = self.leaves[bisect_right(self._bases, document) - 1]
        return leaf, document - leaf.base

    def frequencies(self, term: str) -> dict[int, float]:
        """The documents that contain an index term, and its frequency there, weighted and normalised as in `rerank`."""
        frequencies = self._frequencies.get(term)
        if frequencies is None:
            if len(self._frequencies) >= _MAX_TERMS:
                self._frequencies.clear()
            frequencies = self._frequencies[term] = {}
            for field, (name, weight, share, mean) in enumerate(_FIELDS):
                for document, count in self.postings(name, term):
                    norm = weight / (1 - share + share * self.row(document).lengths[field] / mean)
                    frequencies[document] = frequencies.get(document, 0.0) + norm * count
        return frequencies

    def postings(self, field: str, term: str) -> Iterator[tuple[int, int]]:
        """The documents that contain a term in a field, and its frequency."""
        for leaf in self.leaves:
            try:
                matcher = leaf.reader.postings(field, term)
            except TermNotFound:
                continue
            while matcher.is_active():
                yield leaf.base + matcher.id(), int(matcher.weight())
                matcher.next()

    def current(self, id_: str) -> IndexRecord | None:
        """The record of the current document of a listing."""
        for document, _ in self.postings("id", id_):
            if self.row(document).until is None:
                return self.record(document)
        return None


def _terms(folder: Path, state: WhooshCommitState | None, before: WhooshView | None) -> TermDictionary:
    if state is None:
        return TermDictionary()
    if before and before.state and before.state.words == state.words:
        return before.terms
    return TermDictionary.load(folder / state.words)


def _open(storage: ReadStorage, segments: list[Any], before: WhooshView | None) -> Iterator[Leaf]:
    """Segments are immutable but for deletions, so decoded fields stay valid."""
    decoded = {leaf.reader.segment().segment_id(): leaf.rows for leaf in before.leaves} if before else {}
    base = 0
    for segment in segments:
        yield Leaf(base, SegmentReader(storage, SCHEMA, segment), decoded.get(segment.segment_id(), {}))
        base += segment.doc_count_all()
