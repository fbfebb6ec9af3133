"""The term dictionary: how many listings hold each word, which words are near a mistyped one or begin with a prefix.

Counted are the listings that a plain search finds (current, live or pending), so that a word that left with its last
listing is never proposed. Two kinds of strings are counted side by side: surfaces, the folded words as written, and
terms, their stems, which an index holds. All engines count alike, so they plan a question alike.

Most words lie in a table of sorted arrays (`term_table`), mapped from a file; newer ones lie in a small dict.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rapidfuzz.distance import OSA
from rapidfuzz.process import extract

from overlay.search.term_table import TermTable, empty, signature, signatures

MAX_COMPARED = 20_000  # words that a mistyped one is compared with, however many look alike
_END = "\U0010ffff"

Row = tuple[str, int, int]
"""A string and the changes of its counts as a surface and as a term."""


class Near(NamedTuple):
    """A word, how many edits away it is (insertion, deletion, substitution, transposition of neighbours), and how many
    listings hold it."""

    word: str
    edits: int
    listings: int


@dataclass(slots=True)
class TermChanges:
    """The changes of counts when listings are added and removed."""

    listings: int = 0
    surfaces: dict[str, int] = field(default_factory=dict)
    terms: dict[str, int] = field(default_factory=dict)

    def count(self, surfaces: Iterable[str], terms: Iterable[str], by: int) -> None:
        """Add (1) or remove (-1) a listing with these words, each once."""
        self.listings += by
        for counts, strings in ((self.surfaces, surfaces), (self.terms, terms)):
            for string in strings:
                counts[string] = counts.get(string, 0) + by

    def rows(self) -> list[Row]:
        """Every string whose counts change, in no special order."""
        strings = self.surfaces.keys() | self.terms.keys()
        rows = ((string, self.surfaces.get(string, 0), self.terms.get(string, 0)) for string in strings)
        return [row for row in rows if row[1] or row[2]]


class TermDictionary:
    """Counts of words in memory; `merged().save` and `load` carry them over a restart. One thread changes it; others
    may read meanwhile."""

    def __init__(self, table: TermTable | None = None) -> None:
        self._table = table or empty()
        self.listings = self._table.listings
        self._new: dict[str, list[int]] = {}  # surface count, term count, signature
        self._by_length: dict[int, list[str]] = {}
        self._in_order: list[str] | None = []

    @classmethod
    def counted(cls, listings: int, rows: Sequence[Row]) -> TermDictionary:
        """From the counts of all words in code point order, each once: three times as fast as `apply`."""
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
        """The same counts with all words in the table, without those that no listing has any more."""
        order = self._order()
        return TermDictionary(self._table.merged(order, [self._new[word] for word in order], self.listings))

    @property
    def unmerged(self) -> int:
        """Number of words outside the table; a few thousand cost nothing noticeable."""
        return len(self._new)

    def apply(self, listings: int, rows: Iterable[Row]) -> None:
        """Take the `listings` and `rows()` of a `TermChanges`."""
        self.listings += listings
        for word, surface, term in rows:
            at = self._table.find(word)
            if at is not None:
                self._table.add(at, surface, term)
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
        """Number of listings that hold an index term."""
        row = self._new.get(term)
        if row is not None:
            return max(0, row[1])
        at = self._table.find(term)
        return 0 if at is None else int(self._table.terms[at])

    def similar(self, word: str, edits: int) -> list[Near]:
        """Words within `edits` of a word, the nearest first, then the commonest, then by spelling."""
        bits = signature(word)
        others = self._table.near(len(word), bits, edits, MAX_COMPARED) + self._similar_new(len(word), bits, edits)
        near = extract(word, others, scorer=OSA.distance, processor=None, score_cutoff=edits, limit=None)
        found = [Near(other, int(distance), count) for other, distance, _ in near if (count := self._count(other))]
        return sorted(found, key=lambda near: (near.edits, -near.listings, near.word))

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
        at = self._table.find(word)
        return 0 if at is None else max(int(self._table.surfaces[at]), int(self._table.terms[at]))

    def completions(self, prefix: str, limit: int) -> list[str]:
        """Surfaces that begin with `prefix` (itself excluded), the commonest first, then by spelling."""
        found = self._table.beginning(prefix, limit + 1)
        order = self._order()
        new = order[bisect_left(order, prefix) : bisect_left(order, prefix + _END)]
        found += [(self._new[word][0], word) for word in new if self._new[word][0] > 0]
        found.sort(key=lambda pair: (-pair[0], pair[1]))
        return [word for _, word in found if word != prefix][:limit]

    def counts(self) -> dict[str, tuple[int, int]]:
        """Every string in use with its counts as a surface and as a term (for tests and for comparing engines)."""
        table = self._table
        pairs = zip(map(int, table.surfaces), map(int, table.terms), strict=True)
        every = dict(zip(table.strings(), pairs, strict=True)) | {word: (r[0], r[1]) for word, r in self._new.items()}
        return {word: pair for word, pair in every.items() if any(pair)}
