"""Words related to a word: those of the table of text vectors that are near to it in meaning (`lawyer`: `attorney`)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.search.analysis import stem
from overlay.search.nearest import inverse_lengths, nearest
from overlay.search.piece_table import Vector, row_of, whole_words
from overlay.search.stop_words import ENGLISH
from overlay.search.term_dictionary import Terms

LEAST = 0.4
"""Words are related from this cosine on."""
_MOST, _SHORTEST = 60, 3
_CACHED = 2_048
"""Words with the related ones in memory: some 6 kB each."""


class Related(NamedTuple):
    """A related word, and the cosine."""

    word: str
    cosine: float


class _Words(NamedTuple):
    """The words that can be related to others, and their rows of the table, with inverse lengths."""

    words: list[str]
    rows: Vector
    inverse: npt.NDArray[np.float32]


@cache
def _candidates() -> _Words:
    words = [word for word in whole_words() if word.isascii() and word.isalpha() and len(word) >= _SHORTEST]
    words = [word for word in words if word not in ENGLISH]
    rows = np.array([row_of(word) for word in words], np.int8)
    return _Words(words, rows, inverse_lengths(rows))


@lru_cache(_CACHED)
def related(word: str) -> tuple[Related, ...]:
    """The words of the table that are related to one, the nearest first, without other forms of it; none for a word
    that the table does not know whole."""
    row = row_of(word)
    if row is None:
        return ()
    words, rows, inverse = _candidates()
    near = nearest(rows, inverse, np.ones(len(words), np.uint8), row, _MOST)
    pairs = zip(near.documents.tolist(), near.cosines.tolist(), strict=True)
    return tuple([Related(words[number], cosine) for number, cosine in pairs
                  if cosine >= LEAST and stem(words[number]) != stem(word)])  # fmt: skip


def in_use(word: str, terms: Terms, fewest: int = 1) -> Iterator[Related]:
    """The related words that at least so many listings contain, the nearest first, each stem once."""
    near = related(word)
    stems = [stem(other.word) for other in near]
    counts = terms.frequencies(stems)
    by_stem = {term: other for term, other, count in zip(reversed(stems), reversed(near), reversed(counts), strict=True)
               if count >= fewest}  # fmt: skip
    yield from sorted(by_stem.values(), key=lambda other: -other.cosine)
