"""The words in use: how many listings hold each, which are near a mistyped one, which begin with what is being typed.

Counted are the listings that a plain search finds (current, live or pending), so a word that left with its last listing
is never proposed. Two kinds of strings are kept side by side: surfaces, the folded words people write (among them, with
a mark, the terms that stand in names), and terms, the stems that an index holds. All engines count alike, so they
resolve a question into the same terms.

The bulk lies in sorted arrays (`search.lexicon`), mapped from a file; words that came since lie in a small dict.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import numpy as np
from rapidfuzz.distance import OSA
from rapidfuzz.process import extract

from overlay.search.lexicon import Lexicon, empty, signature, signatures
from overlay.search.ranking import NAMING
from overlay.search.text import stem

MOST_CHECKED = 20_000  # words a mistyped one is compared with; a flood of look-alikes ends here
_MOST_KNOWN = 20_000
_MOST_DERIVED = 4_096  # of a kilobyte or two; as many again that were not asked for since
_END = "\U0010ffff"

_Derived = TypeVar("_Derived")


class Near(NamedTuple):
    """A word in use, and how many edits away it is (insertion, deletion, substitution, transposition of neighbours)."""

    word: str
    edits: int
    listings: int


@dataclass(slots=True)
class Change:
    """What some listings coming and going does to the counts. `levels` holds bit n for level n + 1 of a term."""

    listings: int = 0
    surfaces: dict[str, int] = field(default_factory=dict)
    terms: dict[str, int] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)

    def come(self, surfaces: Iterable[str], levels: Mapping[str, int]) -> None:
        """Count a listing with these words and the levels of its terms (`ranking.weigh`)."""
        self._count(surfaces, 1)
        for term, level in levels.items():
            self.terms[term] = self.terms.get(term, 0) + 1
            self.levels[term] = self.levels.get(term, 0) | 1 << (level - 1)

    def go(self, surfaces: Iterable[str]) -> None:
        """Forget a listing that had these words."""
        gone = list(surfaces)
        self._count(gone, -1)
        for term in {stem(word) for word in gone if not word.startswith(NAMING)}:
            self.terms[term] = self.terms.get(term, 0) - 1

    def _count(self, surfaces: Iterable[str], by: int) -> None:
        self.listings += by
        for word in surfaces:
            self.surfaces[word] = self.surfaces.get(word, 0) + by

    def rows(self) -> list[tuple[str, int, int, int]]:
        """(string, change as a surface, change as a term, levels) of every string that changes, in no special order."""
        strings = self.surfaces.keys() | self.terms.keys()
        found = ((s, self.surfaces.get(s, 0), self.terms.get(s, 0), self.levels.get(s, 0)) for s in strings)
        return [row for row in found if any(row[1:])]


class Vocabulary:
    """Counts of words, in memory; `merged().save` and `load` carry them over a restart."""

    def __init__(self, lexicon: Lexicon | None = None) -> None:
        self._base = lexicon or empty()
        self.listings = self._base.listings
        self._new: dict[str, list[int]] = {}  # surface count, term count, levels, signature
        self._by_length: dict[int, list[str]] = {}
        self._in_order: list[str] | None = []
        self._known: dict[str, tuple[int, int]] = {}  # counts looked up since the last change
        self._derived: dict[Hashable, object] = {}  # what was made of them since
        self._before: dict[Hashable, object] = {}  # the same, before so many others

    @classmethod
    def counted(cls, listings: int, rows: Sequence[tuple[str, int, int, int]]) -> Vocabulary:
        """From the counts of all words as `Change.rows` gives them, in code point order, each once: in a third of the
        time that `apply` takes."""
        words, *counts = zip(*rows, strict=True) if rows else ((), (), (), ())
        columns = np.maximum(np.array(counts, np.int64), 0).T.astype(np.uint32)
        return cls(Lexicon.build(words, columns, signatures(words), listings))

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Open what `save` wrote. Raises OSError or ValueError when the file is missing or damaged."""
        return cls(Lexicon.load(path))

    def save(self, path: Path) -> None:
        """Write what `merged` gave to a new file, durably (fsync) but not atomically. Raises OSError."""
        self._base.save(path)

    def merged(self) -> Vocabulary:
        """The same counts with all words in the sorted arrays, without those that no listing has any more."""
        order = self._order()
        return Vocabulary(self._base.merged(order, [self._new[word] for word in order], self.listings))

    def hold(self) -> None:
        """Answer many questions from now on."""
        self._base.hold()

    @property
    def fresh(self) -> int:
        """How many words wait outside the sorted arrays; a few thousand are looked through in no time."""
        return len(self._new)

    def apply(self, listings: int, rows: Iterable[tuple[str, int, int, int]]) -> None:
        """Take a `Change`, given as its `listings` and `rows()`."""
        self.listings += listings
        self._known.clear()
        self._derived.clear()
        self._before.clear()
        for word, surface, term, levels in rows:
            at = self._base.find(word)
            if at is not None:
                self._base.add(at, surface, term, levels)
                continue
            row = self._new.get(word)
            if row is None:
                row = self._new[word] = [0, 0, 0, signature(word)]
                self._in_order = None
                if row[3]:
                    self._by_length.setdefault(len(word), []).append(word)
            row[0] += surface
            row[1] += term
            row[2] |= levels

    def _order(self) -> list[str]:
        if self._in_order is None:
            self._in_order = sorted(self._new)
        return self._in_order

    def frequency(self, term: str) -> int:
        """In how many listings an index term stands."""
        return self._term(term)[0]

    def naming(self, term: str) -> int:
        """In how many listings' names an index term stands."""
        return self._count(NAMING + term)

    def levels(self, term: str) -> int:
        """Bit n is set when a listing may hold the term at level n + 1; a superset until the next merge."""
        return self._term(term)[1]

    def _term(self, term: str) -> tuple[int, int]:
        known = self._known.get(term)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[term] = self._look_up(term)
        return known

    def _look_up(self, term: str) -> tuple[int, int]:
        row = self._new.get(term)
        if row is not None:
            return row[1], row[2]
        at = self._base.find(term)
        return (0, 0) if at is None else (int(self._base.terms[at]), int(self._base.levels[at]))

    def derived(self, key: Hashable, make: Callable[[], _Derived]) -> _Derived:
        """What `make` makes of these counts, once until they change. One kind of key, one kind of value."""
        found = self._derived.get(key)
        if found is None:
            found = self._before.get(key)
            found = make() if found is None else found
            if len(self._derived) >= _MOST_DERIVED:
                self._before, self._derived = self._derived, {}
            self._derived[key] = found
        return cast("_Derived", found)

    def similar(self, word: str, edits: int) -> list[Near]:
        """Words in use within `edits` of a word of 5 to 24 letters, the nearest first, then the commonest, then by
        spelling."""
        bits = signature(word)
        others = self._base.near(len(word), bits, edits, MOST_CHECKED) + self._near_new(len(word), bits, edits)
        near = extract(word, others, scorer=OSA.distance, processor=None, score_cutoff=edits, limit=None)
        found = [Near(other, int(distance), count) for other, distance, _ in near if (count := self._count(other))]
        return sorted(found, key=lambda near: (near.edits, -near.listings, near.word))

    def _near_new(self, length: int, bits: int, edits: int) -> list[str]:
        """As `Lexicon.near`, among the words outside the arrays."""
        return [
            word
            for size in range(length - edits, length + edits + 1)
            for word in self._by_length.get(size, ())
            if (self._new[word][3] ^ bits).bit_count() <= 2 * edits - abs(size - length)
        ]

    def _count(self, word: str) -> int:
        row = self._new.get(word)
        if row is not None:
            return max(row[0], row[1])
        at = self._base.find(word)
        return 0 if at is None else max(int(self._base.surfaces[at]), int(self._base.terms[at]))

    def completions(self, prefix: str, limit: int) -> list[str]:
        """Words people write that begin with `prefix` (itself excluded), the commonest first, then by spelling."""
        found = self._base.beginning(prefix, limit + 1)
        order = self._order()
        new = order[bisect_left(order, prefix) : bisect_left(order, prefix + _END)]
        found += [(self._new[word][0], word) for word in new if self._new[word][0] > 0]
        found.sort(key=lambda pair: (-pair[0], pair[1]))
        return [word for _, word in found if word != prefix][:limit]

    def counts(self) -> dict[str, tuple[int, int]]:
        """Every string in use with its counts as a surface and as a term (for tests and for comparing engines)."""
        base = self._base
        pairs = zip(map(int, base.surfaces), map(int, base.terms), strict=True)
        every = dict(zip(base.strings(), pairs, strict=True)) | {word: (r[0], r[1]) for word, r in self._new.items()}
        return {word: pair for word, pair in every.items() if any(pair)}
