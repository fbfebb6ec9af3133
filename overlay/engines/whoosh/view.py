"""One commit of the index, for reading: in memory."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property, lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from overlay.engines import EARLIER, IndexContent, IndexPosition
from overlay.engines.whoosh.library import TermNotFound, WhooshFiles
from overlay.search.facts import facets, facts, heights
from overlay.search.forward import FIELDS, Analysed
from overlay.search.ranker import FIELD_CONSTANT, FIELD_SHARE, FIELD_WEIGHT
from overlay.search.record_file import IndexRecord, pack_document
from overlay.search.sorting import order_fields
from overlay.search.term_dictionary import TermCounts, TermDictionary

if TYPE_CHECKING:
    from overlay.search.document import Document

_MAX_TERMS = 2_000  # terms with cached frequencies
_FIELDS = tuple(zip(FIELDS, FIELD_WEIGHT, FIELD_CONSTANT, FIELD_SHARE, strict=True))


class WhooshRow(NamedTuple):
    """A document in the form that is filtered and sorted: see `sorting.order_fields`, `facts.heights`, `facts.facts`
    and `facts.facets`. `lengths` are the numbers of terms by field, `text` the term sequences, one per line, each
    between spaces."""

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


class WhooshCommit(NamedTuple):
    """The position up to which a commit has read, and the content that its documents were made by."""

    position: IndexPosition
    content: IndexContent = EARLIER


def _loaded(fields: dict[str, Any]) -> WhooshRow | WhooshCommit:
    """A stored document: a row, or the commit."""
    if "cursor" in fields:
        epoch, seq, *content = fields["cursor"]
        return WhooshCommit(IndexPosition(epoch, seq), *(IndexContent(*part) for part in content))
    registration, record, *others = fields["row"]
    return WhooshRow(registration, IndexRecord(record), *others)


class WhooshView:
    """`rows` are the documents by number, for `position_number` the commit; numbers are valid in this view only. A new
    one is empty. `frequencies` caches `_frequencies`. Not thread-safe."""

    def __init__(self, generation: int = -1) -> None:
        self.generation, self.position_number = generation, -1
        self.position: IndexPosition | None = None
        self.content: IndexContent | None = None
        self.rows: dict[int, WhooshRow] = {}
        self._readers: list[tuple[int, Any]] = []  # the number of the first document, the reader
        self._files: dict[str, bytes] = {}
        self._documents: dict[str, list[WhooshRow | WhooshCommit]] = {}
        self.frequencies = lru_cache(_MAX_TERMS)(self._frequencies)

    @classmethod
    def read(cls, files: WhooshFiles, before: WhooshView) -> WhooshView:
        """The newest commit. Raises any error of unpickling when its files are damaged. Segments are immutable but for
        deletions, so those read `before` are not decoded again."""
        generation, readers, contents = files.read(before._files)
        view, base = cls(generation), 0
        view._files = contents
        for reader in readers:
            name = reader.segment().segment_id()
            documents = before._documents.get(name) or list(
                map(_loaded, map(reader.stored_fields, range(reader.doc_count_all())))
            )
            view._documents[name] = documents
            view._readers.append((base, reader))
            for number in reader.all_doc_ids():
                document = documents[number]
                if isinstance(document, WhooshRow):
                    view.rows[base + number] = document
                else:
                    (view.position, view.content), view.position_number = document, base + number
            base += len(documents)
        return view

    @cached_property
    def terms(self) -> TermDictionary:
        """The term dictionary."""
        counts = TermCounts()
        for row in self.rows.values():
            if row.record.is_listed:
                counts.add(row.record.words)
        return TermDictionary([counts])

    def _frequencies(self, term: str) -> dict[int, float]:
        """The documents that contain an index term, and its frequency there, weighted and normalised as in `rerank`."""
        frequencies: dict[int, float] = {}
        for (base, reader), (field, (name, weight, constant, share)) in product(self._readers, enumerate(_FIELDS)):
            with suppress(TermNotFound):
                matcher = reader.postings(name, term)
                while matcher.is_active():
                    document = base + matcher.id()
                    norm = weight / (constant + share * self.rows[document].lengths[field])
                    frequencies[document] = frequencies.get(document, 0.0) + norm * int(matcher.weight())
                    matcher.next()
        return frequencies
