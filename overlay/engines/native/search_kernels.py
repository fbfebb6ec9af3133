"""Compiled loops over the arrays of one segment: admission by filters, scores by impacts, and the first of an order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from overlay.search.ranker import FIELD_COUNT, SECTIONS, Bytes, Ints, Longs, Numbers
from parsers.jit import compiled, kernel

_AHEAD = 64

NOWHERE = np.int64(2**62)
"""The rank of a price that is not compared."""


@kernel("admitted")
def admit(mask: Bytes, admitted: Bytes, offsets: Ints, documents: Numbers, facts: Ints) -> None:
    """Mark in `admitted` the documents of `mask` with one of the facts."""
    admitted[:] = 0
    for fact in facts:
        for position in range(offsets[fact], offsets[fact + 1]):
            document = documents[position]
            if document < len(mask):
                admitted[document] = mask[document]


@kernel("mask")
def keep(mask: Bytes, candidates: Numbers, offsets: Ints, rows: Numbers, facts: Ints) -> None:
    """Remove from `mask` the documents, of some, that have none of the facts, by the `rows` of facts of documents."""
    for document in candidates:
        if document < len(mask) and mask[document]:
            is_kept = 0
            for position in range(offsets[document], offsets[document + 1]):
                for fact in facts:
                    is_kept |= rows[position] == fact
            mask[document] = is_kept


@kernel("mask")
def exclude(mask: Bytes, offsets: Ints, documents: Numbers, facts: Ints) -> None:
    """Remove from `mask` the documents with one of the facts."""
    for fact in facts:
        for position in range(offsets[fact], offsets[fact + 1]):
            if documents[position] < len(mask):
                mask[documents[position]] = 0


@kernel("mask")
def between(mask: Bytes, values: Ints, low: int, high: int) -> None:
    """Remove from `mask` the documents with a value outside these bounds, which are included."""
    for document in range(len(mask)):
        if values[document] < low or values[document] > high:
            mask[document] = 0


@kernel()
def first(documents: Ints, values: Longs, ranks: Longs, most: int, is_reversed: bool) -> Ints:
    """The `most` documents of the largest values, equal ones by ascending rank; reversed, of the smallest values, equal
    ones by descending rank. In no order."""
    size = min(most, len(documents))
    others = len(documents) - size
    start = 0 if is_reversed else others  # later documents are mostly newer, so that the first ones chosen mostly stay
    chosen = documents[start : start + size].copy()
    for index in range((size >> 1) - 1, -1, -1):
        _sink(chosen, index, chosen[index], values, ranks, is_reversed)
    last = values[chosen[0]] if size else np.uint64(0)
    for index in range(others):
        document = documents[size + index if is_reversed else others - 1 - index]
        if not size or (values[document] > last if is_reversed else values[document] < last):
            continue
        if _precedes(values, ranks, document, chosen[0], is_reversed):
            _sink(chosen, 0, document, values, ranks, is_reversed)
            last = values[chosen[0]]
    return chosen


@compiled
def _sink(heap: Ints, index: int, document: int, values: Longs, ranks: Longs, is_reversed: bool) -> None:
    """Put a document at an index of a heap, the last of the order first, or below it."""
    while 2 * index + 1 < len(heap):
        child = 2 * index + 1
        if child + 1 < len(heap) and _precedes(values, ranks, heap[child], heap[child + 1], is_reversed):
            child += 1
        if not _precedes(values, ranks, document, heap[child], is_reversed):
            break
        heap[index] = heap[child]
        index = child
    heap[index] = document


@compiled
def _precedes(values: Longs, ranks: Longs, left: int, right: int, is_reversed: bool) -> bool:
    """Whether one document comes before another."""
    if values[left] != values[right]:
        return bool(values[left] > values[right]) != is_reversed
    return bool(ranks[left] < ranks[right]) != is_reversed


@kernel("few", "more", "counted")
def count(
    documents: Ints, offsets: Ints, values: Numbers, low: int, high: int, few: Bytes, more: Numbers, counted: Numbers
) -> int:
    """Count the documents with each value from `low` until before `high`: the sum of `few`, which is above 0 where
    there are any, and `more`, both zero before. Bytes of most values stay in the cache of a core. Returns the number of
    values in `counted`, which some document has; it is longer than `few`."""
    size, high, ahead = 0, min(high, len(few)), np.uint32(0)
    for first in range(0, len(documents), _AHEAD):
        end = min(first + _AHEAD, len(documents))
        for index in range(first, end):  # so that many rows are fetched from memory at a time
            start = offsets[documents[index]]
            if start < len(values):
                ahead |= values[start]
        for index in range(first, end):
            document = documents[index]
            for position in range(offsets[document], offsets[document + 1]):
                value = values[position]
                if low <= value < high:
                    before = few[value]
                    counted[size] = value
                    size += before == 0  # no branch, which would be taken at random
                    if before == 255:
                        more[value] += 255
                        before = 0
                    few[value] = before + 1
    counted[len(few)] = ahead  # read by nobody: otherwise the compiler leaves the reading out
    return size


@kernel("counts")
def count_admitted(mask: Bytes, offsets: Ints, documents: Numbers, facts: Ints, counts: Numbers) -> None:
    """Count the documents of `mask` with each of some facts; none for a negative one."""
    for index in range(len(facts)):
        counts[index] = 0
        if facts[index] >= 0:
            for position in range(offsets[facts[index]], offsets[facts[index] + 1]):
                if documents[position] < len(mask):
                    counts[index] += mask[documents[position]]


@kernel("totals")
def total_groups(counted: Numbers, counts: Numbers, groups: Numbers, totals: Numbers) -> Numbers:
    """Sum the counts of values by their groups, in `totals`, which are zero before; the groups with a value, in the
    order of their first ones."""
    groups_with, size = np.empty(len(counted), np.uint32), 0
    for index in range(len(counted)):
        group = groups[counted[index]]
        if group < len(totals):
            if totals[group] == 0:
                groups_with[size] = group
                size += 1
            totals[group] += counts[index]
    return groups_with[:size]


@kernel("numbers")
def commonest_of_groups(
    groups: Numbers, following: Numbers, few: Bytes, more: Numbers, numbers: npt.NDArray[np.int64]
) -> None:
    """The values of each group with the highest counts, which are above 0, in falling order, equal ones in theirs; -1
    after the last. A group is a chain from its first value on, which leads onwards."""
    most = numbers.shape[1]
    for index in range(len(groups)):
        size, before, value = 0, np.int64(-1), np.int64(groups[index])
        while before < value < len(following):
            count, position = np.int64(few[value]) + np.int64(more[value]), size
            while position > 0:
                other = numbers[index, position - 1]
                if np.int64(few[other]) + np.int64(more[other]) >= count:
                    break
                if position < most:
                    numbers[index, position] = other
                position -= 1
            if count > 0 and position < most:
                numbers[index, position] = value
                size = min(size + 1, most)
            before, value = value, np.int64(following[value])
        numbers[index, size:] = -1


@kernel("totals", "is_joined")
def join(hashes: Longs, totals: Longs, others: Longs, more: Longs, salt: np.uint64, is_joined: Bytes) -> int:
    """Add to each of `totals`, by its hash, the total in `more` of the same hash among `others`, and mark it there.
    Hashes are distinct on either side. `salt` is odd, and secret because strangers choose the hashes. Returns how many
    were joined."""
    bits = np.uint64(1)
    while np.int64(1) << np.int64(bits) < 2 * len(others):
        bits += np.uint64(1)
    mask, down = (np.int64(1) << np.int64(bits)) - 1, np.uint64(64) - bits
    table = np.full(mask + 1, -1, np.int64)
    for index in range(len(others)):
        slot = np.int64((others[index] * salt) >> down)
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = index
    joined = 0
    for index in range(len(hashes)):
        slot = np.int64((hashes[index] * salt) >> down)
        while table[slot] >= 0 and others[table[slot]] != hashes[index]:
            slot = (slot + 1) & mask
        if table[slot] >= 0:
            totals[index] += more[table[slot]]
            is_joined[table[slot]] = 1
            joined += 1
    return joined


@kernel("begins")
def may_begin(numbers: Numbers, data: Bytes, offsets: Ints, skip: int, prefix: Bytes, begins: Bytes) -> None:
    """Whether strings, `skip` bytes from their start, begin with a prefix once their case is folded: 0 no, 1 yes, 2
    perhaps, where a byte is of no ASCII character."""
    for index in range(len(numbers)):
        start, end = offsets[numbers[index]] + skip, offsets[numbers[index] + 1]
        begins[index] = 1
        for byte in prefix:
            if start >= end:
                begins[index] = 0
            elif data[start] >= 128 or byte >= 128:
                begins[index] = 2
            elif (data[start] + 32 if 65 <= data[start] <= 90 else data[start]) != byte:
                begins[index] = 0
            if begins[index] != 1:
                break
            start += 1


@kernel("meets", "mask")
def meeting(
    documents: Ints,
    offers: Ints,
    currencies: Numbers,
    intervals: Numbers,
    amounts: Numbers,
    accepted_offsets: Ints,
    accepted: Numbers,
    names_skills: Bytes,
    skill_offsets: Ints,
    skills: Numbers,
    own_offsets: Ints,
    own_skills: Numbers,
    payable: Bytes,
    of_currencies: Bytes,
    of_intervals: Bytes,
    of_skills: Bytes,
    of_payable: Bytes,
    low: Ints,
    high: Ints,
    meets: Bytes,
    mask: Bytes,
) -> int:
    """Mark the offers of documents that meet all filters: an accepted currency, the interval, a skill, whether it can
    be paid (each empty for no filter), and an amount from `low` until before `high`, which are those of its currency
    unless there is one for all. Other offers are marked 0; in `mask` also the documents without a matching offer.
    Returns how many documents have one."""
    total = 0  # calls for each offer would take longer than the loops
    for document in documents:
        is_own = False
        if len(of_skills):
            for position in range(own_offsets[document], own_offsets[document + 1]):
                is_own |= of_skills[own_skills[position]] != 0
        is_found = 0
        for offer in range(offers[document], offers[document + 1]):
            meets[offer] = 0
            bound = currencies[offer] if len(low) > 1 else 0
            if amounts[offer] < low[bound] or amounts[offer] >= high[bound]:
                continue
            if len(of_intervals) and not of_intervals[intervals[offer]]:
                continue
            if len(of_payable) and not of_payable[payable[offer]]:
                continue
            is_met = not len(of_currencies)
            if not is_met:
                for position in range(accepted_offsets[offer], accepted_offsets[offer + 1]):
                    is_met |= of_currencies[accepted[position]] != 0
            if is_met and len(of_skills):
                is_met = is_own and not names_skills[offer]
                if names_skills[offer]:
                    for position in range(skill_offsets[offer], skill_offsets[offer + 1]):
                        is_met |= of_skills[skills[position]] != 0
            if not is_met:
                continue
            meets[offer] = 1
            is_found = 1
        mask[document] = is_found
        total += is_found
    return total


@kernel("lowest_ranks")
def lowest(
    documents: Ints,
    offers: Ints,
    meets: Bytes,
    currencies: Numbers,
    prices: Numbers,
    ranks: Ints,
    is_by_currency: bool,
    lowest_ranks: Ints,
) -> None:
    """The lowest rank of the price of an offer that meets the filters, `NOWHERE` for none; with `is_by_currency`, among
    the offers in the currency that most of them have, the first of several."""
    for index in range(len(documents)):
        begin, end = offers[documents[index]], offers[documents[index] + 1]
        lowest_ranks[index], most = NOWHERE, 0
        for first in range(begin, end):
            if not meets[first] or ranks[prices[first]] == NOWHERE:
                continue
            best, count = NOWHERE, 0
            for offer in range(begin, end):
                value = ranks[prices[offer]]
                is_compared = not is_by_currency or currencies[offer] == currencies[first]
                if meets[offer] and value != NOWHERE and is_compared:
                    best, count = min(best, value), count + 1
            if count > most:
                lowest_ranks[index], most = best, count
            if not is_by_currency:
                break


@kernel("is_held")
def contains(
    documents: Ints, offsets: Ints, ends: Numbers, forward: Numbers, sequence: Numbers, is_held: Bytes
) -> None:
    """Mark the documents with a sequence of terms in one text: by position, or a single term that has none."""
    for index in range(len(documents)):
        document = documents[index]
        base, row = offsets[document], document * SECTIONS
        last = np.int64(ends[row + (SECTIONS if len(sequence) == 1 else FIELD_COUNT) - 1])
        is_held[index] = 0
        for start in range(base, base + last - len(sequence) + 1):
            if forward[start] != sequence[0]:
                continue
            same = 1
            while same < len(sequence) and forward[start + same] == sequence[same]:
                same += 1
            if same == len(sequence) and not _crosses(ends, row, start - base, start - base + len(sequence)):
                is_held[index] = 1
                break


@compiled
def _crosses(ends: Numbers, row: int, start: int, end: int) -> bool:
    """Whether a stretch of a forward index reaches over the end of a section."""
    for section in range(SECTIONS - 1):  # noqa: SIM110 - a generator is not compiled
        if start < ends[row + section] < end:
            return True
    return False
