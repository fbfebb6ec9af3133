"""The compiled loop over postings: who holds the words of a question, how many they are, and the best of them.

Every row that is touched gets a mark, the number of the question's word that touched it last, counted on from question
to question; so nothing is cleared between two of them, and what a question costs is what its postings take to read
(6,000 postings of two words: 20 µs). All of it releases the GIL.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from overlay.search.ranking import LEVELS
from parsers.compiled import compiled, copy, kernel

U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

COLUMNS = 5
KEY, WORD, STEP, STEPS, WORTH = range(COLUMNS)
"""Columns of the terms of a question, ascending by `WORD`. A term is number `STEP` of the `STEPS` that only count
together, which is worth `WORTH`, the bits of a float."""

KEPT, PART, PARTS = 10, 2, 3
"""See `kept`: numbers here, as what is compiled is kept until this file changes, whatever it imports."""
WORK, PLACED, SENIOR, LINES = 3, 4, 7, 10
"""Lines of what is found: points, seniority and places; some to work in; the same three where places are kept; and the
same of the most senior."""

_START, _END = 0, 1  # columns of spans
_ADDRESS, _TERMS = 0, 1  # columns of the words that are asked for
_SOUGHT = 32  # postings that are read in the time that one is sought
_LOW = 0xFFFFFFFF


@compiled
def _seek(ascending: U32 | U64, start: int, end: int, sought: int) -> int:
    """Where a number stands among ascending ones, or would."""
    while start < end:
        middle = (start + end) >> 1
        if ascending[middle] < sought:
            start = middle + 1
        else:
            end = middle
    return start


@compiled
def _spans(keys: U64, starts: I64, terms: U64, spans: I64) -> None:
    """From where to where the postings of each term stand; nowhere for a term that is not here."""
    for term in range(len(terms)):
        at = _seek(keys, 0, len(keys), terms[term, KEY])
        held = at < len(keys) and keys[at] == terms[term, KEY]
        spans[term, _START] = starts[at] if held else 0
        spans[term, _END] = starts[at + 1] if held else 0


@compiled
def _rarest_first(terms: U64, spans: I64, words: int, order: I64, sizes: I64) -> bool:
    """Put the words that fewer rows hold first in `order`, and say whether each is held."""
    sizes[:] = 0
    for term in range(len(terms)):
        sizes[terms[term, WORD]] += spans[term, _END] - spans[term, _START]
    for at in range(1, words):
        word, to = order[at], at
        while to > 0 and sizes[order[to - 1]] > sizes[word]:
            order[to] = order[to - 1]
            to -= 1
        order[to] = word
    return bool(sizes[order[0]] > 0)


@compiled
def _copy_terms(asked: I64, words: int, lines: U64) -> int:
    """Copy the terms of each word from where they lie, and tell them their words; how many they are."""
    total = 0
    for word in range(words):
        terms = asked[word, _TERMS]
        copy(np.int64(lines.ctypes.data) + 8 * COLUMNS * total, asked[word, _ADDRESS], 8 * COLUMNS * terms)
        for term in range(total, total + terms):
            lines[term, WORD] = word
        total += terms
    return total


@compiled
def _make_points(terms: U64, worth: F64, units: F64, points: I64) -> None:
    """What each term adds at each level (`matching.Word.choices`, `Choice.points`): halves are rounded to the even
    number, as Python does."""
    for term in range(len(terms)):
        most = worth[term, WORTH] * units[terms[term, WORD]] / terms[term, STEPS]
        for level in range(1, LEVELS + 1):
            points[term, level] = max(np.int64(1), np.int64(np.rint(most * level / LEVELS)))


@compiled
def _sink(heap: I64, at: int, size: int) -> None:
    """Let a key of a heap sink to where nothing below it is smaller."""
    key = heap[at]
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= key:
            break
        heap[at] = heap[below]
        at = below
    heap[at] = key


@compiled
def _first(found: U32, total: int, made: U16, heap: I64, number: int) -> int:
    """The rows of the most points, the first of those that tie: points above 32 bits, the row turned around below."""
    size = min(total, number)
    for at in range(size):
        heap[at] = (np.int64(made[found[at]]) << 32) | (_LOW - found[at])
    for at in range(size // 2 - 1, -1, -1):
        _sink(heap, at, size)
    for at in range(size, total):
        key = (np.int64(made[found[at]]) << 32) | (_LOW - found[at])
        if size > 0 and key > heap[0]:
            heap[0] = key
            _sink(heap, 0, size)
    for end in range(size - 1, 0, -1):
        heap[0], heap[end] = heap[end], heap[0]
        _sink(heap, 0, end)
    return size


@compiled
def _count(
    rows: U32, levels: U8, term: U64, points_of: I64, start: int, end: int, later: bool, masked: bool, mask: Mask,
    base: int, part_base: np.int64, here: int, counts: U16, found: U32, total: int,
) -> int:  # fmt: skip
    """Count the rows that hold a term, `later` only those that are `found` already; how many are found then."""
    marks, made, last, parts, sums = counts[0], counts[1], counts[2], counts[3], counts[4]
    step, steps = np.int64(term[STEP]), np.int64(term[STEPS])
    seeking = later and total * _SOUGHT < end - start
    for at in range(total if seeking else end - start):
        if seeking:
            row = found[at]
            place = _seek(rows, start, end, row)
            if place == end or rows[place] != row:
                continue
        else:
            place = start + at
            row = rows[place]
            if later and marks[row] < here - 1:
                continue
        points = points_of[levels[place]]
        if steps > 1:
            if step > 0:
                if parts[row] != part_base + step:
                    continue
                points += sums[row]
            if step < steps - 1:
                parts[row], sums[row] = part_base + step + 1, points
                continue
        mark = marks[row]
        if mark == here:
            if points > last[row]:
                made[row] += points - last[row]
                last[row] = points
            continue
        if mark <= base:
            if masked and not mask[row]:
                continue
            made[row] = 0
            found[total] = row
            total += 1
        made[row] += points
        marks[row], last[row] = here, points
    return total


@compiled
def _still(found: U32, total: int, marks: U16, here: int) -> int:
    """Keep the rows that the last word was found with; how many these are."""
    kept = 0
    for at in range(total):
        if marks[found[at]] == here:
            found[kept] = found[at]
            kept += 1
    return kept


@compiled
def _senior(found: U32, total: int, made: U16, least: int, seniority: U64, places: U64, out: U64) -> int:
    """Of the rows that are found those that come first and make so many points at least, `KEPT` at most: points,
    `seniority` and `places` in the lines of `out` from `SENIOR` on; how many these are."""
    size, last = 0, np.uint64(_LOW)
    for at in range(total):
        row = np.uint64(found[at])
        if row >= last or made[row] < least:
            continue
        to = size if size < KEPT else KEPT - 1
        while to > 0 and out[SENIOR + 2, to - 1] > row:
            out[SENIOR + 2, to] = out[SENIOR + 2, to - 1]
            to -= 1
        out[SENIOR + 2, to] = row
        size += size < KEPT
        if size == KEPT:
            last = out[SENIOR + 2, KEPT - 1]
    for at in range(size):
        row = out[SENIOR + 2, at]
        out[SENIOR, at], out[SENIOR + 1, at], out[SENIOR + 2, at] = made[row], seniority[row], places[row]
    return size


@compiled
def _place(out: U64, number: int, several: int, ahead: int) -> int:
    """From line `PLACED` on the first `ahead` of a number of columns, behind them the `several` most senior that are
    not among these, with the points and the seniority of the last of these, then the others, so many in all; how many
    stand between."""
    moved = 0
    for at in range(several):
        place, known = out[SENIOR + 2, at], False
        for before in range(ahead):
            known |= out[2, before] == place
        if not known:
            out[WORK, moved] = place
            moved += 1
    to = 0
    for at in range(number):
        if at == ahead:
            for one in range(min(moved, number - to)):
                out[PLACED, to], out[PLACED + 1, to] = out[0, at - 1], out[1, at - 1]
                out[PLACED + 2, to] = out[WORK, one]
                to += 1
        is_moved = False
        for one in range(moved):
            is_moved |= out[2, at] == out[WORK, one]
        if not is_moved and to < number:
            out[PLACED, to], out[PLACED + 1, to], out[PLACED + 2, to] = out[0, at], out[1, at], out[2, at]
            to += 1
    return moved


@kernel
def senior(found: U32, total: int, counts: U16, least: int, seniority: U64, places: U64, out: U64) -> int:
    """The most senior of what `best` found last that make so many points at least: see `_senior`."""
    return _senior(found, total, counts[1], least, seniority, places, out)


@kernel
def place(out: U64, number: int, several: int, ahead: int) -> int:
    """Keep places: see `_place`."""
    return _place(out, number, several, ahead)


@kernel
def latest(
    by_time: U32, newest: U64, seniority: U64, places: U64, masked: bool, mask: Mask, number: int, out: U64,
    enough: int, ahead: int,
) -> tuple[int, int, int]:  # fmt: skip
    """How many rows there are, where `masked` those that `mask` says yes to; of the first `number` of them in the order
    `by_time` 0, `newest` and `places` in `out`. Where they are more than `enough`, also the first of all (`kept`),
    `newest`, `seniority` and `places`, how many these are, and the places and the number that `best` tells, too."""
    found, at = 0, 0
    while found < number and at < len(by_time):
        row = by_time[at]
        if not masked or mask[row]:
            out[0, found], out[1, found], out[2, found] = 0, newest[row], places[row]
            found += 1
        at += 1
    total = 0 if masked else len(places)
    if masked:
        for allowed in mask.view(np.uint8):  # which becomes vector code, unlike numbers of rows
            total += allowed
    if total <= enough:
        return total, 0, 0
    several, row = 0, 0
    while several < min(KEPT, total):
        if not masked or mask[row]:
            out[SENIOR, several], out[SENIOR + 1, several] = newest[row], seniority[row]
            out[SENIOR + 2, several] = places[row]
            several += 1
        row += 1
    return total, several, _place(out, found, several, ahead)


@kernel
def best(
    keys: U64, starts: I64, rows: U32, levels: U8, seniority: U64, places: U64, asked: I64, units: F64, words: int,
    lines: U64, every: bool, masked: bool, mask: Mask, base: int, counts: U16, found: U32, spans: I64,
    points: I64, covering: U32, more: int, number: int, out: U64, enough: int, ahead: int,
) -> tuple[int, int, int]:  # fmt: skip
    """How many rows hold `every` word, or any, of one or more; of the first `number` of them points, `seniority`
    and `places` in `out`. Where they are more than `enough`, also the most senior that make enough points (`kept`), how
    many these are, and how all stand where these have places behind so many as are `ahead`, and how many were moved.
    Rows that are `covering` make so many points `more`.

    `rows[starts[n]:starts[n + 1]]` ascend and hold the term `keys[n]` at `levels`. The address of the terms of
    each of the `words` and their number stand in `asked`, what they count for in `units`. Where `masked`, only those
    count that `mask` says yes to. In the first and the fourth line of `counts` nothing is above `base`, and it can grow
    by one for every term and word. `lines`, `spans` and `points` have as many lines as terms and words, `found` and the
    lines of `counts` as there are rows, `out` has `LINES`.
    """
    terms = lines[: _copy_terms(asked, words, lines)]
    _make_points(terms, lines.view(np.float64), units, points)
    _spans(keys, starts, terms, spans)
    order, sizes = spans[len(terms) : len(terms) + words, 0], spans[len(terms) : len(terms) + words, 1]
    for word in range(words):
        order[word] = word
    if every and not _rarest_first(terms, spans, words, order, sizes):
        return 0, 0, 0
    total = 0
    part_base = np.int64(base)
    for turn in range(words):
        here, later = base + turn + 1, every and turn > 0
        for term in range(len(terms)):
            if terms[term, WORD] != order[turn]:
                continue
            total = _count(
                rows, levels, terms[term], points[term], spans[term, _START], spans[term, _END], later, masked, mask,
                base, part_base, here, counts, found, total,
            )  # fmt: skip
            if terms[term, STEP] + 1 == terms[term, STEPS]:
                part_base += np.int64(terms[term, STEPS])
        if later:
            total = _still(found, total, counts[0], here)
    for row in covering:
        counts[1, row] += np.uint16(more)
    heap = out[WORK].view(np.int64)
    for at in range(_first(found, total, counts[1], heap, number)):
        row = _LOW - (heap[at] & _LOW)
        out[0, at], out[1, at], out[2, at] = heap[at] >> 32, seniority[row], places[row]
    if total <= enough:
        return total, 0, 0
    least = PART * int(out[0, 0]) // PARTS
    several = _senior(found, total, counts[1], least, seniority, places, out)
    return total, several, _place(out, min(total, number), several, ahead)
