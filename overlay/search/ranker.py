"""The compiled ranker: the formula of `rerank`, computed from forward indexes.

A forward index is a stretch of term numbers in six sections: those with a position of name, keywords and description,
in order, then those without. `ends` has the ends of the sections from the start of the stretch, six for each document.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.search.planner import RELATED, QueryPlan
from parsers.jit import compiled, kernel, read_only

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.uint64]

FIELD_WEIGHT = (3.0, 1.0, 1.0)
_SHARE = (0.6, 0.3, 0.5)
MEAN_LENGTHS = (3.0, 4.0, 22.0)
"""The average lengths of name, keywords and description, in terms. They are constants: no listing changes the score of
another."""
FIELD_CONSTANT = (1 - _SHARE[0], 1 - _SHARE[1], 1 - _SHARE[2])
FIELD_SHARE = (_SHARE[0] / MEAN_LENGTHS[0], _SHARE[1] / MEAN_LENGTHS[1], _SHARE[2] / MEAN_LENGTHS[2])
"""A term counts FIELD_WEIGHT / (FIELD_CONSTANT + FIELD_SHARE · length) for each occurrence in a field."""
ALONE = FIELD_WEIGHT[0] / (FIELD_CONSTANT[0] + FIELD_SHARE[0])
"""The weight of a term of a name, however often it is repeated there: no more than for a name of this term alone."""
NAME_WORDS = 8
"""Terms of a name, with a position and without one, that have its weight; the others have that of a description, with
the norm of the whole name, and no neighbours: a long list of words gains nothing by being a name."""
SATURATION = 0.9
NEAR, PROXIMITY = 2, 0.25
EXACT_NAME = 0.5
VERIFIED, SIGNED, AGE = 0.05, 0.02, 0.03
OLD = 180 * 86_400.0
"""Seconds at which the age of a text stops counting, relative to the newest block."""
DEPRECATED = 0.5
LOST, NOT_RUNNABLE = 0.97, 0.97
MOST_STATIC = (1 + VERIFIED) * (1 + SIGNED) * (1 + AGE)
COMPOUND_FLAG, VERIFIED_FLAG, SIGNED_FLAG, DEPRECATED_FLAG, LOST_FLAG, NOT_RUNNABLE_FLAG = 2, 4, 8, 16, 32, 64
"""Bits of `flags`: the name is one compound, verified, signed, deprecated, without an answer for long, not runnable."""

FIELD_COUNT, SECTIONS = 3, 6
"""Fields of a listing, and sections of a forward index: one for each field and for each of its two kinds of terms."""


class Forwards(NamedTuple):
    """The forward indexes of documents, read-only (`parsers.jit`): `terms` from `offsets` on, `ends` of sections, and
    of each document its flags and the time of its text, in seconds since 1970, negative for an unconfirmed one."""

    offsets: Ints
    ends: Numbers
    terms: Numbers
    flags: Bytes
    since: Floats

    @classmethod
    def of(cls, offsets: Ints, ends: Numbers, terms: Numbers, flags: Bytes, since: Floats) -> Forwards:
        """An object over these arrays, made read-only."""
        return cls(read_only(offsets), read_only(ends), read_only(terms), read_only(flags), read_only(since))


class PlanArrays(NamedTuple):
    """The words of a plan for kernels, read-only. Group g has the alternatives from `starts[g]` until before
    `starts[g + 1]`, each with the number of its term (negative where no document has it), its value and its weight;
    `rarities` are those of the groups."""

    numbers: Ints
    starts: Ints
    values: Floats
    weights: Floats
    rarities: Floats


class PlanWords:
    """The words of a plan as arrays, by group or by alternative, in their order."""

    def __init__(self, plan: QueryPlan) -> None:
        alternatives = [alternative for group in plan.groups for alternative in group.alternatives]
        self.terms = [alternative.term for alternative in alternatives]
        self.starts = np.array([0, *accumulate([len(group.alternatives) for group in plan.groups])], np.int64)
        self.values = np.array([alternative.value for alternative in alternatives], np.float64)
        self.weights = np.array([alternative.weight for alternative in alternatives], np.float64)
        self.is_related = np.array([alternative.match == RELATED for alternative in alternatives], bool)
        self.weights[self.is_related] = 0  # they count neither in names nor as neighbours
        self.rarities = np.array([group.rarity for group in plan.groups], np.float64)
        self.is_stop = np.array([group.is_stop for group in plan.groups], np.uint8)
        plain = [sum(alternative.match != RELATED for alternative in group.alternatives) for group in plan.groups]
        self.without_related = np.array(plain, np.int64)
        self._arrays = self.starts, self.values, self.weights, self.rarities
        for array in self._arrays:
            array.flags.writeable = False
        pairs = sorted(map(max, pairwise(self.rarities.tolist())), reverse=True)
        self.most_proximity = np.array([0.0, 0.0, *accumulate(PROXIMITY * pair for pair in pairs)], np.float64)
        """The highest proximity of a document, by the number of groups that it contains."""

    def numbered(self, numbers: Ints) -> PlanArrays:
        """The words by the numbers of their terms, negative for those that no document has."""
        return PlanArrays(read_only(numbers), *self._arrays)


_EMPTY = 0xFFFF_FFFF
"""The number of no term."""


@compiled
def _slot(slots: Numbers, term: np.uint32) -> np.int64:
    """The slot of a term in a hash table; an empty one where it is not there."""
    mask = np.int64(len(slots) - 1)
    slot = np.int64(term) & mask
    while slots[slot] != _EMPTY and slots[slot] != term:
        slot = (slot + 1) & mask
    return slot


@compiled
def _hashed(numbers: Ints, starts: Ints, weights: Floats) -> tuple[Numbers, Ints, npt.NDArray[np.uint8]]:
    """The terms of alternatives in a hash table, at most one slot in sixteen of which is used: their numbers (`_EMPTY`
    in an empty slot); the slot of each alternative, -1 for a term that no document has; and for each slot and group
    whether the term is an alternative there."""
    size = 16
    while size < 16 * len(numbers):
        size *= 2
    slots = np.full(size, _EMPTY, np.uint32)
    columns = np.full(len(numbers), -1, np.int64)
    member = np.zeros((size, len(starts) - 1), np.uint8)
    for group in range(len(starts) - 1):
        for alternative in range(starts[group], starts[group + 1]):
            if numbers[alternative] >= 0:
                slot = _slot(slots, np.uint32(numbers[alternative]))
                slots[slot] = numbers[alternative]
                columns[alternative] = slot
                member[slot, group] |= weights[alternative] > 0
    return slots, columns, member


@compiled
def bloom_of(numbers: Ints) -> np.int64:
    """A bit for each remainder of the numbers by 64, without negative ones."""
    bloom = np.int64(0)
    for number in numbers:
        if number >= 0:
            bloom |= np.int64(1) << (number & 63)
    return bloom


@compiled
def _mark_pairs(member: npt.NDArray[np.uint8], first: np.int64, second: np.int64, held: Bytes) -> None:
    """Mark the pairs of neighbouring groups in which a term of one is followed by a term of the other."""
    if first != second:
        for group in range(member.shape[1] - 1):
            if member[first, group] and member[second, group + 1]:
                held[group] = 1


@compiled
def _distinct_share(terms: Numbers, start: int, end: int) -> float:
    """The share of the terms of a name that do not repeat one before; only the first `NAME_WORDS` are compared."""
    repeats = 0
    for position in range(start, min(end, start + NAME_WORDS)):
        for before in range(start, position):
            if terms[before] == terms[position]:
                repeats += 1
                break
    return 1 - repeats / (end - start) if end > start else 1.0


@compiled
def field_norm(ends: Numbers, row: int, field: int) -> float:
    """The weight of an occurrence of a term in a field, by the field's weight and length; `row` is where the ends of
    the document's sections begin."""
    first = np.int64(ends[row + field - 1]) if field else np.int64(0)
    length = np.int64(ends[row + field]) - first
    return FIELD_WEIGHT[field] / (FIELD_CONSTANT[field] + FIELD_SHARE[field] * length)


