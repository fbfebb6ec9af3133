"""Decodes a JSON-RPC response with one long hex string as its result while it arrives."""

from __future__ import annotations

import binascii
import re

_OPENING = re.compile(rb'"result"\s*:\s*"')
_HEAD = 1024


class HexError(ValueError):
    """A response that is not a hex string."""


class HexDecoder:
    """Decodes the pieces of a response, cut anywhere, into the bytes of its hex digits."""

    def __init__(self) -> None:
        self._head = b""
        self._odd = b""
        self._is_open = False
        self.is_whole = False

    def feed(self, piece: bytes) -> bytes:
        """The bytes of the next piece. Raises HexError."""
        if self.is_whole:
            return b""
        if not self._is_open:
            self._head += piece
            opening = _OPENING.search(self._head, 0, _HEAD)
            if opening is None:
                if len(self._head) >= _HEAD:
                    raise HexError(f"no string of hex in {self._head[:60]!r}")
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
            raise HexError("an odd number of hex digits")
        try:
            return binascii.unhexlify(digits[:even])
        except binascii.Error as error:
            raise HexError(str(error)) from error
