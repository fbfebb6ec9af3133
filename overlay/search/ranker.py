"""The compiled ranker: the formula of `rerank`, computed from forward indexes.

A forward index is a stretch of term numbers in six sections: those with a position of name, keywords and description,
in order, then those without. `ends` has the ends of the sections from the start of the stretch, six for each document.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from parsers.jit import compiled, kernel

if TYPE_CHECKING:
    from overlay.search.planner import QueryPlan

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]

FIELD_WEIGHT = (3.0, 1.0, 1.0)
_SHARE = (0.6, 0.3, 0.5)
MEAN_LENGTHS = (3.0, 4.0, 22.0)
"""Of name, keywords and description, in terms. Constants, so that no listing changes the score of another."""
FIELD_CONSTANT = (1 - _SHARE[0], 1 - _SHARE[1], 1 - _SHARE[2])
FIELD_SHARE = (_SHARE[0] / MEAN_LENGTHS[0], _SHARE[1] / MEAN_LENGTHS[1], _SHARE[2] / MEAN_LENGTHS[2])
"""A term counts FIELD_WEIGHT / (FIELD_CONSTANT + FIELD_SHARE · length) for each occurrence in a field."""
SATURATION = 0.9
NEAR, PROXIMITY = 2, 0.25
EXACT_NAME = 0.5
VERIFIED, SIGNED, AGE = 0.05, 0.02, 0.03
OLD = 180 * 86_400.0
"""Seconds at which the age of a text stops counting, relative to the newest block."""
MOST_STATIC = (1 + VERIFIED) * (1 + SIGNED) * (1 + AGE)
COMPOUND_FLAG, VERIFIED_FLAG, SIGNED_FLAG = 2, 4, 8
"""Bits of `flags`: the name is one compound, verified, signed."""

FIELD_COUNT, SECTIONS = 3, 6
"""Fields of a listing, and sections of a forward index: one for each field and for each of its two kinds of terms."""


_ABSENT = 0xFFFF_FFF0
"""The number of a term that no document has."""


class PlanArrays(NamedTuple):
    """The words of a plan for the kernel. `terms` are the distinct term numbers, ascending; the alternatives of group g
    are from `starts[g]` until before `starts[g + 1]`, each by its place in `terms` (`columns`), its value and its
    weight. `member` says for each term and group whether it is an alternative there."""

    terms: Numbers
    starts: Ints
    columns: Ints
    values: Floats
    weights: Floats
    rarities: Floats
    member: npt.NDArray[np.uint8]


class PlanWords:
    """The words of a plan as arrays, by group or by alternative, in their order."""

    def __init__(self, plan: QueryPlan) -> None:
        alternatives = [one for group in plan.groups for one in group.alternatives]
        self._sizes = [len(group.alternatives) for group in plan.groups]
        self.terms = [one.term for one in alternatives]
        self.starts = np.array([0, *accumulate(self._sizes)], np.int64)
        self.values = np.array([one.value for one in alternatives], np.float64)
        self.weights = np.array([one.weight for one in alternatives], np.float64)
        self.rarities = np.array([group.rarity for group in plan.groups], np.float64)
        self.is_stop = np.array([group.is_stop for group in plan.groups], np.uint8)

    def numbered(self, numbers: Ints) -> PlanArrays:
        """The words by the numbers of their terms, negative for those that no document has."""
        named = [_ABSENT if number < 0 else number for number in numbers.tolist()]
        place = {number: index for index, number in enumerate(sorted(set(named)))}
        columns = np.array([place[number] for number in named], np.int64)
        member = np.zeros((len(place), len(self._sizes)), np.uint8)
        member[columns, np.repeat(np.arange(len(self._sizes)), self._sizes)] = 1
        terms = np.array(list(place), np.uint32)
        return PlanArrays(terms, self.starts, columns, self.values, self.weights, self.rarities, member)


@compiled
def _column(terms: Numbers, term: int) -> int:
    """The place of a term among the ascending ones, -1 without one."""
    low, high = 0, len(terms)
    while low < high:
        middle = (low + high) >> 1
        if terms[middle] < term:
            low = middle + 1
        else:
            high = middle
    return low if low < len(terms) and terms[low] == term else -1


@compiled
def _bloom(terms: Numbers) -> np.int64:
    """A bit for each remainder of the terms by 64."""
    bloom = np.int64(0)
    for term in terms:
        bloom |= np.int64(1) << np.int64(term & 63)
    return bloom


@compiled
def _mark_pairs(member: npt.NDArray[np.uint8], one: int, other: int, held: Bytes) -> None:
    """Mark the pairs of neighbouring groups of which one term is followed by another."""
    if one != other:
        for group in range(member.shape[1] - 1):
            if member[one, group] and member[other, group + 1]:
                held[group] = 1


@compiled
def field_norm(ends: Numbers, row: int, field: int) -> float:
    """What an occurrence of a term in a field counts, by the field's weight and length; `row` is where the ends of the
    document's sections begin."""
    first = np.int64(ends[row + field - 1]) if field else np.int64(0)
    length = np.int64(ends[row + field]) - first
    return FIELD_WEIGHT[field] / (FIELD_CONSTANT[field] + FIELD_SHARE[field] * length)


