"""The consequences of a fetch for its locator: its new state, and the time of the next fetch. Pure.

Failed fetches are retried with growing delay for seven days after the pointer, and then only on demand. Accepted
locators are fetched again without end, to detect drift.
"""

from __future__ import annotations

from typing import Any

from indexer.fetcher.card_fetcher import CardFetch, CardState, PriorResponse
from indexer.fetcher.http_fetcher import Validators
from indexer.fetcher.reasons import Refusal
from indexer.fetcher.schedule import Priority
from indexer.retries import Backoff
from indexer.store.fetches import DueLocator, FetchOutcome, FetchState, QueuedLocator, ServedBody

SECOND = 1_000
BACKOFF = Backoff(60, 12 * 3_600)
TRIED_FOR = 7 * 24 * 3_600 * SECOND
"""Retries end this long after the last pointer, unless a recheck is requested."""

WATCH = 24 * 3_600 * SECOND
"""The time between two fetches of an accepted locator: the longest delay until drift is detected."""

_OPERATORS = frozenset(("fetch-no-gateway", "fetch-gateway"))
"""Codes that the operator can fix: locators with these are never given up."""


def outcome(due: DueLocator, fetched: CardFetch, now: int) -> FetchOutcome:
    """The outcome of a fetch, for the store. `now` in milliseconds since 1970."""
    accepted, refusal = fetched.accepted, fetched.refusal
    state = FetchState.FAILED
    if accepted is not None:
        state = FetchState.MET if accepted.by else FetchState.UNHASHED
    elif fetched.state is CardState.MISMATCH:
        state = FetchState.MISMATCH
    error = fetched.error
    wait = error.retry_after if error else None
    next_at = now + WATCH if refusal is None else _retry(due, refusal, wait, now)
    if refusal is not None and next_at is None:
        state = FetchState.GIVEN_UP
    return FetchOutcome(
        state=state,
        begun_ms=int(fetched.begun * SECOND),
        next_at=next_at,
        served=tuple(
            ServedBody(attempt.url, attempt.digest or b"", attempt.body, attempt.by == "cid")
            for attempt in fetched.served
        ),
        reason=refusal.code if refusal else "",
        detail=refusal.detail if refusal else "",
        validators=_validators(fetched) if accepted is not None else None,
    )


def failed(due: DueLocator, refusal: Refusal, begun: int, now: int) -> FetchOutcome:
    """The outcome of a fetch that raised an error. Times in milliseconds since 1970."""
    next_at = _retry(due, refusal, None, now)
    state = FetchState.FAILED if next_at is not None else FetchState.GIVEN_UP
    return FetchOutcome(state=state, begun_ms=begun, next_at=next_at, reason=refusal.code, detail=refusal.detail)


def _retry(due: DueLocator, refusal: Refusal, retry_after: float | None, now: int) -> int | None:
    """When a fetch without a card is retried (milliseconds since 1970), None for only on demand."""
    if refusal.final:
        return None
    pause = max(BACKOFF.pause_ms(due.tries + 1), int((retry_after or 0.0) * SECOND))
    if due.validators:  # accepted before
        return now + max(pause, WATCH if now - due.added_at > TRIED_FOR else 0)
    if refusal.code in _OPERATORS:
        return now + pause
    last = due.added_at + TRIED_FOR
    return min(now + pause, last) if now < last else None


def _validators(fetched: CardFetch) -> dict[str, Any]:
    """The validators of each URL with accepted bytes, for the next conditional fetch."""
    by_url = {}
    for attempt in fetched.attempts:
        validators = attempt.validators
        if attempt.state is not None and attempt.digest is not None:
            fields = (validators.url, validators.etag, validators.last_modified) if validators else ("", "", "")
            by_url[attempt.url] = [attempt.digest.hex(), *fields]
    return by_url


def previous_responses(due: DueLocator) -> dict[str, PriorResponse]:
    """The previous response of each URL, for a conditional fetch; empty once a new anchor was seen."""
    return {
        url: PriorResponse(bytes.fromhex(digest), Validators(where, etag, modified))
        for url, (digest, where, etag, modified) in ({} if due.fresh else due.validators).items()
        if etag or modified
    }


def priority(waiting: QueuedLocator) -> Priority:
    """The priority of a locator: one that is due before its regular time was requested by a recheck."""
    if waiting.last_at is None:
        return Priority.NEW
    good = waiting.state in (FetchState.MET, FetchState.UNHASHED)
    pause = WATCH if good else BACKOFF.pause_ms(waiting.tries)
    if waiting.state is FetchState.GIVEN_UP or waiting.next_at - waiting.last_at < pause:
        return Priority.RECHECK
    return Priority.WATCH if good else Priority.RETRY
