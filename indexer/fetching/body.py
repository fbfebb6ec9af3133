"""The body of an answer within its limits: size, and what it expands to where it was compressed unasked.

Law 9 hashes the raw body: the card's own bytes, as its publisher hashed his file. They are asked for as they are
(`Accept-Encoding: identity`); a host that compresses all the same has its one coding undone, and no other.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable
from typing import Protocol

from indexer.fetching.limits import Limits
from indexer.fetching.reasons import FetchError, shown

_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_FREE = 65_536
"""Bytes that a body may expand to at any ratio: a small card of blanks is no bomb."""


async def read(chunks: AsyncIterable[bytes], headers: dict[str, str], limits: Limits, most: int) -> bytes:
    """Join a body of at most `most` bytes, a content coding undone. Raises FetchError.

    `headers` are in lower case, repeated ones joined with commas.
    """
    told = headers.get("content-length", "")
    if told.isascii() and told.isdigit() and int(told[:20]) > most:
        raise FetchError("fetch-size", f"{most:,} bytes")
    into = _coding(headers.get("content-encoding", ""), limits, most)
    pieces = taken = 0
    async for chunk in chunks:
        pieces, taken = pieces + 1, taken + len(chunk)
        if pieces > limits.pieces + taken // 64:
            raise FetchError("fetch-framing")
        into.add(chunk)
    return into.finish()


class _Sink(Protocol):
    def add(self, chunk: bytes) -> None: ...
    def finish(self) -> bytes: ...


def _coding(header: str, limits: Limits, most: int) -> _Sink:
    names = [name for part in header.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    if not names:
        return _Plain(most)
    if len(names) > 1 or names[0] not in _WINDOWS:
        raise FetchError("fetch-coding", shown(header, 80))
    return _Inflated(names[0], limits, most)


class _Plain:
    def __init__(self, most: int) -> None:
        self._body, self._most = bytearray(), most

    def add(self, chunk: bytes) -> None:
        self._body += chunk
        if len(self._body) > self._most:
            raise FetchError("fetch-size", f"{self._most:,} bytes")

    def finish(self) -> bytes:
        return bytes(self._body)


class _Inflated:
    def __init__(self, name: str, limits: Limits, most: int) -> None:
        self._name, self._ratio, self._most = name, limits.ratio, most
        self._inflate = zlib.decompressobj(_WINDOWS[name])
        self._body, self._taken = bytearray(), 0

    def add(self, chunk: bytes) -> None:
        self._taken += len(chunk)
        allowed = min(self._most, max(_FREE, self._ratio * self._taken))
        try:
            self._body += self._inflate.decompress(chunk, allowed + 1 - len(self._body))
        except zlib.error as error:
            raise FetchError("fetch-coding", f"{self._name} that is broken: {shown(str(error))}") from None
        if len(self._body) > self._most:
            raise FetchError("fetch-size", f"{self._most:,} bytes")
        if len(self._body) > allowed:
            raise FetchError("fetch-ratio", str(self._ratio))
        if self._inflate.unused_data:
            raise FetchError("fetch-coding", f"{self._name} with more bytes after its end")

    def finish(self) -> bytes:
        if not self._inflate.eof:
            raise FetchError("fetch-coding", f"{self._name} that is cut short")
        return bytes(self._body)
