"""A compiled loop that selects, for a search by relevance, the documents that can be among the best of a segment.

Documents are scored in windows, whose scores stay in the first cache of a core: for each window the postings of every
word that are within it, one word after the other. Nothing is allocated, sorted or reset for each result; those that
cannot be among the best are only counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.search.ranker import (
    DEPRECATED_FLAG,
    EXACT_NAME,
    FIELD_CONSTANT,
    FIELD_SHARE,
    FIELD_WEIGHT,
    LOST_FLAG,
    MOST_STATIC,
    NAME_WORDS,
    NOT_RUNNABLE_FLAG,
    OLD,
    SATURATION,
    SECTIONS,
    SIGNED_FLAG,
    VERIFIED_FLAG,
    Bytes,
    Floats,
    Forwards,
    Ints,
    Longs,
    Numbers,
    PlanArrays,
    bloom_of,
    push,
    static_rank,
)
from parsers.jit import compiled, kernel, read_only

Singles = npt.NDArray[np.float32]

WINDOW = 4_096
"""Documents that are scored together."""

_STATIC_FLAGS = VERIFIED_FLAG | SIGNED_FLAG | DEPRECATED_FLAG | LOST_FLAG | NOT_RUNNABLE_FLAG

_MARGIN = 1e-5
"""Relative error of a score in single precision."""


class Postings(NamedTuple):
    """The postings of terms, read-only: those of term t from `offsets[t]` until before `offsets[t + 1]`, documents
    ascending, each with the impact of the term there."""

    offsets: Ints
    documents: Numbers
    impacts: Singles

    @classmethod
    def of(cls, offsets: Ints, documents: Numbers, impacts: Singles) -> Postings:
        """An object over these arrays, made read-only."""
        return cls(read_only(offsets), read_only(documents), read_only(impacts))


class Names(NamedTuple):
    """The names and sources of documents, read-only: a bit for each term of the name by its number modulo 64, none
    where the name is one compound; and the number of the source."""

    bits: Longs
    sources: Longs

    @classmethod
    def of(cls, bits: Longs, sources: Longs) -> Names:
        """An object over these arrays, made read-only."""
        return cls(read_only(bits), read_only(sources))


@kernel("marks")
def select(
    mask: Bytes,
    marks: Bytes,
    start: int,
    stop: int,
    postings: Postings,
    plan: PlanArrays,
    is_stop: Bytes,
    all_words: bool,
    forwards: Forwards,
    names: Names,
    newest: float,
    left_out: Longs,
    proximity: Floats,
    most: int,
    least: float,
    to_count: int,
) -> tuple[Ints, Floats, float, int, int]:
    """The documents from `start` until before `stop` that can be among the `most` of the highest final scores, with
    upper bounds of their scores: the words and the static rank, and the most that proximity and exact name can add; the
    `most`-th lower bound, of words and static rank alone, or `least`, which as many are known to reach; how many
    admitted documents contain a content word, and how many contain all of them. With `all_words` only the latter are
    results.

    `marks`, if it is not empty, gets 3 for each result that contains every content word, 2 for one with at least two
    thirds of them, 1 for the others, and 0 for other documents. Documents of sources that are `left_out` are only
    counted. Where one of several words is held nothing can be added, and the bound is the lower one: of equal documents
    only those of the lowest ids are ranked. `proximity` is the highest by the number of groups held. Stop words add to
    documents that contain a content word. Once `to_count` results are counted, those are not that only contain words
    which together cannot reach `least` (MaxScore: Turtle and Flood, Query evaluation, IPM 31, 1995).
    """
    groups, heap, total, matched = len(plan.starts) - 1, np.full(most, least), 0, 0
    window, rows = _new_window(), _rows(postings.offsets, plan.numbers)
    order, values = _by_value(plan, is_stop)
    content = essential = groups - int(is_stop.sum())
    documents, upper, count = np.empty(_FIRST_SIZE, np.int64), np.empty(_FIRST_SIZE, np.float64), 0
    (weights, sums), statics = _weights_in_names(plan), _most_static()
    others, leaves_out = ~np.uint64(bloom_of(plan.numbers)), len(left_out) > 0
    for base in range(start, stop, WINDOW):
        size, is_touched = min(WINDOW, stop - base), False
        marked = marks[base : base + size]
        marked[:] = 0
        if most and total >= to_count:
            essential = _essential(values, content, proximity, heap[0])
        for number in range(essential):
            is_touched |= _add(postings, plan, rows, order[number], base, size, False, window)
        if not is_touched:
            continue
        _multiply(window.held, mask[base : base + size])
        for number in range(essential, content):
            _add(postings, plan, rows, order[number], base, size, True, window)
        counts = _counted(window.held[:size], content, all_words)
        for index in range(len(marked)):
            held = np.int64(window.held[index])
            marked[index] = np.int64(held != 0) + ((held != 0) & (3 * held >= 2 * content)) + (held == content)
        total, matched = total + counts[0], matched + counts[1]
        for number in range(content, groups):
            _add(postings, plan, rows, order[number], base, size, True, window)
        if most:
            is_new = heap[0] == 0
            if is_new:
                _push_lowest(window, base, size, forwards, names, newest, left_out, heap)
            passing = _passing(window, proximity, heap[0])
            passing = _reaching(
                window, passing, names.bits[base : base + size], forwards.flags[base : base + size], others, proximity,
                statics, heap[0],
            )  # fmt: skip
            for index in window.chosen[:passing]:
                groups_held, document = np.int64(window.held[index]), base + index
                score = window.scores[index] * (1 + _MARGIN)
                bound = score + proximity[groups_held] * (1 + _MARGIN)
                if groups_held == groups and not names.bits[document] & others:
                    length = forwards.ends[document * SECTIONS]
                    bound *= 1 + EXACT_NAME * _weight_in_name(score, length, weights, sums)
                static = static_rank(forwards.flags[document], forwards.since[document], newest)
                if bound * static < heap[0] or (leaves_out and _is_left_out(names.sources[document], left_out)):
                    continue
                lowest = window.scores[index] * static * (1 - _MARGIN)
                if not is_new:
                    push(heap, lowest)
                if count == len(documents):
                    documents, upper, count = _with_space(documents, upper, heap[0])
                documents[count] = document
                upper[count] = bound * static if groups_held == groups or groups_held > 1 else lowest
                count += 1
        window.scores[:], window.held[:] = 0, 0
    if most:
        least = heap[0]
    reaches = upper[:count] >= least
    return documents[:count][reaches], upper[:count][reaches], least, total, matched


class _Window(NamedTuple):
    """The working memory of a window, by document: scores and the number of groups held, which are zero between
    windows; `highest`, the score of one group, zero between groups; and the numbers of documents in it."""

    scores: Singles
    held: Bytes
    highest: Singles
    chosen: Ints


@compiled
def _new_window() -> _Window:
    return _Window(
        np.zeros(WINDOW, np.float32), np.zeros(WINDOW, np.uint8), np.zeros(WINDOW, np.float32),
        np.empty(WINDOW, np.int64),
    )  # fmt: skip


@compiled
def _by_value(plan: PlanArrays, is_stop: Bytes) -> tuple[Ints, Floats]:
    """The groups in an order, content words first and those of the highest values before others, and their values."""
    values = np.zeros(len(is_stop), np.float64)
    for group in range(len(is_stop)):
        for alternative in range(plan.starts[group], plan.starts[group + 1]):
            if plan.numbers[alternative] >= 0:
                values[group] = max(values[group], plan.values[alternative])
    ranks = np.where(is_stop != 0, np.inf, -values)
    order = np.argsort(ranks, kind="mergesort")
    return order, values[order]


@compiled
def _essential(values: Floats, content: int, proximity: Floats, least: float) -> int:
    """The number of groups, the first ones, of which a document must contain one to reach a score. `values` are the
    highest of each group, those of `content` words first."""
    highest = values[content:].sum()
    for number in range(content - 1, 0, -1):
        highest += values[number]
        if (highest + proximity[len(values) - number]) * MOST_STATIC * (1 + _MARGIN) >= least:
            return number + 1
    return 1


@compiled
def _multiply(held: Bytes, mask: Bytes) -> None:
    """Make `held` zero in the documents that are not admitted."""
    for index in range(len(mask)):
        held[index] *= mask[index]


@compiled
def _counted(held: Bytes, content: int, all_words: bool) -> tuple[int, int]:
    """The number of documents that hold a group, and of those that hold `content` groups; with `all_words`, `held` is
    zero for the others."""
    total, matched, all_groups = 0, 0, np.uint8(content)
    if all_words:
        for index in range(len(held)):
            held[index] *= held[index] == all_groups
    for index in range(len(held)):
        total += held[index] != 0
    for index in range(len(held)):
        matched += held[index] == all_groups
    return total, matched


@compiled
def _push_lowest(
    window: _Window,
    base: int,
    size: int,
    forwards: Forwards,
    names: Names,
    newest: float,
    left_out: Longs,
    heap: Floats,
) -> None:
    """Put the lower bounds of the documents of a window in a heap of the highest."""
    for index in range(size):
        score = window.scores[index]
        if window.held[index] and score * MOST_STATIC > heap[0]:
            document = base + index
            if not _is_left_out(names.sources[document], left_out):
                static = static_rank(forwards.flags[document], forwards.since[document], newest)
                push(heap, score * static * (1 - _MARGIN))


@compiled
def _passing(window: _Window, proximity: Floats, least: float) -> int:
    """Choose the documents of a window whose score can reach `least` with all that can be added to one that holds as
    many groups; their number."""
    scores, held, chosen, groups, count = window.scores, window.held, window.chosen, len(proximity) - 1, 0
    held_words, floors = held.view(np.uint64), np.zeros(groups + 1, np.float32)
    for number in range(groups + 1):
        added = MOST_STATIC * (1 + EXACT_NAME) if number == groups else MOST_STATIC
        floors[number] = least / added * (1 - 2 * _MARGIN) - proximity[number]
    for word in range(len(held_words)):
        if held_words[word]:
            for index in range(8 * word, 8 * word + 8):
                chosen[count] = index
                count += (held[index] > 0) & (scores[index] >= floors[held[index]])
    return count


@compiled
def _reaching(
    window: _Window,
    chosen_before: int,
    bits: Longs,
    flags: Bytes,
    others: np.uint64,
    proximity: Floats,
    statics: Floats,
    least: float,
) -> int:
    """Choose those of the first of the chosen documents that can have a score of at least `least` by their names and
    flags; their number. The loop has no branches, so that many documents are read from memory at a time."""
    scores, held, chosen, groups, count = window.scores, window.held, window.chosen, len(proximity) - 1, 0
    for position in range(chosen_before):
        index = chosen[position]
        chosen[count] = index
        bound = (scores[index] + proximity[held[index]]) * statics[flags[index] & _STATIC_FLAGS]
        bound *= 1 + EXACT_NAME * ((held[index] == groups) & (not bits[index] & others))
        count += bound >= least
    return count


@compiled
def _most_static() -> Floats:
    """The greatest static rank of a document by its flags."""
    statics = np.zeros(_STATIC_FLAGS + 1, np.float64)
    for number in range(len(statics)):
        statics[number] = static_rank(number, 0.0, OLD) * (1 + 2 * _MARGIN)
    return statics


@compiled
def _rows(offsets: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """The first and the last position, exclusive, of the postings of some terms; none for a negative number."""
    cursors, ends = np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.int64)
    for index in range(len(numbers)):
        if numbers[index] >= 0:
            cursors[index], ends[index] = offsets[numbers[index]], offsets[numbers[index] + 1]
    return cursors, ends


_FIRST_SIZE = 1_024


@compiled
def _add(
    postings: Postings,
    plan: PlanArrays,
    rows: tuple[Ints, Ints],
    group: int,
    base: int,
    size: int,
    only_held: bool,
    window: _Window,
) -> bool:
    """Add the score of the best alternative of a group to the documents of a window that contain one, `only_held`: to
    those that hold another group; whether there is any. The first of `rows` move to the end of the window."""
    documents, impacts, first, last = postings.documents, postings.impacts, plan.starts[group], plan.starts[group + 1]
    scores, held, highest, is_touched = window.scores, window.held, window.highest, False
    for alternative in range(first, last):
        position, end, value = rows[0][alternative], rows[1][alternative], plan.values[alternative]
        if position < end and documents[position] < base:
            position = _from(documents, position, end, base)
        begin = position
        while position < end and documents[position] < base + size:
            index = np.int64(documents[position]) - base
            impact = np.float32(value * impacts[position])
            position += 1
            is_added = not only_held or held[index] > 0
            if last - first == 1:
                held[index] += is_added
                scores[index] += impact * is_added
            else:
                before = highest[index]
                highest[index] = max(before, impact * is_added)
                held[index] += is_added & (before == 0)
                scores[index] += highest[index] - before
        rows[0][alternative] = position
        is_touched |= position > begin
    if is_touched and last - first > 1:
        highest[:] = 0
    return is_touched


@compiled
def _from(documents: Numbers, position: int, end: int, base: int) -> int:
    """The first position from `position` on, before `end`, of a document that is not before `base`."""
    step = 1
    while position + step < end and documents[position + step] < base:
        step *= 2
    low, high = position + step // 2, min(position + step, end)
    while low < high:
        middle = (low + high) // 2
        if documents[middle] < base:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _with_space(documents: Ints, upper: Floats, least: float) -> tuple[Ints, Floats, int]:
    """Documents with a bound of at least `least`, in arrays with as much free space, and their number."""
    is_high = upper >= least
    count = int(is_high.sum())
    size = max(_FIRST_SIZE, 2 * count)
    new_documents, new_upper = np.empty(size, np.int64), np.empty(size, np.float64)
    new_documents[:count], new_upper[:count] = documents[is_high], upper[is_high]
    return new_documents, new_upper, count


@compiled
def _is_left_out(source: np.uint64, left_out: Longs) -> bool:
    """Whether a source is left out."""
    for other in left_out:  # noqa: SIM110 - a generator is not compiled
        if source == other:
            return True
    return False


@compiled
def _weight_in_name(score: float, length: int, weights: Floats, sums: Floats) -> float:
    """The highest weight that an exact name of so many terms can have in a document with this score of words: an
    alternative in the name adds at least its value times f / (f + SATURATION) of one occurrence."""
    of_name = FIELD_WEIGHT[0] if length <= NAME_WORDS else FIELD_WEIGHT[2]
    inverse = (FIELD_CONSTANT[0] + FIELD_SHARE[0] * length) / of_name
    for index in range(len(sums)):
        if sums[index] <= score * (1 + SATURATION * inverse):
            return float(weights[index])
    return 0.0


@compiled
def _weights_in_names(plan: PlanArrays) -> tuple[Floats, Floats]:
    """The weights of alternatives, the highest first; and for each the least sum of values of one alternative of each
    group, of this weight or a higher one."""
    weights, sums, size, last = np.empty(len(plan.numbers)), np.empty(len(plan.numbers)), 0, np.inf
    while True:
        weight = 0.0
        for alternative in range(len(plan.numbers)):
            if plan.numbers[alternative] >= 0 and plan.weights[alternative] < last:
                weight = max(weight, plan.weights[alternative])
        if weight == 0:
            return weights[:size], sums[:size]
        weights[size], sums[size], last = weight, 0.0, weight
        for group in range(len(plan.starts) - 1):
            least = np.inf
            for alternative in range(plan.starts[group], plan.starts[group + 1]):
                if plan.numbers[alternative] >= 0 and plan.weights[alternative] >= weight:
                    least = min(least, plan.values[alternative])
            sums[size] += least
        size += 1
