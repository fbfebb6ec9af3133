"""Scripts: a tolerant tokenizer, minimal pushes, and the opcodes that envelopes and pointers use."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

OP_FALSE = OP_0 = 0x00
OP_PUSHDATA1 = 0x4C
OP_PUSHDATA2 = 0x4D
OP_PUSHDATA4 = 0x4E
OP_1NEGATE = 0x4F
OP_1 = 0x51
OP_IF = 0x63
OP_NOTIF = 0x64
OP_ENDIF = 0x68
OP_RETURN = 0x6A
OP_CODESEPARATOR = 0xAB


class Op(NamedTuple):
    """One opcode; `start` and `end` are byte offsets in the script.

    `data` is what the opcode pushes: the bytes of a push, b"" for OP_0, the single byte n for OP_1 to OP_16, and 0x81
    for OP_1NEGATE. None for every other opcode, and for a push that runs past the script.
    """

    opcode: int
    data: bytes | None
    start: int
    end: int

    @property
    def truncated(self) -> bool:
        """Whether this push claims more bytes than the script has; only the last opcode can be truncated."""
        return self.data is None and self.opcode <= OP_PUSHDATA4


_PUSHED = {OP_0: b"", OP_1NEGATE: b"\x81"} | {OP_1 - 1 + number: bytes((number,)) for number in range(1, 17)}
_ONE_BYTE: tuple[bytes | None, ...] = tuple(_PUSHED.get(opcode) for opcode in range(256))
_CACHED_SIZE = 4096
_new = tuple.__new__  # half the time of Op(...), which goes through a Python-level __new__


def ops(script: bytes) -> Iterator[Op]:
    """The opcodes of a script in order, in linear time; only pushed data is copied.

    Never raises: a push that runs past the end is the last Op, is `truncated` and ends at the script's end.
    """
    return iter(_cached_ops(script)) if len(script) <= _CACHED_SIZE else _walk(script)


@lru_cache(maxsize=4)
def _cached_ops(script: bytes) -> tuple[Op, ...]:
    """The opcodes of a short script, cached because envelope, MAP and lock are parsed from the same script in turn."""
    return tuple(_walk(script))


def _walk(script: bytes) -> Iterator[Op]:
    offset, end = 0, len(script)
    while offset < end:
        start = offset
        opcode = script[offset]
        if 0 < opcode < OP_PUSHDATA1:
            body, offset = offset + 1, offset + 1 + opcode
        elif OP_PUSHDATA1 <= opcode <= OP_PUSHDATA4:
            body = offset + 1 + (1 << opcode - OP_PUSHDATA1)
            offset = body + int.from_bytes(script[offset + 1 : body], "little")
        else:
            offset += 1
            yield _new(Op, (opcode, _ONE_BYTE[opcode], start, offset))
            continue
        if offset > end:
            yield _new(Op, (opcode, None, start, end))
            return
        yield _new(Op, (opcode, script[body:offset], start, offset))


def push(data: bytes) -> bytes:
    """The shortest push of `data`: OP_0, OP_1 to OP_16, a direct push, or OP_PUSHDATA1, 2 or 4.

    The byte 0x81 is pushed directly, because not all envelope readers accept OP_1NEGATE as a push. Raises ValueError
    for 4 GiB or more.
    """
    size = len(data)
    if size == 1 and 1 <= data[0] <= 16:
        return bytes((OP_1 - 1 + data[0],))
    if size < OP_PUSHDATA1:
        return bytes((size,)) + data
    if size <= 0xFF:
        return bytes((OP_PUSHDATA1, size)) + data
    if size <= 0xFFFF:
        return bytes((OP_PUSHDATA2,)) + size.to_bytes(2, "little") + data
    if size <= 0xFFFFFFFF:
        return bytes((OP_PUSHDATA4,)) + size.to_bytes(4, "little") + data
    raise ValueError(f"a push holds at most 4,294,967,295 bytes, not {size:,}")


def pushes(*items: bytes) -> bytes:
    """A script that pushes all `items` in order."""
    return b"".join(map(push, items))


def p2pkh(hash160: bytes) -> bytes:
    """The P2PKH script for the HASH160 of a public key (20 bytes). Raises ValueError for any other length."""
    if len(hash160) != 20:
        raise ValueError(f"a public key hash is 20 bytes, not {len(hash160)}")
    return b"\x76\xa9\x14" + hash160 + b"\x88\xac"


def is_p2pkh(script: bytes) -> bool:
    """Whether a locking script is exactly P2PKH."""
    return len(script) == 25 and script[:3] == b"\x76\xa9\x14" and script[23:] == b"\x88\xac"


def is_unspendable(script: bytes) -> bool:
    """Whether a locking script is a data output: it begins with OP_RETURN or OP_FALSE OP_RETURN."""
    return script[:1] == bytes((OP_RETURN,)) or script[:2] == bytes((OP_FALSE, OP_RETURN))


def executed(script: bytes) -> bytes:
    """The part of a BSV locking script that is executed: without envelopes (`OP_FALSE OP_IF`, pushes, `OP_ENDIF`), and
    without the bytes after an OP_RETURN outside of them, which ends a script with the stack as it is."""
    parts: list[bytes] = []
    begin, number, walked = 0, 0, list(ops(script))
    while number < len(walked):
        op = walked[number]
        if op.opcode == OP_RETURN:
            return b"".join([*parts, script[begin : op.start]])
        end = _envelope_end(walked, number)
        if end is not None:
            parts.append(script[begin : op.start])
            begin, number = walked[end].end, end
        number += 1
    return b"".join([*parts, script[begin:]])


def _envelope_end(walked: list[Op], number: int) -> int | None:
    """The index of the OP_ENDIF that closes an envelope which begins at `number`; None where none begins."""
    if walked[number].opcode != OP_FALSE or number + 1 >= len(walked) or walked[number + 1].opcode != OP_IF:
        return None
    for index in range(number + 2, len(walked)):
        op = walked[index]
        if op.opcode == OP_ENDIF:
            return index
        if op.data is None:
            return None
    return None
