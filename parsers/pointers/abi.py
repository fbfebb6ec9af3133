"""Decoding of Ethereum's contract ABI, as far as logs need it: words, addresses and dynamic bytes."""

from __future__ import annotations

from parsers.errors import ParseError

WORD = 32
"""Bytes of a word: an argument of fixed size is one word, a dynamic one has its offset in one."""


def word(data: bytes, number: int) -> bytes:
    """Word number `number` of the data, from 0 (32 bytes). Raises ParseError when the data are too short."""
    start = number * WORD
    if len(data) < start + WORD:
        raise ParseError(f"{len(data)} bytes, at least {start + WORD} are needed")
    return data[start : start + WORD]


def address(raw: bytes) -> str:
    """The address in a word, as `0x` and 40 lower-case hex digits. Raises ParseError for a word that is not an
    address."""
    if len(raw) != WORD or any(raw[:12]):
        raise ParseError(f"{raw[:WORD].hex()} is not an address")
    return f"0x{raw[12:].hex()}"


def dynamic(data: bytes, number: int, limit: int) -> bytes:
    """The bytes or string at the offset in word `number`, at most `limit` bytes.

    Raises ParseError for offsets and lengths beyond the data or the limit. The padding is ignored.
    """
    start = int.from_bytes(word(data, number), "big")
    if start > len(data) - WORD:
        raise ParseError("the string begins beyond the end")
    size = int.from_bytes(data[start : start + WORD], "big")
    if size > min(len(data) - start - WORD, limit):
        raise ParseError("the string runs past the end, or is too long")
    return data[start + WORD : start + WORD + size]
