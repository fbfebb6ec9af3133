"""The records that documents of each kind give."""

from __future__ import annotations

from typing import Any

import pytest

from parsers.claims import ed25519
from parsers.claims.canonical_json import DocumentError, base64url_text
from parsers.claims.delegateos.signed_objects import sign_object
from parsers.claims.mrp.signed_envelope import signing_input
from parsers.claims.payment_proof import bound_txid, read_payment
from parsers.claims.work_receipts import receipts_in
from tests.parsers.claims.motebit.signers import ALICE, BOB, NOW
from tests.parsers.claims.test_delegateos import AGENT, ISSUER, attestation, contract

TXID = "ab" * 32
KEYS = {"worker": bytes([8]) * 32, "client": bytes([9]) * 32}
MRP_KEYS = [
    {"key_id": name, "alg": "EdDSA", "public_key": base64url_text(ed25519.public_key_of(seed))}
    for name, seed in KEYS.items()
]


def envelope(signer: str, msg_type: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
    body = {
        "mrp_version": "0.1", "msg_id": f"{msg_type}-0001", "msg_type": msg_type, "timestamp": "2026-09-21T14:13:00Z",
        "sender": {"id": f"agent:{signer}"}, "nonce": f"{msg_type}-1", "expires_at": "2026-09-22T00:00:00Z",
        "payload": {"route_id": "route:a2b/x", **payload}, "auth": {"type": "signed"}, **more,
    }  # fmt: skip
    value = base64url_text(ed25519.sign(KEYS[signer], signing_input(body)))
    return {**body, "auth": {"type": "signed", "signature": {"alg": "EdDSA", "key_id": signer, "value": value}}}


EXECUTE = envelope("client", "EXECUTE", {})
EVIDENCE = envelope("worker", "EVIDENCE", {"job_id": f"bsv:tx:{TXID}"}, in_reply_to=EXECUTE["msg_id"])


def code(kind: str, document: Any) -> str:
    with pytest.raises(DocumentError) as raised:
        receipts_in(kind, document, NOW)
    return raised.value.code


def test_a_receipt_names_the_payment_of_its_task() -> None:
    tree = ALICE.receipt("t", nested=[BOB.receipt("u", relay_task_id=f"bsv:tx:{TXID}"), BOB.receipt(f"bsv:tx:{TXID}")])
    works = receipts_in("receipt", tree, NOW)
    assert [work.txid for work in works] == ["", TXID, TXID]
    assert bound_txid("bsv:tx:XY", None, 5, f"btc:tx:{TXID}") == ""


def test_an_identity_that_does_not_follow_from_its_key_needs_the_key_of_its_card() -> None:
    receipt = ALICE.receipt(motebit_id="0195f0aa-0000-7000-8000-000000000000")
    assert receipts_in("receipt", receipt, NOW) == []
    (work,) = receipts_in("receipt", receipt, NOW, {receipt["motebit_id"]: ALICE.key})
    assert work.record.worker == ALICE.key.hex()


def test_an_attestation_is_counter_signed_by_the_issuer_of_its_contract() -> None:
    (work,) = receipts_in("attestation", {"attestation": attestation(), "contract": contract()}, NOW)
    worker, issuer = (ed25519.public_key_of(seed).hex() for seed in (AGENT, ISSUER))
    assert (work.record.worker, work.record.counter_signer, work.record.outcome) == (worker, issuer, "completed")
    failed = {"attestation": attestation(success=False), "contract": contract()}
    assert receipts_in("attestation", failed, NOW)[0].record.outcome == "failed"
    assert code("attestation", {"attestation": attestation(outputHash="AA"), "contract": contract()}) == "hash-mismatch"
    assert code("attestation", {"attestation": attestation()}) == "malformed"


def test_of_ones_own_contract_there_is_no_second_key() -> None:
    body = {name: value for name, value in contract(issuer=ed25519_id(AGENT)).items() if name != "signature"}
    signed = {**body, "signature": sign_object(AGENT, body)}
    (work,) = receipts_in("attestation", {"attestation": attestation(), "contract": signed}, NOW)
    assert work.record.counter_signer == ""


def ed25519_id(seed: bytes) -> str:
    return base64url_text(ed25519.public_key_of(seed))


def test_evidence_of_mrp_is_counter_signed_by_the_requester() -> None:
    document = {"envelope": EVIDENCE, "keys": MRP_KEYS}
    (alone,) = receipts_in("mrp-evidence", document, NOW)
    (work,) = receipts_in("mrp-evidence", {**document, "request": EXECUTE}, NOW)
    worker, client = (ed25519.public_key_of(KEYS[name]).hex() for name in ("worker", "client"))
    assert (alone.record.worker, alone.record.counter_signer, alone.txid) == (worker, "", TXID)
    assert (work.record.counter_signer, work.record.digest) == (client, alone.record.digest)
    other = envelope("client", "EXECUTE", {}, msg_id="another-message")
    assert code("mrp-evidence", {**document, "request": other}) == "task-mismatch"
    assert code("mrp-evidence", {**document, "request": EVIDENCE}) == "malformed"
    assert code("mrp-evidence", {**document, "request": 5}) == "MRP_INVALID_REQUEST"
    assert code("mrp-evidence", {"envelope": EXECUTE, "keys": MRP_KEYS}) == "malformed"
    assert code("mrp-evidence", {"envelope": EVIDENCE, "keys": []}) == "MRP_AUTH_REQUIRED"


@pytest.mark.parametrize("data", [b"", b"x" * 100, b"\x01\x00\xbe\xef", b"\0" * 300_000])
def test_what_is_no_proof_of_a_payment_is_refused(data: bytes) -> None:
    with pytest.raises(DocumentError) as raised:
        read_payment(data)
    assert raised.value.code == "bad-payment"