@compiled
def counted(frequency: float, norm: float, section: int, index: int) -> float:
    """The frequency of a term with one more occurrence, at an index of a section; `norm` is that of the section's
    field."""
    if section % FIELD_COUNT:
        return frequency + norm
    late = FIELD_WEIGHT[2] / FIELD_WEIGHT[0] if index >= NAME_WORDS else 1.0
    return min(frequency + norm * late, max(frequency, ALONE))


@compiled
def _next_slot(terms: Numbers, position: int, end: int, slots: Numbers) -> int:
    """The first position from `position` on, before `end`, with a term that is in a hash table; `end` without one. Most
    terms are not, and their slots are empty."""
    mask = np.uint32(len(slots) - 1)
    while position < end:
        if slots[terms[position] & mask] != _EMPTY and slots[_slot(slots, terms[position])] != _EMPTY:
            return position
        position += 1
    return end


@compiled
def _scan(
    forwards: Forwards,
    document: int,
    slots: Numbers,
    member: npt.NDArray[np.uint8],
    frequency: Floats,
    in_name: Bytes,
    held: Bytes,
) -> tuple[int, int]:
    """Read a document: the frequency of each term, its presence in the name, and the pairs of neighbours. Returns the
    occurrences of terms in the name, with a position and without one."""
    start, row, terms, ends = forwards.offsets[document], document * SECTIONS, forwards.terms, forwards.ends
    placed = whole = 0
    section_start = np.int64(0)
    for section in range(SECTIONS):
        field = section % FIELD_COUNT
        norm = field_norm(ends, row, field)
        section_end = np.int64(ends[row + section])
        last = before = np.int64(-1)
        last_at = before_at = -NEAR - 1
        position = _next_slot(terms, start + section_start, start + section_end, slots)
        while position < start + section_end:
            column = _slot(slots, terms[position])
            frequency[column] = counted(frequency[column], norm, section, position - start - section_start)
            if field == 0:
                in_name[column] = 1
                if section < FIELD_COUNT:
                    placed += 1
                else:
                    whole += 1
            if section < FIELD_COUNT and (field or position - start < NAME_WORDS):
                if position - last_at <= NEAR:
                    _mark_pairs(member, last, column, held)
                if position - before_at <= NEAR:
                    _mark_pairs(member, before, column, held)
                before, before_at, last, last_at = last, last_at, column, position
            position = _next_slot(terms, position + 1, start + section_end, slots)
        section_start = section_end
    return placed, whole


