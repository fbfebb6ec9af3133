"""The compiled loop over a block's bytes.

Every load is preceded by a check against the end of the data; nothing here recurses or raises, and all of it releases
the GIL. Table, scripts and transactions stand in one file, however long, because Numba's cache notices a change only of
the file that holds the function called from Python.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from parsers.compiled import compiled, kernel, load8, load16, load32, load63, load64, lowest, needles

Words = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]
Members = tuple[np.uint64, Words, Words]  # the secret key, the table, the bitmap before it

# Why a walk stopped; `parsers.block` has the sentences.
PLAIN, FLAGGED = 0, 1
TRUNCATED, INPUT_COUNT, INPUT_SCRIPT, OUTPUT_COUNT, OUTPUT_SCRIPT, WITNESS, MWEB = range(-1, -8, -1)

SEGWIT, SEARCH, SEARCH_WITNESS, PROBE = 1, 2, 4, 8  # what a walk is to do

_OP_IF, _PUSHDATA1, _PUSHDATA2, _PUSHDATA4 = 0x63, 0x4C, 0x4D, 0x4E
_1PUQ, _TYPE = 0x51755031, 0x65707974  # the first letters of MAP's prefix, and its key `type`
_NO_BITS, _ONE = np.uint64(0), np.uint64(1)
_MIX_1, _MIX_2, _MIX_3 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93), np.uint64(0xA0761D6478BD642F)
_S28, _S29, _S32, _S34, _S40 = (np.uint64(n) for n in (28, 29, 32, 34, 40))
_SIX_BITS = np.uint64(63)


@compiled
def varint(base: int, at: int, end: int) -> tuple[int, int]:
    """The varint at `at`, of any length, and where it ends; -1 for one that is cut short or exceeds the data."""
    if at >= end:
        return -1, at
    first = load8(base + at)
    if first < 0xFD:
        return first, at + 1
    if first == 0xFD:
        return (load16(base + at + 1), at + 3) if end - at >= 3 else (-1, at)
    if first == 0xFE:
        return (load32(base + at + 1), at + 5) if end - at >= 5 else (-1, at)
    if end - at < 9 or not 0 <= load63(base + at + 1) <= end:
        return -1, at
    return load63(base + at + 1), at + 9


# --- the table of watched outpoints


@compiled
def fingerprint(base: int, at: int, key: np.uint64) -> np.uint64:
    """64 bits of the outpoint at `at` (36 bytes): half the txid and the output number, mixed under a secret key.

    Strangers choose txids by work. Sixteen bytes of it enter, so that two outpoints with one fingerprint are not to be
    had for the 2^38 hashes that eight bytes would cost against 10^8 targets. Never 0, which means an empty slot.
    """
    mixed = load64(base + at) ^ key
    mixed = (mixed ^ (mixed >> _S32)) * _MIX_1
    mixed += load64(base + at + 8) + np.uint64(load32(base + at + 32)) * _MIX_2
    mixed = (mixed ^ (mixed >> _S32)) * _MIX_3
    mixed ^= mixed >> _S29
    return mixed if mixed != _NO_BITS else _ONE


@compiled
def bloom_bits(mark: np.uint64) -> np.uint64:
    """The two bits (of one word) that a fingerprint sets in the bitmap."""
    return (_ONE << ((mark >> _S28) & _SIX_BITS)) | (_ONE << ((mark >> _S34) & _SIX_BITS))


@compiled
def holds(mark: np.uint64, table: Words, bloom: Words) -> bool:
    """Whether a fingerprint is in the table; the bitmap answers most that are not, from the cache."""
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
    """Add a fingerprint to a table with a free slot; 1 when it is new, 0 when it was there."""
    mask = np.uint64(table.size - 1)
    slot = mark & mask
    while table[slot] != _NO_BITS:
        if table[slot] == mark:
            return 0
        slot = (slot + _ONE) & mask
    table[slot] = mark
    bloom[(mark >> _S40) & np.uint64(bloom.size - 1)] |= bloom_bits(mark)
    return 1


@kernel
def add_all(base: int, count: int, key: np.uint64, table: Words, bloom: Words) -> int:
    """Add `count` outpoints of 36 bytes each; answers how many are new."""
    new = 0
    for number in range(count):
        new += put(fingerprint(base, number * 36, key), table, bloom)
    return new


@kernel
def move_all(old: Words, table: Words, bloom: Words) -> None:
    """Put every fingerprint of one table into another."""
    for mark in old:
        if mark != _NO_BITS:
            put(mark, table, bloom)


@compiled
def take(mark: np.uint64, table: Words) -> int:
    """Remove a fingerprint, closing the gap behind it; 1 when it was there. The bitmap keeps its bits."""
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


@kernel
def take_all(base: int, count: int, key: np.uint64, table: Words) -> int:
    """Remove `count` outpoints of 36 bytes each; answers how many were there."""
    gone = 0
    for number in range(count):
        gone += take(fingerprint(base, number * 36, key), table)
    return gone


@kernel
def known(base: int, key: np.uint64, table: Words, bloom: Words) -> bool:
    """Whether the outpoint at `base` (36 bytes) is in the table."""
    return holds(fingerprint(base, 0, key), table, bloom)


# --- scripts that may say something


@compiled
def push(base: int, at: int, stop: int) -> tuple[int, int]:
    """Where the data of the opcode at `at` begins and ends; both behind the opcode for one that pushes nothing.

    A push that is cut short ends beyond `stop`.
    """
    code = load8(base + at)
    if code < _PUSHDATA1:
        return at + 1, at + 1 + code
    if code == _PUSHDATA1 and stop - at >= 2:
        return at + 2, at + 2 + load8(base + at + 1)
    if code == _PUSHDATA2 and stop - at >= 3:
        return at + 3, at + 3 + load16(base + at + 1)
    if code == _PUSHDATA4 and stop - at >= 5:
        return at + 5, at + 5 + load32(base + at + 1)
    return (stop, stop + 1) if _PUSHDATA1 <= code <= _PUSHDATA4 else (at + 1, at + 1)


@compiled
def is_a2b(base: int, at: int, stop: int) -> bool:
    """Whether `a2b` stands at `at`."""
    return stop - at >= 3 and load16(base + at) == 0x3261 and load8(base + at + 2) == 0x62


@compiled
def is_app(base: int, at: int, start: int, stop: int) -> bool:
    """Whether the hyphen at `at` is that of `bsv-mcp`."""
    if at - 3 < start or stop - at < 4:
        return False
    return load32(base + at - 3) == 0x2D767362 and load32(base + at) == 0x70636D2D


@compiled
def element_begins_a2b(base: int, start: int, stop: int) -> bool:
    """Whether a pushed element begins with `a2b`, in the script or in the one pushed after MAP's prefix (law 1)."""
    at, after_map = start, False
    while at < stop:
        first, at = push(base, at, stop)
        inner, end = first, min(at, stop)
        if is_a2b(base, first, end):
            return True
        while after_map and inner < end:
            begin, inner = push(base, inner, end)
            if is_a2b(base, begin, end):
                return True
        after_map = end - first == 34 and load32(base + first) == _1PUQ
    return False


