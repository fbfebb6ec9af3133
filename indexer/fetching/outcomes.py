"""What a fetch means for its locator: how it stands now, and when it is fetched again. Pure.

Retries come with growing delay for seven days after the pointer, and then only on demand. What was accepted once is
watched for ever, so that drift is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from indexer.fetching.cards import Attempt, Fetched, Known, State
from indexer.fetching.fetcher import Validators
from indexer.fetching.reasons import Refusal
from indexer.fetching.schedule import Priority
from indexer.store.fetched import Due, FetchState, Outcome, Served
from indexer.store.queue import Waiting

SECOND = 1_000
FIRST_DELAY = 60 * SECOND
"""Until the second try, doubled for each one after it."""

LONGEST_DELAY = 12 * 3_600 * SECOND
TRIED_FOR = 7 * 24 * 3_600 * SECOND
"""So long after the last pointer it is tried, unless somebody asks again."""

WATCH = 24 * 3_600 * SECOND
"""Between two looks at what was accepted: so late is drift seen at most."""

_OPERATORS = frozenset(("fetch-no-gateway", "fetch-gateway"))
"""Codes that the operator can do something about: such locators are never given up."""


def outcome(due: Due, fetched: Fetched, now: int) -> Outcome:
    """What came of a fetch, for the store. `now` in milliseconds since 1970."""
    accepted, refusal = fetched.accepted, fetched.refusal
    state = FetchState.FAILED
    if accepted is not None:
        state = FetchState.MET if accepted.by else FetchState.UNHASHED
    elif fetched.state is State.MISMATCH:
        state = FetchState.MISMATCH
    next_at = _next(due, refusal, fetched, now)
    if refusal is not None and next_at is None:
        state = FetchState.GIVEN_UP
    return Outcome(
        state=state,
        begun_ms=int(fetched.begun * SECOND),
        next_at=next_at,
        served=tuple(_served(attempt) for attempt in fetched.served),
        reason=refusal.code if refusal else "",
        detail=refusal.detail if refusal else "",
        validators=_validators(fetched) if accepted is not None else None,
    )


def failed(due: Due, refusal: Refusal, begun: int, now: int) -> Outcome:
    """What is told of a fetch that brought nothing at all. Times in milliseconds since 1970."""
    next_at = _retry(due, refusal, None, now)
    state = FetchState.FAILED if next_at is not None else FetchState.GIVEN_UP
    return Outcome(state=state, begun_ms=begun, next_at=next_at, reason=refusal.code, detail=refusal.detail)


def _next(due: Due, refusal: Refusal | None, fetched: Fetched, now: int) -> int | None:
    if refusal is None:
        return now + WATCH
    error = fetched.error
    return _retry(due, refusal, error.retry_after if error else None, now)


def _retry(due: Due, refusal: Refusal, retry_after: float | None, now: int) -> int | None:
    """When a fetch that brought no card is tried again, None for not before somebody asks."""
    if refusal.final:
        return None
    pause = max(delay(due.tries), int((retry_after or 0.0) * SECOND))
    if due.validators:  # it was accepted once, and may be again
        return now + max(pause, WATCH if now - due.added_at > TRIED_FOR else 0)
    if refusal.code in _OPERATORS:
        return now + pause
    last = due.added_at + TRIED_FOR
    return min(now + pause, last) if now < last else None


def delay(tries: int) -> int:
    """The pause after so many fetches that came to nothing before this one, in milliseconds."""
    return min(FIRST_DELAY << min(tries, 20), LONGEST_DELAY)


def _served(attempt: Attempt) -> Served:
    return Served(attempt.url, attempt.digest or b"", attempt.body, attempt.by == "cid")


def _validators(fetched: Fetched) -> dict[str, Any]:
    """What makes the next fetch of each URL conditional, of those whose bytes were accepted."""
    found = {}
    for attempt in fetched.attempts:
        told = attempt.validators
        if attempt.state is not None and attempt.digest is not None:
            kept = (told.url, told.etag, told.last_modified) if told else ("", "", "")
            found[attempt.url] = [attempt.digest.hex(), *kept]
    return found


def known(due: Due) -> dict[str, Known]:
    """What each URL served before, where the next fetch may be conditional: not once a new anchor was seen."""
    return {} if due.fresh else _read(due.validators)


def _read(validators: Mapping[str, Any]) -> dict[str, Known]:
    found = {}
    for url, (digest, where, etag, modified) in validators.items():
        if etag or modified:
            found[url] = Known(bytes.fromhex(digest), Validators(where, etag, modified))
    return found


def priority(waiting: Waiting) -> Priority:
    """Why a locator is fetched: what is asked for before its time, somebody asked for."""
    if waiting.last_at is None:
        return Priority.NEW
    good = waiting.state in (FetchState.MET, FetchState.UNHASHED)
    pause = WATCH if good else delay(waiting.tries - 1 if waiting.tries else 0)
    if waiting.state is FetchState.GIVEN_UP or waiting.next_at - waiting.last_at < pause:
        return Priority.RECHECK
    return Priority.WATCH if good else Priority.RETRY
