"""One commit of the index, for reading: documents decoded in memory, postings in Whoosh's files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from overlay.engines import Cursor
from overlay.engines.whoosh.library import Storage, TermNotFound, open_segments
from overlay.search.facts import facets, facts, heights
from overlay.search.forward import FIELDS, Analysed
from overlay.search.record_file import IndexRecord, pack_document
from overlay.search.rerank import MEAN_LENGTHS, NORMALISATION, WEIGHTS
from overlay.search.sorting import order_fields
from overlay.search.term_dictionary import TermCounts, TermDictionary

if TYPE_CHECKING:
    from overlay.search.document import Document

_MAX_TERMS = 2_000  # terms whose frequencies are cached
_FIELDS = tuple(zip(FIELDS, WEIGHTS.tolist(), NORMALISATION.tolist(), MEAN_LENGTHS.tolist(), strict=True))


class WhooshRow(NamedTuple):
    """A document as it is filtered and ordered: see `sorting.order_fields`, `facts.heights`, `facts.facts` and
    `facts.facets`. `lengths` are the numbers of terms by field, `text` the term sequences, one per line, each between
    spaces."""

    registration: str
    record: IndexRecord
    order: dict[str, Any]
    heights: dict[str, int]
    lengths: tuple[int, ...]
    text: str
    facts: frozenset[str]
    facets: dict[str, tuple[str, ...]]


def stored(document: Document, analysed: Analysed) -> tuple[Any, ...]:
    """The row of a document, with its record as bytes. Raises ValueError above 16 MiB."""
    return (
        document.registration,
        pack_document(document, analysed, TermCounts()),
        order_fields(document),
        heights(document),
        tuple(sum(len(tokens.terms) for tokens in texts) for texts in analysed.fields),
        "".join(f" {sequence} \n" for sequence in analysed.sequences()),
        frozenset(facts(document)),
        facets(document),
    )


def _loaded(fields: dict[str, Any]) -> WhooshRow | Cursor:
    """A stored document: a row, or the cursor of the commit."""
    if "cursor" in fields:
        return Cursor(*fields["cursor"])
    registration, record, *others = fields["row"]
    return WhooshRow(registration, IndexRecord(record), *others)


class WhooshView:
    """`rows` are the documents by number, for `cursor_number` the cursor; numbers are valid in this view only. Without
    a folder it is empty. Not thread-safe."""

    def __init__(self, generation: int = -1) -> None:
        self.generation = generation
        self.cursor: Cursor | None = None
        self.cursor_number = -1
        self.rows: dict[int, WhooshRow] = {}
        self._segments: dict[str, tuple[int, Any, list[WhooshRow | Cursor]]] = {}  # first number, reader, documents
        self._frequencies: dict[str, dict[int, float]] = {}

    @classmethod
    def read(cls, folder: Path, before: WhooshView) -> WhooshView:
        """The newest commit. Raises any error of unpickling when its files are damaged."""
        storage = Storage(folder)
        try:
            generation, readers = open_segments(storage)
            view = cls(generation)
            for reader in readers:
                view._add(reader, before)
        except BaseException:
            storage.abandon()
            raise
        return view

    def _add(self, reader: Any, before: WhooshView) -> None:
        """Add a segment. It is immutable but for deletions, so documents that were decoded before stay valid."""
        base = sum(len(documents) for _, _, documents in self._segments.values())
        name = reader.segment().segment_id()
        if name in before._segments:
            documents = before._segments[name][2]
        else:
            documents = [_loaded(reader.stored_fields(number)) for number in range(reader.doc_count_all())]
        self._segments[name] = base, reader, documents
        for number in reader.all_doc_ids():
            document = documents[number]
            if isinstance(document, WhooshRow):
                self.rows[base + number] = document
            else:
                self.cursor, self.cursor_number = document, base + number

    def close(self) -> None:
        """Close the files."""
        while self._segments:
            self._segments.popitem()[1][1].close()

    @cached_property
    def terms(self) -> TermDictionary:
        """The term dictionary."""
        counts = TermCounts()
        for row in self.rows.values():
            if row.record.is_listed:
                counts.add(row.record.words)
        return TermDictionary([counts])

    @cached_property
    def current(self) -> dict[str, IndexRecord]:
        """The records of the current documents, by id."""
        return {row.record.id: row.record for row in self.rows.values() if "until" not in row.heights}

    def frequencies(self, term: str) -> dict[int, float]:
        """The documents that contain an index term, and its frequency there, weighted and normalised as in `rerank`."""
        frequencies = self._frequencies.get(term)
        if frequencies is None:
            if len(self._frequencies) >= _MAX_TERMS:
                self._frequencies.clear()
            frequencies = self._frequencies[term] = {}
            for field, (name, weight, share, mean) in enumerate(_FIELDS):
                for document, count in self._postings(name, term):
                    norm = weight / (1 - share + share * self.rows[document].lengths[field] / mean)
                    frequencies[document] = frequencies.get(document, 0.0) + norm * count
        return frequencies

    def _postings(self, field: str, term: str) -> Iterator[tuple[int, int]]:
        """The documents that contain a term in a field, and its frequency."""
        for base, reader, _ in self._segments.values():
            try:
                matcher = reader.postings(field, term)
            except TermNotFound:
                continue
            while matcher.is_active():
                yield base + matcher.id(), int(matcher.weight())
                matcher.next()
