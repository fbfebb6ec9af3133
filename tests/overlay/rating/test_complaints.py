"""Complaints of payers: who may complain, when it counts, and how it is taken back, on each database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.commands.show import trust_rows
from overlay.projection.documents import DocumentReader
from overlay.systems.rating.chain_payments import PaymentProof
from overlay.systems.rating.complaint_intake import MIN_DEPTH
from parsers.bitcoin import beef
from parsers.bitcoin.tx import Outpoint
from parsers.claims.canonical_json import DocumentError
from parsers.claims.complaint_codes import CODES
from parsers.claims.complaints import read_complaint, signed_complaint
from tests.chainkit import agent
from tests.overlay.rating.registry import PRICE, Payer, Registry
from tests.parsers.claims.motebit.signers import ALICE, BOB

PAYER, OTHER = Payer(1), Payer(2)


@pytest.fixture
def registry(database_url: str) -> Iterator[Registry]:
    registry = Registry(database_url)
    with registry.indexing:
        yield registry


async def deepen(registry: Registry, blocks: int = MIN_DEPTH - 1) -> None:
    for _ in range(blocks):
        await registry.mine()


async def paid(registry: Registry, payer: Payer = PAYER, **more: Any) -> tuple[str, PaymentProof]:
    """The txid of a payment that is deep enough, and its proof."""
    task, proof = await registry.paid(payer, **more)
    await deepen(registry)
    return task.removeprefix("bsv:tx:"), proof


def statement(registry: Registry, listing: str, txid: str, code: str = CODES[0], payer: Payer = PAYER) -> Any:
    return signed_complaint(payer.private, listing, txid, code, registry.now_ms)


def refusal(registry: Registry, document: Any, proof: PaymentProof | None) -> str:
    with pytest.raises(DocumentError) as raised:
        registry.intake.complain(document, proof)
    return raised.value.code


def shown(registry: Registry, listing: str) -> Any:
    """The rating of a listing's current item."""
    registry.rate()
    current, *_ = DocumentReader(registry.store).documents([listing])
    return json.loads(current.item)["rating"]


