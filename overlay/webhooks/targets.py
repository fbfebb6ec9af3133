"""Requests to the targets of subscriptions, through the fetcher for strangers' hosts, each signed with this server's
Ed25519 key as the Standard Webhooks specification says (https://www.standardwebhooks.com)."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from base64 import b64encode
from collections.abc import Callable
from hmac import compare_digest

from indexer.fetcher.addresses import Address, block_of
from indexer.fetcher.budgets import Budgets, VisitRates, registrable
from indexer.fetcher.connections import Admit
from indexer.fetcher.http_fetcher import HttpFetcher, PostAnswer, open_admit
from indexer.fetcher.limits import PRODUCT, Limits
from indexer.fetcher.reasons import FetchError
from indexer.fetcher.target import target
from overlay.text.compact_json import encode

LIMITS = Limits(connect=5.0, first_byte=10.0, total=15.0)
MAX_REPLY = 4_096
"""Bytes of the answer to a challenge."""

AT_ONCE = 32
"""Challenges under way."""

_HEADERS = {"User-Agent": f"{PRODUCT}/1 (webhooks)"}


class ChallengeError(Exception):
    """A target did not return the challenge; the message says what it did."""


class Targets:
    """`sign` makes Ed25519 signatures (64 bytes), `open_fetcher` builds the fetcher, which takes a while, in a thread.
    `clock` gives Unix seconds."""

    def __init__(
        self,
        open_fetcher: Callable[[Limits], HttpFetcher],
        sign: Callable[[bytes], bytes],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._open_fetcher, self._sign, self._clock = open_fetcher, sign, clock
        self._fetcher: HttpFetcher | None = None
        self._opening = asyncio.Lock()
        self._budgets = Budgets(VisitRates())
        self._challenges = 0

    async def _ready(self) -> HttpFetcher:
        async with self._opening:
            if self._fetcher is None:
                self._fetcher = await asyncio.to_thread(self._open_fetcher, LIMITS)
            return self._fetcher

    async def check(self, url: str) -> str:
        """A URL in canonical form. Raises FetchError for one that nothing is sent to."""
        return target(url, (await self._ready()).table).url

    async def post(
        self, url: str, message_id: str, body: bytes, *, most: int = 0, admit: Admit = open_admit
    ) -> PostAnswer:
        """Send a signed message; `most` bytes of the answer are read. Raises FetchError."""
        headers = _HEADERS | signature_headers(self._sign, message_id, int(self._clock()), body)
        async with (await self._ready()).visit(admit) as visit:
            return await visit.post(url, body, headers, most)

    async def challenge(self, url: str) -> None:
        """Have a target return a random text, so that nobody subscribes a host that does not expect it. Raises
        ChallengeError, and FetchError, also where the host was challenged often lately (`fetch-budget`)."""
        domain, now = registrable(target(url, (await self._ready()).table).host), self._clock()
        if self._challenges >= AT_ONCE or (wait := self._budgets.domain_free_at(domain) - now) > 0:
            wait = 5.0 if self._challenges >= AT_ONCE else wait
            raise FetchError("fetch-budget", f"{wait:.0f} s", wait)
        self._budgets.spend_domain(domain, now)
        text = secrets.token_urlsafe(32)
        body = encode({"type": "subscription.challenge", "challenge": text})
        self._challenges += 1
        try:
            answer = await self.post(url, f"challenge-{text[:16]}", body, most=MAX_REPLY, admit=self._admit)
        finally:
            self._challenges -= 1
        if not 200 <= answer.status < 300:
            raise ChallengeError(f"the target answers the challenge with status {answer.status}")
        if not compare_digest(_echo(answer.body), text.encode()):
            raise ChallengeError("the target answers, and not with the challenge")

    def _admit(self, _host: str, address: Address) -> None:
        block, now = block_of(address), self._clock()
        if (wait := self._budgets.block_free_at(block) - now) > 0:
            raise FetchError("fetch-budget", f"{wait:.0f} s", wait)
        self._budgets.spend_block(block, now)


def _echo(body: bytes) -> bytes:
    """The challenge in an answer: as it is, or as the member `challenge` of a JSON object."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return body.strip()
    text = document.get("challenge") if isinstance(document, dict) else None
    return text.encode("utf-8", "replace") if isinstance(text, str) else body.strip()


def signature_headers(sign: Callable[[bytes], bytes], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a message: its id, when it was sent (Unix seconds), and the signature of both and of the body."""
    signature = b64encode(sign(f"{message_id}.{timestamp}.".encode() + body)).decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1a,{signature}",
    }


def public_key_text(key: bytes) -> str:
    """An Ed25519 public key as Standard Webhooks writes it."""
    return f"whpk_{b64encode(key).decode()}"
