"""From a locator to a card whose bytes are the ones pointed at: which file of a host it is, and by what it was met."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import sha256

from indexer.fetching.fetcher import Fetcher, Validators, Visit, open_admit
from indexer.fetching.gateway import Gateway
from indexer.fetching.network import Admit
from indexer.fetching.reasons import TROUBLE, FetchError, Refusal
from parsers.locator import WELL_KNOWN

_ENDS = TROUBLE | {"fetch-address", "fetch-budget", "fetch-name", "fetch-no-gateway", "fetch-gateway"}
"""Codes that speak of the host and not of one file: the next file is not asked for."""

_OTHER = frozenset(("fetch-mismatch", "fetch-html"))
_ABSENT = frozenset(("fetch-missing", "fetch-status"))


class State(Enum):
    """How a fetch ended."""

    MET = "met"
    """The bytes have the hash pointed at, or, without one, are what the CID names."""
    UNHASHED = "unhashed"
    """There is a card, and no hash to hold it to."""
    UNCHANGED = "unchanged"
    """The host says that what it served before, which was accepted then, is unmodified. This meets no new anchor."""
    MISMATCH = "mismatch"
    """What is served is something else. Never to be listed."""
    FAILED = "failed"
    """Nothing came of it; the refusal says why."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a URL served before: the SHA-256 (32 bytes) of its body, and what makes the next fetch conditional."""

    digest: bytes
    validators: Validators


async def _none(_: bytes) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a locator's anchors name: SHA-256 (32 bytes each), the newest first; `hashless`, whether one names none, so
    that any card will do; `more` says whether a SHA-256 is among those that are too many to be listed."""

    digests: tuple[bytes, ...] = ()
    hashless: bool = False
    more: Callable[[bytes], Awaitable[bool]] = _none

    async def has(self, digest: bytes) -> bool:
        """Whether an anchor names this SHA-256."""
        return digest in self.digests or (bool(self.digests) and await self.more(digest))

    def settled(self, digest: bytes | None) -> bool:
        """Whether nothing better than this SHA-256 can be served."""
        return digest == self.digests[0] if self.digests else True


ANYTHING = Wanted(hashless=True)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One URL that was asked for a card. Times in Unix seconds; `digest` is SHA-256 of the raw body that came (or, not
    modified, of the one that came before); `final_url` is where redirects ended, `address` what was connected to.
    `state` is met, unhashed or unchanged where it was accepted, `by` then says what met it: sha256 or cid; `body` is
    there when it is met or unhashed."""

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
    state: State | None = None
    by: str = ""
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came of a locator. An anchor is met only by a fetch `begun` after it was first seen (law 9)."""

    locator: str
    attempts: tuple[Attempt, ...]
    wanted: Wanted

    @property
    def begun(self) -> float:
        """When the first request was begun, in Unix seconds."""
        return self.attempts[0].begun

    @property
    def accepted(self) -> Attempt | None:
        """The attempt whose bytes were accepted, what the newest anchor names before all others: it says which file of
        the host matched."""
        good = [attempt for attempt in self.attempts if attempt.state]
        return min(good, key=self._place) if good else None

    def _place(self, attempt: Attempt) -> int:
        digests = self.wanted.digests
        return digests.index(attempt.digest) if attempt.digest in digests else len(digests) + (attempt.by != "sha256")

    @property
    def state(self) -> State:
        """How it ended."""
        if self.accepted is not None:
            return self.accepted.state or State.FAILED
        other = any(attempt.refusal and attempt.refusal.code in _OTHER for attempt in self.attempts)
        return State.MISMATCH if other else State.FAILED

    @property
    def body(self) -> bytes | None:
        """The bytes that were accepted, None where none were, or they are as before."""
        return self.accepted.body if self.accepted else None

    @property
    def by(self) -> str:
        """What met it: sha256 or cid, "" for nothing."""
        return self.accepted.by if self.accepted else ""

    @property
    def served(self) -> tuple[Attempt, ...]:
        """The attempts that brought bytes, what was accepted first: what the locator serves now, for drift."""
        best = self.accepted
        return tuple(sorted((each for each in self.attempts if each.digest is not None), key=lambda each: each != best))

    @property
    def refusal(self) -> Refusal | None:
        """The most telling reason, None when a card was accepted: other bytes, then trouble, then nothing there."""
        if self.accepted is not None:
            return None
        found = [attempt.refusal for attempt in self.attempts if attempt.refusal]
        return min(found, key=lambda each: (each.code not in _OTHER, each.code in _ABSENT))

    @property
    def error(self) -> FetchError | None:
        """The last attempt's refusal as the error that a schedule is told."""
        last = self.attempts[-1]
        return FetchError(*last.refusal, last.retry_after) if last.refusal else None


