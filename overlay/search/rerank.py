"""The re-ranker: one formula that orders results by relevance, or the candidates that an engine selects.

    score = (Σ words + proximity) · exact name · static rank

words       Σ over the query's words: max over alternatives of value · f / (f + 0.9), where f sums over the fields the
            term's count, weighted and normalised by the field's length (BM25F: Robertson, Zaragoza and
            Taylor, Simple BM25 extension to multiple weighted fields, CIKM 2004); in the name repeats count no more
            than a name of the term alone, and terms after the first eight have the weight of a description
proximity   a quarter of the rarer of two neighbouring words within two positions of each other
exact name  up to 1.5 where the listing's name consists of exactly the query's words, less for repeated ones
static rank 1.05 for a verified domain or card hash, 1.02 for a signature, up to 1.03 for age (0.97 unconfirmed): text
            alone cannot obtain these, and together they weigh less than a word (`tests/contracts/test_ranking.py`)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from overlay.search import ranker
from overlay.search.forward import decoded, number
from overlay.search.planner import QueryPlan
from overlay.search.ranker import Floats, Forwards, Ints, Longs, PlanArrays, PlanWords


class Bounded(NamedTuple):
    """Documents, and the upper bounds of their scores; those below `least` are not ranked."""

    documents: Ints
    upper: Floats
    least: float


class Factors(NamedTuple):
    """The factors of the scores of listings, one row for each, the scores, and the flags (`ranker`). `words` has a
    column per word of the query; `terms` has the index of the alternative that counts there, -1 for none."""

    words: Floats
    terms: Ints
    proximity: Floats
    exact_name: Floats
    static_rank: Floats
    scores: Floats
    flags: Floats


@dataclass(slots=True)
class Scored:
    """A listing by its row in the factors of some, to explain its score; ignored when results are compared."""

    factors: Factors = field(compare=False)
    row: int = field(compare=False)


def factors(plan: QueryPlan, blobs: Sequence[bytes]) -> Factors:
    """The factors of candidates, passed as encoded forward indexes (`forward.encode`), under a plan with groups. Age
    counts from the newest of them."""
    forwards, words = decoded(blobs), PlanWords(plan)
    numbers = np.array(list(map(number, words.terms)), np.int64)
    newest = float(forwards.since.max(initial=0.0))
    return factors_of_all(np.arange(len(blobs)), forwards, words.numbered(numbers), newest)


def factors_of_all(documents: Ints, forwards: Forwards, words: PlanArrays, newest: float) -> Factors:
    """The factors of documents, in their order; `newest` is the time from which age counts."""
    count = len(documents)
    in_order = Bounded(documents, np.arange(count, 0.0, -1.0), 0.0)
    return factors_of_best(in_order, _NO_RANKS, 0, count, forwards, words, newest)[1]


_NO_RANKS: Longs = np.empty(0, np.uint64)


def factors_of_best(
    bounded: Bounded, ranks: Longs, most: int, most_ranked: int, forwards: Forwards, words: PlanArrays, newest: float
) -> tuple[Ints, Factors]:
    """The factors of the documents that can be among the `most` of the highest scores (0: of all), at most
    `most_ranked`, and their positions in `bounded`, the highest bound first, equal ones by the `ranks` of documents."""
    rows, groups = min(len(bounded.documents), most_ranked), len(words.rarities)
    indexes, values, terms = np.empty(rows, np.int64), np.empty((rows, groups)), np.empty((rows, groups), np.int64)
    more = np.empty((rows, 5))
    count = ranker.rank(*bounded, ranks, most, forwards, words, newest, indexes, values, terms, more)
    return indexes[:count], Factors(values[:count], terms[:count], *more[:count].T)
