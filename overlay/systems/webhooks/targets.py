"""Requests to the targets of webhooks, through the fetcher for strangers' hosts. Each is signed with this server's
Ed25519 key by the Standard Webhooks specification (https://www.standardwebhooks.com)."""

from __future__ import annotations

import secrets
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from hmac import compare_digest, digest

from indexer.fetcher.connections import Admit
from indexer.fetcher.http_fetcher import PostAnswer, open_admit
from indexer.fetcher.limits import PRODUCT
from indexer.fetcher.on_demand import OnDemandFetcher
from overlay.text.compact_json import encode
from parsers.cards import strict_json
from parsers.errors import ParseError
from parsers.json_records import JsonObject, convert

MAX_REPLY = 4_096
"""Bytes of the answer to a challenge."""

_HEADERS = {"User-Agent": f"{PRODUCT}/1 (webhooks)"}


class ChallengeError(Exception):
    """A target did not answer the challenge; the message gives its answer."""


class _ChallengeJson(JsonObject):
    challenge: str


class Targets:
    """`sign` makes Ed25519 signatures (64 bytes)."""

    def __init__(self, visits: OnDemandFetcher, sign: Callable[[bytes], bytes]) -> None:
        self._visits, self._sign = visits, sign

    async def check(self, url: str) -> str:
        """A URL in canonical form. Raises FetchError for a URL to which nothing is sent."""
        return (await self._visits.target(url)).url

    async def post(
        self, url: str, message_id: str, body: bytes, *, most: int = 0, admit: Admit = open_admit
    ) -> PostAnswer:
        """Send a signed message; `most` bytes of the answer are read. Raises FetchError."""
        headers = _HEADERS | signature_headers(self._sign, message_id, int(self._visits.clock()), body)
        async with (await self._visits.ready()).visit(admit) as visit:
            return await visit.post(url, body, headers, most)

    async def challenge(self, url: str, key: str) -> None:
        """Require that a target answers a random text with `challenge_answer`: a host that does not expect deliveries
        cannot be subscribed, not even one that echoes its requests. Raises ChallengeError, and FetchError, also after
        too many recent challenges to the host (`fetch-budget`)."""
        text = secrets.token_urlsafe(32)
        body = encode({"type": "subscription.challenge", "challenge": text})
        async with self._visits.visit((await self._visits.target(url)).host) as admit:
            answer = await self.post(url, f"challenge-{text[:16]}", body, most=MAX_REPLY, admit=admit)
        if not 200 <= answer.status < 300:
            raise ChallengeError(f"the target answers the challenge with status {answer.status}")
        if not compare_digest(_answered(answer.body), challenge_answer(text, key)):
            raise ChallengeError(
                "the target does not answer with the Base64 of the HMAC-SHA256 of the challenge under the key"
            )


def challenge_answer(text: str, key: str) -> bytes:
    """The answer of a target to a challenge: the HMAC-SHA256 of its text under the key (both as UTF-8), in Base64."""
    return b64encode(digest(key.encode(), text.encode(), sha256))


def _answered(body: bytes) -> bytes:
    """The answer to a challenge: the whole body, or the member `challenge` of a JSON object."""
    try:
        return convert(strict_json.answer(body), _ChallengeJson).challenge.encode("utf-8", "replace")
    except ParseError:
        return body.strip()


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
