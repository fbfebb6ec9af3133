"""The re-ranker, stage two of ranking: one formula that orders the candidates of the engine's BM25.

    score = (Σ words + proximity) · exact name · static rank

words       Σ over the query's words: boost · max over alternatives of value · f / (f + 0.9), where f sums over the
            fields the term's count, weighted and normalised by the field's length (BM25F: Robertson, Zaragoza and
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
import numpy.typing as npt

from overlay.search.forward import Candidates, Floats, number
from overlay.search.planner import QueryPlan, TermGroup

WEIGHTS = np.array((3.0, 1.0, 1.0))
NORMALISATION = np.array((0.6, 0.3, 0.5))
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
    """Computes the factors of one query. Columns of matrices are terms of the query, or its groups."""

    def __init__(self, groups: Sequence[TermGroup], candidates: Candidates) -> None:
        self._groups, self._candidates, self._listings = groups, candidates, len(candidates.since)
        order = {number(alternative.term): None for group in groups for alternative in group.alternatives}
        numbers = np.sort(np.array(list(order), np.uint32))
        column = {int(value): index for index, value in enumerate(numbers)}
        self._columns = [
            np.array([column[number(alternative.term)] for alternative in group.alternatives]) for group in groups
        ]
        self._count = len(numbers)
        self._term, self._listing, self._field, self._position = candidates.find(numbers)

    def factors(self) -> Factors:
        frequencies = self._frequencies()
        saturated = frequencies / (frequencies + SATURATION)
        shape = self._listings, len(self._groups)
        words, terms = np.zeros(shape), np.full(shape, -1)
        for column, (group, columns) in enumerate(zip(self._groups, self._columns, strict=True)):
            values = saturated[:, columns] * np.array([alternative.value for alternative in group.alternatives])
            best = values.argmax(1)
            words[:, column] = group.boost * values[np.arange(self._listings), best]
            terms[:, column] = np.where(words[:, column] > 0, best, -1)
        rarities = np.array([group.rarity for group in self._groups])
        return Factors(
            words, terms, self._proximity(rarities), 1 + EXACT_NAME * self._exact_name(),
            self._static_rank(), self._candidates.sources.tolist(),
        )  # fmt: skip

    def _frequencies(self) -> Floats:
        """The weighted and normalised frequency of each term in each listing."""
        lengths = self._candidates.lengths / MEAN_LENGTHS
        norms = WEIGHTS / (1 - NORMALISATION + NORMALISATION * lengths)
        return self._sum(norms[self._listing, self._field])

    def _sum(self, values: npt.NDArray[np.generic], mask: npt.NDArray[np.bool_] | slice = slice(None)) -> Floats:
        cells = self._listing[mask] * self._count + self._term[mask]
        summed = np.bincount(cells, weights=values[mask], minlength=self._listings * self._count)
        return np.asarray(summed, np.float64).reshape(self._listings, self._count)

    def _proximity(self, rarities: Floats) -> Floats:
        """The share of each pair of neighbouring words of the query that occur in order and close together in a
        field."""
        pairs = np.full((self._count, self._count), -1)
        for index, (one, other) in enumerate(zip(self._columns, self._columns[1:], strict=False)):
            pairs[np.ix_(one, other)] = index
        np.fill_diagonal(pairs, -1)
        placed = self._position >= 0
        listing, field, term = self._listing[placed], self._field[placed], self._term[placed]
        position = self._position[placed]
        held = np.zeros((self._listings, max(1, len(self._groups) - 1)), np.bool_)
        for apart in range(1, NEAR + 1):  # occurrences are in order: close ones are adjacent, or one apart
            gap = position[apart:] - position[:-apart]
            near = (gap > 0) & (gap <= NEAR)
            near &= (listing[apart:] == listing[:-apart]) & (field[apart:] == field[:-apart])
            pair = pairs[term[:-apart][near], term[apart:][near]]
            held[listing[apart:][near][pair >= 0], pair[pair >= 0]] = True
        rarer = np.maximum(rarities[1:], rarities[:-1]) if len(rarities) > 1 else np.zeros(1)
        return np.asarray(PROXIMITY * (held @ rarer))

    def _exact_name(self) -> Floats:
        """The least weight of the alternatives that make up a name, 0 for other names."""
        in_name = self._field == 0
        counts = self._sum(np.ones(len(self._term)), in_name)
        placed = self._sum(np.ones(len(self._term)), in_name & (self._position >= 0)).sum(1)
        is_whole = self._candidates.name_is_compound & (counts.sum(1) > placed)
        exact = np.where((placed == self._candidates.lengths[:, 0]) | is_whole, 1.0, 0.0)
        for group, columns in zip(self._groups, self._columns, strict=True):
            weights = np.array([alternative.weight for alternative in group.alternatives])
            exact = np.minimum(exact, ((counts[:, columns] > 0) * weights).max(1))
        return exact

    def _static_rank(self) -> Floats:
        since = self._candidates.since
        age = np.where(since < 0, -1.0, np.clip((since.max(initial=0.0) - since) / OLD, 0, 1))
        return np.asarray(
            (1 + VERIFIED * self._candidates.verified) * (1 + SIGNED * self._candidates.signed) * (1 + AGE * age)
        )
