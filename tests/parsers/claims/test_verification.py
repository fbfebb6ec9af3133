"""Verification by kind: total on any bytes, and exact about what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parsers.claims.delegateos.capability_token import read_dct
from parsers.claims.delegateos.signed_objects import principal_of
from parsers.claims.verification import KINDS, VerifyRequestError, verify_document
from tests.parsers.claims.motebit.signers import ALICE, BOB, NOW
from tests.parsers.claims.mutation import ANY_JSON
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