@compiled
def pushed(base: int, at: int, start: int) -> int:
    """What stands before `at` as if it were pushed: 0 no push of three bytes or more, 1 surely one, 2 maybe only text.

    Hexadecimal text holds `a2b` every 4,096 digits, and the digit before it often reads as a push opcode.
    """
    before = load8(base + at - 1) if at - 1 >= start else 0
    if at - 2 >= start and load8(base + at - 2) == _PUSHDATA1:
        return 1
    if at - 3 >= start and load8(base + at - 3) == _PUSHDATA2:
        return 1
    if at - 5 >= start and load8(base + at - 5) == _PUSHDATA4:
        return 1
    if before < 3 or before >= _PUSHDATA1:
        return 0
    is_value = at - 6 >= start and load8(base + at - 6) == 4 and load32(base + at - 5) == _TYPE
    return 2 if before >= 0x20 and not is_value else 1


@compiled
def opens_envelope(base: int, at: int, start: int, stop: int) -> bool:
    """Whether OP_IF and a push of `ord` end at the low byte `at`, which the three letters follow."""
    if stop - at < 4 or load16(base + at + 1) != 0x726F or load8(base + at + 3) != 0x64:
        return False
    last = load8(base + at)
    if last == 3:
        first = at - 1 if at - 1 >= start and load8(base + at - 1) == _PUSHDATA1 else at
    elif last == 0 and at - 2 >= start and load8(base + at - 2) == _PUSHDATA2:
        first = at - 2
    elif last == 0 and at - 4 >= start and load8(base + at - 4) == _PUSHDATA4:
        first = at - 4
    else:
        return False
    return first - 1 >= start and load8(base + first - 1) == _OP_IF


