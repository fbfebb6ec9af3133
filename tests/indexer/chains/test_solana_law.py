"""Laws of accounts: what is said depends on what was seen alone, and is what a slow reader says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexer.chains.solana import accounts
from indexer.chains.solana.account_state import AccountState
from indexer.chains.solana.accounts import Snapshot
from indexer.model import BlockRef, Event, EventKind, Status
from indexer.store import event_codec
from parsers.bitcoin import base58
from parsers.cards.strict_json import MAX_BYTES
from parsers.errors import ParseError
from tests.chainkit import agent, tool
from tests.solana_server import PROGRAM, named

SLOWLY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
CAIP2 = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"
WHO = [bytes(named(name)) for name in "abc"]
HASH = "ab" * 32

BODIES: dict[bytes, tuple[str, str]] = {
    json.dumps(agent("One")).encode(): ("agent", ""),
    json.dumps(agent("Two")).encode(): ("agent", ""),
    json.dumps(tool("clock")).encode(): ("tool", ""),
    b'{"name": "half a card"': ("broken", ""),
    b'{"name": "no skills"}': ("broken", ""),
    b"": ("broken", ""),
    b'{"uri": "https://echo.example/.well-known/agent.json"}': ("pointer", "echo.example"),
    b'{"uri": "https://echo.example/.well-known/agent.json", "hash": "' + HASH.encode() + b'"}': (
        "pointer", "echo.example " + HASH,
    ),
    b'{"uri": "https://other.example/card.json"}': ("pointer", "https://other.example/card.json"),
    b'{"uri": "gopher://echo.example"}': ("no pointer", ""),
    b'{"uri": null}': ("no pointer", ""),
}  # fmt: skip
"""Data that accounts may hold, each with its kind and form."""

ledgers = st.dictionaries(st.sampled_from(WHO), st.sampled_from(list(BODIES)))
histories = st.lists(ledgers, max_size=8)


def follow(history: Sequence[dict[bytes, bytes]], restarts: frozenset[int] = frozenset()) -> list[tuple[int, Event]]:
    """The events of these looks, by slot; before some of them everything is forgotten but what the store keeps."""
    words = AccountState(CAIP2)
    messages: list[tuple[int, Event]] = []
    for slot, ledger in enumerate(history):
        if slot in restarts:
            newest = {event.txid: stored_form(position, event) for position, event in messages}
            words = AccountState(CAIP2, newest.values())
        statements = words.compare(Snapshot(slot, ledger))
        assert [event.position for event in statements.events] == list(range(len(statements.events)))
        assert words.compare(Snapshot(slot, ledger)) == statements, "comparing counts nothing as happened"
        words.apply(statements.events)
        assert not words.compare(Snapshot(slot + 1, ledger)).events, "the same again is not news"
        messages += [(slot, event) for event in statements.events]
        check_bodies(ledger, statements.events, statements.cards)
    return messages


def stored_form(slot: int, event: Event) -> Event:
    """An event as the store gives it back."""
    return event_codec.event(event_codec.event_row(BlockRef("sol", slot, b"", b"", 0, b""), event))


def check_bodies(ledger: dict[bytes, bytes], events: Sequence[Event], bodies: Any) -> None:
    """Cards are kept as they stand in their account, each for an event that names it."""
    named_ = {event.card for event in events}
    assert bodies.keys() <= named_
    for digest, body in bodies.items():
        assert hashlib.sha256(body).digest() == digest
        assert body in ledger.values()
    shown = {event.card for event in events if event.kind in (EventKind.INSCRIBED, EventKind.REINSCRIBED)}
    assert shown <= bodies.keys()


def stand(messages: list[tuple[int, Event]]) -> dict[bytes, tuple[Any, ...]]:
    """How each account stands: its registration, and its pointer."""
    results: dict[bytes, tuple[Any, ...]] = {}
    for _, event in messages:
        registered, pointed = results.get(event.txid, (None, ""))
        if event.state is not None:
            state = event.state
            registered = (state.status.value, state.kind.value, state.card, state.created_height, state.updated_height)
        pointed = ""
        if event.pointer is not None and event.valid:
            digest = event.pointer.digest
            pointed = " ".join([event.pointer.id or "?", *([digest.hex()] if digest else [])])
        results[event.txid] = (registered, pointed)
    return results


def oracle(history: Sequence[dict[bytes, bytes]]) -> dict[bytes, tuple[Any, ...]]:
    """The state of each account, read slowly, one account after the other."""
    results = {account: read_one([ledger.get(account) for ledger in history]) for account in WHO}
    return {account: answer for account, answer in results.items() if answer is not None}


def read_one(held: list[bytes | None]) -> tuple[Any, ...] | None:
    """How an account stands that held these bodies, None being no account; None when it never was one."""
    now: dict[str, Any] = {}
    pointed, before = "", None
    for slot, body in enumerate(held):
        if body == before:
            continue
        before = body
        what, pointed = BODIES[body] if body is not None else ("closed", "")
        live = now.get("status") == "live"
        if what in ("agent", "tool") and not live:
            now = {"status": "live", "kind": what, "card": body, "created": slot, "updated": slot}
        elif what in ("agent", "tool") and now["kind"] == what:
            now |= {"card": body, "updated": slot}
        elif what in ("pointer", "no pointer", "closed") and live:
            now["status"] = "burned"
    if not any(body is not None for body in held):
        return None
    registered = None
    if now:
        digest = hashlib.sha256(now["card"]).digest()
        registered = (now["status"], now["kind"], digest, now["created"], now["updated"])
    return registered, pointed


@settings(SLOWLY, max_examples=300)
@given(histories)
def test_the_state_is_that_of_a_slow_oracle_for_each_account(history: list[dict[bytes, bytes]]) -> None:
    assert stand(follow(history)) == oracle(history)


@settings(SLOWLY, max_examples=200)
@given(histories, st.frozensets(st.integers(0, 7)))
def test_restarts_change_no_event(history: list[dict[bytes, bytes]], restarts: frozenset[int]) -> None:
    assert follow(history, restarts) == follow(history)


@settings(SLOWLY, max_examples=200)
@given(histories)
def test_looking_less_often_ends_with_the_same_registrations_listed(history: list[dict[bytes, bytes]]) -> None:
    if not history:
        return
    seen, last = stand(follow(history)), stand(follow(history[-1:]))
    for account, (registered, pointed) in last.items():
        assert seen[account][1] == pointed
        if registered is not None:
            assert seen[account][0][0] == Status.LIVE
    assert {account for account, (_, pointed) in seen.items() if pointed} <= last.keys()


@settings(SLOWLY, max_examples=300)
@given(st.lists(st.dictionaries(st.sampled_from(WHO), st.binary(max_size=60) | st.sampled_from(list(BODIES)))))
def test_any_bytes_are_read(history: list[dict[bytes, bytes]]) -> None:
    for _, event in follow(history):
        assert event.valid == (event.kind in VALID and not (event.pointer and event.reasons))
        assert event.valid or event.reasons
        assert event.outpoint is not None
        assert (event.outpoint.txid, event.outpoint.vout) == (event.txid, 0)


VALID = {EventKind.INSCRIBED, EventKind.REINSCRIBED, EventKind.BURNED, EventKind.POINTED}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=50),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=20,
)
accounts_told = st.fixed_dictionaries(
    {
        "pubkey": st.sampled_from([str(named("a")), str(named("b")), "1" * 32, "z" * 44]) | json_values,
        "account": st.fixed_dictionaries(
            {"owner": st.just(str(PROGRAM)) | json_values, "data": st.tuples(
                st.sampled_from(["YTJiAA==", "YTJiAHt9", "", "eA==", "x"]) | st.text(), st.just("base64")
            ).map(list) | json_values}
        ) | json_values,
    }
)  # fmt: skip
answers = json_values | st.fixed_dictionaries(
    {
        "context": st.fixed_dictionaries({"slot": st.integers(-1, 2**31)}) | json_values,
        "value": st.lists(accounts_told | json_values, max_size=4) | json_values,
    }
)


@settings(SLOWLY, max_examples=500)
@given(answers)
def test_any_answer_is_a_snapshot_or_refused(answer: Any) -> None:
    try:
        seen = accounts.parse_snapshot(answer, str(PROGRAM))
    except ParseError:
        return
    assert all(len(account) == 32 for account in seen.accounts)
    assert len(seen.accounts) <= len(answer["value"])


@settings(SLOWLY)
@given(st.binary(min_size=32, max_size=32))
def test_addresses_are_read_as_they_are_shown(raw: bytes) -> None:
    assert accounts.address_bytes(base58.encode(raw)) == raw


@settings(SLOWLY)
@given(st.text(max_size=50) | json_values)
def test_no_other_text_is_an_address(text: Any) -> None:
    raw = accounts.address_bytes(text)
    assert raw is None or base58.encode(raw) == text


def test_a_body_too_large_for_a_card_is_not_kept() -> None:
    body = b" " * MAX_BYTES + b"{}"
    message = AccountState(CAIP2).compare(Snapshot(1, {WHO[0]: body}))
    assert [event.kind for event in message.events] == ["rejected"]
    assert message.cards == {}
