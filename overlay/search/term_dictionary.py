"""The term dictionary: document frequencies, words similar to a mistyped one, and words with a prefix.

Only listings that a plain search finds (current, live or pending) are counted, so that a word without listings is never
proposed. Two kinds of strings are counted: surfaces, the folded words as written, and terms, their stems, which are
indexed. All engines count the same way, so they plan a query the same way.

Most words are in a table of sorted arrays (`term_table`), mapped from a file; recent ones are in a small dict.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rapidfuzz.distance import OSA
from rapidfuzz.process import extract

from overlay.search.analysis import stem
from overlay.search.term_table import TermTable, empty, signature, signatures

MAX_COMPARED = 20_000  # words that a mistyped one is compared with at most
_END = "\U0010ffff"

CountChange = tuple[str, int, int]
"""A string and the changes of its counts as a surface and as a term, or the counts themselves."""


class Near(NamedTuple):
    """A similar word, its distance in edits (insertion, deletion, substitution, transposition of neighbours), and its
    document frequency."""

    word: str
    edits: int
    listings: int


@dataclass(slots=True)
class TermChanges:
    """The changes of counts caused by adding and removing listings."""

    listings: int = 0
    surfaces: Counter[str] = field(default_factory=Counter)
    terms: Counter[str] = field(default_factory=Counter)

    def add(self, surfaces: Collection[str]) -> None:
        """Add a listing with these distinct words."""
        self.listings += 1
        self.surfaces.update(surfaces)
        self.terms.update(set(map(stem, surfaces)))

    def remove(self, surfaces: Collection[str]) -> None:
        """Remove a listing with these distinct words."""
        self.listings -= 1
        self.surfaces.subtract(surfaces)
        self.terms.subtract(set(map(stem, surfaces)))

    def rows(self) -> list[CountChange]:
        """Every string whose counts change, unordered."""
        strings = self.surfaces.keys() | self.terms.keys()
        rows = ((string, self.surfaces.get(string, 0), self.terms.get(string, 0)) for string in strings)
        return [row for row in rows if row[1] or row[2]]


class TermDictionary:
    """Counts of words in memory, persisted by `merged().save` and `load`. One thread changes it; others may read at the
    same time."""

    def __init__(self, table: TermTable | None = None) -> None:
        self._table = table or empty()
        self.listings = self._table.listings
        self._new: dict[str, list[int]] = {}  # surface count, term count, signature
        self._by_length: dict[int, list[str]] = {}
        self._in_order: list[str] | None = []

    @classmethod
    def counted(cls, listings: int, rows: Sequence[CountChange]) -> TermDictionary:
        """From the counts of all distinct words in code point order: three times as fast as `apply`."""
        words, *counts = zip(*rows, strict=True) if rows else ((), (), ())
        columns = np.maximum(np.array(counts, np.int64), 0).T.astype(np.uint32)
        return cls(TermTable.build(words, columns, signatures(words), listings))

    @classmethod
    def load(cls, path: Path) -> TermDictionary:
        """Open a saved file. Raises OSError or ValueError when it is missing or damaged."""
        return cls(TermTable.load(path))

    def save(self, path: Path) -> None:
        """Write a merged dictionary to a new file, durably (fsync) but not atomically. Raises OSError."""
        self._table.save(path)

    def merged(self) -> TermDictionary:
        """The same counts with all words in the table, without those of no listing."""
        order = self._order()
        return TermDictionary(self._table.merged(order, [self._new[word] for word in order], self.listings))

    @property
    def unmerged(self) -> int:
        """Number of words outside the table; a few thousand cost nothing measurable."""
        return len(self._new)

    def apply(self, listings: int, rows: Iterable[CountChange]) -> None:
        """Apply the `listings` and `rows()` of a `TermChanges`."""
        self.listings += listings
        for word, surface, term in rows:
            index = self._table.find(word)
            if index is not None:
                self._table.add(index, surface, term)
                continue
            row = self._new.get(word)
            if row is None:
                row = self._new[word] = [0, 0, signature(word)]
                self._in_order = None
                if row[2]:
                    self._by_length.setdefault(len(word), []).append(word)
            row[0] += surface
            row[1] += term

    def _order(self) -> list[str]:
        order = self._in_order
        if order is None:
            order = self._in_order = sorted(self._new)
        return order

    def frequency(self, term: str) -> int:
        """Number of listings that contain an index term."""
        row = self._new.get(term)
        if row is not None:
            return max(0, row[1])
        index = self._table.find(term)
        return 0 if index is None else int(self._table.terms[index])

    def similar(self, word: str, edits: int) -> list[Near]:
        """Words within `edits` of a word, by distance, then by falling frequency, then by spelling."""
        bits = signature(word)
        others = self._table.near(len(word), bits, edits, MAX_COMPARED) + self._similar_new(len(word), bits, edits)
        near = extract(word, others, scorer=OSA.distance, processor=None, score_cutoff=edits, limit=None)
        similar_words = [
            Near(other, int(distance), count) for other, distance, _ in near if (count := self._count(other))
        ]
        return sorted(similar_words, key=lambda near: (near.edits, -near.listings, near.word))

    def _similar_new(self, length: int, bits: int, edits: int) -> list[str]:
        """As `TermTable.near`, among the words outside the table."""
        return [
            word
            for size in range(length - edits, length + edits + 1)
            for word in self._by_length.get(size, ())
            if (self._new[word][2] ^ bits).bit_count() <= 2 * edits - abs(size - length)
        ]

    def _count(self, word: str) -> int:
        row = self._new.get(word)
        if row is not None:
            return max(row[0], row[1])
        index = self._table.find(word)
        return 0 if index is None else max(int(self._table.surfaces[index]), int(self._table.terms[index]))

    def completions(self, prefix: str, limit: int) -> list[str]:
        """Surfaces with a prefix, itself excluded, by falling frequency, then by spelling."""
        counted = self._table.beginning(prefix, limit + 1)
        order = self._order()
        new = order[bisect_left(order, prefix) : bisect_left(order, prefix + _END)]
        counted += [(self._new[word][0], word) for word in new if self._new[word][0] > 0]
        counted.sort(key=lambda pair: (-pair[0], pair[1]))
        return [word for _, word in counted if word != prefix][:limit]

    def counts(self) -> dict[str, tuple[int, int]]:
        """Every string in use with its counts as a surface and as a term."""
        table = self._table
        pairs = zip(map(int, table.surfaces), map(int, table.terms), strict=True)
        every = dict(zip(table.strings(), pairs, strict=True)) | {word: (r[0], r[1]) for word, r in self._new.items()}
        return {word: pair for word, pair in every.items() if any(pair)}
