"""A segment opened for reading: its arrays, the documents that are not deleted, and working memory for searches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.engines.native.best_kernels import Names, Postings
from overlay.engines.native.manifest import SegmentEntry
from overlay.engines.native.posting_kernels import listed_counts
from overlay.engines.native.schema import LISTED, VECTOR
from overlay.engines.native.tables import StringTable, find
from overlay.search.clusters import Clusters, enough, nearest_of_clusters
from overlay.search.facts import FACET_FIELDS
from overlay.search.least_word import WordRows
from overlay.search.nearest import Nearest, nearest
from overlay.search.piece_table import whole_words
from overlay.search.ranker import Forwards
from parsers.cards.intervals import PER_CALL, per_day

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

MOST_TERMS = 1 << 16
"""The number of terms whose numbers a segment remembers, beside those of one question."""

FIELDS = tuple(sorted(FACET_FIELDS.values()))
"""The fields of values, in the order of these."""


class Scratch(NamedTuple):
    """Working memory of one search: two masks and the marks of results by document, and by offer whether it meets the
    filters."""

    masks: tuple[Bytes, Bytes]
    marks: Bytes
    meets: Bytes


class Segment:
    """A segment. `live` has a byte for each document, 0 for deleted ones."""

    def __init__(self, entry: SegmentEntry, arrays: Mapping[str, npt.NDArray[Any]], live: Bytes) -> None:
        self.entry, self.arrays, self.live, self.is_history = entry, arrays, live, entry.is_history
        self.documents = len(live)
        listed = arrays["flags"] & np.uint8(LISTED)
        self.plain = listed * live
        self.listings = int(np.count_nonzero(self.plain))
        self.count = int(np.count_nonzero(live))
        self.of_surface, self.of_term = arrays["surface_listed"], arrays["term_listed"]
        """The numbers of listed documents with each surface and each term: those of all, without the deleted ones."""
        deleted = listed * (live == 0)
        if deleted.any():
            fewer = np.zeros_like(self.of_surface), np.zeros_like(self.of_term)
            offsets, surfaces = arrays["document_surfaces_offsets"], arrays["document_surfaces"]
            listed_counts(offsets, surfaces, arrays["surface_term"], deleted, *fewer)
            self.of_surface, self.of_term = self.of_surface - fewer[0], self.of_term - fewer[1]
        self.vectors: npt.NDArray[np.int8] = arrays["vector"].reshape(-1, VECTOR)
        """The text vectors of documents, a row for each."""
        forward = ("forward_offsets", "section_ends", "forward", "flags", "text_since")
        self.forwards = Forwards.of(*(arrays[name] for name in forward))
        self.postings = Postings.of(*(arrays[f"term_{name}"] for name in Postings._fields))
        self.names = Names.of(arrays["name_bits"], arrays["source"])
        self.price_ranks: dict[Any, Ints] = {}
        self.value_counts: Any = None
        """The counts of the values of all listed documents (`facet_values.SegmentCounts`), once they are made."""
        self._unused: list[Scratch] = []
        self._views: dict[str, tuple[memoryview, memoryview]] = {}
        self._term_numbers: dict[str, int] = {}
        self.is_suspect = False
        """Whether a string was read that no segment is written with."""

    def take_scratch(self) -> Scratch:
        """Working memory, for one thread at a time."""
        try:
            return self._unused.pop()
        except IndexError:
            size, offers = self.documents, len(self.arrays["offer_amount"])
            masks = np.empty(size, np.uint8), np.empty(size, np.uint8)
            return Scratch(masks, np.empty(size, np.uint8), np.zeros(offers, np.uint8))

    def give_back(self, scratch: Scratch) -> None:
        """Let other searches use working memory."""
        self._unused.append(scratch)

    def positions(self, table: str, texts: Sequence[str]) -> Ints:
        """The number of each string in a table; for a string that it lacks, -1 minus the number of the next one."""
        table_ = StringTable(self.arrays[f"{table}_bytes"], self.arrays[f"{table}_offsets"])
        return find(table_, [text.encode("utf-8", "surrogatepass") for text in texts])

    def term_numbers(self, terms: Sequence[str]) -> list[int]:
        """The number of each term, negative for a missing one. Terms that are there are looked up once, until they are
        too many."""
        numbers = self._term_numbers
        others = [term for term in terms if term not in numbers]
        if not others:
            return [numbers[term] for term in terms]
        new = dict(zip(others, self.positions("terms", others).tolist(), strict=True))
        if len(numbers) >= MOST_TERMS:
            self._term_numbers = {}  # other threads read the former
        self._term_numbers.update({term: number for term, number in new.items() if number >= 0})
        return [new[term] if term in new else numbers[term] for term in terms]

    def numbers(self, table: str, texts: Iterable[str]) -> Ints:
        """The numbers of the strings that a table has, of those passed in."""
        numbers = self.positions(table, list(texts))
        return numbers[numbers >= 0]

    def string(self, table: str, number: int) -> str:
        """A string of a table."""
        return self._text(self.row(table, number, "_bytes"))

    def strings(self, table: str, numbers: Ints) -> list[str]:
        """Some strings of a table."""
        return list(map(self._text, self.rows(table, numbers, "_bytes")))

    def row(self, name: str, index: int, data: str = "") -> bytes:
        """A row of bytes of a document."""
        content, offsets = self._views.get(name) or self._viewed(name, data)
        return bytes(content[offsets[index] : offsets[index + 1]])

    def _viewed(self, name: str, data: str) -> tuple[memoryview, memoryview]:
        """The rows of an array and their offsets, as views: slices of these take a third of the time of slices of
        arrays."""
        return self._views.setdefault(name, (self.arrays[name + data].data, self.arrays[f"{name}_offsets"].data))

    def records(self, documents: Iterable[int]) -> list[NativeRecord]:
        """Documents as results show them."""
        (ids, id_ends), (items, item_ends), (offers, offer_ends) = (
            self._views.get(name) or self._viewed(name, "") for name in ("id", "item", "packed_offers")
        )
        return [
            NativeRecord(
                self, number, self._text(ids[id_ends[number] : id_ends[number + 1]]),
                items[item_ends[number] : item_ends[number + 1]],
                bytes(offers[offer_ends[number] : offer_ends[number + 1]]),
            )
            for number in documents
        ]  # fmt: skip

    def rows(self, name: str, indexes: Ints, data: str = "") -> list[bytes]:
        """The rows of bytes of some documents."""
        offsets, values = self.arrays[f"{name}_offsets"], self.arrays[name + data].data
        ends = zip(offsets[indexes].tolist(), offsets[indexes + 1].tolist(), strict=True)
        return [bytes(values[start:end]) for start, end in ends]

    def id(self, document: int) -> str:
        """The id of a document."""
        return self._text(self.row("id", document))

    def _text(self, data: bytes | memoryview) -> str:
        try:
            return str(data, "utf-8", "surrogatepass")
        except UnicodeDecodeError:
            self.is_suspect = True
            return str(data, "utf-8", "replace")

    def with_fact(self, fact: str) -> Ints:
        """The documents with a fact that are not deleted."""
        (position,) = self.positions("facts", [fact])
        if position < 0:
            return np.empty(0, np.int64)
        offsets = self.arrays["fact_offsets"]
        documents = self.arrays["fact_documents"][offsets[position] : offsets[position + 1]].astype(np.int64)
        return np.asarray(documents[self.live[documents] != 0])

    @cached_property
    def clusters(self) -> Clusters:
        """The clusters of the text vectors."""
        a = self.arrays
        return Clusters(a["cluster_centres"].reshape(-1, VECTOR), a["cluster_starts"], a["cluster_documents"])

    def nearest(self, admitted: Bytes, vector: npt.NDArray[np.int8], most: int) -> Nearest:
        """The `admitted` documents (not 0) with the greatest cosines with a vector, at most so many."""
        vectors, inverse, clusters = self.vectors, self.arrays["vector_inverse"], self.clusters
        if len(clusters.centres):
            compared = enough(self.documents)
            return nearest_of_clusters(vectors, inverse, admitted, clusters, vector, most, compared)
        return nearest(vectors, inverse, admitted, vector, most)

    @cached_property
    def word_rows(self) -> WordRows:
        """The words of documents, and their rows in the table of text vectors."""
        count, numbers = len(self.of_surface), whole_words()
        if count < len(numbers):
            surfaces = self.strings("surfaces", np.arange(count))
            rows = np.array([numbers.get(surface, -1) for surface in surfaces], np.int32)
        else:
            positions, rows = self.positions("surfaces", list(numbers)), np.full(count, -1, np.int32)
            rows[positions[positions >= 0]] = np.array(list(numbers.values()), np.int32)[positions >= 0]
        offsets, words = self.arrays["document_surfaces_offsets"], self.arrays["document_surfaces"]
        return WordRows.of(offsets, words, rows)

    @cached_property
    def by_name(self) -> npt.NDArray[np.uint32]:
        """The documents in the order of their names."""
        order = np.empty(self.documents, np.uint32)
        order[self.arrays["name_rank"]] = np.arange(self.documents, dtype=np.uint32)
        return order

    @cached_property
    def value_lows(self) -> Ints:
        """The number of the first value of each field."""
        positions = self.positions("values", [f"{field}:" for field in FIELDS])
        return np.where(positions < 0, -1 - positions, positions)

    @cached_property
    def is_per_call(self) -> npt.NDArray[np.bool_]:
        """Which intervals are those of a price per call."""
        is_per_call = np.zeros(len(self.arrays["intervals_offsets"]) - 1, np.bool_)
        is_per_call[self.numbers("intervals", [PER_CALL])] = True
        return is_per_call

    @cached_property
    def interval_days(self) -> npt.NDArray[np.float64]:
        """The price per day of one unit per interval, NaN for an interval without a length."""
        intervals = self.strings("intervals", np.arange(len(self.arrays["intervals_offsets"]) - 1))
        days = (per_day(Decimal(1), interval) for interval in intervals)
        return np.array([np.nan if day is None else float(day) for day in days], np.float64)


class NativeRecord(NamedTuple):
    """A document as a result shows it: its id, its item (UTF-8 JSON object), which is a part of the mapped file, and
    its packed offers."""

    segment: Segment
    document: int
    id: str
    item: memoryview
    offers: bytes
