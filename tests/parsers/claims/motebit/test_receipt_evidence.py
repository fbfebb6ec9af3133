"""The records that receipts of Motebit give."""

from __future__ import annotations

import pytest

from parsers.claims.canonical_json import SAFE_INTEGER, DocumentError
from parsers.claims.motebit.identifiers import did_key
from parsers.claims.motebit.receipts import MAX_RECEIPTS, ReceiptRules
from parsers.claims.rating import RatedListing, ReceiptRecord, rate
from parsers.claims.work_receipts import receipt_records
from tests.parsers.claims.motebit.signers import ALICE, BOB, CAROL, NOW

RULES = ReceiptRules(keys={}, now=NOW)


def evidence_in(receipt: object, rules: ReceiptRules = RULES) -> list[ReceiptRecord]:
    return [record for record, _ in receipt_records(receipt, rules)]


def test_a_nested_receipt_is_counter_signed_by_the_one_above_it() -> None:
    tree = ALICE.receipt(nested=[BOB.receipt(nested=[CAROL.receipt(status="failed")])])
    keys = [ALICE.key.hex(), BOB.key.hex(), CAROL.key.hex()]
    records = evidence_in(tree)
    assert [(record.worker, record.counter_signer) for record in records] == list(
        zip(keys, ["", *keys[:2]], strict=True)
    )
    assert [record.outcome for record in records] == ["completed", "completed", "failed"]
    assert {record.completed_at for record in records} == {NOW - 1_000}


def test_a_receipt_below_one_that_does_not_verify_is_signed_by_its_worker_alone() -> None:
    tree = ALICE.receipt(nested=[BOB.receipt()]) | {"result": "another"}
    assert [(record.worker, record.counter_signer) for record in evidence_in(tree)] == [(BOB.key.hex(), "")]


def test_a_forged_receipt_is_no_evidence_although_it_is_nested() -> None:
    forged = BOB.receipt() | {"status": "failed"}
    assert [record.worker for record in evidence_in(ALICE.receipt(nested=[forged]))] == [ALICE.key.hex()]


def test_a_tree_that_is_too_large_is_refused() -> None:
    with pytest.raises(DocumentError):
        evidence_in(ALICE.receipt(nested=[BOB.receipt(f"{n}") for n in range(MAX_RECEIPTS)]))


def test_a_task_counts_once_alone_nested_and_signed_again() -> None:
    receipts = [BOB.receipt(), BOB.receipt(result="again")]
    records = [
        record
        for tree in (*receipts, *(ALICE.receipt(f"{n}", nested=[nested]) for n, nested in enumerate(receipts)))
        for record in evidence_in(tree)
    ]
    rating = rate(records, RatedListing(frozenset((BOB.key.hex(),))), NOW)
    assert (rating.rung, rating.completed) == (1, 1)
    by_own_keys = rate(records, RatedListing(frozenset((BOB.key.hex(), ALICE.key.hex()))), NOW)
    assert by_own_keys.score is None


def test_a_task_counts_once_whatever_spelling_its_identity_has() -> None:
    spellings = (BOB.id, BOB.id.upper(), did_key(BOB.key))
    receipts = [BOB.receipt(motebit_id=spelling) for spelling in spellings]
    records = [
        record for number, one in enumerate(receipts) for record in evidence_in(ALICE.receipt(f"{number}", [one]))
    ]
    of_bob = [record for record in records if record.worker == BOB.key.hex()]
    assert len({record.digest for record in of_bob}) == 3
    assert rate(of_bob, RatedListing(frozenset((BOB.key.hex(),))), NOW).completed == 1


@pytest.mark.parametrize(("time", "bounded"), [(-1e300, 0), (-5, 0), (1e300, SAFE_INTEGER)])
def test_the_time_of_a_record_is_an_integer_that_databases_hold(time: float, bounded: int) -> None:
    receipt = ALICE.receipt(submitted_at=time, completed_at=time)
    assert [record.completed_at for record in evidence_in(receipt, ReceiptRules(keys={}))] == [bounded]
