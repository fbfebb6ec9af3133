"""Verification by kind: total on any bytes, and exact about what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parsers.claims.delegateos.capability_token import read_dct, revocation_ids
from parsers.claims.delegateos.signed_objects import principal_of
from parsers.claims.verification import KINDS, VerifyRequestError, verify_document
from tests.parsers.claims.motebit.signers import ALICE, BOB, NOW
from tests.parsers.claims.mutation import ANY_JSON
from tests.parsers.claims.signing import signed
from tests.parsers.claims.test_mrp_envelopes import envelope
from tests.token_kit import AGENT, ISSUER, NOW_TEXT, attestation, capability, contract, issued

NANOSECONDS = NOW * 1_000_000


def verdict(kind: str, document: Any, **members: Any) -> dict[str, Any]:
    body = json.dumps({"document": document, **members}).encode()
    return verify_document(kind, body, NANOSECONDS).as_json()


@pytest.mark.parametrize("kind", KINDS)
def test_any_document_gets_a_verdict(kind: str) -> None:
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(ANY_JSON)
    def holds(document: Any) -> None:
        answer = verdict(kind, document, keys=None)
        assert answer["verified"] == ("error" not in answer)
        assert not answer["verified"] or document == []  # an empty chain or sequence holds

    holds()


@given(st.binary(max_size=200))
def test_any_bytes_get_a_verdict_or_a_named_fault(body: bytes) -> None:
    with suppress(VerifyRequestError):
        assert not verify_document("receipt", body, NANOSECONDS).verified


def raw(change: Callable[[str], str]) -> str:
    """The code for a body with a receipt that is changed as a text."""
    body = '{"document": ' + change(json.dumps(ALICE.receipt())) + "}"
    return str(verify_document("receipt", body.encode(), NANOSECONDS).as_json().get("error", "verified"))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda text: text, "verified"),
        (lambda text: text.replace('"memories_formed": 0', '"memories_formed": 9007199254740993'), "number-range"),
        (lambda text: text.replace('"memories_formed": 0', '"memories_formed": NaN'), "not-a-number"),
        (lambda text: text.replace('"memories_formed": 0', '"memories_formed": 1e999'), "number-range"),
        (lambda text: text.replace("{", '{"task_id": "other", ', 1), "duplicate-key"),
        (lambda text: text.replace('"done"', "[" * 70 + "]" * 70), "too-deep"),
        (lambda text: text[: len(text) // 2], "truncated"),
        (lambda text: text.replace('"done"', '"' + "d" * 270_000 + '"'), "too-large"),
        (lambda text: text.replace('"done"', "[" + "1," * 6_000 + "1]"), "too-many-values"),
        (lambda text: text.replace('"done"', '"\\ud800"'), "bad-text"),
        (lambda text: text.replace('"done"', "'done'"), "not-json"),
    ],
)
def test_a_document_that_cannot_be_read_says_why(change: Callable[[str], str], code: str) -> None:
    assert raw(change) == code


def test_json_may_come_as_a_text_whose_repeated_keys_count() -> None:
    text = json.dumps(ALICE.receipt())
    assert verdict("receipt", text)["verified"]
    assert verdict("receipt", text.replace("{", '{"status": "failed", ', 1))["error"] == "duplicate-key"


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"extra": 1}, "/extra"),
        ({"now": "yesterday"}, "/now"),
        ({"keys": {"a": "b"}}, "/keys"),
        ({"context": []}, "/context"),
        ({"context": {"sight": 1}}, "/context/sight"),
        ({"context": {"seen": "x"}}, "/context/seen"),
    ],
)
def test_a_wrong_request_names_its_member(members: dict[str, Any], pointer: str) -> None:
    with pytest.raises(VerifyRequestError) as raised:
        verdict("receipt", ALICE.receipt(), **members)
    assert raised.value.member == pointer


def test_the_time_is_that_of_the_request() -> None:
    receipt = ALICE.receipt()
    assert verdict("receipt", receipt, now=NOW - 3_600_000)["error"] == "future-dated"
    assert verdict("receipt", receipt, now="2100-01-01T00:00:00Z")["verified"]
    token = ALICE.delegate(BOB)
    assert verdict("delegation", token, now="2100-01-01T00:00:00Z")["error"] == "expired"
    assert verdict("delegation", token, now="2100-01-01T00:00:00Z", context={"checkExpiry": False})["verified"]


def test_clients_of_delegateos_send_their_root_and_time_in_the_context(shared: Path) -> None:
    lines = (shared / "vectors" / "clients" / "delegateos.jsonl").read_text().splitlines()
    recorded = json.loads(json.loads(lines[0])["body"])
    document, context = recorded["document"], recorded["context"]
    assert {"rootPublicKey", "now"} <= set(context)
    assert verify_document("dct", json.dumps(recorded).encode(), NANOSECONDS).verified
    assert verdict("dct", document, context=context)["verified"]
    assert verdict("dct", document, context=context, keys=[])["error"] == "invalid_signature"
    assert verdict("dct", document, context=context, now="2100-01-01T00:00:00Z")["error"] == "expired"
    with pytest.raises(VerifyRequestError) as raised:
        verdict("dct", document, context={**context, "now": "soon"})
    assert raised.value.member == "/context/now"


def test_a_token_covers_what_its_contract_requires() -> None:
    token, keys = issued(capability()), [principal_of(ISSUER)]

    def judged(**context: Any) -> tuple[bool, str]:
        answer = verdict("dct", token, keys=keys, now=NOW_TEXT, context=context)
        return answer["verified"], answer.get("detail", "")

    assert judged(contract=contract()) == (True, "")
    assert judged(contract=contract(requiredCapabilities=[])) == (True, "")
    wider = contract(requiredCapabilities=["registry:search", "acme:web:fetch"])
    assert judged(contract=wider) == (False, "the token does not grant 'acme:web:fetch', which its contract requires")
    assert judged(contractId="ct_2") == (False, "the token is for another contract")
    for wrong, pointer in (
        ({"contract": contract() | {"id": "ct_2"}}, "/context/contract"),
        ({"contract": contract(), "contractId": "ct_2"}, "/context/contractId"),
    ):
        with pytest.raises(VerifyRequestError) as raised:
            judged(**wrong)
        assert raised.value.member == pointer


def test_a_token_may_come_as_the_object_that_its_text_encodes() -> None:
    keys, token = [principal_of(ISSUER)], read_dct(issued(capability()))
    assert verdict("dct", token, keys=keys, now=NOW_TEXT)["verified"]
    wider = token | {"authority": token["authority"] | {"maxBudgetMicrocents": 10**9}}
    assert verdict("dct", wider, keys=keys, now=NOW_TEXT)["error"] == "invalid_signature"
    for broken in (token | {"format": "x"}, {"authority": 5}, {"authority": {"issuer": 1e400}}):
        assert verdict("dct", broken, keys=keys, now=NOW_TEXT)["error"] in ("malformed_token", "not-a-number")


def test_an_attestation_may_come_with_its_contract() -> None:
    signed = attestation(AGENT, "del_0000000000a1", {"ids": []})
    assert verdict("attestation", {"attestation": signed, "contract": contract()})["verified"]
    assert verdict("attestation", {"attestation": signed, "contract": contract(maxBudgetMicrocents=0)})["error"]
    assert verdict("attestation", signed, context={"contract": contract()})["verified"]
    pair = {"attestation": signed, "contract": contract()}
    assert verdict("attestation", pair, context={"contract": contract(maxBudgetMicrocents=0)})["error"] == "malformed"
    pair = {"contract": contract(), "output": {"ids": []}}
    assert verdict("contract-output", pair, context={"output": {}})["error"] == "malformed", "which one counts is open"


def test_a_token_may_come_with_its_scheme() -> None:
    token, keys = ALICE.token(), {ALICE.id: ALICE.key.hex()}
    for text in (token, f"motebit:{token}", f"Bearer motebit:{token}"):
        assert verdict("token", text, keys=keys)["verified"]


def without_key(agent: Any = ALICE) -> dict[str, Any]:
    """A receipt of an identity that no key in it shows."""
    whole = agent.receipt()
    return agent.sign({name: value for name, value in whole.items() if name != "public_key"})  # type: ignore[no-any-return]


DONE = attestation(AGENT, "del_0000000000a1", {"ids": []})

UNLOOKED: dict[str, tuple[Any, Any, str]] = {
    "receipt": (without_key(), None, "unknown"),
    "receipt-chain": (without_key(), None, "unknown"),
    "receipt-sequence": ([ALICE.receipt(), without_key(BOB)], None, "unknown"),
    "delegation": (ALICE.delegate(BOB), None, "verified"),
    "delegation-chain": ([ALICE.delegate(BOB)], None, "verified"),
    "token": (ALICE.token(), None, "unknown"),
    "identity": (ALICE.identity_file(), None, "verified"),
    "dct": (issued(), [], "unknown"),
    "contract-output": ({"contract": contract(), "output": {"summary": ""}}, [], "unknown"),
    "attestation": (DONE, [], "unknown"),
    "mrp-envelope": (envelope(timestamp=NOW_TEXT), [], "unknown"),
    "card-signature": (signed({"name": "A", "url": "https://a.example"}, "EdDSA"), {"keys": []}, "unknown"),
}
"""A sound document of each kind, keys among which its signer is not, and what is then known of its bytes."""


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_document_whose_key_is_unknown_no_verdict_says_that_it_was_altered(kind: str) -> None:
    document, keys, integrity = UNLOOKED[kind]
    result = verdict(kind, document, keys=keys, now=NOW_TEXT if kind in ("dct", "mrp-envelope") else NOW)
    assert result["axes"]["integrity"] == integrity, result
    assert result["axes"]["identityBinding"] in ("unverified", "sovereign")


@pytest.mark.parametrize(
    ("kind", "document", "members", "error"),
    [
        ("receipt", ALICE.receipt(suite="other"), {}, "unknown-suite"),
        ("delegation", {**ALICE.delegate(BOB), "suite": "other"}, {}, "unknown-suite"),
        ("dct", issued(), {"context": {"revocationIds": revocation_ids(read_dct(issued()))}}, "revoked"),
        ("card-signature", {"name": "A"}, {}, "unsigned"),
        ("mrp-envelope", {**envelope(), "auth": {"type": "bearer"}}, {"now": NOW_TEXT}, "MRP_AUTH_REQUIRED"),
        ("delegation-chain", [ALICE.delegate(BOB), ALICE.delegate(BOB)], {}, "broken-chain"),
        ("delegation-chain", [ALICE.delegate(BOB)], {"now": "2100-01-01T00:00:00Z"}, "expired"),
    ],
)
def test_a_document_refused_before_its_signature_is_checked_is_not_called_altered(
    kind: str, document: Any, members: dict[str, Any], error: str
) -> None:
    result = verdict(kind, document, **members)
    assert (result["verified"], result["error"], result["axes"]["integrity"]) == (False, error, "unknown")


def test_an_altered_document_is_still_called_altered() -> None:
    altered = issued()[:-12] + "AAAAAAAAAAAA"
    for kind, document, keys in (
        ("receipt", ALICE.receipt() | {"status": "failed"}, None),
        ("delegation-chain", [ALICE.delegate(BOB) | {"scope": "*"}], None),
        ("receipt-sequence", [ALICE.receipt() | {"status": "failed"}], None),
        ("dct", altered, [principal_of(ISSUER)]),
        ("attestation", {**DONE, "createdAt": "2026-01-01T00:00:00Z"}, None),
    ):
        assert verdict(kind, document, keys=keys)["axes"]["integrity"] == "invalid", kind


@pytest.mark.parametrize(("seconds", "error"), [(-60, None), (299, None), (301, "not-yet-valid")])
def test_a_capability_token_from_the_future_is_refused(seconds: int, error: str | None) -> None:
    issued_at = datetime.fromisoformat(NOW_TEXT) + timedelta(seconds=seconds)
    token = issued(issuedAt=issued_at.isoformat().replace("+00:00", "Z"))
    result = verdict("dct", token, keys=[principal_of(ISSUER)], now=NOW_TEXT)
    assert result.get("error") == error
    assert result["axes"]["authority"] == ("not_yet_valid" if error else "valid")
    assert result["axes"]["integrity"] == "verified"


def test_delegations_and_grants_from_the_future_are_refused() -> None:
    later = {"issued_at": NOW + 301_000, "expires_at": NOW + 400_000}
    for more in ({}, {"not_before": NOW - 1}):
        assert verdict("delegation", ALICE.delegate(BOB, **later, **more))["error"] == "future-dated"
    grant = {
        **{name: value for name, value in ALICE.delegate(BOB).items() if name != "signature"},
        "grant_id": "g", "subject": "s", "max_token_ttl_ms": 100_000, "not_before": None, **later,
    }  # fmt: skip
    tick = ALICE.delegate(BOB, grant_id="g")
    result = verdict("delegation", tick, context={"grant": ALICE.sign(grant)})
    assert (result["error"], result["axes"]["authority"]) == ("grant-invalid", "insufficient")
    valid = {**grant, "issued_at": NOW - 10_000}
    assert verdict("delegation", tick, context={"grant": ALICE.sign(valid)})["verified"]
