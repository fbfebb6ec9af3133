"""Scripts as opcodes: a tolerant tokenizer, minimal pushes, and the opcodes that records are made of."""

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
OP_16 = 0x60
OP_IF = 0x63
OP_NOTIF = 0x64
OP_ENDIF = 0x68
OP_RETURN = 0x6A
OP_DROP = 0x75
OP_DUP = 0x76
OP_EQUAL = 0x87
OP_EQUALVERIFY = 0x88
OP_HASH160 = 0xA9
OP_HASH256 = 0xAA
OP_CODESEPARATOR = 0xAB
OP_CHECKSIG = 0xAC


class Op(NamedTuple):
    """One opcode. `start` and `end` are byte offsets into the script.

    `data` is what the opcode pushes: the bytes of a push, b"" for OP_0, the one byte n for OP_1 to OP_16 (as readers of
    envelopes take them); None for every other opcode, OP_1NEGATE among them, and for a push that runs past the script.
    """

    opcode: int
    data: bytes | None
    start: int
    end: int

    @property
    def truncated(self) -> bool:
        """Whether this is a push that claims more bytes than the script has: always the last opcode of a walk."""
        return self.data is None and self.opcode <= OP_PUSHDATA4


_ONE_BYTE: tuple[bytes | None, ...] = tuple(
    b"" if opcode == OP_0 else bytes((opcode - OP_1 + 1,)) if OP_1 <= opcode <= OP_16 else None for opcode in range(256)
)
_SHORT = 4096
_new = tuple.__new__  # half the time of Op(...), which goes through a Python-level __new__


def ops(script: bytes) -> Iterator[Op]:
    """Walk a script opcode by opcode, in linear time and without copying more than the pushes handed out.

    Never raises: a push that runs past the end comes as a last Op that is `truncated` and ends at the script's end.
    """
    return iter(_walked(script)) if len(script) <= _SHORT else _walk(script)


@lru_cache(maxsize=4)
def _walked(script: bytes) -> tuple[Op, ...]:
    """The opcodes of a short script: envelope, tapes and lock are looked for in the same one, in turn."""
    return tuple(_walk(script))


def _walk(script: bytes) -> Iterator[Op]:
    at, end = 0, len(script)
    while at < end:
        start = at
        opcode = script[at]
        if 0 < opcode < OP_PUSHDATA1:
            body, at = at + 1, at + 1 + opcode
        elif OP_PUSHDATA1 <= opcode <= OP_PUSHDATA4:
            body = at + 1 + (1 << opcode - OP_PUSHDATA1)
            at = body + int.from_bytes(script[at + 1 : body], "little")
        else:
            at += 1
            yield _new(Op, (opcode, _ONE_BYTE[opcode], start, at))
            continue
        if at > end:
            yield _new(Op, (opcode, None, start, end))
            return
        yield _new(Op, (opcode, script[body:at], start, at))


def push(data: bytes) -> bytes:
    """The shortest push of `data`: OP_0, OP_1 to OP_16, a direct push, or OP_PUSHDATA1, 2 or 4.

    The byte 0x81 is pushed directly, not as OP_1NEGATE, which readers of envelopes do not take as a push. Raises
    ValueError over 4 GiB.
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
    """A script that pushes each of `items`, in order."""
    return b"".join(map(push, items))


def p2pkh(hash160: bytes) -> bytes:
    """The script that pays to the HASH160 of a public key (20 bytes)."""
    if len(hash160) != 20:
        raise ValueError(f"a public key hash is 20 bytes, not {len(hash160)}")
    return b"\x76\xa9\x14" + hash160 + b"\x88\xac"


def is_unspendable(script: bytes) -> bool:
    """Whether a locking script is data only: it begins with OP_RETURN, or OP_FALSE OP_RETURN."""
    return script[:1] == bytes((OP_RETURN,)) or script[:2] == bytes((OP_FALSE, OP_RETURN))
