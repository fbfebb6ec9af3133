"""Whether a domain serves the card that a pointer to it states."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import sha256

from indexer.fetcher.reasons import FetchError
from parsers.pointers.locator import WELL_KNOWN


async def served_difference(fetch: Callable[[str], Awaitable[bytes]], domain: str, card: bytes) -> str:
    """How what a domain serves differs from a card, in words; "" where it is the same bytes. `fetch` raises
    FetchError."""
    for path in WELL_KNOWN:
        url = f"https://{domain}{path}"
        try:
            body = await fetch(url)
        except FetchError as error:
            if error.refusal.code == "fetch-missing" and path != WELL_KNOWN[-1]:
                continue
            return f"{url} could not be fetched: {error.refusal.sentence}"
        if body == card:
            return ""
        served, stated = (f"{len(text):,}, SHA-256 {sha256(text).hexdigest()[:16]}…" for text in (body, card))
        end = " but at its end" if body.rstrip() == card.rstrip() else ""
        return f"{url} serves other bytes ({served}) than the file ({stated}){end and f', the same{end}'}"
    return ""
