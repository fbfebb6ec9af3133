"""Envelopes of MRP: the schemas as their authors publish them, signatures and replays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from parsers.claims import ed25519
from parsers.claims.canonical_json import base64url_text
from parsers.claims.mrp.message_schemas import PAYLOADS
from parsers.claims.mrp.signed_envelope import EnvelopeRules, schema_error, signing_input, verify_envelope
from parsers.claims.rfc3339 import instant
from tests.parsers.claims.mutation import mutated

SEED = bytes([5]) * 32
NOW = instant("2026-03-01T00:01:00Z") or 0
RULES = EnvelopeRules(keys={"key-1": ed25519.public_key_of(SEED)}, now=NOW)
BASE = "https://www.moltrouter.dev/schemas/mrp/0.1"


def envelope(scopes: Sequence[str] = ("mrp:discover",), **members: Any) -> dict[str, Any]:
    unsigned = {
        "mrp_version": "0.1", "msg_id": "message-1", "msg_type": "DISCOVER", "timestamp": "2026-03-01T00:00:00Z",
        "sender": {"id": "agent:one"}, "nonce": "n-1", "expires_at": "2026-03-01T00:05:00Z",
        "payload": {"intent": "summarise"}, **members,
    }  # fmt: skip
    auth = {"type": "signed", "scopes": list(scopes)}
    value = base64url_text(ed25519.sign(SEED, signing_input({**unsigned, "auth": auth})))
    return {**unsigned, "auth": {**auth, "signature": {"alg": "EdDSA", "key_id": "key-1", "value": value}}}


def code(document: Any, **members: Any) -> str:
    given_rules = {"keys": RULES.keys, "now": NOW, **members}
    return verify_envelope(document, EnvelopeRules(**given_rules)).error


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, ""),
        ({"mrp_version": "0.9"}, ""),
        ({"mrp_version": "1.0"}, "MRP_VERSION_UNSUPPORTED"),
        ({"mrp_version": "x"}, "MRP_INVALID_REQUEST"),
        ({"msg_type": "SHOUT"}, "MRP_INVALID_REQUEST"),
        ({"payload": {}}, "MRP_INVALID_REQUEST"),
        ({"extra": 1}, "MRP_INVALID_REQUEST"),
        ({"timestamp": "yesterday"}, "MRP_INVALID_REQUEST"),
        ({"timestamp": "2026-03-02T00:00:00Z"}, "MRP_INVALID_REQUEST"),
        ({"timestamp": "2026-02-01T00:00:00Z"}, "MRP_AUTH_REQUIRED"),
        ({"expires_at": "2026-03-01T00:00:59Z"}, "MRP_AUTH_REQUIRED"),
        ({"nonce": "used"}, "MRP_AUTH_REQUIRED"),
        ({"msg_id": "used-message"}, "MRP_AUTH_REQUIRED"),
    ],
)
def test_an_envelope_that_breaks_a_rule_says_which(members: dict[str, Any], expected: str) -> None:
    assert code(envelope(**members), seen=frozenset({"used", "used-message"})) == expected


def test_an_unsigned_envelope_has_the_same_times_and_ids() -> None:
    unsigned = {name: member for name, member in envelope().items() if name != "auth"}
    for change in (
        {"timestamp": "2026-02-01T00:00:00Z"},
        {"expires_at": "2026-03-01T00:00:59Z"},
        {"msg_id": "used-id"},
    ):
        seen = frozenset({"used-id"})
        assert code(unsigned | change, must_be_signed=False, seen=seen) == "MRP_INVALID_REQUEST"


def test_scopes_allow_what_they_name() -> None:
    assert code(envelope(scopes=["mrp:execute"])) == code(envelope(scopes=[])) == "MRP_SCOPE_DENIED"
    assert code(envelope(scopes=["mrp:execute", "mrp:discover"])) == ""
    assert code(envelope(scopes=[], msg_type="HELLO", payload={})) == ""
    bearer = envelope() | {"auth": {"type": "bearer", "scopes": ["mrp:negotiate"]}}
    assert code(bearer, must_be_signed=False) == "MRP_SCOPE_DENIED"


def test_only_a_signature_by_a_sound_key_counts() -> None:
    unsigned = {name: member for name, member in envelope().items() if name != "auth"}
    assert code(unsigned) == "MRP_AUTH_REQUIRED"
    assert code(unsigned, must_be_signed=False) == ""
    for key in (b"\x01" + bytes(31), ed25519.public_key_of(bytes(32))):
        assert code(envelope(), keys={"key-1": key}) == "MRP_AUTH_REQUIRED"
    assert code(envelope(), keys={}) == "MRP_AUTH_REQUIRED"


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_change_of_an_envelope_verifies(data: st.DataObject) -> None:
    document = envelope()
    changed = data.draw(mutated(document))
    assert changed == document or code(changed)


def test_the_fixtures_are_valid_by_each_generation_of_the_schemas_as_stated(shared: Path) -> None:
    folder = shared / "vectors" / "trust" / "mrp"
    for row in json.loads((folder / "matrix.json").read_text()):
        document = json.loads((folder / row["fixture"]).read_text())
        for name, is_strict in (("schemas-strict", True), ("schemas-lenient", False)):
            assert (schema_error(document, is_strict=is_strict) is None) == row[name]["valid"], row


@pytest.fixture(scope="module")
def registries(shared: Path) -> dict[bool, Registry[Any]]:
    def registry(name: str) -> Registry[Any]:
        files = (shared / "vectors" / "trust" / "mrp" / name).rglob("*.json")
        documents = [json.loads(file.read_text()) for file in files]
        return Registry[Any]().with_resources((one["$id"], Resource.from_contents(one)) for one in documents)

    return {True: registry("schemas-strict"), False: registry("schemas-lenient")}


ITEM = {"type": "text", "value": "v", "hash": "h"}
PAYLOAD_EXAMPLES: dict[str, Any] = {
    "HELLO": {"schemas": ["0.1"], "proofs": []},
    "DISCOVER": {"intent": "i", "inputs": [ITEM], "constraints": {"max_cost": 1, "policy": ["p"]}},
    "OFFER": {"offers": [{"route_id": "r", "capability": "c", "confidence": 1}]},
    "NEGOTIATE": {"route_id": "r", "proofs": ["p"], "payment_intent": {}},
    "EXECUTE": {"route_id": "r", "inputs": [{"type": "artifact", "uri": "u", "hash": "sha256:0"}]},
    "EVIDENCE": {"route_id": "r", "outputs": [ITEM], "attestations": []},
    "ERROR": {"code": "MRP_X", "message": "m", "retryable": False, "retry_after_ms": 1},
    "JOB_ACCEPTED": {"job_id": "job", "status": "s", "status_url": "u"},
    "JOB_STATUS": {"job_id": "job", "status": "s", "progress": 1},
    "STREAM_CHUNK": {"stream_id": "str", "sequence": 0, "final": True, "chunk": ITEM},
}


@pytest.mark.parametrize("is_strict", [True, False])
@pytest.mark.parametrize("msg_type", PAYLOADS)
def test_envelopes_are_valid_where_the_published_schemas_have_them_so(
    registries: dict[bool, Registry[Any]], msg_type: str, is_strict: bool
) -> None:
    validator = Draft202012Validator({"$ref": f"{BASE}/envelope.schema.json"}, registry=registries[is_strict])
    document = {
        **envelope(msg_type=msg_type, payload=PAYLOAD_EXAMPLES[msg_type]),
        "receiver": {"id": "service:two"},
        "in_reply_to": "message-0",
    }
    assert schema_error(document, is_strict=is_strict) is None

    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        changed = data.draw(mutated(document))
        assert (schema_error(changed, is_strict=is_strict) is None) == validator.is_valid(changed)

    holds()
