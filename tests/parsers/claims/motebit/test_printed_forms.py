"""Documents in the form that the specifications of Motebit print: recognised, checked in full, and never counted."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.claims import ed25519
from parsers.claims.canonical_json import DocumentError, base64url_text, without
from parsers.claims.motebit.identifiers import HEX_SUITE, SUITE, TOKEN_SUITE
from parsers.claims.verification import verify_document
from parsers.claims.work_receipts import BIND_AUDIENCE, bound_key, receipts_in
from tests.parsers.claims.motebit.signers import ALICE, BOB, NOW, Agent
from tests.parsers.claims.mutation import mutated

PRINTED = {
    "task_id": "ab12-...", "motebit_id": "bob-motebit-id", "device_id": "web-search-service",
    "submitted_at": 1711000000000, "completed_at": 1711000002500, "status": "completed",
    "result": '[{"title":"...","url":"...","snippet":"..."}]', "tools_used": ["web_search", "read_url(delegated)"],
    "memories_formed": 0, "prompt_hash": "a1b2c3...", "result_hash": "d4e5f6...", "relay_task_id": "task-alice-bob",
    "delegation_receipts": [
        {
            "task_id": "cd34-...", "motebit_id": "charlie-motebit-id", "device_id": "read-url-service",
            "submitted_at": 1711000001000, "completed_at": 1711000002000, "status": "completed",
            "result": "<!DOCTYPE html>...", "tools_used": ["read_url"], "memories_formed": 0,
            "prompt_hash": "f7g8h9...", "result_hash": "j0k1l2...", "relay_task_id": "task-bob-charlie",
            "delegation_receipts": [], "signature": "charlie-ed25519-sig...",
        }
    ],
    "signature": "bob-ed25519-sig...",
}  # fmt: skip
"""The receipt of the multi-hop specification."""

KEYS = {"bob-motebit-id": BOB.key.hex(), "charlie-motebit-id": ALICE.key.hex()}


def answer(kind: str, document: Any, keys: Any = None, **context: Any) -> dict[str, Any]:
    body = {"document": document, "keys": keys, "now": NOW, "context": context}
    return verify_document(kind, json.dumps(body).encode(), 0).as_json()


def whole(receipt: dict[str, Any], signer: Agent, *nested: dict[str, Any]) -> dict[str, Any]:
    """The printed receipt with hashes and a signature in place of the dots."""
    digest = sha256(receipt["result"].encode()).hexdigest()
    return signer.sign({**receipt, "result_hash": digest, "delegation_receipts": list(nested)})


def printed_tree() -> dict[str, Any]:
    return whole(PRINTED, BOB, whole(PRINTED["delegation_receipts"][0], ALICE))  # type: ignore[index]


def test_the_printed_receipt_is_that_of_the_specification(shared: Path) -> None:
    text = (shared / "spec" / "motebit-multi-hop.md").read_text()
    start = text.index("{", text.index("A two-hop chain looks like this:"))
    assert json.JSONDecoder().raw_decode(text[start:])[0] == PRINTED


def test_the_printed_receipt_says_which_members_it_needs() -> None:
    verdict = answer("receipt", PRINTED)
    assert (verdict["verified"], verdict["error"], verdict["profile"]) == (False, "unknown-key", "legacy")
    assert verdict["missing"] == ["public_key", "suite"]
    assert answer("receipt", PRINTED, KEYS)["error"] == "bad-signature"


def test_a_receipt_that_lost_its_suite_says_which_one_is_expected() -> None:
    verdict = answer("receipt", without(ALICE.receipt(), "suite"))
    assert (verdict["error"], verdict["missing"]) == ("bad-signature", ["suite"])
    assert verdict["detail"] == f"the Ed25519 signature does not verify; suite is missing: {SUITE} is expected"


def test_a_signed_receipt_in_the_printed_form_holds_as_its_profile_and_never_counts() -> None:
    verdict = answer("receipt-chain", printed_tree(), KEYS)
    for one in (verdict, verdict["delegations"][0]):
        assert (one["verified"], one["error"], one["profile"]) == (False, "legacy-profile", "legacy")
        assert (one["profileVerified"], one["missing"]) == (True, ["suite"])
        assert SUITE in one["detail"]
        assert one["axes"]["integrity"] == "invalid"
    assert verdict["allVerified"] is False
    assert answer("receipt-sequence", [printed_tree()], KEYS)["verified"] is False
    assert receipts_in("receipt", printed_tree(), NOW, {"bob-motebit-id": BOB.key}) == []


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"result": "other"}, "hash-mismatch"),
        ({"completed_at": 1711000000000 + 3_600_001}, "time-window"),
        ({"note": "x"}, "malformed"),
        ({"motebit_id": "eve"}, "unknown-key"),
    ],
)
def test_the_printed_form_that_breaks_another_rule_does_not_hold_as_its_profile(
    members: dict[str, Any], code: str
) -> None:
    broken = answer("receipt", BOB.sign({**printed_tree(), **members}), KEYS)
    assert (broken["error"], "suite" in broken["missing"], "profileVerified" in broken) == (code, True, False)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_document_without_a_suite_verifies(data: st.DataObject) -> None:
    changed = data.draw(mutated(printed_tree()))
    verdict = answer("receipt", changed, KEYS)
    assert verdict["verified"] is False or "suite" in changed
    assert "profileVerified" not in verdict or changed == printed_tree()


def printed_delegation(**members: Any) -> dict[str, Any]:
    """As `signDelegation` of the delegation specification is called."""
    return ALICE.sign(
        {
            "delegator_id": "motebit-abc", "delegator_public_key": base64url_text(ALICE.key),
            "delegate_id": "motebit-xyz", "delegate_public_key": base64url_text(BOB.key), "scope": "web_search",
            "issued_at": NOW, "expires_at": NOW + 3_600_000, **members,
        }
    )  # fmt: skip


def test_a_printed_delegation_holds_as_its_profile_unless_it_breaks_another_rule() -> None:
    held = answer("delegation", printed_delegation())
    assert (held["verified"], held["error"], held["profileVerified"]) == (False, "legacy-profile", True)
    assert (held["profile"], held["missing"], SUITE in held["detail"]) == ("legacy", ["suite"], True)
    expired = answer("delegation", printed_delegation(expires_at=NOW - 1))
    assert (expired["error"], "profileVerified" in expired) == ("expired", False)
    assert answer("delegation", printed_delegation(delegate_public_key="?"))["error"] == "malformed"
    pinned = answer("delegation", printed_delegation(), {"motebit-abc": BOB.key.hex()})
    assert pinned["error"] == "key-mismatch"
    chain = answer("delegation-chain", [printed_delegation()])
    assert (chain["error"], chain["index"], chain["missing"]) == ("legacy-profile", 0, ["suite"])


def printed_token(signer: Agent = ALICE, **members: Any) -> str:
    """As `createSignedToken` of the multi-hop specification is called."""
    payload = {"mid": "alice", "did": "phone", "iat": NOW, "exp": NOW + 300_000, "jti": "one", "aud": "task:submit"}
    body = json.dumps({**payload, **members}).encode()
    return f"{base64url_text(body)}.{base64url_text(ed25519.sign(signer.seed, body))}"


def test_a_printed_token_holds_as_its_profile_and_authorizes_nothing() -> None:
    keys = {"alice": ALICE.key.hex()}
    held = answer("token", printed_token(), keys)
    assert (held["verified"], held["error"], held["profile"]) == (False, "legacy-profile", "legacy")
    assert (held["profileVerified"], held["missing"], TOKEN_SUITE in held["detail"]) == (True, ["suite"], True)
    assert answer("token", printed_token(exp=NOW - 1), keys)["error"] == "expired"
    assert answer("token", printed_token(BOB), keys)["error"] == "bad-signature"
    bind = printed_token(aud=BIND_AUDIENCE, origin="a_0")
    with pytest.raises(DocumentError) as refused:
        bound_key(bind, ALICE.key.hex(), "a_0", NOW)
    assert refused.value.code == "legacy-profile"
    for stated, why in (("", "the card states no key: give its x-motebit a publicKey"), ("00", "is not 64 lower-case")):
        with pytest.raises(DocumentError, match=why) as refused:
            bound_key(bind, stated, "a_0", NOW)
        assert refused.value.code == "bad-key"


def flat_file(comment: str) -> str:
    text = f"motebit_id: {ALICE.id}\npublic_key: {ALICE.key.hex()}"
    signature = ed25519.sign(ALICE.seed, text.encode())
    return f"---\n{text}\n---\n{comment.format(hex=signature.hex(), base64url=base64url_text(signature))}\n"


@pytest.mark.parametrize(
    ("comment", "missing"),
    [
        (f"<!-- motebit:sig:{HEX_SUITE}:{{hex}} -->", ["identity.public_key"]),
        (
            "<!-- motebit:sig:Ed25519:{base64url} -->",
            ["identity.public_key", f"<!-- motebit:sig:{HEX_SUITE}:"],
        ),
    ],
)
def test_an_identity_file_with_its_key_at_the_top_holds_as_its_profile(comment: str, missing: list[str]) -> None:
    held = answer("identity", flat_file(comment))
    assert (held["verified"], held["error"], held["profileVerified"]) == (False, "legacy-profile", True)
    assert (held["missing"], HEX_SUITE in held["detail"]) == (missing, True)
    forged = answer("identity", flat_file(comment).replace(ALICE.id, BOB.id))
    assert (forged["error"], "profileVerified" in forged) == ("bad-signature", False)


def test_an_identity_file_without_a_signature_says_what_it_needs() -> None:
    unsigned = answer("identity", flat_file(""))
    assert unsigned["error"] == "malformed"
    assert unsigned["missing"] == ["identity.public_key", f"<!-- motebit:sig:{HEX_SUITE}:"]
    assert HEX_SUITE in unsigned["detail"]


def test_every_missing_member_and_the_expected_suite_are_named() -> None:
    receipt = ALICE.sign(without(ALICE.receipt(), "device_id", "tools_used", "signature"))
    lacking = answer("receipt", receipt)
    assert (lacking["error"], lacking["missing"]) == ("malformed", ["device_id", "tools_used"])
    assert lacking["detail"] == "device_id, tools_used are missing in a receipt"
    for kind, document, suite in (
        ("receipt", ALICE.sign({**ALICE.receipt(), "suite": "other"}), SUITE),
        ("delegation", ALICE.delegate(BOB, suite="other"), SUITE),
        ("delegation", without(ALICE.delegate(BOB), "suite"), SUITE),
        ("token", ALICE.token(suite="other"), TOKEN_SUITE),
    ):
        verdict = answer(kind, document, {ALICE.id: ALICE.key.hex()})
        assert (verdict["error"], suite in verdict["detail"]) == ("unknown-suite", True)
    assert answer("token", ALICE.token(jti=""), {ALICE.id: ALICE.key.hex()})["error"] == "malformed"


def test_the_printed_envelope_of_mrp_says_what_its_signature_needs() -> None:
    printed = {
        "mrp_version": "0.1", "msg_id": "5bd0b9a3-4c21-4f67-9f2c-1d9e0a7b3c55", "msg_type": "DISCOVER",
        "timestamp": "2026-09-21T14:13:20Z", "sender": {"id": "agent:moltbots/alpha", "proofs": ["attestation"]},
        "receiver": {"id": "service:clawdbots/summarize"}, "auth": {"type": "bearer", "token": "..."},
        "payload": {"intent": "summarize"},
    }  # fmt: skip
    verdict = answer("mrp-envelope", printed, {"keys": []})
    assert (verdict["error"], verdict["missing"]) == (
        "MRP_AUTH_REQUIRED", ["auth.signature", "nonce", "expires_at"],
    )  # fmt: skip
    unsigned = answer("mrp-envelope", printed, {"keys": []}, signed=False)
    assert (unsigned["verified"], unsigned["signed"]) == (True, False)