@compiled
def _exact_name(starts: Ints, columns: Ints, weights: Floats, in_name: Bytes) -> float:
    """The least weight of the alternatives of a group that a name contains."""
    least = 1.0
    for group in range(len(starts) - 1):
        most = 0.0
        for alternative in range(starts[group], starts[group + 1]):
            if columns[alternative] >= 0 and in_name[columns[alternative]] and weights[alternative] > most:
                most = weights[alternative]
        least = min(least, most)
    return least


@compiled
def static_rank(flags: int, since: float, newest: float) -> float:
    """The factor of a document for being verified, signed, old, deprecated, without an answer for long, and not
    runnable; `since` is negative for an unconfirmed text."""
    age = -1.0 if since < 0 else min((newest - since) / OLD, 1.0)
    verified = VERIFIED if flags & VERIFIED_FLAG else 0.0
    signed = SIGNED if flags & SIGNED_FLAG else 0.0
    deprecated = DEPRECATED if flags & DEPRECATED_FLAG else 1.0
    lost = LOST if flags & LOST_FLAG else 1.0
    not_runnable = NOT_RUNNABLE if flags & NOT_RUNNABLE_FLAG else 1.0
    return (1 + verified) * (1 + signed) * (1 + AGE * age) * deprecated * lost * not_runnable


@compiled
def push(heap: Floats, value: float) -> None:
    """Replace the least value of a heap of the largest, which is its first, if this one is larger."""
    if not len(heap) or value <= heap[0]:
        return
    index = 0
    while 2 * index + 1 < len(heap):
        child = 2 * index + 1
        if child + 1 < len(heap) and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[index] = heap[child]
        index = child
    heap[index] = value


@compiled
def _proximity(held: Bytes, rarities: Floats) -> float:
    near = 0.0
    for group in range(len(rarities) - 1):
        if held[group]:
            near += PROXIMITY * max(rarities[group], rarities[group + 1])
    return near


@compiled
def _precedes(left: int, right: int, documents: Ints, upper: Floats, ranks: Longs) -> bool:
    if upper[left] != upper[right]:
        return bool(upper[left] > upper[right])
    return bool(ranks[documents[left]] < ranks[documents[right]])


