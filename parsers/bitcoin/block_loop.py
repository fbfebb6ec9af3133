"""The compiled loop over a block's bytes.

`base` is the memory address of the data; `pos`, `start`, `stop` and `end` are byte offsets from it, `end` being the end
of the data. A check against `end` precedes every load; no function recurses or raises, and all release the GIL. The
table, the scripts and the transactions share one long file because Numba's cache only notices changes of the file that
holds the function called from Python.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from parsers.bitcoin.intrinsics import load8, load16, load32, load63, load64, lowest, needles
from parsers.jit import compiled, kernel

Words = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]
Watched = tuple[np.uint64, Words, Words]  # the secret key, the table, and the bitmap that is tested first

# Outcomes of a walk: below PLAIN an error, with its message in `parsers.bitcoin.block`.
PLAIN, FLAGGED = 0, 1
TRUNCATED, INPUT_COUNT, INPUT_SCRIPT, OUTPUT_COUNT, OUTPUT_SCRIPT, WITNESS, MWEB = range(-1, -8, -1)

SEGWIT, SEARCH, SEARCH_WITNESS, PROBE = 1, 2, 4, 8  # options of a walk

_OP_IF, _PUSHDATA1, _PUSHDATA2, _PUSHDATA4 = 0x63, 0x4C, 0x4D, 0x4E
_1PUQ, _TYPE = 0x51755031, 0x65707974  # the first four letters of MAP's prefix, and the key `type`
_NO_BITS, _ONE = np.uint64(0), np.uint64(1)
_MIX_1, _MIX_2, _MIX_3 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93), np.uint64(0xA0761D6478BD642F)
_S28, _S29, _S32, _S34, _S40 = (np.uint64(n) for n in (28, 29, 32, 34, 40))
_SIX_BITS = np.uint64(63)


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


# --- the table of watched outpoints


@compiled
def fingerprint(base: int, pos: int, key: np.uint64) -> np.uint64:
    """64 bits of the outpoint at `pos` (36 bytes): half the txid and the output number, mixed under a secret key.

    An attacker can search for txids. Sixteen bytes of the txid enter, because a collision on eight bytes would cost
    only 2^38 hashes against 10^8 targets. Never 0, which marks an empty slot.
    """
    mixed = load64(base + pos) ^ key
    mixed = (mixed ^ (mixed >> _S32)) * _MIX_1
    mixed += load64(base + pos + 8) + np.uint64(load32(base + pos + 32)) * _MIX_2
    mixed = (mixed ^ (mixed >> _S32)) * _MIX_3
    mixed ^= mixed >> _S29
    return mixed if mixed != _NO_BITS else _ONE


@compiled
def bloom_bits(mark: np.uint64) -> np.uint64:
    """The two bits that a fingerprint sets in its word of the bitmap."""
    return (_ONE << ((mark >> _S28) & _SIX_BITS)) | (_ONE << ((mark >> _S34) & _SIX_BITS))


@compiled
def holds(mark: np.uint64, table: Words, bloom: Words) -> bool:
    """Whether a fingerprint is in the table; the bitmap, which fits in the cache, rejects most that are not."""
    bits = bloom_bits(mark)
    if bloom[(mark >> _S40) & np.uint64(bloom.size - 1)] & bits != bits:
        return False
    mask = np.uint64(table.size - 1)
    slot = mark & mask
    while table[slot] != _NO_BITS:
        if table[slot] == mark:
            return True
        slot = (slot + _ONE) & mask
    return False


@compiled
def put(mark: np.uint64, table: Words, bloom: Words) -> int:
    """Add a fingerprint to a table that has a free slot; 1 when it is new, 0 when it is a member already."""
    mask = np.uint64(table.size - 1)
    slot = mark & mask
    while table[slot] != _NO_BITS:
        if table[slot] == mark:
            return 0
        slot = (slot + _ONE) & mask
    table[slot] = mark
    bloom[(mark >> _S40) & np.uint64(bloom.size - 1)] |= bloom_bits(mark)
    return 1


@kernel("table", "bloom")
def add_all(base: int, count: int, key: np.uint64, table: Words, bloom: Words) -> int:
    """Add `count` outpoints of 36 bytes each; returns how many are new."""
    new = 0
    for number in range(count):
        new += put(fingerprint(base, number * 36, key), table, bloom)
    return new


@kernel("table", "bloom")
def move_all(old: Words, table: Words, bloom: Words) -> None:
    """Add every fingerprint of one table to another."""
    for mark in old:
        if mark != _NO_BITS:
            put(mark, table, bloom)


@compiled
def remove(mark: np.uint64, table: Words) -> int:
    """Remove a fingerprint and close the gap; 1 when it was a member. Its bits in the bitmap stay set."""
    mask = np.uint64(table.size - 1)
    slot = mark & mask
    while table[slot] != mark:
        if table[slot] == _NO_BITS:
            return 0
        slot = (slot + _ONE) & mask
    gap = slot
    while True:
        slot = (slot + _ONE) & mask
        if table[slot] == _NO_BITS:
            break
        if ((slot - (table[slot] & mask)) & mask) >= ((slot - gap) & mask):
            table[gap] = table[slot]
            gap = slot
    table[gap] = _NO_BITS
    return 1


@kernel("table")
def remove_all(base: int, count: int, key: np.uint64, table: Words) -> int:
    """Remove `count` outpoints of 36 bytes each; returns how many were members."""
    removed = 0
    for number in range(count):
        removed += remove(fingerprint(base, number * 36, key), table)
    return removed


@kernel()
def contains(base: int, key: np.uint64, table: Words, bloom: Words) -> bool:
    """Whether the outpoint at `base` (36 bytes) is in the table."""
    return holds(fingerprint(base, 0, key), table, bloom)


# --- scripts that may hold a record


@compiled
def push(base: int, pos: int, stop: int) -> tuple[int, int]:
    """Where the data of the opcode at `pos` begins and ends; both are the next opcode's offset where nothing is pushed.

    A truncated push ends beyond `stop`.
    """
    code = load8(base + pos)
    if code < _PUSHDATA1:
        return pos + 1, pos + 1 + code
    if code == _PUSHDATA1 and stop - pos >= 2:
        return pos + 2, pos + 2 + load8(base + pos + 1)
    if code == _PUSHDATA2 and stop - pos >= 3:
        return pos + 3, pos + 3 + load16(base + pos + 1)
    if code == _PUSHDATA4 and stop - pos >= 5:
        return pos + 5, pos + 5 + load32(base + pos + 1)
    return (stop, stop + 1) if _PUSHDATA1 <= code <= _PUSHDATA4 else (pos + 1, pos + 1)


@compiled
def is_a2b(base: int, pos: int, stop: int) -> bool:
    """Whether the bytes at `pos` are `a2b`."""
    return stop - pos >= 3 and load16(base + pos) == 0x3261 and load8(base + pos + 2) == 0x62


@compiled
def is_app(base: int, pos: int, start: int, stop: int) -> bool:
    """Whether the hyphen at `pos` is the one of `bsv-mcp`."""
    if pos - 3 < start or stop - pos < 4:
        return False
    return load32(base + pos - 3) == 0x2D767362 and load32(base + pos) == 0x70636D2D


@compiled
def element_begins_a2b(base: int, start: int, stop: int) -> bool:
    """Whether a pushed element begins with `a2b`, in the script or in the script pushed after MAP's prefix (law 1)."""
    pos, after_map = start, False
    while pos < stop:
        first, pos = push(base, pos, stop)
        inner, end = first, min(pos, stop)
        if is_a2b(base, first, end):
            return True
        while after_map and inner < end:
            begin, inner = push(base, inner, end)
            if is_a2b(base, begin, end):
                return True
        after_map = end - first == 34 and load32(base + first) == _1PUQ
    return False


