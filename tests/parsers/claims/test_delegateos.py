"""DelegateOS: tokens only narrow, roots are trusted by key, patterns and schemas of strangers stay bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from parsers.claims import ed25519
from parsers.claims.canonical_json import DocumentError, base64url_text, jcs, without
from parsers.claims.delegateos import capability_token as tokens
from parsers.claims.delegateos import token_issue
from parsers.claims.delegateos.contracts import verify_attestation, verify_contract_output
from parsers.claims.delegateos.output_checks import check_output
from parsers.claims.delegateos.resource_globs import is_part, matches
from parsers.claims.delegateos.signed_objects import digest_text, principal_of, sign_object
from parsers.claims.json_schema import first_error, is_match
from parsers.claims.rfc3339 import instant
from tests.parsers.claims.mutation import mutated

ISSUER, AGENT, HELPER, STRANGER = (bytes([number]) * 32 for number in (1, 2, 3, 4))
NOW = instant("2026-03-01T00:10:00Z") or 0
PARTIES = {"contractId": "ct_1", "delegationId": "del_1"}
AUTHORITY: dict[str, Any] = {
    **PARTIES,
    "delegatee": principal_of(AGENT),
    "capabilities": [{"namespace": "docs", "action": "read", "resource": "/project/**"}],
    "maxChainDepth": 2,
    "maxBudgetMicrocents": 1_000,
    "expiresAt": "2026-03-01T01:00:00Z",
    "issuedAt": "2026-03-01T00:00:00Z",
}
ROOT = token_issue.create_dct(ISSUER, AUTHORITY)


def context(**members: Any) -> tokens.TokenContext:
    request: dict[str, Any] = {"operation": "read", "namespace": "docs", "resource": "/project/a", **members}
    return tokens.TokenContext(roots=frozenset((principal_of(ISSUER),)), now=request.pop("now", NOW), **request)


def code(dct: Any, **members: Any) -> str:
    return tokens.verify_dct(dct, context(**members)).error


def attenuated(dct: Any = ROOT, seed: bytes = AGENT, to: bytes = HELPER, **members: Any) -> dict[str, str]:
    return token_issue.attenuate_dct(dct, seed, {**PARTIES, "delegatee": principal_of(to), **members})


def resigned(dct: dict[str, str], change: dict[str, Any], seed: bytes = AGENT) -> dict[str, str]:
    """A token whose last attenuation is changed and signed again, without the checks of whoever attenuates."""
    token = tokens.read_dct(dct)
    token["attenuations"][-1] |= change
    payload = {"authority": token["authority"], "attenuations": token["attenuations"]}
    token["signatures"][-1]["signature"] = sign_object(seed, payload)
    return tokens.serialize_dct(token)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, ""),
        ({"now": instant("2026-03-01T01:00:00Z")}, ""),
        ({"now": (instant("2026-03-01T01:00:00Z") or 0) + 1}, "expired"),
        ({"spent": 999}, ""),
        ({"spent": 1_000}, "budget_exceeded"),
        ({"operation": "write"}, "capability_not_granted"),
        ({"namespace": "web"}, "capability_not_granted"),
        ({"resource": "/project/../etc"}, "capability_not_granted"),
        ({"resource": "/projectile"}, "capability_not_granted"),
        ({"resource": "/project"}, ""),
        ({"contract_id": "ct_2"}, "capability_not_granted"),
        ({"seen": frozenset({"del_1"})}, "replayed"),
        ({"max_depth": -1}, "chain_depth_exceeded"),
    ],
)
def test_a_token_allows_what_its_root_says(members: dict[str, Any], expected: str) -> None:
    assert code(ROOT, **members) == expected


def test_a_root_counts_by_the_key_of_its_trusted_issuer_and_no_other() -> None:
    token = tokens.read_dct(ROOT)
    payload = {"authority": token["authority"]}
    for signer in (principal_of(STRANGER), principal_of(ISSUER)):
        forged = {"signer": signer, "covers": "authority", "signature": sign_object(STRANGER, payload)}
        assert code(tokens.serialize_dct({**token, "signatures": [forged]})) == "invalid_signature"
    assert code(token_issue.create_dct(STRANGER, AUTHORITY)) == "invalid_signature"
    assert tokens.verify_dct(ROOT, tokens.TokenContext(roots=frozenset(), now=NOW)).error == "invalid_signature"


WIDER: list[dict[str, Any]] = [
    {"maxBudgetMicrocents": 1_001},
    {"expiresAt": "2026-03-01T01:00:00.001Z"},
    {"maxChainDepth": 2},
    {"allowedCapabilities": [{"namespace": "docs", "action": "write", "resource": "/project/a"}]},
    {"allowedCapabilities": [{"namespace": "docs", "action": "read", "resource": "/projectX/a"}]},
    {"allowedCapabilities": [{"namespace": "docs", "action": "read", "resource": "/project/../a"}]},
    {"allowedCapabilities": [{"namespace": "docs", "action": "read", "resource": "/**"}]},
    {"allowedCapabilities": [{"namespace": "docs", "action": "read", "resource": "/project*"}]},
]


@pytest.mark.parametrize("change", WIDER)
def test_an_attenuation_that_adds_something_is_neither_made_nor_taken(change: dict[str, Any]) -> None:
    with pytest.raises(DocumentError):
        attenuated(**change)
    assert code(resigned(attenuated(), change)) == "attenuation_violation"


def test_only_the_delegatee_attenuates_and_no_further_than_allowed() -> None:
    with pytest.raises(DocumentError):
        attenuated(seed=STRANGER)
    first = attenuated(maxChainDepth=0)
    assert code(first) == ""
    assert code(attenuated(first, HELPER, STRANGER)) == "chain_depth_exceeded"
    third = attenuated(attenuated(attenuated(), HELPER, AGENT), AGENT, HELPER)
    assert code(third) == "chain_depth_exceeded"
    denied = attenuated(allowedCapabilities=[])
    assert code(denied) == "capability_not_granted"


def test_a_block_is_revoked_by_its_signer_and_a_chain_by_a_signer_above() -> None:
    dct = attenuated()
    root_id, own_id = tokens.revocation_ids(tokens.read_dct(dct))

    def after(*entries: Any) -> str:
        return code(dct, revocations=entries)

    when = "2026-03-01T00:00:00Z"
    assert after(token_issue.revoke_block(AGENT, own_id, when)) == "revoked"
    assert after(token_issue.revoke_block(ISSUER, root_id, when)) == "revoked"
    assert after(token_issue.revoke_block(ISSUER, own_id, when, "chain")) == "revoked"
    assert after(token_issue.revoke_block(ISSUER, own_id, when)) == ""
    assert after(token_issue.revoke_block(AGENT, root_id, when, "chain")) == ""
    assert after(token_issue.revoke_block(STRANGER, own_id, when, "chain")) == ""
    assert after(token_issue.revoke_block(AGENT, own_id, when) | {"revokedBy": principal_of(ISSUER)}, 5) == ""
    assert code(dct, revoked=frozenset({root_id})) == "revoked"


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_change_of_a_token_verifies(data: st.DataObject) -> None:
    token = tokens.read_dct(attenuated())
    changed = data.draw(mutated(token))
    text = json.dumps(changed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if changed != token:
        assert code({"token": base64url_text(text.encode()), "format": tokens.FORMAT})
    whole = ROOT["token"]
    assert code({"token": whole[: data.draw(st.integers(0, len(whole) - 1))], "format": tokens.FORMAT})


def test_a_token_in_another_spelling_is_malformed() -> None:
    for text in (ROOT["token"] + "=", base64url_text(b" " + jcs(tokens.read_dct(ROOT)))):
        assert code({"token": text, "format": tokens.FORMAT}) == "malformed_token"


def test_patterns_end_in_time() -> None:
    assert not matches("/".join(["**"] * 60) + "/x", "/".join(["a"] * 60))
    assert not is_part("/".join(["**", "a"] * 10), "/".join(["**", "b"] * 10))
    assert not is_match("(a+)+$", "a" * 5_000 + "b")


STARS = "/".join(["*"] * 13)


def test_all_comparisons_of_patterns_for_one_token_share_a_budget() -> None:
    parents = [{"namespace": "docs", "action": "read", "resource": f"**/x/{STARS}/*/{number}"} for number in range(200)]
    parts = [{**parents[0], "resource": f"**/x/{STARS}/y/{number}"} for number in range(3)]
    wide = token_issue.create_dct(ISSUER, {**AUTHORITY, "capabilities": parents})
    narrow = token_issue.attenuate_dct(
        wide, AGENT, {**PARTIES, "delegatee": principal_of(HELPER), "allowedCapabilities": []}
    )
    assert code(resigned(narrow, {"allowedCapabilities": parts})) == "patterns-too-costly"
    deep = [{**parents[0], "resource": "/".join(["**"] * 60) + f"/{number}"} for number in range(200)]
    dct = token_issue.create_dct(ISSUER, {**AUTHORITY, "capabilities": deep})
    assert code(dct, resource="/".join("a" * 60)) == "patterns-too-costly"


def test_fifty_capabilities_narrowed_twice_are_within_the_budget() -> None:
    folders = [{"namespace": "docs", "action": "read", "resource": f"/{number}/**"} for number in range(50)]
    inner = [{**one, "resource": f"{one['resource'][:-2]}a/**"} for one in reversed(folders)]
    dct = token_issue.create_dct(ISSUER, {**AUTHORITY, "capabilities": folders})
    once = attenuated(dct, allowedCapabilities=inner)
    assert code(attenuated(once, HELPER, STRANGER, allowedCapabilities=inner[::-1]), resource="/7/a/b") == ""


REPEATED = {"$ref": "#/definitions/d0"}
DOUBLING = {f"d{number}": {"anyOf": [{"$ref": f"#/definitions/d{number + 1}"}] * 2} for number in range(30)}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"$ref": "https://example.com/s.json"}, "remote-reference"),
        ({"$ref": "file:///etc/passwd"}, "remote-reference"),
        ({"$ref": "#/definitions/none"}, "remote-reference"),
        ({"$ref": "#"}, "schema-too-costly"),
        ({**REPEATED, "definitions": DOUBLING | {"d30": False}}, "schema-too-costly"),
        ({"pattern": "(?=a)"}, "bad-pattern"),
        ({"pattern": r"(a)\1"}, "bad-pattern"),
        ({"type": "nothing"}, "bad-schema"),
        ({"enum": ["x" * 40_000]}, "bad-schema"),
        (5, "bad-schema"),
    ],
)
def test_a_schema_of_a_stranger_that_cannot_be_evaluated_is_refused(schema: Any, expected: str) -> None:
    with pytest.raises(DocumentError) as raised:
        first_error(schema, "a" * 10)
    assert raised.value.code == expected


PATTERNS = {f"z{number}": True for number in range(300)}
COSTLY: list[tuple[Any, Any]] = [
    ({"pattern": "(a|b|ab){1,1000}$"}, "ab" * 100_000),
    ({"allOf": [{"pattern": f"(a|b|ab){{1,100}}c{number}$"} for number in range(150)]}, "ab" * 1_000),
    ({"patternProperties": PATTERNS}, {f"n{number}": 1 for number in range(3_500)}),
    ({"patternProperties": PATTERNS, "additionalProperties": {}}, {f"n{number}": 1 for number in range(50)}),
    ({"allOf": [{"uniqueItems": True}] * 250}, list(range(4_000))),
    ({"uniqueItems": True}, [[list(range(90))] for _ in range(90)]),
    ({"allOf": [{"items": {}}] * 250}, list(range(4_000))),
    ({"items": {"enum": list(range(1_000))}}, [5_000] * 450),
    ({"definitions": {"c": {"const": list(range(1_000))}}, "allOf": [{"$ref": "#/definitions/c"}] * 200},
     list(range(1_000))),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value"), COSTLY)
def test_a_schema_whose_evaluation_takes_too_many_steps_is_refused(schema: Any, value: Any) -> None:
    with pytest.raises(DocumentError) as raised:
        first_error(schema, value)
    assert raised.value.code == "schema-too-costly"
    check = {"method": "deterministic_check", "checkName": "json_schema", "checkParams": {"schema": schema}}
    with pytest.raises(DocumentError):
        check_output(check, value)


def test_common_schemas_of_long_values_are_within_the_budget() -> None:
    assert first_error({"pattern": "^[a-z]+$", "maxLength": 250_000}, "ab" * 100_000) is None
    assert first_error({"uniqueItems": True, "items": {"type": "string"}}, [f"{n}" for n in range(500)]) is None
    search = {"method": "deterministic_check", "checkName": "regex_match", "checkParams": {"pattern": "(?i)summary"}}
    assert check_output(search, "x" * 100_000 + "Summary")["passed"]


def test_the_steps_of_a_composite_are_counted_together() -> None:
    part = {"method": "schema_match", "schema": {"items": {"type": "string"}}}
    assert check_output({"method": "composite", "mode": "majority", "steps": [part]}, ["x"] * 500)["passed"]
    with pytest.raises(DocumentError) as raised:
        check_output({"method": "composite", "mode": "majority", "steps": [part] * 3}, ["x"] * 500)
    assert raised.value.code == "schema-too-costly"


OBJECT_SCHEMA = {
    "type": "object", "required": ["a"], "additionalProperties": False,
    "patternProperties": {"^x": {"type": "integer"}},
    "properties": {"a": {"type": "array", "uniqueItems": True, "maxItems": 2, "items": {"minimum": 1}},
                   "b": {"enum": ["p", "q"]}},
}  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_values_are_valid_where_another_validator_has_them_so(data: st.DataObject) -> None:
    value = data.draw(mutated({"a": [1, 2], "b": "p", "x1": 3}))
    assert (first_error(OBJECT_SCHEMA, value) is None) == Draft7Validator(OBJECT_SCHEMA).is_valid(value)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ([], "data must be object"),
        ({}, "data must have required property 'a'"),
        ({"a": [], "c": 1}, "data must NOT have additional properties"),
        ({"a": [0]}, "data/a/0 must be >= 1"),
        ({"a": [1, 1]}, "data/a must NOT have duplicate items"),
        ({"a": [1, 2, 3]}, "data/a must NOT have more than 2 items"),
        ({"a": [], "b": "r"}, "data/b must be equal to one of the allowed values"),
        ({"a": [], "x": "1"}, "data/x must be integer"),
    ],
)
def test_the_first_error_is_worded_as_ajv_does(value: Any, error: str) -> None:
    assert first_error(OBJECT_SCHEMA, value) == error


def contract(**more: Any) -> dict[str, Any]:
    body = {
        "id": "ct_1", "version": "0.1", "issuer": principal_of(ISSUER), "createdAt": "2026-03-01T00:00:00Z",
        "task": {"title": "t", "description": "d", "inputs": {}, "outputSchema": {"type": "object"}},
        "verification": {"method": "schema_match", "schema": {"required": ["summary"]}},
        "constraints": {"maxBudgetMicrocents": 100, "deadline": "2026-03-01T01:00:00Z", "maxChainDepth": 1,
                        "requiredCapabilities": []},
        **more,
    }  # fmt: skip
    return {**body, "signature": sign_object(ISSUER, body)}


def attestation(**result: Any) -> dict[str, Any]:
    output = {"summary": "s"}
    base = {"success": True, "output": output, "outputHash": digest_text(output), "costMicrocents": 1, "durationMs": 1}
    body = {
        "id": "att_1", "version": "0.1", "contractId": "ct_1", "delegationId": "del_1",
        "principal": principal_of(AGENT), "createdAt": "2026-03-01T00:00:00Z", "type": "completion",
        "result": {**base, **result}, "childAttestations": [],
    }  # fmt: skip
    return {**body, "signature": sign_object(AGENT, body)}


WEIGHTED = {
    "method": "composite", "mode": "weighted", "weights": [1, 1],
    "steps": [{"method": "deterministic_check", "checkName": "exit_code", "checkParams": {"expected": 0}}] * 2,
}  # fmt: skip


def signed_plainly(record: dict[str, Any], seed: bytes) -> dict[str, Any]:
    """A record with a signature over its canonical JSON and not over the digest of that."""
    return record | {"signature": base64url_text(ed25519.sign(seed, jcs(without(record, "signature"))))}


def test_contracts_and_revocations_may_be_signed_as_the_specification_prints_it() -> None:
    assert verify_contract_output(signed_plainly(contract(), ISSUER), {"summary": ""}, None, NOW).error == ""
    entry = token_issue.revoke_block(ISSUER, tokens.revocation_ids(tokens.read_dct(ROOT))[0], "2026-03-01T00:05:00Z")
    plain = signed_plainly(entry, ISSUER)
    assert code(ROOT, revocations=[plain]) == "revoked"
    assert code(ROOT, revocations=[signed_plainly(entry, STRANGER)]) == ""
    assert code(ROOT, revocations=[plain | {"scope": "chain"}]) == ""
    assert verify_attestation(signed_plainly(attestation(), AGENT), contract(), None).error == "bad-signature"
    token = tokens.read_dct(ROOT)
    payload = jcs({"authority": token["authority"]})
    token["signatures"][0]["signature"] = base64url_text(ed25519.sign(ISSUER, payload))
    assert code(tokens.serialize_dct(token)) == "invalid_signature"


def test_an_output_meets_a_contract_that_its_issuer_signed() -> None:
    verdict = verify_contract_output(contract(), {"summary": ""}, None, NOW)
    assert (verdict.verified, verdict.authority, verdict.binding) == (True, "valid", "sovereign")
    assert verify_contract_output(contract(), {}, None, NOW).error == "output-refused"
    assert verify_contract_output(contract() | {"id": "ct_2"}, {}, None, NOW).error == "bad-signature"
    trusted = frozenset((principal_of(STRANGER),))
    assert verify_contract_output(contract(), {"summary": ""}, trusted, NOW).error == "unknown-key"
    wrong = contract(verification=WEIGHTED)
    assert verify_contract_output(wrong, {"exitCode": 0}, None, NOW).error == "bad-verification"


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ({}, ""),
        ({"success": False}, ""),
        ({"outputHash": "AA"}, "hash-mismatch"),
        ({"output": {}, "outputHash": ""}, "output-refused"),
        ({"costMicrocents": 101}, "over-budget"),
        ({"success": 1}, "malformed"),
    ],
)
def test_an_attestation_is_verified_with_its_contract(result: dict[str, Any], code: str) -> None:
    assert verify_attestation(attestation(**result), contract(), None).error == code


def test_an_attestation_is_for_one_contract_and_by_one_principal() -> None:
    assert verify_attestation(attestation(), contract(id="ct_2"), None).error == "contract-mismatch"
    assert verify_attestation(attestation(), None, frozenset((principal_of(ISSUER),))).error == "unknown-key"


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_change_of_an_attestation_verifies(data: st.DataObject) -> None:
    document = attestation()
    changed = data.draw(mutated(document))
    assert changed == document or verify_attestation(changed, None, None).error


@pytest.mark.parametrize(
    ("name", "params", "output", "details"),
    [
        ("regex_match", {"pattern": "^h", "field": "a.0"}, {"a": ["hi"]}, None),
        ("regex_match", {"pattern": "^h"}, 5, "Value is not a string"),
        ("string_length", {"min": 2, "max": 2}, "😀", None),
        ("array_length", {"max": 1}, [1, 2], "Array length 2 out of bounds"),
        ("field_exists", {"fields": ["a", "b.c", "d"]}, {"a": None}, "Missing fields: b.c, d"),
        ("exit_code", {"expected": 0}, {"exitCode": False}, None),
        ("exit_code", {"expected": 0}, [], "Output missing exitCode field"),
        ("output_equals", {"expected": {"a": 1}}, {"a": 1.0}, None),
        ("json_schema", {"schema": {"type": "string"}}, 5, "data must be string"),
    ],
)
def test_checks_say_what_is_wrong(name: str, params: Any, output: Any, details: str | None) -> None:
    outcome = check_output({"method": "deterministic_check", "checkName": name, "checkParams": params}, output)
    is_passed = details is None and output != {"exitCode": False}
    assert (outcome["passed"], outcome.get("details")) == (is_passed, details)


def test_a_specification_that_cannot_be_evaluated_is_refused() -> None:
    nested: Any = {"method": "schema_match", "schema": {}}
    for _ in range(10):
        nested = {"method": "composite", "mode": "all_pass", "steps": [nested]}
    for specification in (nested, {}, [], {"method": "llm_judge"}, {"method": "deterministic_check"},
                          {"method": "composite", "mode": "majority", "steps": []}):  # fmt: skip
        with pytest.raises(DocumentError):
            check_output(specification, {})
