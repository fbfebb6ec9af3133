"""Documents that are signed here: whatever the members are, the result verifies, or none is made."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.claims import plain_yaml
from parsers.claims.canonical_json import DocumentError
from parsers.claims.motebit.signing import KINDS, Signer, sign_document
from parsers.claims.verification import verify_document
from tests.parsers.claims.motebit.signers import ALICE, BOB, NOW
from tests.parsers.claims.mutation import JSON

SIGNER = Signer(ALICE.seed, NOW, "2026-09-21T14:13:20Z", "id-1", BOB.seed)
NAMES = st.sampled_from(
    ("result", "prompt", "status", "suite", "motebit_id", "public_key", "scope", "aud", "mid", "iat", "exp", "did",
     "delegate_public_key", "issued_at", "expires_at", "capabilities", "service_name", "identity", "succession",
     "delegation_receipts", "reason", "timestamp", "grant_id", "signature")
)  # fmt: skip
GOOD: dict[str, dict[str, Any]] = {
    "receipt": {"result": "done", "prompt": "?"},
    "delegation": {"scope": "x", "delegate_public_key": BOB.key.hex()},
    "grant": {"scope": "x", "delegate_public_key": BOB.key.hex()},
    "revocation": {"grant_id": "g"},
    "token": {"aud": "x"},
    "identity": {"service_name": "x"},
    "succession": {},
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(members=st.dictionaries(NAMES, JSON | st.just(BOB.key.hex()) | st.integers(0, 2 * NOW), max_size=3))
def test_what_is_signed_verifies(kind: str, members: dict[str, Any]) -> None:
    try:
        document = sign_document(kind, {**GOOD[kind], **members}, SIGNER)
    except DocumentError:
        return
    if kind not in ("receipt", "delegation", "token", "identity"):
        return
    content = document if isinstance(document, dict) else {**GOOD[kind], **members}
    now = content.get("iat", NOW) if kind == "token" else NOW
    if abs(now) >= 10**15:  # no request names such a time
        return
    keys = {str(content.get(name, ALICE.id)): ALICE.key.hex() for name in ("motebit_id", "mid", "delegator_id")}
    context = {"checkExpiry": False} if kind == "delegation" else {}
    body = {"document": document, "keys": keys, "now": now, "context": context}
    verdict = verify_document(kind, json.dumps(body).encode(), 0)
    assert verdict.error == ""


@pytest.mark.parametrize("kind", KINDS)
def test_the_least_members_are_enough(kind: str) -> None:
    assert sign_document(kind, GOOD[kind], SIGNER)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.text(max_size=8), JSON, max_size=4))
def test_written_yaml_is_read_as_the_same_values(content: dict[str, Any]) -> None:
    try:
        text = plain_yaml.dump(content)
    except DocumentError:
        return
    assert plain_yaml.load(text) == content


def test_ordinary_values_have_a_form_in_yaml() -> None:
    content = {
        "a": ['say "x": y', "", "- no", "# none", "true"],
        "b": {"c": [{"d": 1, "e": [[2.5, None], {}]}, []]}, "f g": False,
    }  # fmt: skip
    assert plain_yaml.load(plain_yaml.dump(content)) == content