@compiled
def says_json(base: int, at: int, stop: int) -> bool:
    """Whether `json` stands between, in any case."""
    for place in range(at, stop - 3):  # noqa: SIM110 - generators do not compile
        if load32(base + place) | 0x20202020 == 0x6E6F736A:
            return True
    return False


@compiled
def json_envelope(base: int, at: int, stop: int, budget: int) -> int:
    """Read an envelope's fields from `at` up to the body: -1 when one mentions json, else what is left of `budget`.

    A budget below zero (envelopes nested in envelopes' fields) counts as a mention: reading the transaction is linear.
    """
    is_value = False
    while at < stop and budget >= 0:
        code = load8(base + at)
        first, after = push(base, at, stop)
        if code > 0x60:
            return budget
        if not is_value and (code == 0 or (after - first == 1 and first < stop and load8(base + first) == 0)):
            return budget
        budget -= 8 + min(after, stop) - first
        if says_json(base, first, min(after, stop)):
            return -1
        is_value, at = not is_value, after
    return budget


@compiled
def tail_needles(base: int, at: int, stop: int) -> np.uint64:
    """As `needles`, near the end of the data: bits for places that begin like one."""
    mask = _NO_BITS
    for bit in range(min(64, stop - at)):
        code = load8(base + at + bit)
        if code == 0x61 or code == 0x2D or code < 4:
            mask |= _ONE << np.uint64(bit)
    return mask


@compiled
def speaks(base: int, start: int, stop: int, end: int) -> bool:
    """Whether a script may say something for us (bytes `start` to `stop`; the data are readable to `end`).

    True for an element that begins with `a2b`, an ord envelope with a field that mentions json, the word `bsv-mcp`,
    each also inside a push. Text that merely contains these letters is told apart; what stays in doubt is True.
    """
    budget, walked = 4 * (stop - start) + 1024, False
    at = start
    while at < stop:
        mask = needles(base + at) if end - at >= 66 else tail_needles(base, at, stop)
        while mask != _NO_BITS:
            place = at + lowest(mask)
            mask &= mask - _ONE
            if place >= stop:
                break
            code = load8(base + place)
            if code == 0x61:
                kind = pushed(base, place, start) if is_a2b(base, place, stop) else 0
                if kind == 1:
                    return True
                if kind == 2 and not walked:
                    walked = True
                    if element_begins_a2b(base, start, stop):
                        return True
            elif code < 4:
                if opens_envelope(base, place, start, stop):
                    budget = json_envelope(base, place + 4, stop, budget)
                    if budget < 0:
                        return True
            elif is_app(base, place, start, stop):
                return True
        at += 64
    return False


