"""Ethereum's contract ABI, as far as logs need it: words, addresses, and dynamic bytes that strangers wrote."""

from __future__ import annotations

from parsers.errors import ParseError

WORD = 32
"""Bytes of a word: every argument of fixed size takes one, every dynamic one has its offset in one."""


def word(data: bytes, number: int) -> bytes:
    """Word `number` of the data, from 0. Raises ParseError when the data end before it does."""
    at = number * WORD
    if len(data) < at + WORD:
        raise ParseError(f"{len(data)} bytes, at least {at + WORD} are needed")
    return data[at : at + WORD]


def address(given: bytes) -> str:
    """The address in a word, as `0x` and 40 lower-case hex digits. Raises ParseError when the word is no address."""
    if len(given) != WORD or any(given[:12]):
        raise ParseError(f"{given[:WORD].hex()} is no address")
    return f"0x{given[12:].hex()}"


def dynamic(data: bytes, number: int, most: int) -> bytes:
    """The bytes or string whose offset stands in word `number`, at most `most` bytes.

    Raises ParseError when the data do not hold what they claim. What fills its last word is not looked at.
    """
    at = int.from_bytes(word(data, number), "big")
    if at > len(data) - WORD:
        raise ParseError("the string lies past the end")
    size = int.from_bytes(data[at : at + WORD], "big")
    if size > min(len(data) - at - WORD, most):
        raise ParseError("the string runs past the end, or is too long")
    return data[at + WORD : at + WORD + size]
