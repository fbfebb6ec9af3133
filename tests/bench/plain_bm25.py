"""Plain BM25 (Lucene's formula, Snowball's stemmer, 33 stop words), as a library of a few lines does it: the baseline
of the benches of relevance."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import log
from statistics import mean

from Stemmer import Stemmer

DEPTH = 10
"""Results that are compared."""

_STOP = frozenset(
    """
    a an and are as at be but by for if in into is it no not of on or such that the their then there these they this
    to was will with
    """.split()  # noqa: SIM905 - a list of words reads better
)
_K1, _B = 1.5, 0.75
_stem = Stemmer("english").stemWord


Search = Callable[[str], Sequence[str]]
"""Text in, ids of the first results out."""


def plain_bm25(texts: Mapping[str, str]) -> Search:
    """A search by BM25 over all words but stop words; the texts are by id."""
    counts = {id_: Counter(_words(text)) for id_, text in texts.items()}
    lengths = {id_: sum(words.values()) for id_, words in counts.items()}
    average, listings = mean(lengths.values()), len(counts)
    postings: dict[str, dict[str, float]] = {}
    for id_, words in counts.items():
        norm = _K1 * (1 - _B + _B * lengths[id_] / average)
        for word, count in words.items():
            postings.setdefault(word, {})[id_] = count / (count + norm)

    def search(text: str) -> list[str]:
        scores: Counter[str] = Counter()
        for word in _words(text):
            held = postings.get(word, {})
            rarity = log(1 + (listings - len(held) + 0.5) / (len(held) + 0.5))
            for id_, saturated in held.items():
                scores[id_] += rarity * saturated  # type: ignore[assignment]
        return [id_ for id_, _ in scores.most_common(DEPTH)]

    return search


def _words(text: str) -> list[str]:
    return [_stem(word) for word in re.findall(r"\w\w+", text.lower()) if word not in _STOP]