@compiled
def _sink(queue: Ints, size: int, index: int, documents: Ints, upper: Floats, ranks: Longs) -> None:
    """Restore a heap of indexes below one of its positions: the highest bound first, of equal ones the lowest rank."""
    moved = queue[index]
    while 2 * index + 1 < size:
        child = 2 * index + 1
        if child + 1 < size and _precedes(queue[child + 1], queue[child], documents, upper, ranks):
            child += 1
        if not _precedes(queue[child], moved, documents, upper, ranks):
            break
        queue[index] = queue[child]
        index = child
    queue[index] = moved


@compiled
def _queued(documents: Ints, upper: Floats, least: float, ranks: Longs) -> Ints:
    """The indexes with a bound of at least `least`, as a heap."""
    queue, size = np.empty(len(upper), np.int64), 0
    for index in range(len(upper)):
        if upper[index] >= least:
            queue[size] = index
            size += 1
    for number in range((size >> 1) - 1, -1, -1):
        _sink(queue, size, number, documents, upper, ranks)
    return queue[:size]


@compiled
def _fill_words(plan: PlanArrays, columns: Ints, frequency: Floats, words: Floats, best: Ints) -> float:
    """Fill the value of each group in a document, and the alternative that counts; returns their sum."""
    total = 0.0
    for group in range(len(plan.starts) - 1):
        words[group], best[group] = 0.0, -1
        for alternative in range(plan.starts[group], plan.starts[group + 1]):
            count = frequency[columns[alternative]] if columns[alternative] >= 0 else 0.0
            value = plan.values[alternative] * count / (count + SATURATION)
            if value > words[group]:
                words[group], best[group] = value, alternative - plan.starts[group]
        total += words[group]
    return total


@kernel("indexes", "words", "best", "factors")
def rank(
    documents: Ints,
    upper: Floats,
    least: float,
    ranks: Longs,
    most: int,
    forwards: Forwards,
    plan: PlanArrays,
    newest: float,
    indexes: Ints,
    words: Floats,
    best: Ints,
    factors: Floats,
) -> int:
    """Fill the factors of documents: `indexes` are their positions in `documents`, `words` by group, `best` the
    alternative that counts there (-1 for none), `factors` proximity, exact name, static rank, the score and the flags.

    Those with a bound in `upper` of at least `least` are ranked, the highest bound first and equal ones by `ranks`,
    until no other can be among the `most` of the highest scores (0: all), or `indexes` is full. Returns how many."""
    slots, columns, member = _hashed(plan.numbers, plan.starts, plan.weights)
    frequency, in_name = np.zeros(len(slots), np.float64), np.zeros(len(slots), np.uint8)
    held, scores = np.zeros(len(plan.starts) - 1, np.uint8), np.zeros(most, np.float64)
    queue = _queued(documents, upper, least, ranks)
    count = min(len(queue), len(indexes))
    for row in range(count):
        index, left = queue[0], len(queue) - row - 1
        if most and upper[index] < scores[0]:
            return row
        indexes[row], queue[0] = index, queue[left]
        _sink(queue, left, 0, documents, upper, ranks)
        for column in columns:
            if column >= 0:
                frequency[column], in_name[column] = 0.0, 0
        held[:] = 0
        document = documents[index]
        placed, whole = _scan(forwards, document, slots, member, frequency, in_name, held)
        total, near = _fill_words(plan, columns, frequency, words[row], best[row]), _proximity(held, plan.rarities)
        start, exact = forwards.offsets[document], 1.0
        if placed == forwards.ends[document * SECTIONS] or (forwards.flags[document] & COMPOUND_FLAG and whole > 0):
            distinct = _distinct_share(forwards.terms, start, start + np.int64(forwards.ends[document * SECTIONS]))
            exact += EXACT_NAME * distinct * _exact_name(plan.starts, columns, plan.weights, in_name)
        static = static_rank(forwards.flags[document], forwards.since[document], newest)
        factors[row, 0], factors[row, 1], factors[row, 2] = near, exact, static
        factors[row, 3] = (total + near) * exact * static
        factors[row, 4] = forwards.flags[document]
        push(scores, factors[row, 3])
    return count
