"""The compiled test of whether a script may hold a record of the registry.

`base` is the memory address of the data; `pos`, `start`, `stop` and `end` are byte offsets from it, `end` being the end
of the data. A check against them precedes every load.
"""

from __future__ import annotations

import numpy as np

from parsers.bitcoin.intrinsics import load8, load16, load32, lowest, needles
from parsers.jit import compiled

_OP_IF, _PUSHDATA1, _PUSHDATA2, _PUSHDATA4 = 0x63, 0x4C, 0x4D, 0x4E
_1PUQ, _TYPE = 0x51755031, 0x65707974  # the first four letters of MAP's prefix, and the key `type`
_NO_BITS, _ONE = np.uint64(0), np.uint64(1)


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
    """Whether the bytes around the hyphen at `pos` are `bsv-mcp`."""
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
    """Whether an opcode OP_IF and a push opcode for three bytes end with the byte at `pos`, and `ord` follows."""
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