class CardFetcher:
    """Fetches cards by locator; `clock` gives Unix seconds."""

    def __init__(
        self, fetcher: Fetcher, gateway: Gateway | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._fetcher, self._gateway, self._clock = fetcher, gateway, clock

    async def fetch_card(
        self, locator: str, wanted: Wanted, known: Mapping[str, Known] | None = None, *, admit: Admit = open_admit
    ) -> Fetched:
        """Fetch the card of a locator: a domain (agent.json, then agent-card.json), an https URI, or `ipfs://`.

        The second file of a domain is asked for unless the first is what the newest anchor names, or, where none names
        a hash, a card. `known` is what each URL served before. Never raises FetchError: refusals are in the answer.
        """
        if locator.startswith("ipfs://"):
            return Fetched(locator, (await self._from_ipfs(locator, wanted),), wanted)
        urls = [locator] if "://" in locator else [f"https://{locator}{path}" for path in WELL_KNOWN]
        attempts: list[Attempt] = []
        async with self._fetcher.visit(admit) as visit:
            for url in urls:
                attempt = await self._attempt(visit, url, (known or {}).get(url), wanted)
                attempts.append(attempt)
                if attempt.state and wanted.settled(attempt.digest):
                    break
                if attempt.refusal is not None and attempt.refusal.code in _ENDS:
                    break
        return Fetched(locator, tuple(attempts), wanted)

    async def _attempt(self, visit: Visit, url: str, before: Known | None, wanted: Wanted) -> Attempt:
        asked = Attempt(url, self._clock())
        try:
            answer = await visit.get(url, before.validators if before else None)
        except FetchError as error:
            refused = replace(asked, ended=self._clock(), address=visit.address, refusal=error.refusal)
            return replace(refused, retry_after=error.retry_after)
        digest = before.digest if answer.body is None and before else sha256(answer.body or b"").digest()
        got = replace(
            asked,
            ended=self._clock(),
            final_url=answer.url,
            address=answer.address,
            size=len(answer.body or b""),
            digest=digest,
            validators=answer.validators,
        )
        return await _judged(got, answer.body, wanted)

    async def _from_ipfs(self, locator: str, wanted: Wanted) -> Attempt:
        asked = Attempt(locator, self._clock())
        try:
            if self._gateway is None:
                raise FetchError("fetch-no-gateway")
            body, verified, url = await self._gateway.fetch(locator)
        except FetchError as error:
            return replace(asked, ended=self._clock(), refusal=error.refusal)
        got = replace(asked, ended=self._clock(), final_url=url, size=len(body), digest=sha256(body).digest())
        judged = await _judged(got, body, wanted)
        if judged.state is State.UNHASHED and verified:
            return replace(judged, state=State.MET, by="cid")
        return judged


async def _judged(got: Attempt, body: bytes | None, wanted: Wanted) -> Attempt:
    """An attempt with how its bytes are taken, or why they are not; `body` is None when they are as before."""
    if got.digest is not None and await wanted.has(got.digest):
        by = "sha256"
    elif wanted.hashless:
        by = ""
    else:
        code = "fetch-html" if body is not None and body.lstrip()[:1] == b"<" else "fetch-mismatch"
        return replace(got, refusal=Refusal(code, _difference(got.digest, wanted)))
    if body is None:
        return replace(got, state=State.UNCHANGED, by=by)
    if by:
        return replace(got, state=State.MET, by=by, body=body)
    # hosts that answer every path with their front page are common: there the other file may still be the card
    if body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
        return replace(got, refusal=Refusal("fetch-not-json"))
    return replace(got, state=State.UNHASHED, body=body)


def _difference(served: bytes | None, wanted: Wanted) -> str:
    """The SHA-256 of what is served, and the one of what should be."""
    actual = served.hex() if served else "unknown"
    return f"{actual}, and the newest pointer names {wanted.digests[0].hex()}" if wanted.digests else actual
