"""A JSON-RPC answer whose result is one long string of hex, turned into bytes while it arrives."""

from __future__ import annotations

import binascii
import re

_OPENING = re.compile(rb'"result"\s*:\s*"')
_HEAD = 1024


class HexedError(ValueError):
    """An answer that is not a string of hex."""


class Hexed:
    """Takes the pieces of an answer, whatever their cuts, and gives the bytes that their hex digits say."""

    def __init__(self) -> None:
        self._head = b""
        self._odd = b""
        self._is_open = False
        self.is_whole = False

    def feed(self, piece: bytes) -> bytes:
        """The bytes said by the next piece. Raises HexedError."""
        if self.is_whole:
            return b""
        if not self._is_open:
            self._head += piece
            opening = _OPENING.search(self._head, 0, _HEAD)
            if opening is None:
                if len(self._head) >= _HEAD:
                    raise HexedError(f"no string of hex in {self._head[:60]!r}")
                return b""
            piece, self._head, self._is_open = self._head[opening.end() :], b"", True
        end = piece.find(b'"')
        if end >= 0:
            self.is_whole, piece = True, piece[:end]
        return self._decode(self._odd + piece)

    def _decode(self, digits: bytes) -> bytes:
        even = len(digits) & ~1
        self._odd = digits[even:]
        if self.is_whole and self._odd:
            raise HexedError("an odd number of hex digits")
        try:
            return binascii.unhexlify(digits[:even])
        except binascii.Error as error:
            raise HexedError(str(error)) from error
