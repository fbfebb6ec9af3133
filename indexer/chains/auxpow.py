"""Dogecoin's headers: 80 bytes and then, where a block was mined together with another chain's, that chain's work."""

from __future__ import annotations

from parsers import tx
from parsers.errors import BlockError

HEADER = 80
_AUXPOW = 0x100
_BRANCH_LIMIT = 64


def has_work_of_another(header: bytes) -> bool:
    """Whether the version of a header (80 bytes) says that another chain's proof of work follows it."""
    return bool(int.from_bytes(header[:4], "little") & _AUXPOW)


def end(raw: bytes, at: int = 0) -> int:
    """Where the header at byte `at` ends: behind its 80 bytes, and behind the work of another chain if it has that.

    That work is a coinbase, a hash, two merkle branches and a header of 80 bytes. Raises ParseError.
    """
    start, at = at, at + HEADER
    if has_work_of_another(raw[start : start + 4]):
        at += tx.read(raw, at).size + 32
        for _ in range(2):
            if at >= len(raw) or raw[at] > _BRANCH_LIMIT:
                raise BlockError("a merkle branch of the other chain's proof of work cannot be right", at)
            at += 1 + 32 * raw[at] + 4
        at += HEADER
    if at > len(raw):
        raise BlockError("a header, or the other chain's proof of work, runs past the end", at)
    return at


def bare(data: memoryview) -> memoryview:
    """A block without the other chain's work: the header is moved up to the transactions, in place where that may be
    written, else all is copied. Raises ParseError."""
    if not has_work_of_another(bytes(data[:4])):
        return data
    behind = end(bytes(data))
    if data.readonly:
        data = memoryview(bytearray(data))
    data[behind - HEADER : behind] = bytes(data[:HEADER])
    return data[behind - HEADER :]
