"""The limits of a fetch, and the reading of the body of an answer within them.

These limits guard us and the hosts, and decide nothing about what is valid. Law 9 hashes the raw body: the card's own
bytes, as its publisher hashed his file. They are requested as they are (`Accept-Encoding: identity`); a host that
compresses all the same has its one gzip coding undone, and no other.
"""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import dataclass

from indexer import http_body
from indexer.fetcher.reasons import FetchError

PRODUCT = "a2b-registry"
"""The product token that a robots.txt may name."""

USER_AGENT = f"{PRODUCT}/1 (an indexer; fetches agent cards that A2B pointers on chains name; obeys robots.txt)"


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, bytes and counts. A card has at most 1 MiB (law 12): 2 MB suffice to report that it is larger."""

    resolve: float = 5.0
    connect: float = 8.0
    """Seconds from the start of resolving the name to the end of the TLS handshake."""
    first_byte: float = 10.0
    """Seconds from the request to the end of the answer's headers."""
    total: float = 30.0
    """Seconds for one URL, redirects included."""
    body: int = 2_000_000
    head_wire: int = 131_072
    """Bytes that may come before the body, early answers (1xx) included."""
    wire: int = 3_000_000
    """Bytes that may come as the body, with its framing."""
    pieces: int = 4_096
    """Pieces that a body may come in, and one more for each 64 bytes: each one costs us 10 µs."""
    ratio: int = 100
    """The size limit of a body that was compressed without being requested, as a multiple of the received bytes beyond
    64 kB."""
    header_bytes: int = 32_768
    header_count: int = 100
    redirects: int = 3
    addresses: int = 3
    """Addresses of a name that are tried, of both families in turn."""
    robots: int = 65_536


async def read_body(chunks: AsyncIterable[bytes], headers: dict[str, str], limits: Limits, most: int) -> bytes:
    """Join a body of at most `most` bytes, a content coding undone. Raises FetchError.

    Repeated `headers` are joined with commas.
    """
    bounds = http_body.Bounds(most, ratio=limits.ratio, pieces=limits.pieces)
    try:
        return await http_body.read(chunks, headers.items(), bounds)
    except http_body.BodyError as error:
        detail = "" if error.code == "framing" else error.detail
        raise FetchError(f"fetch-{error.code}", detail) from None