@compiled
def pushed(base: int, pos: int, start: int) -> int:
    """Whether a push of three bytes or more seems to begin at `pos`: 0 no, 1 yes, 2 yes unless it is inside a text.

    Hexadecimal text holds `a2b` every 4,096 digits, and the digit before it often equals a push opcode.
    """
    before = load8(base + pos - 1) if pos - 1 >= start else 0
    if pos - 2 >= start and load8(base + pos - 2) == _PUSHDATA1:
        return 1
    if pos - 3 >= start and load8(base + pos - 3) == _PUSHDATA2:
        return 1
    if pos - 5 >= start and load8(base + pos - 5) == _PUSHDATA4:
        return 1
    if before < 3 or before >= _PUSHDATA1:
        return 0
    is_value = pos - 6 >= start and load8(base + pos - 6) == 4 and load32(base + pos - 5) == _TYPE
    return 2 if before >= 0x20 and not is_value else 1


@compiled
def opens_envelope(base: int, pos: int, start: int, stop: int) -> bool:
    """Whether OP_IF and a push opcode for three bytes end with the byte at `pos`, and `ord` follows."""
    if stop - pos < 4 or load16(base + pos + 1) != 0x726F or load8(base + pos + 3) != 0x64:
        return False
    last = load8(base + pos)
    if last == 3:
        first = pos - 1 if pos - 1 >= start and load8(base + pos - 1) == _PUSHDATA1 else pos
    elif last == 0 and pos - 2 >= start and load8(base + pos - 2) == _PUSHDATA2:
        first = pos - 2
    elif last == 0 and pos - 4 >= start and load8(base + pos - 4) == _PUSHDATA4:
        first = pos - 4
    else:
        return False
    return first - 1 >= start and load8(base + first - 1) == _OP_IF


