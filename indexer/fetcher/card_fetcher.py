"""Fetches the card of a locator: which file of the host to try, and whether its bytes meet a pointer's hash or CID."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import sha256

from indexer.fetcher.connections import Admit
from indexer.fetcher.gateway import Gateway
from indexer.fetcher.http_fetcher import HttpFetcher, Validators, Visit, open_admit
from indexer.fetcher.reasons import TROUBLE, FetchError, Refusal
from parsers.pointers.locator import WELL_KNOWN

_ENDS = TROUBLE | {"fetch-address", "fetch-budget", "fetch-name", "fetch-no-gateway", "fetch-gateway"}
"""Codes about the host and not one file: the next file is not requested."""

_OTHER = frozenset(("fetch-mismatch", "fetch-html"))
_ABSENT = frozenset(("fetch-missing", "fetch-status"))


class CardState(Enum):
    """How a fetch ended."""

    MET = "met"
    """The bytes have the hash of a pointer, or, without one, the CID names them."""
    UNHASHED = "unhashed"
    """There is a card, and no hash to check it against."""
    UNCHANGED = "unchanged"
    """The host answered that the content accepted before is not modified. This meets no new anchor."""
    MISMATCH = "mismatch"
    """The content has another hash. Never listed."""
    FAILED = "failed"
    """There is no content; the refusal is the reason."""


@dataclass(frozen=True, slots=True)
class PriorResponse:
    """The response that a URL served before: the SHA-256 (32 bytes) of its body, and the validators for a conditional
    fetch."""

    digest: bytes
    validators: Validators


async def _none(_: bytes) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class CardRequest:
    """The hashes in the anchors of a locator: SHA-256 (32 bytes each), the newest first; `hashless` is whether an
    anchor has none, so any card is accepted; `more` is whether a SHA-256 is among further ones that are too many to
    list."""

    digests: tuple[bytes, ...] = ()
    hashless: bool = False
    more: Callable[[bytes], Awaitable[bool]] = _none

    async def has(self, digest: bytes) -> bool:
        """Whether an anchor names this SHA-256."""
        return digest in self.digests or (bool(self.digests) and await self.more(digest))

    def settled(self, digest: bytes | None) -> bool:
        """Whether a card with this SHA-256 is the best possible result."""
        return digest == self.digests[0] if self.digests else True


@dataclass(frozen=True, slots=True)
class Attempt:
    """One URL requested for a card. Times in Unix seconds; `digest` is the SHA-256 of the raw body (of the earlier one
    where it is not modified); `final_url` is the last of the redirects, `address` the address of the connection.
    `state` is met, unhashed or unchanged where the content was accepted, `by` is then the way in which it was met:
    sha256 or cid; `body` is set when it is met or unhashed."""

    url: str
    begun: float
    ended: float = 0.0
    final_url: str = ""
    address: str = ""
    size: int = 0
    digest: bytes | None = None
    validators: Validators | None = None
    refusal: Refusal | None = None
    retry_after: float | None = None
    state: CardState | None = None
    by: str = ""
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class CardFetch:
    """The result of fetching a locator. An anchor is met only by a fetch `begun` after it was first seen (law 9)."""

    locator: str
    attempts: tuple[Attempt, ...]
    request: CardRequest

    @property
    def begun(self) -> float:
        """When the first request was begun, in Unix seconds."""
        return self.attempts[0].begun

    @property
    def accepted(self) -> Attempt | None:
        """The attempt with accepted bytes, preferably those that the newest anchor names; None without one."""
        good = [attempt for attempt in self.attempts if attempt.state]
        return min(good, key=self._preference) if good else None

    def _preference(self, attempt: Attempt) -> int:
        digests = self.request.digests
        return digests.index(attempt.digest) if attempt.digest in digests else len(digests) + (attempt.by != "sha256")

    @property
    def state(self) -> CardState:
        """How it ended."""
        if self.accepted is not None:
            return self.accepted.state or CardState.FAILED
        other = any(attempt.refusal and attempt.refusal.code in _OTHER for attempt in self.attempts)
        return CardState.MISMATCH if other else CardState.FAILED

    @property
    def served(self) -> tuple[Attempt, ...]:
        """The attempts with content, the accepted one first: the bytes that the locator serves now, to detect drift."""
        best = self.accepted
        return tuple(
            sorted(
                (attempt for attempt in self.attempts if attempt.digest is not None),
                key=lambda attempt: attempt != best,
            )
        )

    @property
    def refusal(self) -> Refusal | None:
        """The most important reason, None when a card was accepted: other bytes, then a failing host, then a missing
        file."""
        if self.accepted is not None:
            return None
        refusals = [attempt.refusal for attempt in self.attempts if attempt.refusal]
        return min(refusals, key=lambda refusal: (refusal.code not in _OTHER, refusal.code in _ABSENT))

    @property
    def error(self) -> FetchError | None:
        """The refusal of the last attempt as an error, for the schedule."""
        last = self.attempts[-1]
        return FetchError(*last.refusal, last.retry_after) if last.refusal else None


class CardFetcher:
    """Fetches cards by locator; `clock` gives Unix seconds."""

    def __init__(
        self, fetcher: HttpFetcher, gateway: Gateway | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._fetcher, self._gateway, self._clock = fetcher, gateway, clock

    async def fetch_card(
        self,
        locator: str,
        request: CardRequest,
        previous: Mapping[str, PriorResponse] | None = None,
        *,
        admit: Admit = open_admit,
    ) -> CardFetch:
        """Fetch the card of a locator: a domain (agent.json, then agent-card.json), an https URI, or `ipfs://`.

        The second file of a domain is requested unless the first is what the newest anchor names, or, where none names
        a hash, a card. `previous` is what each URL served before. Never raises FetchError: refusals are in the result.
        """
        if locator.startswith("ipfs://"):
            return CardFetch(locator, (await self._from_ipfs(locator, request),), request)
        urls = [locator] if "://" in locator else [f"https://{locator}{path}" for path in WELL_KNOWN]
        attempts: list[Attempt] = []
        async with self._fetcher.visit(admit) as visit:
            for url in urls:
                attempt = await self._attempt(visit, url, (previous or {}).get(url), request)
                attempts.append(attempt)
                if attempt.state and request.settled(attempt.digest):
                    break
                if attempt.refusal is not None and attempt.refusal.code in _ENDS:
                    break
        return CardFetch(locator, tuple(attempts), request)

    async def _attempt(self, visit: Visit, url: str, before: PriorResponse | None, request: CardRequest) -> Attempt:
        attempt = Attempt(url, self._clock())
        try:
            answer = await visit.get(url, before.validators if before else None)
        except FetchError as error:
            refused = replace(attempt, ended=self._clock(), address=visit.address, refusal=error.refusal)
            return replace(refused, retry_after=error.retry_after)
        digest = before.digest if answer.body is None and before else sha256(answer.body or b"").digest()
        got = replace(
            attempt,
            ended=self._clock(),
            final_url=answer.url,
            address=answer.address,
            size=len(answer.body or b""),
            digest=digest,
            validators=answer.validators,
        )
        return await _judged(got, answer.body, request)

    async def _from_ipfs(self, locator: str, request: CardRequest) -> Attempt:
        attempt = Attempt(locator, self._clock())
        try:
            if self._gateway is None:
                raise FetchError("fetch-no-gateway")
            body, verified, url = await self._gateway.fetch(locator)
        except FetchError as error:
            return replace(attempt, ended=self._clock(), refusal=error.refusal)
        got = replace(attempt, ended=self._clock(), final_url=url, size=len(body), digest=sha256(body).digest())
        judged = await _judged(got, body, request)
        if judged.state is CardState.UNHASHED and verified:
            return replace(judged, state=CardState.MET, by="cid")
        return judged


async def _judged(got: Attempt, body: bytes | None, request: CardRequest) -> Attempt:
    """An attempt with its state, or the refusal of its bytes; `body` is None when it is not modified."""
    if got.digest is not None and await request.has(got.digest):
        by = "sha256"
    elif request.hashless:
        by = ""
    else:
        code = "fetch-html" if body is not None and body.lstrip()[:1] == b"<" else "fetch-mismatch"
        return replace(got, refusal=Refusal(code, _difference(got.digest, request)))
    if body is None:
        return replace(got, state=CardState.UNCHANGED, by=by)
    if by:
        return replace(got, state=CardState.MET, by=by, body=body)
    # many hosts answer every path with their front page: the other file may still be the card
    if body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
        return replace(got, refusal=Refusal("fetch-not-json"))
    return replace(got, state=CardState.UNHASHED, body=body)


def _difference(served: bytes | None, request: CardRequest) -> str:
    """The SHA-256 of the content, and the expected one."""
    actual = served.hex() if served else "unknown"
    return f"{actual}, and the newest pointer names {request.digests[0].hex()}" if request.digests else actual