@compiled
def _scan(
    start: int,
    ends: Numbers,
    row: int,
    forward: Numbers,
    terms: Numbers,
    bloom: np.int64,
    member: npt.NDArray[np.uint8],
    frequency: Floats,
    in_name: Bytes,
    held: Bytes,
) -> tuple[int, int]:
    """Read a document: the frequency of each term, its presence in the name, and the pairs of neighbours. Returns the
    occurrences of terms in the name, with a position and without one."""
    placed = whole = 0
    section_start = np.int64(0)
    for section in range(SECTIONS):
        field = section % FIELD_COUNT
        norm = field_norm(ends, row, field)
        section_end = np.int64(ends[row + section])
        last = before = -1
        last_at = before_at = -NEAR - 1
        for place in range(section_start, section_end):
            term = forward[start + place]
            if not (bloom >> np.int64(term & 63)) & 1:
                continue
            column = _column(terms, term)
            if column < 0:
                continue
            frequency[column] += norm
            if field == 0:
                in_name[column] = 1
                if section < FIELD_COUNT:
                    placed += 1
                else:
                    whole += 1
            if section < FIELD_COUNT:
                if place - last_at <= NEAR:
                    _mark_pairs(member, last, column, held)
                if place - before_at <= NEAR:
                    _mark_pairs(member, before, column, held)
                before, before_at, last, last_at = last, last_at, column, place
        section_start = section_end
    return placed, whole


@compiled
def _exact_name(starts: Ints, columns: Ints, weights: Floats, in_name: Bytes) -> float:
    """The least weight of the alternatives of a group that a name contains."""
    least = 1.0
    for group in range(len(starts) - 1):
        most = 0.0
        for alternative in range(starts[group], starts[group + 1]):
            if in_name[columns[alternative]] and weights[alternative] > most:
                most = weights[alternative]
        least = min(least, most)
    return least


@compiled
def static_rank(flags: int, since: float, newest: float) -> float:
    """The factor of a document for being verified, signed and old; `since` is negative for an unconfirmed text."""
    age = -1.0 if since < 0 else min((newest - since) / OLD, 1.0)
    verified = VERIFIED if flags & VERIFIED_FLAG else 0.0
    signed = SIGNED if flags & SIGNED_FLAG else 0.0
    return (1 + verified) * (1 + signed) * (1 + AGE * age)


@kernel("words", "best", "factors")
def rank(
    documents: Ints,
    offsets: Ints,
    ends: Numbers,
    forward: Numbers,
    flags: Bytes,
    since: Floats,
    newest: float,
    terms: Numbers,
    starts: Ints,
    columns: Ints,
    values: Floats,
    weights: Floats,
    rarities: Floats,
    member: npt.NDArray[np.uint8],
    words: Floats,
    best: Ints,
    factors: Floats,
) -> int:
    """Fill the factors of documents: `words` by group, `best` the alternative that counts there (-1 for none), and
    `factors` proximity, exact name and static rank. Documents have forward indexes from `offsets` on."""
    groups = len(starts) - 1
    frequency, in_name = np.zeros(len(terms), np.float64), np.zeros(len(terms), np.uint8)
    held = np.zeros(groups, np.uint8)
    bloom = _bloom(terms)
    for index in range(len(documents)):
        document = documents[index]
        frequency[:] = 0
        in_name[:] = 0
        held[:] = 0
        row = document * SECTIONS
        placed, whole = _scan(offsets[document], ends, row, forward, terms, bloom, member, frequency, in_name, held)
        for group in range(groups):
            words[index, group], best[index, group] = 0.0, -1
            for alternative in range(starts[group], starts[group + 1]):
                count = frequency[columns[alternative]]
                value = values[alternative] * count / (count + SATURATION)
                if value > words[index, group]:
                    words[index, group], best[index, group] = value, alternative - starts[group]
        near = 0.0
        for group in range(groups - 1):
            if held[group]:
                near += PROXIMITY * max(rarities[group], rarities[group + 1])
        is_exact = placed == ends[row] or (flags[document] & COMPOUND_FLAG and whole > 0)
        factors[index, 0] = near
        factors[index, 1] = 1 + EXACT_NAME * _exact_name(starts, columns, weights, in_name) if is_exact else 1.0
        factors[index, 2] = static_rank(flags[document], since[document], newest)
    return len(documents)
