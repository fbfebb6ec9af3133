"""Words related to a word: those of the table of text vectors that are near to it in meaning (`lawyer`: `attorney`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.search.analysis import stem
from overlay.search.nearest import inverse_lengths, nearest
from overlay.search.piece_table import Vector, row_of, whole_words
from overlay.search.planner import RELATED, Alternative, QueryPlan, TermGroup, rarity
from overlay.search.stop_words import ENGLISH
from overlay.search.term_dictionary import Terms

LEAST = 0.4
"""Words are related from this cosine on."""
_NEAREST, _MOST = 20, 10
"""Words of the table that are looked up, and those in use that count for a word of a query."""
_SHORTEST, _FEWEST = 3, 3
"""Letters of a related word, and content words of a query for which related ones count."""
_CACHED = 8_192
"""Words with the related ones in memory: some 2 kB each."""


class Related(NamedTuple):
    """A related word, its stem, and the cosine."""

    word: str
    term: str
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
    near = nearest(rows, inverse, np.ones(len(words), np.uint8), row, _NEAREST)
    pairs = zip(near.documents.tolist(), near.cosines.tolist(), strict=True)
    others = (Related(words[number], stem(words[number]), cosine) for number, cosine in pairs if cosine >= LEAST)
    return tuple([other for other in others if other.term != stem(word)])


def in_use(word: str, terms: Terms, fewest: int = 1) -> Iterator[Related]:
    """The related words that at least so many listings contain, the nearest first, each stem once."""
    near = related(word)
    counts = terms.frequencies([other.term for other in near])
    by_term: dict[str, Related] = {}
    for other, count in zip(near, counts, strict=True):
        if count >= fewest:
            by_term.setdefault(other.term, other)
    yield from by_term.values()


def with_related(plan: QueryPlan, terms: Terms) -> QueryPlan:
    """The plan of a text of at least three content words, with the words in use that are related to each as further
    alternatives, which order results only."""
    if len(plan.content) < _FEWEST:
        return plan
    near = [() if group.is_stop else related(group.word) for group in plan.groups]
    stems = list(dict.fromkeys([other.term for others in near for other in others]))
    counts = dict(zip(stems, terms.frequencies(stems), strict=True))
    groups = [
        _widened(group, others, counts, terms.listings) if others else group
        for group, others in zip(plan.groups, near, strict=True)
    ]
    return plan._replace(groups=tuple(groups))


def _widened(group: TermGroup, near: Sequence[Related], counts: Mapping[str, int], listings: int) -> TermGroup:
    by_term = {alternative.term: alternative for alternative in group.alternatives}
    most = len(by_term) + _MOST
    for other in near:
        if counts[other.term] and other.term not in by_term and len(by_term) < most:
            weight = (other.cosine - LEAST) / (1 - LEAST)
            value = weight * min(rarity(counts[other.term], listings), group.rarity)
            by_term[other.term] = Alternative(other.term, weight, value, RELATED, written=other.word)
    return group._replace(alternatives=tuple(by_term.values()))
