"""How much a word says about a listing: quantised BM25 with field weights, the same numbers in every engine.

The part of BM25 that a listing decides (weighted term frequency, saturated and normalised by length: BM25F, Robertson,
Zaragoza and Taylor 2004) is rounded to `LEVELS` when it is indexed; the part that the registry decides (how rare a word
is) comes from the vocabulary when it is asked. Sums of whole numbers are exact in any order, so two engines, or an
index and its rebuilt copy, put the same listings in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from overlay.search.text import stem, words

if TYPE_CHECKING:
    from overlay.document import Document

LEVELS = 5
BEST = 2000
"""Points of a listing that says every word as loudly as can be; `recency` of the Tantivy engine says why so few."""
NAME, TAG, SKILL, WORD, DESCRIPTION, EXAMPLE = 6, 3, 3, 3, 2, 1
_SATURATION = 2.4  # BM25's k1 = 1.2 at the weight of a word in a description
_BY_LENGTH = 0.6  # BM25's b
_USUAL_LENGTH = 60  # words; a constant, so that a listing's levels never depend on other listings
_COVERAGE = 0.1  # of a word's best points: what finding it adds in a long question, however quietly it is said
_RARE = 1.5  # the power of rarity: common words of a long question must not drown the few that tell (measured)


def texts(document: Document) -> Iterator[tuple[int, str]]:
    """Everything in a listing that is searched, with its field weight."""
    yield NAME, document.name
    yield DESCRIPTION, document.description
    for tag in document.tags:
        yield TAG, tag
    for skill in document.skills:
        yield SKILL, skill.name or skill.id
        if skill.name and skill.id != skill.name:
            yield EXAMPLE, skill.id
        yield DESCRIPTION, skill.description
        for tag in skill.tags:
            yield EXAMPLE, tag
        for example in skill.examples:
            yield EXAMPLE, example
    for word in document.words:
        yield WORD, word


def weigh(document: Document) -> tuple[dict[str, int], set[str]]:
    """The level (1 to `LEVELS`) of every index term of a listing, and its words as written (folded, unstemmed)."""
    weights: dict[str, int] = {}
    length = 0
    for weight, text in texts(document):
        for word in words(text):
            length += 1
            weights[word] = weights.get(word, 0) + weight
    terms: dict[str, int] = {}
    for word, weight in weights.items():
        term = stem(word)
        terms[term] = terms.get(term, 0) + weight
    norm = _SATURATION * (1 - _BY_LENGTH + _BY_LENGTH * length / _USUAL_LENGTH)
    return {term: math.ceil(LEVELS * weight / (weight + norm)) for term, weight in terms.items()}, set(weights)


def rarity(holding: int, listings: int) -> float:
    """BM25's inverse document frequency, always above 0, to the power `_RARE`."""
    return math.pow(math.log(1 + (listings - min(holding, listings) + 0.5) / (holding + 0.5)), _RARE)


def scale(best: Sequence[float], long: bool) -> tuple[float, float]:
    """(points for each unit of gain, part of them for being found at all), for words whose best gains are given.

    Chosen so that all words at the highest level make `BEST` points at most.
    """
    found = _COVERAGE if long else 0.0
    return (BEST - 2 * len(best)) / (sum(best) * (1 + found)), found


def points(gain: float, unit: float, found: float) -> list[int]:
    """The whole points a word adds at each level, 1 to `LEVELS`, when its best gain is `gain`."""
    return [max(1, round(gain * unit * (level / LEVELS + found))) for level in range(1, LEVELS + 1)]
