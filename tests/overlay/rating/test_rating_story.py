"""Evidence becomes ratings: what counts, and what is tried in vain, on each database."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import delete, update

from indexer.check_verdict import HostVerdict
from indexer.store import visits
from indexer.store.badges import BadgeCandidate
from indexer.store.schema import changes, outbox_runs
from overlay.listings.repository import ListingRepository
from overlay.projection.documents import DocumentReader
from overlay.search import facts
from overlay.systems.motebit.store import record_identity
from overlay.systems.motebit.store_hosts import IdentityOutcome, PublishedIdentity
from overlay.systems.rating import rating_loop
from overlay.systems.rating import store as tables
from overlay.systems.rating.store import ReceiptQueries
from parsers.bitcoin import beef
from parsers.bitcoin.tx import Outpoint
from parsers.claims import rating_windows
from parsers.claims.canonical_json import DocumentError, jcs
from parsers.claims.motebit.identifiers import did_key
from parsers.claims.rating import RATED_AT, RatedListing, ReceiptRecord, rate
from tests.overlay.rating.registry import PRICE, Payer, Registry
from tests.parsers.claims.motebit.signers import ALICE, BOB, CAROL, DAVE, Agent


@pytest.fixture
def registry(database_url: str) -> Iterator[Registry]:
    registry = Registry(database_url)
    with registry.indexing:
        yield registry


def code(registry: Registry, *args: Any, **more: Any) -> str:
    with pytest.raises(DocumentError) as raised:
        registry.intake.submit(*args, **more)
    return raised.value.code


async def test_a_listing_that_cannot_be_rated_keeps_no_other_waiting(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await registry.inscribe(ALICE, "alice"), await registry.inscribe(BOB, "bob")
    registry.bind(ALICE, alice)
    registry.bind(BOB, bob)
    registry.intake.submit("receipt", registry.receipt(ALICE))
    registry.intake.submit("receipt", registry.receipt(BOB))
    read = rating_loop.listing_of

    def reading(registration: Any) -> Any:
        if registration.state.id == alice:
            raise OverflowError("a mistake")
        return read(registration)

    with monkeypatch.context() as patched:
        patched.setattr(rating_loop, "listing_of", reading)
        while registry.loop.step():
            pass
        ratings = ReceiptQueries(registry.store.engine).ratings([alice, bob])
        assert list(ratings) == [bob]
    assert registry.loop.step() == 0, "it is tried again in an hour"


async def test_work_that_was_delegated_and_paid_for_is_rated(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    registry.intake.submit("receipt", registry.receipt(ALICE))
    assert registry.rating(alice) is not None
    assert registry.rating(alice).score is None
    accepted = registry.intake.submit("receipt", registry.work(ALICE, BOB))
    assert (accepted.new, [row.worker for row in accepted.rows]) == (1, [ALICE.key.hex()])
    assert registry.rating(alice).rung == 1
    task, proof = await registry.paid(Payer(1))
    registry.intake.submit("receipt", registry.work(ALICE, BOB, task), payment=proof)
    rating = registry.rating(alice)
    assert (rating.rung, rating.completed, rating.failed) == (2, 2, 0)
    assert registry.reasons(alice) == [("E0", "claimed"), ("E1", ""), ("E2", "")]
    (document,) = DocumentReader(registry.store).documents([alice])
    assert document.rating == rating.score
    assert facts.customers_fact(rating.customers) == "customers:1" in document.more_facts
    assert b'"rung":"E2"' in document.item
    assert ListingRepository(registry.store).listing(alice).facts["rating"].value == rating
    assert [change.reason for change in registry.store.outbox.after(0, 100)].count("rated") == 2


async def test_repeating_evidence_changes_nothing_in_any_spelling_of_an_identity(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    nested = [
        registry.receipt(ALICE, "t", motebit_id=name) for name in (ALICE.id, ALICE.id.upper(), did_key(ALICE.key))
    ]
    trees = [registry.receipt(BOB, nested=[one]) for one in nested]
    assert [registry.intake.submit("receipt", tree).new for tree in [*trees, *trees]] == [1, 1, 1, 0, 0, 0]
    assert registry.rating(alice).completed == 1


async def test_receipts_without_a_payment_fill_no_disk(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    works = [registry.receipt(BOB, nested=[registry.receipt(ALICE, f"t{number}")]) for number in range(4)]
    monkeypatch.setattr("overlay.systems.rating.store.MAX_UNPAID_BYTES", int(2.5 * len(jcs(works[0]))))
    assert [registry.intake.submit("receipt", work).new for work in works[:2]] == [1, 1]
    assert code(registry, "receipt", works[2]) == "too-many"
    assert registry.intake.submit("receipt", works[0]).new == 0, "what is stored can be repeated"
    assert registry.rating(alice).completed == 2
    registry.later += 86_401
    assert registry.intake.submit("receipt", works[2]).new == 1


async def test_only_a_key_that_consents_is_bound_and_to_one_listing(registry: Registry) -> None:
    alice, thief = await registry.inscribe(ALICE), await registry.inscribe(ALICE, "mallory")
    assert code(registry, "receipt", registry.work(ALICE, BOB)) == "not-bound"
    assert code(registry, "", None, listing=alice) == "not-bound"
    assert code(registry, "", None, listing=alice, bind=registry.token(BOB, alice)) == "bad-signature"
    assert code(registry, "", None, listing=alice, bind=registry.token(ALICE, thief)) == "audience-mismatch"
    assert code(registry, "", None, listing=alice, bind=registry.token(ALICE, alice, aud="x")) == "audience-mismatch"
    assert code(registry, "", None, listing=alice, bind=registry.token(ALICE, alice, exp=1)) == "expired"
    assert code(registry, "receipt", registry.work(ALICE, BOB), listing="x") == "unknown-listing"
    registry.bind(ALICE, alice)
    assert code(registry, "", None, listing=thief, bind=registry.token(ALICE, thief)) == "key-bound"
    registry.intake.submit("receipt", registry.work(ALICE, BOB))
    assert registry.rating(alice).rung == 1
    assert registry.rating(thief) is None


async def test_a_receipt_of_a_key_that_the_card_does_not_name_is_refused(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    assert code(registry, "receipt", registry.work(DAVE, BOB, status="failed"), listing=alice) == "not-bound"
    assert code(registry, "", None, listing=alice, bind=registry.token(DAVE, alice)) == "bad-signature"
    assert code(registry, "other", {}) == "unknown-kind"
    assert code(registry, "attestation", {}) == "malformed"


async def test_ones_own_keys_and_those_of_a_common_owner_do_not_count(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    other = await registry.inscribe(CAROL, "alice")
    registry.bind(ALICE, alice)
    registry.bind(CAROL, other)
    registry.intake.submit("receipt", registry.work(ALICE, ALICE))
    registry.intake.submit("receipt", registry.work(ALICE, CAROL))
    assert registry.reasons(alice) == [("E0", "claimed"), ("E0", "own-key"), ("E0", "own-key")]
    assert registry.rating(alice).score is None


async def test_a_key_that_turns_out_to_be_ones_own_counts_no_more(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    registry.intake.submit("receipt", registry.work(ALICE, CAROL))
    assert registry.rating(alice).rung == 1
    registry.bind(CAROL, await registry.inscribe(CAROL, "alice"))
    assert registry.rating(alice).score is None


async def test_a_payment_counts_once_in_full_and_by_its_proved_payer(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    task, proof = await registry.paid(Payer(1))
    for by in (BOB, CAROL):
        registry.intake.submit("receipt", registry.receipt(by, nested=[
            registry.receipt(ALICE, f"own {by.id}", relay_task_id=task)]), payment=proof)  # fmt: skip
    assert registry.reasons(alice) == [("E1", "payment-reused")] * 2
    less, too_little = await registry.paid(Payer(2), satoshis=PRICE - 1)
    registry.intake.submit("receipt", registry.work(ALICE, BOB, less), payment=too_little)
    task, unknown = await registry.paid(Payer(3))
    no_parent = type(unknown)(beef=unknown.beef)
    registry.intake.submit("receipt", registry.work(ALICE, BOB, task), payment=no_parent)
    assert {rung for rung, _ in registry.reasons(alice)} == {"E1"}
    elsewhere, proof = await registry.paid(Payer(4), owner="bob")
    assert code(registry, "receipt", registry.work(ALICE, BOB, elsewhere), payment=proof) == "payment-mismatch"
    assert code(registry, "receipt", registry.work(ALICE, BOB), payment=proof) == "payment-mismatch"
    assert code(registry, "receipt", registry.work(ALICE, BOB), payment=type(proof)(beef=b"x")) == "bad-payment"


async def test_a_receipt_under_any_number_of_foreign_keys_pushes_no_other_out(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything the stranger sends is public: the receipt, and the proof of its payment."""
    monkeypatch.setattr(rating_windows, "MAX_PAID", 4)
    monkeypatch.setattr(rating_windows, "MAX_COUNTER_SIGNED", 2)
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    paid = []
    for number in range(1, 5):
        task, proof = await registry.paid(Payer(number), satoshis=PRICE + number)
        tree = registry.work(ALICE, BOB, task)
        registry.intake.submit("receipt", tree, payment=proof)
        paid.append((tree["delegation_receipts"][0], proof))
    unpaid = registry.work(ALICE, BOB)
    registry.intake.submit("receipt", unpaid)
    before = registry.rating(alice)
    assert (before.rung, before.completed) == (2, 5)
    cheapest, proof = paid[0]
    registry.later += 60
    for number in range(12):
        stranger = Agent(100 + number)
        registry.intake.submit("receipt", registry.receipt(stranger, nested=[cheapest]), payment=proof)
        registry.intake.submit("receipt", registry.receipt(stranger, nested=unpaid["delegation_receipts"]))
    after = registry.rating(alice)
    assert (after.score, after.rung, after.completed) == (before.score, before.rung, before.completed)
    stored = [row.digest for row in tables.ReceiptQueries(registry.store.engine).page(alice, None, 1_000)]
    assert max(Counter(stored).values()) == tables.MAX_FORMS, "what a stranger can store beside a receipt is bounded"


