"""Execution receipts: what holds, and that nothing else does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from referencing import Registry

from parsers.claims import ed25519
from parsers.claims.motebit import delegations, receipts
from parsers.claims.motebit.delegations import DelegationRules, verify_delegation
from parsers.claims.motebit.receipts import (
    MAX_RECEIPTS,
    ReceiptRules,
    verify_receipt,
    verify_receipt_chain,
    verify_receipt_sequence,
)
from parsers.claims.record_shape import RecordShape
from tests.parsers.claims.motebit.signers import ALICE, BOB, CAROL, NOW, Agent
from tests.parsers.claims.mutation import JSON, mutated

RULES = ReceiptRules(keys={}, now=NOW)


def code(document: Any, rules: ReceiptRules = RULES) -> str:
    return verify_receipt(document, rules).error


def test_a_sovereign_receipt_holds_by_itself_and_a_pinned_one_by_its_key() -> None:
    assert verify_receipt(ALICE.receipt(), RULES).binding == "sovereign"
    named = ALICE.receipt(motebit_id="alice")
    assert (code(named), verify_receipt(named, RULES).members["signed"]) == ("unknown-key", True)
    pinned = ReceiptRules(keys={"alice": ALICE.key}, now=NOW)
    assert (code(named, pinned), verify_receipt(named, pinned).binding) == ("", "pinned")
    assert code(named, ReceiptRules(keys={"alice": BOB.key}, now=NOW)) == "bad-signature"


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_change_of_a_receipt_verifies(data: st.DataObject) -> None:
    receipt = BOB.receipt(nested=[CAROL.receipt("below", relay_task_id="r")], delegated_scope="web_search")
    changed = data.draw(mutated(receipt))
    assert changed == receipt or code(changed) != ""


def test_a_key_of_small_order_signs_nothing() -> None:
    for key in (b"\x01" + bytes(31), bytes(32), b"\xff" * 32):
        receipt = ALICE.receipt(public_key=key.hex())
        forged = receipt | {"signature": "AQ" + "A" * 84}
        assert code(forged) == "weak-key"
        assert not ed25519.verifies(key, b"\x01" + bytes(63), b"")


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"suite": None}, "legacy-profile"),
        ({"suite": "motebit-jcs-ed25519-b64-v2"}, "unknown-suite"),
        ({"result_hash": "0" * 64}, "hash-mismatch"),
        ({"completed_at": NOW + 3_600_000, "submitted_at": NOW}, "future-dated"),
        ({"completed_at": NOW, "submitted_at": NOW - 3_600_001}, "time-window"),
        ({"note": "x"}, "malformed"),
        ({"status": "done"}, "malformed"),
        ({"memories_formed": -1}, "malformed"),
        ({"source_digest": {"algorithm": "sha-256"}}, "malformed"),
    ],
)
def test_a_signed_receipt_that_breaks_a_rule_says_which(members: dict[str, Any], expected: str) -> None:
    receipt = {name: value for name, value in ALICE.receipt().items() if members.get(name, "") is not None}
    assert code(ALICE.sign(receipt | {name: value for name, value in members.items() if value is not None})) == expected


def test_a_signature_is_spelt_in_one_way() -> None:
    receipt = ALICE.receipt()
    text = receipt["signature"]
    assert code(receipt | {"signature": text + "=="}) == "non-canonical"
    assert code(receipt | {"signature": text[:-2]}) == "bad-signature"
    assert code(receipt | {"signature": ""}) == "bad-signature"


def test_a_receipt_counts_once_and_for_its_task() -> None:
    receipt = ALICE.receipt(relay_task_id="relay-1")
    assert code(receipt, ReceiptRules(keys={}, now=NOW, seen=frozenset({f"{ALICE.id}:task-1"}))) == "replayed"
    assert code(receipt, ReceiptRules(keys={}, now=NOW, relay_task_id="relay-2")) == "task-mismatch"
    assert code(receipt, ReceiptRules(keys={}, now=NOW, relay_task_id="relay-1")) == ""
    twice = verify_receipt_chain(BOB.receipt(nested=[receipt, receipt]), RULES).members["delegations"]
    assert [child.get("error") for child in twice] == [None, "replayed"]


def test_a_parent_holds_over_a_forged_child_and_says_that_not_all_do() -> None:
    forged = CAROL.receipt() | {"result": "other"}
    answer = verify_receipt_chain(BOB.receipt(nested=[forged, CAROL.receipt("good")]), RULES).as_json()
    assert (answer["verified"], answer["allVerified"], answer["receipts"]) == (True, False, 3)
    assert [child["verified"] for child in answer["delegations"]] == [False, True]
    assert answer["delegations"][0]["error"] == "bad-signature"


def nested(depth: int) -> dict[str, Any]:
    receipt = ALICE.receipt("leaf")
    for level in range(depth):
        receipt = ALICE.receipt(f"level-{level}", nested=[receipt])
    return receipt


def test_trees_are_bounded_in_depth_and_number() -> None:
    deepest = verify_receipt_chain(nested(receipts.MAX_DEPTH), RULES)
    assert (deepest.verified, deepest.members["receipts"]) == (True, receipts.MAX_DEPTH + 1)
    assert verify_receipt_chain(nested(receipts.MAX_DEPTH + 1), RULES).error == "too-deep"
    wide = ALICE.receipt(nested=[ALICE.receipt(f"t{number}") for number in range(MAX_RECEIPTS - 1)])
    assert verify_receipt_chain(wide, RULES).members["allVerified"]
    wide = ALICE.receipt(nested=[ALICE.receipt(f"t{number}") for number in range(MAX_RECEIPTS)])
    assert verify_receipt_chain(wide, RULES).error == "too-many-receipts"


def entry(receipt: dict[str, Any], signer: Agent) -> dict[str, Any]:
    """An entry of `verifyReceiptSequence`, as the delegation specification prints it."""
    return {"receipt": receipt, "signer_public_key": signer.key.hex()}


def test_the_key_of_an_entry_does_not_replace_a_trusted_one() -> None:
    receipt = BOB.receipt("b", motebit_id=ALICE.id)
    stated = verify_receipt_sequence([entry(receipt, BOB)], ReceiptRules(keys={}, now=NOW))
    assert (stated.verified, stated.binding) == (True, "unverified"), "the document names the key, and not the caller"
    verdict = verify_receipt_sequence([entry(ALICE.receipt("a"), ALICE)], ReceiptRules(keys={}, now=NOW))
    assert verdict.binding == "sovereign"
    pinned = ReceiptRules(keys={ALICE.id: ALICE.key}, now=NOW)
    assert verify_receipt_sequence([entry(receipt, BOB)], pinned).error == "bad-signature"
    upper = BOB.receipt("b", motebit_id=ALICE.id.upper())
    assert verify_receipt_sequence([entry(upper, BOB)], pinned).error == "bad-signature"


def test_a_sequence_is_in_the_order_of_time() -> None:
    first = ALICE.receipt("a", submitted_at=NOW - 9_000, completed_at=NOW - 5_000)
    second = BOB.receipt("b", submitted_at=NOW - 5_000, completed_at=NOW - 2_000)
    assert verify_receipt_sequence([], RULES).verified
    assert verify_receipt_sequence([first, second], RULES).verified
    backwards = verify_receipt_sequence([second, first], RULES)
    assert (backwards.error, backwards.members["index"]) == ("time-order", 1)
    entries = [entry(first, ALICE), entry(second, BOB)]
    assert verify_receipt_sequence(entries, ReceiptRules(keys={}, now=NOW)).verified
    assert verify_receipt_sequence([entries[0], second], RULES).verified
    forged = verify_receipt_sequence([entries[0], entry(second, CAROL)], ReceiptRules(keys={}, now=NOW))
    assert (forged.error, forged.members["index"]) == ("bad-signature", 1)
    named = verify_receipt_sequence([entry(CAROL.receipt("c") | {"motebit_id": "x"}, CAROL)], RULES)
    assert (named.error, named.members["index"]) == ("bad-signature", 0)
    assert verify_receipt_sequence([entry(first, ALICE) | {"signer_public_key": "?"}], RULES).error == "malformed"
    repeated = verify_receipt_sequence([first, first], RULES)
    assert (repeated.error, repeated.members["index"]) == ("replayed", 1)


SCHEMAS: list[tuple[str, RecordShape, Any]] = [
    ("execution-receipt-v1", receipts.SHAPE, ALICE.receipt(nested=[], source_digest={"algorithm": "a", "value": "b"})),
    ("delegation-token-v1", delegations.TOKEN_SHAPE, ALICE.delegate(BOB, not_before=1, grant_id="g")),
    (
        "delegation-revocation-v1",
        delegations.REVOCATION_SHAPE,
        ALICE.sign({"grant_id": "g", "delegator_id": "a", "delegator_public_key": ALICE.key.hex(), "revoked_at": 1,
                    "suite": "motebit-jcs-ed25519-b64-v1"}),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shape", "document"), SCHEMAS)
def test_the_members_of_a_record_are_those_of_its_schema(
    shared: Any, name: str, shape: RecordShape, document: Any
) -> None:
    schema = json.loads((shared / "vectors" / "trust" / "motebit-schemas" / f"{name}.json").read_text())
    validator = Draft7Validator(schema, registry=Registry[Any]())
    assert shape.fault(document) is None
    assert validator.is_valid(document)

    @settings(max_examples=200, deadline=None)
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        names = sorted(document)
        changed = {**document, data.draw(st.sampled_from([*names, "extra"])): data.draw(JSON)}
        nested_member = changed.get("delegation_receipts", []), changed.get("source_digest")
        if nested_member == (document.get("delegation_receipts", []), document.get("source_digest")):
            assert (shape.fault(changed) is None) == validator.is_valid(changed)

    holds()


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_change_of_a_delegation_verifies(data: st.DataObject) -> None:
    token = ALICE.delegate(BOB, not_before=NOW - 1)
    changed = data.draw(mutated(token))
    assert changed == token or verify_delegation(changed, DelegationRules(keys={}, now=NOW)).error