@compiled
def mentions_json(base: int, pos: int, stop: int) -> bool:
    """Whether the bytes from `pos` to `stop` contain `json`, in any letter case."""
    for start in range(pos, stop - 3):  # noqa: SIM110 - generators do not compile
        if load32(base + start) | 0x20202020 == 0x6E6F736A:
            return True
    return False


@compiled
def json_envelope(base: int, pos: int, stop: int, budget: int) -> int:
    """Walk an envelope's fields from `pos` up to the body: -1 when one mentions json, else the remaining `budget`.

    A spent budget (envelopes nested in fields of envelopes) counts as a mention: parsing the transaction is linear.
    """
    is_value = False
    while pos < stop and budget >= 0:
        code = load8(base + pos)
        first, after = push(base, pos, stop)
        if code > 0x60:
            return budget
        if not is_value and code == 0:
            return budget
        budget -= 8 + min(after, stop) - first
        if mentions_json(base, first, min(after, stop)):
            return -1
        is_value, pos = not is_value, after
    return budget


@compiled
def tail_needles(base: int, pos: int, stop: int) -> np.uint64:
    """As `needles` near the end of the data: a bit for every position where a match can begin."""
    mask = _NO_BITS
    for bit in range(min(64, stop - pos)):
        code = load8(base + pos + bit)
        if code == 0x61 or code == 0x2D or code < 4:
            mask |= _ONE << np.uint64(bit)
    return mask


@compiled
def may_hold_record(base: int, start: int, stop: int, end: int) -> bool:
    """Whether the script from `start` to `stop` may hold a record of the registry (the data are readable to `end`).

    True for an element that begins with `a2b`, an ord envelope with a field that mentions json, and the word `bsv-mcp`,
    each also inside a push. Text that merely contains these letters is recognised; in doubt the answer is True.
    """
    budget, walked = 4 * (stop - start) + 1024, False
    pos = start
    while pos < stop:
        mask = needles(base + pos) if end - pos >= 66 else tail_needles(base, pos, stop)
        while mask != _NO_BITS:
            position = pos + lowest(mask)
            mask &= mask - _ONE
            if position >= stop:
                break
            code = load8(base + position)
            if code == 0x61:
                kind = pushed(base, position, start) if is_a2b(base, position, stop) else 0
                if kind == 1:
                    return True
                if kind == 2 and not walked:
                    walked = True
                    if element_begins_a2b(base, start, stop):
                        return True
            elif code < 4:
                if opens_envelope(base, position, start, stop):
                    budget = json_envelope(base, position + 4, stop, budget)
                    if budget < 0:
                        return True
            elif is_app(base, position, start, stop):
                return True
        pos += 64
    return False


@compiled
def is_template(base: int, pos: int, length: int) -> bool:
    """Whether a locking script is P2PKH, P2SH, P2WPKH, P2WSH or P2TR, which cannot hold a record."""
    if length == 25:
        return load32(base + pos) & 0xFFFFFF == 0x14A976 and load16(base + pos + 23) == 0xAC88
    if length == 23:
        return load16(base + pos) == 0x14A9 and load8(base + pos + 22) == 0x87
    if length == 22:
        return load16(base + pos) == 0x1400
    return length < 4 or (length == 34 and (load16(base + pos) == 0x2000 or load16(base + pos) == 0x2051))


# --- transactions


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
    """Walk the transactions from number `index` on, of which the first begins at `pos`: write (offset, size, number) of
    the flagged ones to `rows`, the offset of every one to `starts` (n + 1; the last is the end) and that of its witness
    to `bares` (n, or empty).

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


@kernel("fingerprints")
def fingerprint_all(base: int, key: np.uint64, fingerprints: Words) -> None:
    """Fill `fingerprints` with those of outpoints of 36 bytes each."""
    for number in range(len(fingerprints)):
        fingerprints[number] = fingerprint(base, number * 36, key)


@kernel("is_member")
def contains_all(fingerprints: Words, table: Words, bloom: Words, is_member: npt.NDArray[np.bool_]) -> None:
    """Set `is_member` to whether the fingerprints are in the table."""
    for number in range(len(fingerprints)):
        is_member[number] = holds(fingerprints[number], table, bloom)