@compiled
def is_template(base: int, at: int, length: int) -> bool:
    """Whether a locking script is P2PKH, P2SH, P2WPKH, P2WSH or P2TR, which can say nothing."""
    if length == 25:
        return load32(base + at) & 0xFFFFFF == 0x14A976 and load16(base + at + 23) == 0xAC88
    if length == 23:
        return load16(base + at) == 0x14A9 and load8(base + at + 22) == 0x87
    if length == 22:
        return load16(base + at) == 0x1400
    return length < 4 or (length == 34 and (load16(base + at) == 0x2000 or load16(base + at) == 0x2051))


# --- transactions


@compiled
def witness_end(base: int, at: int, end: int, inputs: int, search: bool) -> tuple[int, int]:
    """Walk the witness stacks of `inputs` inputs: where they end, and whether an item may say something."""
    found = PLAIN
    for _ in range(inputs):
        items, after = varint(base, at, end)
        if items < 0 or items > end - after:
            return at, WITNESS
        at = after
        for _ in range(items):
            length, after = varint(base, at, end)
            if length < 0 or length > end - after:
                return at, WITNESS
            if search and found == PLAIN and speaks(base, after, after + length, end):
                found = FLAGGED
            at = after + length
    return at, found


@compiled
def transaction(base: int, at: int, end: int, wants: int, members: Members) -> tuple[int, int, int]:
    """Walk one transaction: where it ends, FLAGGED, PLAIN or why it cannot be read, and where its witness begins.

    On an error the first is where reading stopped. Without segwit marker the third is 0. Counts are refused when
    their items could not fit: 41 bytes an input, 9 an output, one a witness item.
    """
    key, table, bloom = members
    if end - at < 10:
        return at, TRUNCATED, 0
    at += 4
    flag = 0
    if wants & SEGWIT and load8(base + at) == 0:
        flag = load8(base + at + 1)
        flag = flag if flag == 1 or flag == 8 or flag == 9 else 0
        at += 2 if flag else 0
    found = PLAIN
    inputs, after = varint(base, at, end)
    if inputs < 0 or inputs > (end - after) // 41:
        return at, INPUT_COUNT, 0
    at = after
    for _ in range(inputs):
        if end - at < 41:
            return at, TRUNCATED, 0
        if wants & PROBE and holds(fingerprint(base, at, key), table, bloom):
            found = FLAGGED
        length, after = varint(base, at + 36, end)
        if length < 0 or length > end - after - 4:
            return at + 36, INPUT_SCRIPT, 0
        at = after + length + 4
    outputs, after = varint(base, at, end)
    if outputs < 0 or outputs > (end - after) // 9:
        return at, OUTPUT_COUNT, 0
    at = after
    for _ in range(outputs):
        if end - at < 9:
            return at, TRUNCATED, 0
        length, after = varint(base, at + 8, end)
        if length < 0 or length > end - after:
            return at + 8, OUTPUT_SCRIPT, 0
        at = after + length
        if wants & SEARCH and found == PLAIN and not is_template(base, after, length) and speaks(base, after, at, end):
            found = FLAGGED
    bare = at if flag else 0
    if flag & 1:
        at, state = witness_end(base, at, end, inputs, wants & SEARCH_WITNESS != 0 and found == PLAIN)
        if state < PLAIN:
            return at, state, bare
        found = max(found, state)
    if flag & 8:
        if end - at < 1 or load8(base + at) != 0:
            return at, MWEB, bare
        at += 1
    if end - at < 4:
        return at, TRUNCATED, bare
    return at + 4, found, bare


@kernel
def scan(
    base: int, at: int, end: int, index: int, count: int, wants: int, members: Members, rows: Rows
) -> tuple[int, int, int, int]:
    """Walk transactions `index` to `count` from `at`, noting (offset, size, index) of the flagged ones in `rows`.

    Answers where it stopped, the next index, the number of rows and an error or PLAIN; it stops when `rows` are full.
    """
    used = 0
    while index < count and used < len(rows):
        after, state, _ = transaction(base, at, end, wants, members)
        if state < PLAIN:
            return after, index, used, state
        if state == FLAGGED:
            rows[used, 0], rows[used, 1], rows[used, 2] = at, after - at, index
            used += 1
        at = after
        index += 1
    return at, index, used, PLAIN


