"""Key sets that verify the signatures of cards: fetched only from the host of the card's url or from a domain above it.

A signer chooses the `jku` of a signature. A key set anywhere else would let anyone sign a card in the name of its host
(a2aproject/A2A#2096). Without a `jku` it is `/.well-known/jwks.json` of the card's host.
"""

from __future__ import annotations

import asyncio

from indexer.fetcher.budgets import registrable
from indexer.fetcher.connections import Admit
from indexer.fetcher.http_fetcher import HttpFetcher, open_admit
from indexer.fetcher.reasons import FetchError
from indexer.fetcher.schedule import Priority
from indexer.store import Store, Writer, visits
from indexer.store.card_signatures import KEYS_CHECK, SignatureVerdict, SignedCard
from parsers.claims import card_signature
from parsers.claims.json_web_key import Key, key_set
from parsers.errors import ParseError
from parsers.pointers.locator import host_of, is_web_url

WELL_KNOWN_KEYS = "/.well-known/jwks.json"
MAX_URL = 2_048
MAX_BYTES = 262_144
BATCH, MAX_CARDS = 16, 160
"""Cards checked in one step, and by one fetch of their key set: each takes 2 to 6 ms (14 kB), at worst
0.6 s (0.7 MB, four signatures, four keys). More are due later."""


def signed_card(digest: bytes, body: bytes, host: str) -> SignedCard | None:
    """The key set to fetch for a card (SHA-256) with a url at `host`; None for a card without signatures."""
    card = card_signature.signed_card(body)
    if card is None:
        return None
    signatures = card_signature.signatures(card)
    if not signatures:
        return SignedCard(digest, "", "malformed-signature")
    for signature in signatures:
        if url := key_set_url(signature.jku, host):
            return SignedCard(digest, url)
    return SignedCard(digest, "", "key-set-elsewhere")


def key_set_url(jku: str, host: str) -> str:
    """The URL of the key set for a card at `host`; "" where it may not be fetched."""
    if not host:
        return ""
    if not jku:
        return f"https://{host}{WELL_KNOWN_KEYS}"
    if not jku.startswith("https://") or len(jku) > MAX_URL or not is_web_url(jku):
        return ""
    owner = host_of(jku)
    is_above = host.endswith(f".{owner}") and registrable(owner) == registrable(host)
    return jku if owner == host or is_above else ""


class KeySetVerifier:
    """Fetches key sets, and stores the results for the cards that name them."""

    kind, priority = KEYS_CHECK, Priority.BADGE

    def __init__(self, fetcher: HttpFetcher, store: Store, writer: Writer) -> None:
        self._fetcher, self._store, self._writer = fetcher, store, writer

    async def check(self, url: str, now: int, admit: Admit = open_admit) -> tuple[int, FetchError | None]:
        """Fetch a key set and check the cards that are due (`now` in milliseconds since 1970). Raises FetchError,
        StoreError."""
        keys = _keys((await self._fetcher.get(url, same_host=True, admit=admit)).body or b"")
        changed = 0
        for _ in range(MAX_CARDS // BATCH):
            number, announced = await asyncio.to_thread(self._check, url, keys, now)
            changed += announced
            if number < BATCH:
                break
        return changed, None

    async def fail(self, url: str, reason: str, now: int) -> int:
        """Store why a key set was not fetched; returns how many listings may have changed. Raises StoreError."""
        return await asyncio.to_thread(visits.fail_key_set, self._writer, url, reason, now)

    def _check(self, url: str, keys: tuple[Key, ...], now: int) -> tuple[int, int]:
        due = self._store.signatures.due_cards(url, now, BATCH)
        verdicts = [_verdict(digest, body, url, keys) for digest, body in due.items()]
        return len(due), visits.record_signatures(self._writer, verdicts, now) if verdicts else 0


def _keys(body: bytes) -> tuple[Key, ...]:
    """The keys of a set. Raises FetchError."""
    if len(body) > MAX_BYTES:
        raise FetchError("fetch-size", f"{MAX_BYTES:,} bytes")
    try:
        return key_set(body)
    except ParseError:
        raise FetchError("fetch-not-json") from None


def _verdict(digest: bytes, body: bytes, url: str, keys: tuple[Key, ...]) -> SignatureVerdict:
    check = card_signature.verify(card_signature.signed_card(body) or {}, keys)
    if not check.verified:
        return SignatureVerdict(digest, reason=check.code)
    return SignatureVerdict(digest, host_of(url), check.kid[:256], check.form, check.covers_pricing)