async def test_a_payer_complains_and_takes_it_back(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    assert shown(registry, alice) is None
    txid, proof = await paid(registry)
    complaint = statement(registry, alice, txid)
    assert registry.intake.complain(complaint, proof).new
    assert not registry.intake.complain(complaint, proof).new, "once for a payment"
    rating = shown(registry, alice)
    assert (rating["complaints"], rating["disputed"], rating["score"], rating["evidence"]) == (1, 0, None, 0)
    assert dict(trust_rows({"rating": rating, "type": "agent"}))["rating"] == "no paid tasks, 1 complaint"
    (published,) = registry.reader.receipts_json(alice)["complaints"]
    assert (published["paid"], published["price"], published["counts"], published["code"]) == (
        PRICE, PRICE, True, "nothing-delivered",
    )  # fmt: skip
    assert registry.reader.document(bytes.fromhex(published["document"])) is not None
    registry.later += 1
    assert registry.intake.complain(statement(registry, alice, txid, "withdrawn"), None).new
    assert shown(registry, alice) is None
    assert not registry.intake.complain(complaint, proof).new, "an older statement is not repeated"
    assert shown(registry, alice) is None
    assert registry.reader.document(bytes.fromhex(published["document"])) is None


async def test_a_complaint_about_a_payment_with_a_receipt_is_disputed_and_never_in_the_score(
    registry: Registry,
) -> None:
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    task, proof = await registry.paid(PAYER)
    registry.intake.submit("receipt", registry.work(ALICE, BOB, task), payment=proof)
    await deepen(registry)
    before = shown(registry, alice)
    registry.intake.complain(statement(registry, alice, task.removeprefix("bsv:tx:"), "wrong-result"), proof)
    after = shown(registry, alice)
    assert (after["complaints"], after["disputed"]) == (1, 1)
    counts = {"complaints", "disputed", "asOf"}
    assert {name: after[name] for name in after.keys() - counts} == {
        name: before[name] for name in before.keys() - counts
    }
    assert "1 complaint (1 disputed)" in dict(trust_rows({"rating": after, "type": "agent"}))["rating"]


async def test_only_the_payer_of_a_price_complains_six_blocks_later(registry: Registry) -> None:
    alice, bob = await registry.inscribe(ALICE), await registry.inscribe(BOB, "bob")
    task, proof = await registry.paid(PAYER)
    txid = task.removeprefix("bsv:tx:")
    await deepen(registry, MIN_DEPTH - 2)
    assert refusal(registry, statement(registry, alice, txid), proof) == "too-early"
    await registry.mine()
    assert refusal(registry, statement(registry, alice, txid, payer=OTHER), proof) == "not-payer"
    assert refusal(registry, statement(registry, alice, txid), None) == "bad-payment"
    assert refusal(registry, statement(registry, alice, txid), PaymentProof(beef=proof.beef)) == "not-payer"
    assert refusal(registry, statement(registry, alice, "0" * 64), proof) == "payment-mismatch"
    assert refusal(registry, statement(registry, bob, txid), proof) == "payment-mismatch"
    assert refusal(registry, statement(registry, "0" * 64 + "_0", txid), proof) == "unknown-listing"
    assert refusal(registry, statement(registry, alice, txid, "withdrawn"), None) == "unknown-complaint"
    assert registry.intake.complain(statement(registry, alice, txid), proof).new
    assert refusal(registry, statement(registry, alice, txid, "withdrawn", OTHER), None) == "unknown-complaint"
    less, proof = await paid(registry, satoshis=PRICE - 1)
    assert refusal(registry, statement(registry, alice, less), proof) == "payment-mismatch"


async def test_a_payment_counts_for_the_card_that_it_was_made_for(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    task, proof = await registry.paid(PAYER)
    outpoint = registry.kit.update(Outpoint.parse(alice), agent("of alice, honest now"), owner="alice")
    await registry.mine(outpoint)
    await deepen(registry)
    assert registry.intake.complain(statement(registry, alice, task.removeprefix("bsv:tx:")), proof).new
    assert shown(registry, alice)["complaints"] == 1


async def test_a_complaint_counts_while_its_payment_is_in_the_chain(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    fund = await registry.fund(PAYER)
    fork = registry.kit.tip
    txid, proof = await paid(registry, source=fund)
    complaint = statement(registry, alice, txid)
    registry.intake.complain(complaint, proof)
    assert shown(registry, alice)["complaints"] == 1
    for _ in range(MIN_DEPTH + 1):
        fork = await registry.mine(parent=fork)
    assert shown(registry, alice) is None
    assert [complaint["proved"] for complaint in registry.reader.receipts_json(alice)["complaints"]] == [False]
    raw = beef.read(proof.beef).newest.raw
    assert raw is not None
    block = await registry.mine(raw)
    await deepen(registry)
    assert registry.intake.complain(complaint, registry.proof(raw, fund, block)[1]).new
    assert shown(registry, alice)["complaints"] == 1


async def test_a_complaint_of_before_a_transfer_does_not_count_for_the_new_owner(registry: Registry) -> None:
    alice = await registry.inscribe(ALICE)
    txid, proof = await paid(registry)
    registry.intake.complain(statement(registry, alice, txid), proof)
    assert shown(registry, alice)["complaints"] == 1
    await registry.mine(registry.kit.move(Outpoint.parse(alice), "bob"))
    assert shown(registry, alice) is None
    assert [complaint["counts"] for complaint in registry.reader.receipts_json(alice)["complaints"]] == [False]


async def test_a_tool_that_is_paid_for_is_complained_of(registry: Registry) -> None:
    price = {"id": "p", "currency": "BSV", "amount": "0.00005", "address": registry.kit.address("alice's till")}
    config = {"mcpServers": {"paid": {"url": "https://tool.example/mcp", "x-payment-config": [price]}}}
    tool = registry.kit.inscribe(config, type="a2b-mcp")
    await registry.mine(tool)
    txid, proof = await paid(registry)
    assert registry.intake.complain(statement(registry, str(tool), txid), proof).new
    assert shown(registry, str(tool))["complaints"] == 1


@settings(max_examples=60)
@given(st.data())
def test_a_changed_complaint_is_refused(data: st.DataObject) -> None:
    document = signed_complaint(PAYER.private, "a" * 64 + "_0", "b" * 64, data.draw(st.sampled_from(CODES)), 5)
    assert read_complaint(document, 5).key == PAYER.key
    name = data.draw(st.sampled_from(sorted(document)))
    value = data.draw(st.one_of(st.text(max_size=80), st.integers(), st.none(), st.lists(st.none(), max_size=1)))
    if value != document[name]:
        with pytest.raises(DocumentError):
            read_complaint({**document, name: value}, 5)
