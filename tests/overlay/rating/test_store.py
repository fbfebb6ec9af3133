"""Evidence and ratings in the database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from random import Random
from typing import Any

import pytest
from sqlalchemy import select

from indexer.store import Store, Writer, connect, imports
from overlay.systems.rating import store as tables
from overlay.systems.rating.store import (
    BlockPayment,
    KeyBind,
    ReceiptQueries,
    StoredRating,
    StoredReceipt,
    SubmittedDocument,
)
from overlay.systems.rating.store_edges import trust_edges
from parsers.claims import rating_windows
from tests.oracles import rating_windows as windows_by_words
from tests.oracles.rating_windows import Limits

NOW = 1_790_000_000_000
DOCUMENT = SubmittedDocument(sha256(b"d").digest(), "receipt", b"d", NOW)
RATING = StoredRating(300, 250, 2, 5, 1, 4, 3, 0, 0, NOW, b"b" * 32)


@pytest.fixture
def evidence(store: Store) -> ReceiptQueries:
    return ReceiptQueries(store.engine)


def row(name: str, **members: Any) -> StoredReceipt:
    usual = {
        "digest": sha256(name.encode()).digest(), "counter_signer": "", "document": DOCUMENT.sha256, "listing": "one",
        "worker": "aa", "task": name, "outcome": "completed", "completed_at": NOW, "received_at": NOW,
    }  # fmt: skip
    return StoredReceipt(**{**usual, **members})


def paid(name: str, height: int = 7, **members: Any) -> StoredReceipt:
    payment = {"payer": "p", "payment": name, "paid": 5, "price": 5, "chain": "demo", "pay_height": height}
    return row(name, counter_signer="bb", **payment, pay_root=bytes([height]) * 32, is_proved=True, **members)


def test_ratings_and_edges_are_due_again_where_only_receipts_are_left(store: Store, evidence: ReceiptQueries) -> None:
    """As after a restore, and after an import that failed."""
    rows = [paid("a"), row("b", listing="two", counter_signer="cc"), row("c", counter_signer="aa"), row("d")]
    evidence.submit([DOCUMENT], rows)

    def due() -> tuple[list[str], list[tuple[str, str]]]:
        with store.engine.connect() as connection:
            edges = connection.execute(select(trust_edges.c.observer, trust_edges.c.worker)).all()
        return [listing for listing, _ in evidence.due(0, 9)], sorted(map(tuple, edges))

    expected = ["one", "two"], [("", "aa"), ("bb", "aa"), ("cc", "aa")]
    assert due() == expected
    imports.empty(store.engine)
    assert due() == expected


def test_evidence_is_stored_once_and_gets_its_payment_later(evidence: ReceiptQueries) -> None:
    unpaid = row("a", counter_signer="bb")
    assert evidence.submit([DOCUMENT], [unpaid]) == 1
    assert evidence.submit([DOCUMENT], [unpaid, row("a")]) == 1
    assert evidence.submit([DOCUMENT], [replace(paid("a"), received_at=NOW + 9)]) == 1
    assert evidence.submit([DOCUMENT], [replace(paid("a"), payment="other"), unpaid]) == 0
    assert evidence.counted("one") == [row("a"), paid("a")]
    assert evidence.document(DOCUMENT.sha256) == DOCUMENT
    assert evidence.document(bytes(32)) is None


def test_records_are_read_in_pages(evidence: ReceiptQueries) -> None:
    rows = [row(f"{number}", counter_signer="cc" if number % 2 else "", worker="ww") for number in range(10)]
    evidence.submit([DOCUMENT], [*rows, row("x", listing="two")])
    ordered = sorted(rows, key=lambda one: one.digest)
    first = evidence.page("one", None, 4)
    assert first == ordered[:4]
    assert evidence.page("one", (first[-1].digest, first[-1].counter_signer), 100) == ordered[4:]


LIMITS = Limits(paid=6, a_payment=2, signed=5, a_signer=2)


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in zip(("MAX_PAID", "MAX_A_PAYMENT", "MAX_COUNTER_SIGNED", "MAX_A_SIGNER"), LIMITS, strict=True):
        monkeypatch.setattr(rating_windows, name, limit)


@pytest.mark.usefixtures("small_windows")
def test_the_receipts_that_count_are_those_of_the_rule_in_words(evidence: ReceiptQueries) -> None:
    random = Random(21)
    for number in range(25):
        listing, rows = f"listing {number}", []
        for digest in range(20):
            task = {"listing": listing, "payment": f"payment {random.randrange(6)}", "task": f"{digest}"}
            task |= {"outcome": random.choice(("completed", "failed", "denied"))}
            for signer in random.sample(["", "aa", *(f"k{key}" for key in range(6))], random.randrange(1, 4)):
                paid_members = {"payer": random.choice(("p", "")), "paid": random.randrange(4), "price": 1}
                paid_members |= {"is_proved": random.choice((True, False))}
                is_paid = signer and random.randrange(2)
                members = {**task, **paid_members} if is_paid else {**task, "payment": ""}
                received = NOW + random.randrange(8)
                rows.append(row(f"{listing} {digest}", counter_signer=signer, **members | {"received_at": received}))
        evidence.submit([DOCUMENT], rows)
        proved = [one if one.is_proved else replace(one, payment="") for one in rows]
        counted_rows = evidence.counted(listing)
        assert {one.digest for one in counted_rows} == windows_by_words.counted(proved, LIMITS)
        assert counted_rows == [
            one for one in evidence.page(listing, None, 1_000) if one.digest in {c.digest for c in counted_rows}
        ]


def test_a_receipt_has_few_records_however_many_keys_sign_it_and_those_that_work_here_are_stored(
    evidence: ReceiptQueries,
) -> None:
    evidence.bind(KeyBind("known", "two", None, NOW), None)
    keys = [f"k{number}" for number in range(2 * tables.MAX_FORMS)]
    assert evidence.submit([DOCUMENT], [row("a", counter_signer=key) for key in keys]) == tables.MAX_FORMS
    assert evidence.submit([DOCUMENT], [row("a", counter_signer="known")]) == 1
    payments = [replace(paid("a"), counter_signer=key) for key in keys]
    assert evidence.submit([DOCUMENT], payments) >= tables.MAX_FORMS, "stronger than those that are stored"
    assert len(evidence.page("one", None, 100)) <= 2 * tables.MAX_FORMS + 1
    assert evidence.submit([DOCUMENT], [replace(paid("a"), counter_signer="another")]) == 0


@pytest.mark.parametrize(
    ("statement", "index"), [(tables.paid_receipts, "receipts_by_paid"), (tables.signed_receipts, "receipts_by_time")]
)
def test_receipts_that_count_are_read_by_an_index_in_its_order(statement: Any, index: str, tmp_path: Any) -> None:
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    with engine.connect() as connection:
        text = str(statement("one").compile(engine, compile_kwargs={"literal_binds": True}))
        plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")]
    engine.dispose()
    assert index in plan[0]
    assert plan[0].startswith("SEARCH receipts USING")
    assert not [step for step in plan if "TEMP B-TREE" in step or step.startswith("SCAN")], plan


def test_a_key_is_bound_to_one_listing_and_a_token_replaces_what_its_host_says(evidence: ReceiptQueries) -> None:
    by_host, token = KeyBind("aa", "one", None, NOW), KeyBind("aa", "one", DOCUMENT.sha256, NOW + 1)
    assert evidence.bind(by_host, None) == by_host
    document = DOCUMENT._replace(received_at=NOW + 1)
    assert evidence.bind(token, document) == token
    assert evidence.bind(token._replace(received_at=NOW + 9), document._replace(received_at=NOW + 9)) == token
    assert evidence.bind(by_host, None) == token
    assert evidence.bind(replace_listing(token, "two"), DOCUMENT) == token
    assert evidence.keys_of("one") == [token]
    assert evidence.bound(["aa", "zz"]) == {"aa": token}


def replace_listing(bind: KeyBind, listing: str) -> KeyBind:
    return bind._replace(listing=listing)


def test_a_listing_is_rated_again_for_what_was_submitted_meanwhile(
    evidence: ReceiptQueries, store: Store, writer: Writer
) -> None:
    evidence.submit([DOCUMENT], [row("a")])
    assert evidence.ratings(["one"]) == {}
    ((listing, submitted),) = evidence.due(0, 10)
    evidence.submit([DOCUMENT], [row("b")])
    assert tables.record_rating(writer, listing, submitted, RATING, 400)
    assert evidence.ratings(["one", "two"]) == {"one": RATING}
    ((_, submitted),) = evidence.due(0, 10)
    assert not tables.record_rating(writer, "one", submitted, RATING._replace(as_of=NOW + 1), 400)
    assert evidence.due(NOW, 10) == []
    assert evidence.due(NOW + 2, 10) == [("one", submitted)]
    assert [change.reason for change in store.outbox.after(0, 10)] == ["rated"]


def test_those_that_a_listing_paid_are_rated_again_when_it_comes_to_count_as_rated(
    evidence: ReceiptQueries, writer: Writer
) -> None:
    evidence.bind(KeyBind("bb", "payer", None, NOW), None)
    evidence.submit([DOCUMENT], [paid("a")])
    for listing, submitted in evidence.due(0, 10):
        tables.record_rating(writer, listing, submitted, RATING, 400)
    for base_score, due in ((399, []), (400, ["one"]), (500, []), (399, ["one"])):
        tables.record_rating(writer, "payer", 1, RATING._replace(base_score=base_score), 400)
        assert [listing for listing, _ in evidence.due(0, 10)] == due
        for listing, submitted in evidence.due(0, 10):
            tables.record_rating(writer, listing, submitted, RATING, 400)


def test_payments_in_a_block_that_left_the_chain_count_no_more_until_it_is_back(
    evidence: ReceiptQueries, writer: Writer
) -> None:
    evidence.submit([DOCUMENT], [paid("a", 7), paid("b", 8), paid("c", 8, listing="two")])
    eighth = BlockPayment(8, bytes([8]) * 32, is_proved=True)
    assert evidence.payment_blocks("demo", 7) == [eighth]
    assert evidence.payment_blocks("other", 0) == []
    for is_proved in (False, True):
        tables.prove_payments(writer, "demo", [eighth._replace(is_proved=is_proved)])
        assert {one.task: one.is_proved for one in evidence.counted("one")} == {"a": True, "b": is_proved}
    assert {listing for listing, _ in evidence.due(0, 10)} == {"one", "two"}


def test_the_same_evidence_from_many_clients_at_once_is_stored_once(evidence: ReceiptQueries) -> None:
    with ThreadPoolExecutor(8) as pool:
        added = list(pool.map(lambda _: evidence.submit([DOCUMENT], [row("a"), row("b")]), range(16)))
    assert sum(added) == 2
