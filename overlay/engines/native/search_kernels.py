"""Compiled loops over the arrays of one segment: admission by filters, scores by impacts, and the first of an order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from overlay.search.ranker import static_rank
from parsers.jit import compiled, kernel

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Longs = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]

NOWHERE = np.int64(2**62)
"""The rank of a price that is not compared."""


@kernel("admitted")
def admit(mask: Bytes, admitted: Bytes, offsets: Ints, documents: Numbers, facts: Ints) -> int:
    """Mark in `admitted` the documents of `mask` with one of the facts."""
    admitted[:] = 0
    for fact in facts:
        for position in range(offsets[fact], offsets[fact + 1]):
            document = documents[position]
            if document < len(mask):
                admitted[document] = mask[document]
    return len(facts)


@kernel("mask")
def exclude(mask: Bytes, offsets: Ints, documents: Numbers, facts: Ints) -> int:
    """Remove from `mask` the documents with one of the facts."""
    for fact in facts:
        for position in range(offsets[fact], offsets[fact + 1]):
            if documents[position] < len(mask):
                mask[documents[position]] = 0
    return len(facts)


@kernel("mask")
def between(mask: Bytes, values: Ints, low: int, high: int) -> int:
    """Remove from `mask` the documents with a value outside these bounds, which are included."""
    for document in range(len(mask)):
        if values[document] < low or values[document] > high:
            mask[document] = 0
    return len(mask)


@kernel("scores", "best", "held", "complete", "touched")
def score(
    mask: Bytes,
    offsets: Ints,
    documents: Numbers,
    impacts: Singles,
    starts: Ints,
    alternatives: Ints,
    values: Singles,
    is_stop: Bytes,
    scores: Singles,
    best: Singles,
    held: Bytes,
    complete: Bytes,
    touched: Ints,
) -> tuple[int, int]:
    """Sum the scores of the words in each admitted document that contains a content word.

    Group g has the terms `alternatives[starts[g]:starts[g + 1]]` (-1: none); content groups come before stop words.
    `scores`, `best`, `held` and `complete` are zero before; `held` counts the groups that a document contains,
    `complete` is 1 where these are all content groups. Returns the number of documents in `touched`, and how many of
    them are complete.
    """
    total = content = matched = 0
    for group in range(len(starts) - 1):
        content += not is_stop[group]
    for group in range(len(starts) - 1):
        total = _score_group(
            mask, offsets, documents, impacts, alternatives[starts[group] : starts[group + 1]],
            values[starts[group] : starts[group + 1]], is_stop[group] != 0, scores, best, held, touched, total,
        )  # fmt: skip
        if group == content - 1:
            for place in range(total):
                complete[touched[place]] = held[touched[place]] == content
                matched += complete[touched[place]]
    return total, matched


@compiled
def _score_group(
    mask: Bytes,
    offsets: Ints,
    documents: Numbers,
    impacts: Singles,
    alternatives: Ints,
    values: Singles,
    is_stop: bool,
    scores: Singles,
    best: Singles,
    held: Bytes,
    touched: Ints,
    total: int,
) -> int:
    """Add the score of the best alternative of a group to the documents that contain one; the documents touched."""
    single = len(alternatives) == 1
    for alternative in range(len(alternatives)):
        term, value = alternatives[alternative], values[alternative]
        if term < 0:
            continue
        for position in range(offsets[term], offsets[term + 1]):
            document = np.int64(documents[position])
            if document >= len(mask) or not mask[document] or (is_stop and not held[document]):
                continue
            impact = value * impacts[position]
            if not is_stop and not held[document]:
                touched[total] = document
                total += 1
            if single:
                held[document] += 1
                scores[document] += impact
            elif impact > best[document]:
                held[document] += best[document] == 0
                scores[document] += impact - best[document]
                best[document] = impact
    if not single:
        for alternative in range(len(alternatives)):
            term = alternatives[alternative]
            if term >= 0:
                for position in range(offsets[term], offsets[term + 1]):
                    if documents[position] < len(best):
                        best[documents[position]] = 0
    return total


@kernel("scores", "held", "complete")
def reset(scores: Singles, held: Bytes, complete: Bytes, touched: Ints, total: int) -> int:
    """Make `scores`, `held` and `complete` zero again."""
    for place in range(total):
        document = touched[place]
        scores[document] = 0
        held[document] = 0
        complete[document] = 0
    return total


@compiled
def _push(heap: Floats, size: int, most: int, value: float) -> int:
    """Add a value to a heap of the `most` largest, the least first; its new size."""
    if size < most:
        place = size
        size += 1
        while place > 0 and heap[(place - 1) >> 1] > value:
            heap[place] = heap[(place - 1) >> 1]
            place = (place - 1) >> 1
        heap[place] = value
    elif value > heap[0]:
        place = 0
        while True:
            child = 2 * place + 1
            if child >= most:
                break
            if child + 1 < most and heap[child + 1] < heap[child]:
                child += 1
            if heap[child] >= value:
                break
            heap[place] = heap[child]
            place = child
        heap[place] = value
    return size


@kernel("upper")
def bounds(
    documents: Ints,
    scores: Singles,
    held: Bytes,
    flags: Bytes,
    since: Floats,
    newest: float,
    owners: Numbers,
    domains: Numbers,
    left_out: Numbers,
    nearness: float,
    groups: int,
    most: int,
    upper: Floats,
) -> float:
    """Fill the upper bound of the final score of each document: the words and the static rank, the highest proximity
    and exact name; -1 for those of owners and domains that are `left_out`. Returns the `most`-th lower bound, which has
    words and static rank alone; 0 if there are fewer."""
    heap = np.empty(most, np.float64)
    size = 0
    for place in range(len(documents)):
        document = documents[place]
        upper[place] = -1.0
        is_left_out = False
        for source in left_out:
            is_left_out |= owners[document] == source or domains[document] == source
        if is_left_out:
            continue
        static = static_rank(flags[document], since[document], newest)
        near = nearness if held[document] > 1 else 0.0
        exact = 1.5 if held[document] >= groups else 1.0
        upper[place] = (scores[document] + near) * exact * static * (1 + 1e-5)
        size = _push(heap, size, most, scores[document] * static * (1 - 1e-5))
    return heap[0] if size == most else 0.0


@kernel()
def first(documents: Ints, values: Longs, ranks: Numbers, most: int, is_reversed: bool) -> Ints:
    """The `most` documents of the largest values, equal ones by ascending rank; reversed, of the smallest values, equal
    ones by descending rank. In no order."""
    chosen = np.empty(min(most, len(documents)), np.int64)
    size = 0
    for document in documents:
        if size < len(chosen):
            place = size
            size += 1
            while place > 0 and _precedes(values, ranks, chosen[(place - 1) >> 1], document, is_reversed):
                chosen[place] = chosen[(place - 1) >> 1]
                place = (place - 1) >> 1
            chosen[place] = document
        elif size and _precedes(values, ranks, document, chosen[0], is_reversed):
            place = 0
            while True:
                child = 2 * place + 1
                if child >= size:
                    break
                if child + 1 < size and _precedes(values, ranks, chosen[child], chosen[child + 1], is_reversed):
                    child += 1
                if not _precedes(values, ranks, document, chosen[child], is_reversed):
                    break
                chosen[place] = chosen[child]
                place = child
            chosen[place] = document
    return chosen


@compiled
def _precedes(values: Longs, ranks: Numbers, one: int, other: int, is_reversed: bool) -> bool:
    """Whether one document comes before another."""
    if values[one] != values[other]:
        return bool(values[one] > values[other]) != is_reversed
    return bool(ranks[one] < ranks[other]) != is_reversed


@kernel("counts")
def count(documents: Ints, offsets: Ints, values: Numbers, counts: Ints) -> int:
    """Count the documents with each value."""
    for document in documents:
        for position in range(offsets[document], offsets[document + 1]):
            counts[values[position]] += 1
    return len(documents)


@compiled
def _has(offsets: Ints, numbers: Numbers, row: int, chosen: Bytes) -> bool:
    """Whether a row has a chosen number."""
    for position in range(offsets[row], offsets[row + 1]):  # noqa: SIM110 - a generator is not compiled
        if chosen[numbers[position]]:
            return True
    return False


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
    of_currencies: Bytes,
    of_intervals: Bytes,
    of_skills: Bytes,
    low: Ints,
    high: Ints,
    meets: Bytes,
    mask: Bytes,
) -> int:
    """Mark the offers of documents that meet all filters: an accepted currency, the interval, a skill (each empty for
    no filter), and an amount within the bounds of its currency. The others are marked 0, as are in `mask` the documents
    without such an offer. The number of documents with one."""
    total = 0
    for document in documents:
        is_own = len(of_skills) > 0 and _has(own_offsets, own_skills, document, of_skills)
        is_found = 0
        for offer in range(offers[document], offers[document + 1]):
            meets[offer] = 0
            if len(of_currencies) and not _has(accepted_offsets, accepted, offer, of_currencies):
                continue
            if len(of_intervals) and not of_intervals[intervals[offer]]:
                continue
            if amounts[offer] < low[currencies[offer]] or amounts[offer] > high[currencies[offer]]:
                continue
            if len(of_skills):
                if names_skills[offer]:
                    if not _has(skill_offsets, skills, offer, of_skills):
                        continue
                elif not is_own:
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
    is_of_first: bool,
    lowest_ranks: Ints,
) -> int:
    """The lowest rank of the price of an offer that meets the filters, `NOWHERE` for none; with `is_of_first`, among
    the offers in the currency of the first of them."""
    for place in range(len(documents)):
        best, currency = NOWHERE, np.int64(-1)
        for offer in range(offers[documents[place]], offers[documents[place] + 1]):
            value = ranks[prices[offer]]
            if not meets[offer] or value == NOWHERE:
                continue
            if currency < 0:
                currency = np.int64(currencies[offer])
            if is_of_first and currencies[offer] != currency:
                continue
            best = min(best, value)
        lowest_ranks[place] = best
    return len(documents)


@kernel("is_held")
def contains(documents: Ints, offsets: Ints, ends: Numbers, forward: Numbers, sequence: Numbers, is_held: Bytes) -> int:
    """Mark the documents with a sequence of terms in one text: by position, or a single term that has none."""
    for place in range(len(documents)):
        document = documents[place]
        base, row = offsets[document], document * 6
        last = np.int64(ends[row + 5]) if len(sequence) == 1 else np.int64(ends[row + 2])
        is_held[place] = 0
        for start in range(base, base + last - len(sequence) + 1):
            if forward[start] != sequence[0]:
                continue
            same = 1
            while same < len(sequence) and forward[start + same] == sequence[same]:
                same += 1
            if same == len(sequence) and not _crosses(ends, row, start - base, start - base + len(sequence)):
                is_held[place] = 1
                break
    return len(documents)


@compiled
def _crosses(ends: Numbers, row: int, start: int, end: int) -> bool:
    """Whether a stretch of a forward index reaches over the end of a section."""
    for section in range(5):  # noqa: SIM110 - a generator is not compiled
        if start < ends[row + section] < end:
            return True
    return False
