"""The term dictionary: document frequencies, words similar to a mistyped one, and words with a prefix.

Only listings that a plain search finds (current, live or pending) are counted: a word without listings is never
proposed. Two kinds of strings are counted: surfaces, the folded words as written, and terms, their stems, which are
indexed. All engines count the same way, and so plan a query the same way.

Similar words are found by signatures: 64 bits that record which of 32 classes of letters a word contains once, and
which twice or more. An insertion or deletion changes at most one bit, a substitution two, a transposition none.
Comparing the signatures of all words of a similar length leaves a few dozen of 100,000 words to measure exactly.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from overlay.search.analysis import is_correctable, stem
from overlay.text.compact_json import decode, encode

MAX_COMPARED = 1_000
"""Words that a mistyped one is compared with at most: those with the signatures that differ least. Strangers write any
number of words of the same letters."""

MAX_UNUSED = 20_000  # words of no listing that stay in memory
SHORTEST, LONGEST = 4, 26  # letters of the candidates for a mistyped word of 5 to 24
_MANY = 1_000  # words with one prefix, of which the completions are kept until a change
_END = "\U0010ffff"
_Bits = npt.NDArray[np.uint64]


class Near(NamedTuple):
    """A similar word, its distance in edits (insertion, deletion, substitution, transposition of neighbours), and the
    number of listings that contain it."""

    word: str
    edits: int
    listings: int


class Terms(Protocol):
    """The facts about the words of an index that planning uses."""

    @property
    def listings(self) -> int:
        """Number of listings."""
        ...

    def frequency(self, term: str) -> int:
        """Number of listings that contain an index term."""
        ...

    def frequencies(self, terms: Sequence[str]) -> list[int]:
        """Numbers of listings that contain each of some terms, in one look-up."""
        ...

    def similar(self, word: str, edits: int) -> list[Near]:
        """Words within `edits` of a word, by distance, then by falling frequency, then by spelling."""
        ...

    def completions(self, prefix: str, limit: int) -> list[str]:
        """Surfaces with a prefix, itself excluded, by falling frequency, then by spelling."""
        ...


@dataclass(slots=True)
class TermCounts:
    """A number of listings, and how many of them contain each surface and each term; or changes of these numbers."""

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

    def apply(self, changes: TermCounts) -> None:
        """Add changes."""
        self.listings += changes.listings
        self.surfaces.update(changes.surfaces)
        self.terms.update(changes.terms)

    def __bool__(self) -> bool:
        """False for changes that change nothing."""
        return bool(self.listings) or any(self.surfaces.values()) or any(self.terms.values())

    def encode(self) -> bytes:
        """A line of JSON, without strings that are counted 0 times."""
        return encode([self.listings, *({word: n for word, n in c.items() if n} for c in (self.surfaces, self.terms))])

    @classmethod
    def decode(cls, line: bytes) -> TermCounts:
        """Parse what `encode` returned. Raises ValueError."""
        listings, surfaces, terms = decode(line)
        return cls(listings, Counter(surfaces), Counter(terms))


class TermDictionary:
    """Counts of words in memory. One thread changes it; others may read at the same time."""

    def __init__(self, counts: Iterable[TermCounts] = ()) -> None:
        """A dictionary from counts, and changes of them."""
        self.counts = TermCounts()
        self._lock = threading.Lock()
        self._unused = 0
        self._order: list[str] | None = None
        self._by_length: dict[int, tuple[list[str], _Bits]] | None = None
        self._completions: dict[tuple[str, int], list[str]] = {}
        for changes in counts:
            self.apply(changes)

    @property
    def listings(self) -> int:
        """Number of listings."""
        return self.counts.listings

    def apply(self, changes: TermCounts) -> None:
        """Add changes. Words of no listing are never proposed, and removed now and then."""
        with self._lock:
            is_searched = self._order is not None or self._by_length is not None
            new = [word for word in changes.surfaces if word not in self.counts.surfaces] if is_searched else []
            self.counts.apply(changes)
            self._unused += sum(not self.counts.surfaces[word] for word in changes.surfaces)
            if self._unused > MAX_UNUSED:
                self.counts.surfaces, self.counts.terms = +self.counts.surfaces, +self.counts.terms
                self._order = self._by_length = None
                self._unused = 0
            if self._order is not None and new:
                self._order = sorted(self._order + sorted(new))  # two runs in order are merged
            if self._by_length is not None:
                for length, (words, bits) in _by_length(new).items():
                    before, bits_before = self._by_length.get(length, ([], np.zeros(0, np.uint64)))
                    self._by_length[length] = before + words, np.concatenate((bits_before, bits))
            self._completions = {}  # last, so that a concurrent reader fills the former one

    def frequency(self, term: str) -> int:
        """Number of listings that contain an index term."""
        return self.counts.terms.get(term, 0)

    def frequencies(self, terms: Sequence[str]) -> list[int]:
        """Numbers of listings that contain each of some terms."""
        return list(map(self.frequency, terms))

    def similar(self, word: str, edits: int) -> list[Near]:
        """Words within `edits` of a word, by distance, then by falling frequency, then by spelling. An edit that
        changes the length changes at most one bit of a signature, any other two."""
        by_length = self._by_length
        if by_length is None:
            with self._lock:
                by_length = self._by_length = _by_length(self.counts.surfaces)
        (bits,) = signatures([word])
        others, differences = list[str](), [np.empty(0, np.uint8)]
        for length in range(len(word) - edits, len(word) + edits + 1):
            if length in by_length:
                words, bits_of = by_length[length]
                near, bits_apart = alike(bits_of, bits, 2 * edits - abs(length - len(word)))
                others += map(words.__getitem__, near.tolist())
                differences.append(bits_apart)
        closest = np.argsort(np.concatenate(differences), kind="stable")[:MAX_COMPARED]
        return nearest(word, [others[index] for index in closest], edits, self.counts.surfaces.__getitem__)

    def completions(self, prefix: str, limit: int) -> list[str]:
        """Surfaces with a prefix, itself excluded, by falling frequency, then by spelling."""
        cache = self._completions
        if (prefix, limit) in cache:
            return cache[prefix, limit]
        order = self._order
        if order is None:
            with self._lock:
                order = self._order = sorted(self.counts.surfaces)
        low, high = bisect_left(order, prefix), bisect_left(order, prefix + _END)
        surfaces = self.counts.surfaces
        best = sorted(order[low:high], key=surfaces.__getitem__, reverse=True)[: limit + 1]  # equal ones stay in order
        completions = [word for word in best if word != prefix and surfaces[word]][:limit]
        if high - low > _MANY:  # so that the words in use bound the cache
            cache[prefix, limit] = completions
        return completions


def nearest(word: str, others: Sequence[str], edits: int, frequency: Callable[[str], int]) -> list[Near]:
    """The words in use, among `others`, that are within `edits` of a word, as `Terms.similar` orders them."""
    from rapidfuzz.distance import OSA  # which takes as long to load as numpy
    from rapidfuzz.process import extract

    near = extract(word, others, scorer=OSA.distance, processor=None, score_cutoff=edits, limit=None)
    in_use = [Near(other, int(distance), frequency(other)) for other, distance, _ in near]
    return sorted((near for near in in_use if near.listings), key=lambda near: (near.edits, -near.listings, near.word))


def alike(signed: _Bits, bits: np.uint64, most: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """The indexes of the signatures that differ from one in at most so many bits, the `MAX_COMPARED` with the fewest,
    and in how many."""
    differences = np.bitwise_count(signed ^ bits)
    near = np.flatnonzero(differences <= most)
    if len(near) > MAX_COMPARED:
        near = np.sort(near[np.argsort(differences[near], kind="stable")[:MAX_COMPARED]])
    return near, differences[near]


def signatures(words: Sequence[str]) -> _Bits:
    """The signatures of words of one length: the classes of letters, 32 bits for once, 32 for twice or more."""
    letters = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32).reshape(len(words), -1)
    once = np.zeros(len(words), np.uint64)
    twice = once.copy()
    for bit in (np.uint64(1) << (letters & np.uint32(31)).astype(np.uint64)).T:
        twice |= once & bit
        once |= bit
    return np.asarray(once | twice << np.uint64(32))


def _by_length(words: Iterable[str]) -> dict[int, tuple[list[str], _Bits]]:
    """The words that may be corrections, by their number of letters, and their signatures."""
    of_length: defaultdict[int, list[str]] = defaultdict(list)
    for word in words:
        if SHORTEST <= len(word) <= LONGEST and is_correctable(word):
            of_length[len(word)].append(word)
    return {length: (some, signatures(some)) for length, some in of_length.items()}
