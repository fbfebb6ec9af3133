"""Evidence and ratings in the database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from indexer.store import Store, Writer
from indexer.store import evidence as tables
from indexer.store.evidence import BlockPayment, ClaimDocument, KeyBind, StoredEvidence, StoredRating

NOW = 1_790_000_000_000
DOCUMENT = ClaimDocument(sha256(b"d").digest(), "receipt", b"d", NOW)
RATING = StoredRating(300, 250, 2, 5, 1, NOW, b"b" * 32)


def row(name: str, **members: Any) -> StoredEvidence:
    usual = {
        "digest": sha256(name.encode()).digest(), "counter_signer": "", "document": DOCUMENT.sha256, "listing": "one",
        "worker": "aa", "task": name, "outcome": "completed", "completed_at": NOW, "received_at": NOW,
    }  # fmt: skip
    return StoredEvidence(**{**usual, **members})


def paid(name: str, height: int = 7, **members: Any) -> StoredEvidence:
    payment = {"payer": "p", "payment": name, "paid": 5, "price": 5, "chain": "demo", "pay_height": height}
    return row(name, counter_signer="bb", **payment, pay_root=bytes([height]) * 32, is_proved=True, **members)


def test_evidence_is_stored_once_and_gets_its_payment_later(store: Store) -> None:
    unpaid = row("a", counter_signer="bb")
    assert store.evidence.submit([DOCUMENT], [unpaid]) == 1
    assert store.evidence.submit([DOCUMENT], [unpaid, row("a")]) == 1
    assert store.evidence.submit([DOCUMENT], [replace(paid("a"), received_at=NOW + 9)]) == 1
    assert store.evidence.submit([DOCUMENT], [replace(paid("a"), payment="other"), unpaid]) == 0
    assert store.evidence.counted("one") == [paid("a")]
    assert store.evidence.document(DOCUMENT.sha256) == DOCUMENT
    assert store.evidence.document(bytes(32)) is None


def test_records_are_read_in_pages(store: Store) -> None:
    rows = [row(f"{number}", counter_signer="cc" if number % 2 else "", worker="ww") for number in range(10)]
    store.evidence.submit([DOCUMENT], [*rows, row("x", listing="two")])
    ordered = sorted(rows, key=lambda one: one.digest)
    first = store.evidence.page("one", None, 4)
    assert first == ordered[:4]
    assert store.evidence.page("one", (first[-1].digest, first[-1].counter_signer), 100) == ordered[4:]


def test_the_records_that_count_are_bounded_and_those_with_payments_come_first(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MAX_PAID", 2)
    monkeypatch.setattr(tables, "MAX_COUNTER_SIGNED", 1)
    signed = [row(f"s{number}", counter_signer="cc", received_at=NOW + number) for number in range(3)]
    payments = [paid(f"p{number}", received_at=NOW + number) for number in range(3)]
    store.evidence.submit([DOCUMENT], [*signed, *payments, row("alone")])
    assert store.evidence.counted("one") == [payments[2], payments[1], signed[2]]


def test_a_key_is_bound_to_one_listing_and_a_token_replaces_what_its_host_says(store: Store) -> None:
    by_host, token = KeyBind("aa", "one", None, NOW), KeyBind("aa", "one", DOCUMENT.sha256, NOW + 1)
    assert store.evidence.bind(by_host, None) == by_host
    document = DOCUMENT._replace(received_at=NOW + 1)
    assert store.evidence.bind(token, document) == token
    assert store.evidence.bind(token._replace(received_at=NOW + 9), document._replace(received_at=NOW + 9)) == token
    assert store.evidence.bind(by_host, None) == token
    assert store.evidence.bind(replace_listing(token, "two"), DOCUMENT) == token
    assert store.evidence.keys_of("one") == [token]
    assert store.evidence.bound(["aa", "zz"]) == {"aa": token}


def replace_listing(bind: KeyBind, listing: str) -> KeyBind:
    return bind._replace(listing=listing)


def test_a_listing_is_rated_again_for_what_was_submitted_meanwhile(store: Store, writer: Writer) -> None:
    store.evidence.submit([DOCUMENT], [row("a")])
    assert store.evidence.ratings(["one"]) == {}
    ((listing, submitted),) = store.evidence.due(0, 10)
    store.evidence.submit([DOCUMENT], [row("b")])
    assert writer.record_rating(listing, submitted, RATING, 400)
    assert store.evidence.ratings(["one", "two"]) == {"one": RATING}
    ((_, submitted),) = store.evidence.due(0, 10)
    assert not writer.record_rating("one", submitted, RATING._replace(as_of=NOW + 1), 400)
    assert store.evidence.due(NOW, 10) == []
    assert store.evidence.due(NOW + 2, 10) == [("one", submitted)]
    assert [change.reason for change in store.outbox.after(0, 10)] == ["rated"]


def test_those_that_a_listing_paid_are_rated_again_when_it_comes_to_count_as_rated(
    store: Store, writer: Writer
) -> None:
    store.evidence.bind(KeyBind("bb", "payer", None, NOW), None)
    store.evidence.submit([DOCUMENT], [paid("a")])
    for listing, submitted in store.evidence.due(0, 10):
        writer.record_rating(listing, submitted, RATING, 400)
    for base_score, due in ((399, []), (400, ["one"]), (500, []), (399, ["one"])):
        writer.record_rating("payer", 1, RATING._replace(base_score=base_score), 400)
        assert [listing for listing, _ in store.evidence.due(0, 10)] == due
        for listing, submitted in store.evidence.due(0, 10):
            writer.record_rating(listing, submitted, RATING, 400)


def test_payments_in_a_block_that_left_the_chain_count_no_more_until_it_is_back(store: Store, writer: Writer) -> None:
    store.evidence.submit([DOCUMENT], [paid("a", 7), paid("b", 8), paid("c", 8, listing="two")])
    eighth = BlockPayment(8, bytes([8]) * 32, is_proved=True)
    assert store.evidence.payment_blocks("demo", 7) == [eighth]
    assert store.evidence.payment_blocks("other", 0) == []
    for is_proved in (False, True):
        writer.prove_payments("demo", [eighth._replace(is_proved=is_proved)])
        assert {one.task: one.is_proved for one in store.evidence.counted("one")} == {"a": True, "b": is_proved}
    assert {listing for listing, _ in store.evidence.due(0, 10)} == {"one", "two"}


def test_the_same_evidence_from_many_clients_at_once_is_stored_once(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        added = list(pool.map(lambda _: store.evidence.submit([DOCUMENT], [row("a"), row("b")]), range(16)))
    assert sum(added) == 2