async def test_a_receipt_gets_its_payment_however_many_keys_have_signed_it_before(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    task, proof = await registry.paid(Payer(1))
    receipt = registry.receipt(ALICE, task)
    for number in range(tables.MAX_FORMS + 2):
        registry.intake.submit("receipt", registry.receipt(Agent(100 + number), nested=[receipt]))
    registry.intake.submit("receipt", registry.receipt(BOB, nested=[receipt]), payment=proof)
    assert registry.rating(alice).rung == 2


async def test_payers_that_one_transaction_funded_are_one_counterparty(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    payers = [Payer(number) for number in range(1, 7)]
    funding = registry.kit.spend([registry.kit.fund()], [(20_000, payer.script) for payer in payers])
    await registry.mine(funding)
    for number, payer in enumerate(payers):
        task, proof = await registry.paid(payer, source=funding.outpoint(number))
        registry.intake.submit("receipt", registry.work(ALICE, BOB, task), payment=proof)
    combined = registry.rating(alice)
    records = registry.reader.receipts_json(alice)["records"]
    assert len({record["counterparty"] for record in records}) == 1
    for number in range(1, 7):
        task, proof = await registry.paid(Payer(20 + number))
        registry.intake.submit("receipt", registry.work(ALICE, BOB, task), payment=proof)
    assert combined.score < 200 < registry.rating(alice).score


async def test_payers_that_fund_one_another_by_their_payments_are_one_counterparty(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    payers = [Payer(number) for number in range(1, 7)]
    source = await registry.fund(payers[0])
    for payer, heir in pairwise(payers):
        task, proof = await registry.paid(payer, source=source, heir=heir)
        source = Outpoint(bytes.fromhex(task.removeprefix("bsv:tx:"))[::-1], 1)
        registry.intake.submit("receipt", registry.work(ALICE, BOB, task), payment=proof)
    assert registry.rating(alice).score < 200
    assert len({record["counterparty"] for record in registry.reader.receipts_json(alice)["records"]}) == 1


async def test_a_payment_in_a_block_that_left_the_chain_is_none_until_it_is_proved_again(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    fund = await registry.fund(Payer(1))
    fork = registry.kit.blocks[-1]
    task, proof = await registry.paid(Payer(1), source=fund)
    tree = registry.work(ALICE, BOB, task)
    registry.intake.submit("receipt", tree, payment=proof)
    assert registry.rating(alice).rung == 2
    raw = beef.read(proof.beef).newest.raw
    assert raw is not None
    await registry.mine(parent=fork)
    await registry.mine()
    assert registry.rating(alice).rung == 1
    block = await registry.mine(raw)
    assert registry.intake.submit("receipt", tree, payment=registry.proof(raw, fund, block)[1]).new == 1
    assert registry.rating(alice).rung == 2


async def test_evidence_of_before_a_transfer_is_kept_and_does_not_count(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    task, proof = await registry.paid(Payer(1))
    registry.later = 1.0
    registry.intake.submit("receipt", registry.work(ALICE, BOB, task), payment=proof)
    registry.intake.submit("receipt", registry.work(ALICE, BOB))
    assert registry.rating(alice).completed == 2
    origin = registry.store.registrations.newest_events("demo", [alice])[alice].outpoint
    await registry.mine(registry.kit.move(origin, "bob"))
    registry.loop = registry.rating_loop()
    assert registry.rating(alice).score is None, "rated again because the listing has changed, while nobody rated"
    registry.later = 5_000.0
    registry.intake.submit(
        "receipt", registry.work(ALICE, BOB, completed_at=registry.now_ms, submitted_at=registry.now_ms)
    )
    assert registry.rating(alice).score is None
    registry.bind(ALICE, alice)
    assert registry.reasons(alice) == [("E0", "previous-owner"), ("E0", "previous-owner"), ("E1", "")]
    assert registry.rating(alice).completed == 1


async def test_changes_are_seen_whose_numbers_another_server_uses_again(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    registry.later = 1.0
    registry.intake.submit("receipt", registry.work(ALICE, BOB))
    assert registry.rating(alice).completed == 1
    with registry.indexing.writer.transaction() as connection:
        connection.execute(delete(changes))
        connection.execute(update(outbox_runs).values(mark="of another server"))
    registry.rate()
    origin = registry.store.registrations.newest_events("demo", [alice])[alice].outpoint
    await registry.mine(registry.kit.move(origin, "bob"))
    assert registry.rating(alice).score is None


async def test_a_token_of_before_a_transfer_binds_nothing_when_it_is_repeated(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    registry.later = 1.0
    token = registry.token(ALICE, alice, exp=registry.now_ms + 10**9)
    registry.intake.submit("", None, listing=alice, bind=token)
    origin = registry.store.registrations.newest_events("demo", [alice])[alice].outpoint
    await registry.mine(registry.kit.move(origin, "bob"))
    registry.later = 5_000.0
    for again in (token, f"motebit:{token}", f"Bearer motebit:{token}"):
        registry.intake.submit("receipt", registry.work(ALICE, BOB), listing=alice, bind=again)
        assert registry.rating(alice).score is None
    registry.bind(ALICE, alice)
    registry.intake.submit("", None, listing=alice, bind=token)
    assert registry.rating(alice).score is not None, "nor takes it the newer one back"


async def test_payments_from_before_the_card_named_their_address_are_none(registry: Registry) -> None:
    old = await registry.paid(Payer(1))
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    elsewhere = await registry.paid(Payer(2), owner="bob")
    card = json.loads(ListingRepository(registry.store).listing(alice).card_body)
    card["x-payment-config"][0]["address"] = registry.kit.address("bob's till")
    origin = registry.store.registrations.newest_events("demo", [alice])[alice].outpoint
    await registry.mine(registry.kit.update(origin, json.dumps(card).encode()))
    for task, proof in (old, elsewhere):
        assert code(registry, "receipt", registry.work(ALICE, BOB, task), payment=proof) == "payment-mismatch"
    task, proof = await registry.paid(Payer(3), owner="bob")
    registry.intake.submit("receipt", registry.work(ALICE, BOB, task), payment=proof)
    assert registry.rating(alice).rung == 2


async def test_a_receipt_that_is_signed_again_makes_no_payment_fresh(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    task, proof = await registry.paid(Payer(1))
    registry.intake.submit("receipt", registry.work(ALICE, BOB, task), payment=proof)
    registry.later += 200 * 86_400
    aged = registry.rating(alice).score
    for _ in range(4):
        registry.later += 1
        registry.intake.submit("receipt", registry.work(ALICE, BOB, task), payment=proof)
    assert registry.rating(alice).score == aged


async def test_a_payment_without_its_payer_can_be_submitted_with_it_later(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    task, proof = await registry.paid(Payer(1))
    tree = registry.work(ALICE, BOB, task)
    for parent, new, rung in ((None, 1, 1), (proof.parent, 1, 2), (None, 0, 2)):
        accepted = registry.intake.submit("receipt", tree, payment=type(proof)(beef=proof.beef, parent=parent))
        assert (accepted.new, registry.rating(alice).rung) == (new, rung)


async def test_a_price_that_nobody_can_pay_is_not_paid(registry: Registry) -> None:
    price = {"id": "p", "currency": "BSV", "amount": "1e400", "address": registry.kit.address("alice's till")}
    alice = await registry.inscribe(ALICE, **{"x-payment-config": [price]})
    registry.bind(ALICE, alice)
    task, proof = await registry.paid(Payer(1))
    registry.intake.submit("receipt", registry.work(ALICE, BOB, task), payment=proof)
    assert registry.rating(alice).rung == 1


async def test_a_rated_payer_counts_for_more_and_two_that_pay_each_other_do_not(registry: Registry) -> None:
    agents = {name: Agent(number) for number, name in enumerate(("alice", "bob"), 30)}
    ids = {name: await registry.inscribe(worker, name) for name, worker in agents.items()}
    for name, worker in agents.items():
        registry.bind(worker, ids[name])
    for name, worker in agents.items():
        other = agents["bob" if name == "alice" else "alice"]
        for _ in range(3):
            registry.intake.submit("receipt", registry.work(worker, other))
    for origin in ids.values():
        rating = registry.rating(origin)
        assert rating.rung == 1
        assert (rating.score or 0) < RATED_AT
        assert rating.base_score == rating.score


async def test_a_payer_that_is_rated_itself_lifts_evidence_to_the_highest_rung(registry: Registry) -> None:
    till = Payer(50)
    price = {"id": "p", "currency": "BSV", "amount": "0.00005", "address": registry.kit.coin.address(till.script[3:23])}
    bob = await registry.inscribe(BOB, "bob", **{"x-payment-config": [price]})
    alice = await registry.inscribe(ALICE)
    registry.bind(BOB, bob)
    registry.bind(ALICE, alice)
    task, proof = await registry.paid(till)
    registry.intake.submit("receipt", registry.work(ALICE, BOB, task), payment=proof)
    assert registry.rating(alice).rung == 2
    for number in range(1, 9):
        task, proof = await registry.paid(Payer(number), to=till.script)
        registry.intake.submit("receipt", registry.work(BOB, CAROL, task), payment=proof)
    assert registry.rating(bob).base_score >= RATED_AT
    assert registry.rating(alice).rung == 3, "rated again because its payer came to count as rated"
    assert registry.rating(alice).base_score < registry.rating(alice).score


async def test_a_key_that_the_host_of_the_domain_serves_is_bound_without_a_token(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    assert code(registry, "receipt", registry.work(ALICE, BOB), listing=alice) == "not-bound"
    identity = PublishedIdentity(
        ALICE.id, ALICE.key.hex(), "sovereign", "well-known", "https://echo.example/motebit.md", "https://echo.example/"
    )
    card = registry.store.registrations.newest_events("demo", [alice])[alice].card
    visits.update_candidates(registry.indexing.writer, [BadgeCandidate(alice, "echo.example", card)], [alice], None, 1)
    visits.record_host(
        registry.indexing.writer, HostVerdict("echo.example", frozenset((alice,)), frozenset(), frozenset()), 2
    )
    for copied in (identity._replace(endpoint="https://alice.example/"), identity._replace(method="dns")):
        record_identity(registry.indexing.writer, "echo.example", IdentityOutcome(copied), 3)
        assert code(registry, "", None, listing=alice) == "not-bound", "who serves a copy has not signed it"
    record_identity(registry.indexing.writer, "echo.example", IdentityOutcome(identity), 3)
    registry.intake.submit("receipt", registry.work(ALICE, BOB), listing=alice)
    assert registry.rating(alice).rung == 1
    record_identity(registry.indexing.writer, "echo.example", IdentityOutcome(None, "no-identity"), 4)
    assert registry.rating(alice).score is None


async def test_the_published_number_can_be_computed_again(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    for number in range(1, 4):
        task, proof = await registry.paid(Payer(number))
        outcome = "failed" if number == 3 else "completed"
        registry.intake.submit("receipt", registry.work(ALICE, BOB, task, status=outcome), payment=proof)
    rating = registry.rating(alice)
    published = registry.reader.receipts_json(alice)
    facts = published["facts"]
    listing = RatedListing(frozenset(facts["keys"]), facts["owner"], facts["ownerOf"], frozenset(facts["ratedPayers"]))
    records = [
        ReceiptRecord(
            one["digest"], one["worker"], one["counterSigner"] or "", one["payment"]["payer"], one["payment"]["txid"],
            one["payment"]["paid"], one["payment"]["price"], one["outcome"], one["completedAt"], one["beforeTransfer"],
            one["task"],
        )
        for one in published["records"]
    ]  # fmt: skip
    assert rate(records, listing, published["asOf"]).score == rating.score
    assert (rating.completed, rating.failed) == (2, 1)