@kernel
def offsets(base: int, at: int, end: int, wants: int, starts: Rows, bares: Rows) -> tuple[int, int]:
    """Fill `starts` (n + 1) with transactions' offsets and `bares` (n, or none) with those of their witnesses.

    Answers where it stopped and an error or PLAIN.
    """
    nothing = np.empty(0, np.uint64)
    nobody = (_NO_BITS, nothing, nothing)
    for index in range(len(starts) - 1):
        starts[index] = at
        at, state, bare = transaction(base, at, end, wants, nobody)
        if state < PLAIN:
            return at, state
        if index < len(bares):
            bares[index] = bare
    starts[len(starts) - 1] = at
    return at, PLAIN


@compiled
def note_prevouts(base: int, at: int, end: int, wants: int, key: np.uint64, marks: Words, used: int) -> int:
    """Write the fingerprints of a transaction's prevouts into `marks` from `used` on; answers where they end.

    The transaction begins at `at`; none of its bytes is beyond `end`.
    """
    at += 4
    if wants & SEGWIT and end - at > 2 and load8(base + at) == 0:
        flag = load8(base + at + 1)
        at += 2 if flag == 1 or flag == 8 or flag == 9 else 0
    count, at = varint(base, at, end)
    for _ in range(count):
        if used == len(marks) or end - at < 41:
            return used
        marks[used] = fingerprint(base, at, key)
        used += 1
        length, after = varint(base, at + 36, end)
        if length < 0 or length > end - after:
            return used
        at = after + length + 4
    return used


@kernel
def inputs(base: int, starts: Rows, wants: int, key: np.uint64, marks: Words, owners: Rows) -> int:
    """Note the fingerprint of every outpoint that transactions spend, and the number of the one that does.

    They stand from one of `starts` (n + 1) to the next, and were walked before. Answers how many outpoints there are.
    """
    used = 0
    for number in range(len(starts) - 1):
        first = used
        used = note_prevouts(base, starts[number], starts[number + 1], wants, key, marks, used)
        owners[first:used] = number
    return used


@kernel
def spends(
    base: int,
    at: int,
    end: int,
    wants: int,
    members: Members,
    low: np.uint64,
    starts: Rows,
    entries: Words,
    direct: npt.NDArray[np.bool_],
) -> tuple[int, int, int]:
    """Fill `starts` (n + 1) with transactions' offsets, `direct` (n) with whether each spends one of `members`, and
    `entries` with one word for each input: its fingerprint, and in the bits `low` the transaction's number plus one.

    Answers where it stopped, how many entries there are, and an error or PLAIN.
    """
    used = 0
    for number in range(len(direct)):
        starts[number] = at
        after, state, _ = transaction(base, at, end, wants, members)
        if state < PLAIN:
            return after, used, state
        direct[number] = state == FLAGGED
        first = used
        used = note_prevouts(base, at, after, wants, members[0], entries, used)
        for entry in range(first, used):
            entries[entry] = (entries[entry] & ~low) | np.uint64(number + 1)
        at = after
    starts[len(direct)] = at
    return at, used, PLAIN


@kernel
def fingerprints(base: int, key: np.uint64, marks: Words) -> None:
    """Fill `marks` with the fingerprints of outpoints of 36 bytes each."""
    for number in range(len(marks)):
        marks[number] = fingerprint(base, number * 36, key)


@kernel
def which(marks: Words, table: Words, bloom: Words, found: npt.NDArray[np.bool_]) -> None:
    """Set in `found` whether each fingerprint is in the table."""
    for number in range(len(marks)):
        found[number] = holds(marks[number], table, bloom)
