"""The re-ranker, stage two of ranking: one formula that orders the candidates of the engine's BM25.

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
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.search.forward import Candidates, Floats, Ints, number
from overlay.search.planner import QueryPlan, TermGroup

WEIGHTS = np.array((3.0, 1.0, 1.0))
NORMALISATION = np.array((0.6, 0.3, 0.5))
_CONSTANT_PART = 1 - NORMALISATION
MEAN_LENGTHS = np.array((3.0, 4.0, 22.0))
"""Of name, keywords and description, in terms. Constants, so that no listing changes the score of another."""
SATURATION = 0.9
NEAR, PROXIMITY = 2, 0.25
EXACT_NAME = 0.5
VERIFIED, SIGNED, AGE = 0.05, 0.02, 0.03
OLD = 180 * 86_400
"""Seconds at which the age of a text stops counting, relative to the newest candidate."""


class Factors(NamedTuple):
    """The factors of the candidates' scores, one row per listing. `words` has a column per word of the query; `terms`
    has the index of the alternative that counts there, -1 for none. `sources` are the numbers of owner and domain, for
    `diversity`; they do not change the score."""

    words: Floats
    terms: npt.NDArray[np.int64]
    proximity: Floats
    exact_name: Floats
    static_rank: Floats
    sources: list[list[int]]

    @property
    def scores(self) -> Floats:
        """The formula."""
        total = self.words.sum(1) + self.proximity
        return np.asarray(total * self.exact_name * self.static_rank)


@dataclass(frozen=True, slots=True)
class Scored:
    """A listing by its row in the factors of all candidates, to explain its score; ignored when results are
    compared."""

    factors: Factors = field(compare=False)
    row: int = field(compare=False)


def factors(plan: QueryPlan, blobs: Sequence[bytes]) -> Factors:
    """The factors of listings, passed as encoded forward indexes (`forward.encode`), under a plan with groups."""
    return _Scorer(plan.groups, Candidates.decode(blobs)).factors()


class _Scorer:
    """Computes the factors of one query. Columns of matrices are terms of the query and one without occurrences, or its
    groups. Alternatives are matrices with a row for each group; short rows end with that last column, of no value."""

    def __init__(self, groups: Sequence[TermGroup], candidates: Candidates) -> None:
        self._groups, self._candidates, self._listings = groups, candidates, len(candidates.since)
        numbers = [[number(alternative.term) for alternative in group.alternatives] for group in groups]
        order = sorted(set(chain.from_iterable(numbers)))
        column = {value: index for index, value in enumerate(order)}
        self._columns = [[column[value] for value in row] for row in numbers]
        self._width, self._most = len(order) + 1, max(map(len, numbers))
        self._padded = np.array([row + [len(order)] * (self._most - len(row)) for row in self._columns])
        self._occurrences = candidates.find(np.array(order, np.uint32))
        self._cells = self._occurrences.listing * self._width + self._occurrences.term

    def factors(self) -> Factors:
        frequencies = self._frequencies()
        saturated = frequencies / (frequencies + SATURATION)
        weights = self._matrix([[one.value for one in group.alternatives] for group in self._groups])
        values = saturated.take(self._padded, 1) * weights
        words = values.max(2)
        terms = np.where(words > 0, values.argmax(2), -1)
        return Factors(
            words, terms, self._proximity(), self._exact_name(), self._static_rank(), self._candidates.sources.tolist()
        )

    def _matrix(self, rows: Sequence[Sequence[float]]) -> Floats:
        return np.array([[*row, *[0.0] * (self._most - len(row))] for row in rows])

    def _frequencies(self) -> Floats:
        """The weighted and normalised frequency of each term in each listing."""
        lengths = self._candidates.lengths / MEAN_LENGTHS
        norms = WEIGHTS / (_CONSTANT_PART + NORMALISATION * lengths)
        return self._sum(self._cells, norms[self._occurrences.listing, self._occurrences.field])

    def _sum(self, cells: Ints, weights: Floats | None = None) -> npt.NDArray[Any]:
        summed = np.bincount(cells, weights, self._listings * self._width)
        return summed.reshape(self._listings, self._width)

    def _proximity(self) -> Floats:
        """The share of each pair of neighbouring words of the query that occur in order and close together in a
        field."""
        if len(self._groups) == 1:
            return np.zeros(self._listings)
        numbers = {  # of the pairs of neighbours, by their two columns
            one * self._width + other: index
            for index, (row, following) in enumerate(pairwise(self._columns))
            for one in row
            for other in following
            if one != other
        }
        pairs = np.full(self._width * self._width, -1)
        pairs[list(numbers)] = list(numbers.values())
        placed = self._occurrences.placed.nonzero()[0]
        term, place, section = (
            self._occurrences.term[placed],
            self._occurrences.place[placed],
            self._occurrences.section[placed],
        )
        listing = self._occurrences.listing[placed]
        held = np.zeros((self._listings, len(self._groups)), np.bool_)  # the last column is for other pairs
        for apart in range(1, NEAR + 1):  # close ones are adjacent, or one apart
            first = ((place[apart:] - place[:-apart] <= NEAR) & (section[apart:] == section[:-apart])).nonzero()[0]
            held[listing[first], pairs[term[first] * self._width + term[first + apart]]] = True
        rarer = [max(one.rarity, other.rarity) for one, other in pairwise(self._groups)]
        return np.asarray(PROXIMITY * (np.ascontiguousarray(held[:, :-1]) @ np.array(rarer)))

    def _exact_name(self) -> Floats:
        """1.5 times the least weight of the alternatives that make up a name, 1 for other names."""
        in_name, has_place = self._occurrences.field == 0, self._occurrences.placed
        placed = np.bincount(self._occurrences.listing[in_name & has_place], minlength=self._listings)
        whole = np.bincount(self._occurrences.listing[in_name & ~has_place], minlength=self._listings) > 0
        exact = (placed == self._candidates.lengths[:, 0]) | (self._candidates.name_is_compound & whole)
        if not exact.any():
            return np.ones(self._listings)
        counts = self._sum(self._cells[in_name])
        weights = self._matrix([[one.weight for one in group.alternatives] for group in self._groups])
        return np.asarray(1 + EXACT_NAME * (exact * ((counts.take(self._padded, 1) > 0) * weights).max(2).min(1)))

    def _static_rank(self) -> Floats:
        since = self._candidates.since
        age = np.where(since < 0, -1.0, np.minimum((since.max(initial=0.0) - since) / OLD, 1.0))
        return np.asarray(
            (1 + VERIFIED * self._candidates.verified) * (1 + SIGNED * self._candidates.signed) * (1 + AGE * age)
        )
