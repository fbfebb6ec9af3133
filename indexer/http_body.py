"""Reads the body of an HTTP answer within bounds: length, content coding, expansion ratio and framing.

All HTTP clients read bodies through this, with decoding by their library switched off: libraries undo as many content
codings as a server names, without a bound. Clients bound the time.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable, Iterable
from dataclasses import dataclass

_GZIP = frozenset(("gzip", "x-gzip"))  # equivalent (RFC 9110 §8.4.1.3)
_GZIP_WINDOW = 31
_FREE = 65_536
"""Bytes that a body may expand to at any ratio: a small card of blanks is not an attack."""


class BodyError(Exception):
    """A body that breaks its bounds. `code` is size, coding, ratio or framing; `detail` is the bound, or the header."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(_SENTENCES[code].format(detail))
        self.code, self.detail = code, detail


_SENTENCES = {
    "size": "more than {}",
    "coding": "a content coding that is not accepted: {}",
    "ratio": "a body that expands more than {} times",
    "framing": "a body in tiny pieces ({})",
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bytes that a body may have, decoded; whether one gzip coding is undone (else none is accepted); how many times
    the bytes received it may expand to, beyond 64 kB (None: only `size` counts); and pieces that it may come in, and
    one more for each 64 bytes, as each costs some 10 µs."""

    size: int
    gzip: bool = True
    ratio: int | None = None
    pieces: int = 4_096


class BoundedBody:
    """A body that arrives chunk by chunk. `headers` are those of the answer. Every method raises BodyError."""

    def __init__(self, headers: Iterable[tuple[str, str]], bounds: Bounds) -> None:
        self._bounds = bounds
        self._pieces = self._received = 0
        self._body = bytearray()
        lengths, codings = _framing(headers)
        if any(int(length[:20]) > bounds.size for length in lengths if length.isascii() and length.isdigit()):
            raise self._too_large()
        self._inflate = None
        if codings:
            if len(codings) > 1 or codings[0] not in _GZIP or not bounds.gzip:
                raise BodyError("coding", ascii(", ".join(codings))[1:-1][:80])
            self._inflate = zlib.decompressobj(_GZIP_WINDOW)

    def add(self, chunk: bytes) -> None:
        """Take the next received bytes."""
        self._pieces, self._received = self._pieces + 1, self._received + len(chunk)
        if self._pieces > self._bounds.pieces + self._received // 64:
            raise BodyError("framing", f"{self._pieces:,} of {self._received:,} bytes")
        self._body += chunk if self._inflate is None else self._inflated(self._inflate, chunk)
        if len(self._body) > self._bounds.size:
            raise self._too_large()

    def finish(self) -> bytes:
        """The whole body, decoded."""
        if self._inflate is not None and not self._inflate.eof:
            raise BodyError("coding", "gzip that is cut short")
        return bytes(self._body)

    def _inflated(self, inflate: zlib._Decompress, chunk: bytes) -> bytes:
        size, ratio = self._bounds.size, self._bounds.ratio
        allowed = size if ratio is None else min(size, max(_FREE, ratio * self._received))
        try:
            data = inflate.decompress(chunk, allowed + 1 - len(self._body))
        except zlib.error as error:
            raise BodyError("coding", f"gzip that is broken: {error}") from None
        if allowed < size and len(self._body) + len(data) > allowed:
            raise BodyError("ratio", str(ratio))
        if inflate.unused_data:
            raise BodyError("coding", "gzip with more bytes after its end")
        return data

    def _too_large(self) -> BodyError:
        return BodyError("size", f"{self._bounds.size:,} bytes")


def _framing(headers: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """The values of Content-Length and of Content-Encoding, without those that change nothing."""
    lengths, codings = [], []
    for name, value in headers:
        if name.lower() == "content-length":
            lengths.append(value)
        elif name.lower() == "content-encoding":
            codings += [
                coding for coding_ in value.split(",") if (coding := coding_.strip().lower()) not in ("", "identity")
            ]
    return lengths, codings


async def read(chunks: AsyncIterable[bytes], headers: Iterable[tuple[str, str]], bounds: Bounds) -> bytes:
    """The body that these chunks make up, decoded. Raises BodyError, and the errors of the chunks."""
    body = BoundedBody(headers, bounds)
    async for chunk in chunks:
        body.add(chunk)
    return body.finish()


def check_uncoded(headers: Iterable[tuple[str, str]]) -> None:
    """Raise BodyError where a content coding is on a body that is streamed on as it comes."""
    BoundedBody((header for header in headers if header[0].lower() != "content-length"), Bounds(0, gzip=False))
