"""Pointers in readable names: `points("a.example", CARD)` in block `4`. And results of fetches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from indexer.model import Event, EventKind, PointerAnchor
from indexer.store import FetchOutcome, FetchState, ServedBody, Store, Writer
from parsers.cards import Kind
from tests.chain_records import due_locators
from tests.facts import name, outpoint_of

DAY = 86_400_000
NOW = 1_800_000_000_000
"""When the clock of tests begins, in milliseconds since 1970."""


def card(title: str, **more: Any) -> bytes:
    """The bytes of an agent's card that meets every hard rule."""
    skills = [{"id": "do", "name": "Do", "description": f"What {title} does.", "tags": ["work"]}]
    answers = {"name": title, "description": f"The agent {title}.", "url": "https://api.example/a2a", "skills": skills}
    return json.dumps({**answers, "version": "1", **more}).encode()


def digest(body: bytes) -> bytes:
    """Its SHA-256."""
    return sha256(body).digest()


def points(
    id_: str,
    body: bytes | None = None,
    where: str | None = None,
    position: int = 0,
    *,
    vout: int = 0,
    **more: Any,
) -> Event:
    """A pointer to `id_` that names the hash of `body`, in a transaction `where` (default: named after the id)."""
    locator = where or id_
    named = sha256(body).digest() if body is not None else None
    anchor: dict[str, Any] = {"domain": id_, "digest": named, "uri": None, "form": "raw32", "kind": Kind.AGENT} | more
    return Event(
        kind=EventKind.POINTED,
        position=position,
        tx_index=position + 1,
        txid=name(locator),
        outpoint=outpoint_of(locator, vout),
        pointer=PointerAnchor(id=id_, **anchor),
    )


def serves(begun: int, *bodies: bytes, state: FetchState = FetchState.MET, **more: Any) -> FetchOutcome:
    """A fetch begun then (milliseconds since 1970) got these bodies and accepted them."""
    served = tuple(ServedBody("https://a.example/.well-known/agent.json", digest(body), body) for body in bodies)
    answers: dict[str, Any] = {"state": state, "begun_ms": begun, "next_at": begun + DAY, "served": served}
    return FetchOutcome(**answers | more)


def fails(begun: int, reason: str = "fetch-connect", **more: Any) -> FetchOutcome:
    """A fetch begun then got nothing."""
    answers: dict[str, Any] = {"state": FetchState.FAILED, "begun_ms": begun, "next_at": begun + 60_000}
    return FetchOutcome(**answers | {"reason": reason, "detail": "no"} | more)


class Clock:
    """A clock that a test moves: Unix seconds, and milliseconds as `now`."""

    def __init__(self, now: int = 1_000) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now / 1000

    def tick(self, milliseconds: int = 1_000) -> int:
        """Some time passes; what it is then."""
        self.now += milliseconds
        return self.now


def due(store: Store, now: int = 10**15) -> list[str]:
    """The locators that are due then."""
    return [due_locator.locator for due_locator in due_locators(store, now, 100)]


def news(store: Store) -> list[tuple[str, str, str]]:
    """The outbox: (op, id, reason)."""
    return [(change.op, change.id, change.reason) for change in store.outbox.after(0, 10_000)]


@pytest.fixture
def clock() -> Clock:
    """A clock at NOW."""
    return Clock(NOW)


@pytest.fixture
def writer(store: Store, clock: Clock) -> Iterator[Writer]:
    """The one writer of a database, which goes by that clock."""
    writer = Writer(store.engine, clock)
    yield writer
    writer.close()
