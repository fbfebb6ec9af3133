"""The body of a stranger's answer, within the limits of a fetch.

Law 9 hashes the raw body: the card's own bytes, as its publisher hashed his file. They are asked for as they are
(`Accept-Encoding: identity`); a host that compresses all the same has its one gzip coding undone, and no other.
"""

from __future__ import annotations

from collections.abc import AsyncIterable

from indexer import http_body
from indexer.fetching.limits import Limits
from indexer.fetching.reasons import FetchError


async def read(chunks: AsyncIterable[bytes], headers: dict[str, str], limits: Limits, most: int) -> bytes:
    """Join a body of at most `most` bytes, a content coding undone. Raises FetchError.

    Repeated `headers` are joined with commas.
    """
    bounds = http_body.Bounds(most, ratio=limits.ratio, pieces=limits.pieces)
    try:
        return await http_body.read(chunks, headers.items(), bounds)
    except http_body.BodyError as error:
        detail = "" if error.code == "framing" else error.detail
        raise FetchError(f"fetch-{error.code}", detail) from None
