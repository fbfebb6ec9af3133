"""The compiled loop over a block's bytes.

`base` is the memory address of the data; `pos` and `end` are byte offsets from it, `end` being the end of the data. A
check against `end` precedes every load; no function recurses or raises, and all release the GIL.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from parsers.bitcoin.intrinsics import load8, load16, load32, load63
from parsers.bitcoin.outpoint_table import Watched, Words, fingerprint, holds
from parsers.bitcoin.script_scan import is_template, may_hold_record
from parsers.jit import compiled, kernel

Rows = npt.NDArray[np.int64]

# Outcomes of a walk: below PLAIN an error, with its message in `parsers.bitcoin.block`.
PLAIN, FLAGGED = 0, 1
TRUNCATED, INPUT_COUNT, INPUT_SCRIPT, OUTPUT_COUNT, OUTPUT_SCRIPT, WITNESS, MWEB = range(-1, -8, -1)

SEGWIT, SEARCH, SEARCH_WITNESS, PROBE = 1, 2, 4, 8  # options of a walk


@compiled
def varint(base: int, pos: int, end: int) -> tuple[int, int]:
    """The varint at `pos`, in any of its lengths, and its end; -1 for one that is truncated or exceeds the data."""
    if pos >= end:
        return -1, pos
    first = load8(base + pos)
    if first < 0xFD:
        return first, pos + 1
    if first == 0xFD:
        return (load16(base + pos + 1), pos + 3) if end - pos >= 3 else (-1, pos)
    if first == 0xFE:
        return (load32(base + pos + 1), pos + 5) if end - pos >= 5 else (-1, pos)
    if end - pos < 9 or not 0 <= load63(base + pos + 1) <= end:
        return -1, pos
    return load63(base + pos + 1), pos + 9


@compiled
def witness_end(base: int, pos: int, end: int, inputs: int, search: bool) -> tuple[int, int]:
    """Walk the witness stacks of `inputs` inputs: their end, and FLAGGED if an item may hold a record, or an error."""
    flagged = PLAIN
    for _ in range(inputs):
        items, after = varint(base, pos, end)
        if items < 0 or items > end - after:
            return pos, WITNESS
        pos = after
        for _ in range(items):
            length, after = varint(base, pos, end)
            if length < 0 or length > end - after:
                return pos, WITNESS
            if search and flagged == PLAIN and may_hold_record(base, after, after + length, end):
                flagged = FLAGGED
            pos = after + length
    return pos, flagged


@compiled
def transaction(base: int, pos: int, end: int, options: int, watched: Watched) -> tuple[int, int, int]:
    """Walk one transaction. Returns its end, the outcome (FLAGGED, PLAIN or an error), and the offset of its witness.

    On an error the first is where the walk stopped. The third is 0 without a segwit marker. Counts are refused when
    their items cannot fit: 41 bytes an input, 9 an output, one a witness item.
    """
    key, table, bloom = watched
    if end - pos < 10:
        return pos, TRUNCATED, 0
    pos += 4
    flag = 0
    if options & SEGWIT and load8(base + pos) == 0:
        flag = load8(base + pos + 1)
        flag = flag if flag == 1 or flag == 8 or flag == 9 else 0
        pos += 2 if flag else 0
    flagged = PLAIN
    inputs, after = varint(base, pos, end)
    if inputs < 0 or inputs > (end - after) // 41:
        return pos, INPUT_COUNT, 0
    pos = after
    for _ in range(inputs):
        if end - pos < 41:
            return pos, TRUNCATED, 0
        if options & PROBE and holds(fingerprint(base, pos, key), table, bloom):
            flagged = FLAGGED
        length, after = varint(base, pos + 36, end)
        if length < 0 or length > end - after - 4:
            return pos + 36, INPUT_SCRIPT, 0
        pos = after + length + 4
    outputs, after = varint(base, pos, end)
    if outputs < 0 or outputs > (end - after) // 9:
        return pos, OUTPUT_COUNT, 0
    pos = after
    for _ in range(outputs):
        if end - pos < 9:
            return pos, TRUNCATED, 0
        length, after = varint(base, pos + 8, end)
        if length < 0 or length > end - after:
            return pos + 8, OUTPUT_SCRIPT, 0
        pos = after + length
        if (
            options & SEARCH
            and flagged == PLAIN
            and not is_template(base, after, length)
            and may_hold_record(base, after, pos, end)
        ):
            flagged = FLAGGED
    bare = pos if flag else 0
    if flag & 1:
        pos, outcome = witness_end(base, pos, end, inputs, options & SEARCH_WITNESS != 0 and flagged == PLAIN)
        if outcome < PLAIN:
            return pos, outcome, bare
        flagged = max(flagged, outcome)
    if flag & 8:
        if end - pos < 1 or load8(base + pos) != 0:
            return pos, MWEB, bare
        pos += 1
    if end - pos < 4:
        return pos, TRUNCATED, bare
    return pos + 4, flagged, bare


@kernel("rows", "starts", "bares")
def scan(
    base: int,
    pos: int,
    end: int,
    index: int,
    options: int,
    watched: Watched,
    rows: Rows,
    starts: Rows,
    bares: Rows,
) -> tuple[int, int, int, int]:
    """Walk the transactions from number `index` on, whose first begins at `pos`: write (offset, size, number) of the
    flagged ones to `rows`, the offset of every one to `starts` (n + 1; the last is the end) and that of its witness to
    `bares` (n, or empty).

    Returns the offset where the walk stopped, the next number, the number of rows, and an error or PLAIN. The walk
    stops when `rows` is full.
    """
    used = 0
    while index < len(starts) - 1 and used < len(rows):
        after, outcome, bare = transaction(base, pos, end, options, watched)
        if outcome < PLAIN:
            return after, index, used, outcome
        if outcome == FLAGGED:
            rows[used, 0], rows[used, 1], rows[used, 2] = pos, after - pos, index
            used += 1
        starts[index] = pos
        if index < len(bares):
            bares[index] = bare
        pos = after
        index += 1
    starts[index] = pos
    return pos, index, used, PLAIN


@compiled
def write_fingerprints(
    base: int, pos: int, end: int, options: int, key: np.uint64, fingerprints: Words, used: int
) -> int:
    """Write the fingerprints of a transaction's prevouts to `fingerprints` from index `used`; returns the next index.

    The transaction begins at `pos` and lies within `end`.
    """
    pos += 4
    if options & SEGWIT and end - pos > 2 and load8(base + pos) == 0:
        flag = load8(base + pos + 1)
        pos += 2 if flag == 1 or flag == 8 or flag == 9 else 0
    count, pos = varint(base, pos, end)
    for _ in range(count):
        if used == len(fingerprints) or end - pos < 41:
            return used
        fingerprints[used] = fingerprint(base, pos, key)
        used += 1
        length, after = varint(base, pos + 36, end)
        if length < 0 or length > end - after:
            return used
        pos = after + length + 4
    return used


@kernel("fingerprints", "numbers")
def inputs(base: int, starts: Rows, options: int, key: np.uint64, fingerprints: Words, numbers: Rows) -> int:
    """Write the fingerprint of every spent outpoint, and the number of the transaction that spends it.

    `starts` (n + 1) are the offsets of transactions that have been walked before. Returns the number of outpoints.
    """
    used = 0
    for number in range(len(starts) - 1):
        first = used
        used = write_fingerprints(base, starts[number], starts[number + 1], options, key, fingerprints, used)
        numbers[first:used] = number
    return used


@kernel("entries", "direct")
def spends(
    base: int,
    starts: Rows,
    options: int,
    watched: Watched,
    low: np.uint64,
    entries: Words,
    direct: npt.NDArray[np.bool_],
) -> int:
    """Fill `direct` (n) with whether transactions spend a watched outpoint, and `entries` with a word per input: its
    fingerprint, and in the bits of `low` the transaction's number plus one.

    `starts` (n + 1) are the offsets of transactions that have been walked before. Returns the number of entries.
    """
    key, table, bloom = watched
    used = 0
    for number in range(len(direct)):
        first = used
        used = write_fingerprints(base, starts[number], starts[number + 1], options, key, entries, used)
        for entry in range(first, used):
            if holds(entries[entry], table, bloom):
                direct[number] = True
            entries[entry] = (entries[entry] & ~low) | np.uint64(number + 1)
    return used
