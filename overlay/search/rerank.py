"""The re-ranker: one formula that orders results by relevance, or the candidates that an engine selects.

    score = (Σ words + proximity) · exact name · static rank

words       Σ over the query's words: max over alternatives of value · f / (f + 0.9), where f sums over the fields the
            term's count, weighted and normalised by the field's length (BM25F: Robertson, Zaragoza and
            Taylor, Simple BM25 extension to multiple weighted fields, CIKM 2004)
proximity   a quarter of the rarer of two neighbouring words within two positions of each other
exact name  up to 1.5 where the listing's name consists of exactly the query's words
static rank 1.05 for a verified domain or card hash, 1.02 for a signature, up to 1.03 for age (0.97 unconfirmed): text
            alone cannot obtain these, and together they weigh less than a word (`tests/contracts/test_ranking.py`)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from overlay.search import ranker
from overlay.search.forward import Candidates, number
from overlay.search.planner import QueryPlan
from overlay.search.ranker import Bytes, Floats, Ints, Numbers, PlanArrays, PlanWords


class Factors(NamedTuple):
    """The factors of the scores of listings, one row for each. `words` has a column per word of the query; `terms` has
    the index of the alternative that counts there, -1 for none."""

    words: Floats
    terms: Ints
    proximity: Floats
    exact_name: Floats
    static_rank: Floats

    @property
    def scores(self) -> Floats:
        """The formula."""
        total = self.words.sum(1) + self.proximity
        return np.asarray(total * self.exact_name * self.static_rank)


@dataclass(frozen=True, slots=True)
class Scored:
    """A listing by its row in the factors of some, to explain its score; ignored when results are compared."""

    factors: Factors = field(compare=False)
    row: int = field(compare=False)


def factors(plan: QueryPlan, blobs: Sequence[bytes]) -> Factors:
    """The factors of candidates, passed as encoded forward indexes (`forward.encode`), under a plan with groups. Age
    counts from the newest of them."""
    candidates, words = Candidates.decode(blobs), PlanWords(plan)
    numbers = np.array(list(map(number, words.terms)), np.int64)
    newest = float(candidates.since.max(initial=0.0))
    return factors_of_arrays(np.arange(len(blobs)), *candidates, newest, words.numbered(numbers))


def factors_of_arrays(
    documents: Ints,
    offsets: Ints,
    ends: Numbers,
    forward: Numbers,
    flags: Bytes,
    since: Floats,
    newest: float,
    words: PlanArrays,
) -> Factors:
    """The factors of some of the documents of these arrays (`ranker`); `newest` is the time from which age counts."""
    shape = len(documents), len(words.rarities)
    values, terms = np.empty(shape, np.float64), np.empty(shape, np.int64)
    others = np.empty((len(documents), 3), np.float64)
    ranker.rank(documents, offsets, ends, forward, flags, since, newest, *words, values, terms, others)
    return Factors(values, terms, *others.T)
