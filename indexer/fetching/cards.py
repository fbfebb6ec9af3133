"""From a locator to a card whose bytes are the ones pointed at: which file of a host it is, and by what it was met."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from hashlib import sha256

from indexer.fetching.fetcher import Answer, Fetcher, Validators, Visit, open_admit
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


@dataclass(frozen=True, slots=True)
class Attempt:
    """One URL that was asked for a card. Times in Unix seconds; `digest` is SHA-256 of the raw body that came (or, not
    modified, of the one that came before); `final_url` is where redirects ended, `address` what was connected to."""

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


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came of a locator. `body` is there when it is met or unhashed, `by` says what met it: sha256 or cid.

    An anchor is met only by a fetch `begun` after it was first seen (law 9), in Unix seconds.
    """

    locator: str
    state: State
    attempts: tuple[Attempt, ...]
    body: bytes | None = None
    by: str = ""

    @property
    def begun(self) -> float:
        """When the first request was begun."""
        return self.attempts[0].begun

    @property
    def accepted(self) -> Attempt | None:
        """The attempt whose bytes were accepted: it says which file of the host matched."""
        return None if self.state in (State.MISMATCH, State.FAILED) else self.attempts[-1]

    @property
    def served(self) -> Attempt | None:
        """The first attempt that brought bytes, accepted or not: what the locator serves now, for drift."""
        return next((attempt for attempt in self.attempts if attempt.digest is not None), None)

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
        self,
        locator: str,
        digest: bytes | None,
        known: Mapping[str, Known] | None = None,
        *,
        same_host: bool = False,
        admit: Admit = open_admit,
    ) -> Fetched:
        """Fetch the card of a locator: a domain (agent.json, then agent-card.json), an https URI, or `ipfs://`.

        `digest` is the SHA-256 (32 bytes) that it is pointed at with, None for none. `known` is what each URL served
        before. With `same_host` no redirect to another host is followed. Never raises FetchError: refusals are in the
        answer.
        """
        if locator.startswith("ipfs://"):
            return await self._from_ipfs(locator, digest)
        urls = [locator] if "://" in locator else [f"https://{locator}{path}" for path in WELL_KNOWN]
        attempts: list[Attempt] = []
        async with self._fetcher.visit(admit) as visit:
            for url in urls:
                before = (known or {}).get(url)
                attempt, body = await self._attempt(visit, url, before, same_host=same_host)
                state = None if attempt.refusal else _state(attempt.digest, body, digest)
                if isinstance(state, State):
                    return Fetched(locator, state, (*attempts, attempt), body, "sha256" if state is State.MET else "")
                attempts.append(replace(attempt, refusal=state) if state else attempt)
                refusal = attempts[-1].refusal
                if refusal is not None and refusal.code in _ENDS:
                    break
        return Fetched(locator, _failed(attempts), tuple(attempts))

    async def _attempt(
        self, visit: Visit, url: str, before: Known | None, *, same_host: bool
    ) -> tuple[Attempt, bytes | None]:
        asked = Attempt(url, self._clock())
        try:
            answer = await visit.get(url, before.validators if before else None, same_host=same_host)
        except FetchError as error:
            refused = replace(asked, ended=self._clock(), address=visit.address, refusal=error.refusal)
            return replace(refused, retry_after=error.retry_after), None
        return self._answered(asked, answer, before), answer.body

    def _answered(self, asked: Attempt, answer: Answer, before: Known | None) -> Attempt:
        digest = before.digest if answer.body is None and before else sha256(answer.body or b"").digest()
        return replace(
            asked,
            ended=self._clock(),
            final_url=answer.url,
            address=answer.address,
            size=len(answer.body or b""),
            digest=digest,
            validators=answer.validators,
        )

    async def _from_ipfs(self, locator: str, digest: bytes | None) -> Fetched:
        asked = Attempt(locator, self._clock())
        try:
            if self._gateway is None:
                raise FetchError("fetch-no-gateway")
            body, verified, url = await self._gateway.fetch(locator)
        except FetchError as error:
            return Fetched(locator, State.FAILED, (replace(asked, ended=self._clock(), refusal=error.refusal),))
        got = replace(asked, ended=self._clock(), final_url=url, size=len(body), digest=sha256(body).digest())
        state = _state(got.digest, body, digest)
        if isinstance(state, Refusal):
            failed = (replace(got, refusal=state),)
            return Fetched(locator, _failed(failed), failed)
        if state is State.UNHASHED and verified:
            return Fetched(locator, State.MET, (got,), body, "cid")
        return Fetched(locator, state, (got,), body, "sha256" if state is State.MET else "")


def _state(found: bytes | None, body: bytes | None, wanted: bytes | None) -> State | Refusal:
    """How bytes with SHA-256 `found` are taken, or why they are not; `body` is None when they are as before."""
    if wanted is not None and found != wanted:
        code = "fetch-html" if body is not None and body.lstrip()[:1] == b"<" else "fetch-mismatch"
        return Refusal(code, found.hex() if found else "")
    if body is None:
        return State.UNCHANGED
    if wanted is not None:
        return State.MET
    # hosts that answer every path with their front page are common: there the other file may still be the card
    return State.UNHASHED if body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" else Refusal("fetch-not-json")


def _failed(attempts: list[Attempt] | tuple[Attempt, ...]) -> State:
    other = any(attempt.refusal and attempt.refusal.code in _OTHER for attempt in attempts)
    return State.MISMATCH if other else State.FAILED
