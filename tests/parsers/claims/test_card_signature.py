"""Signatures of A2A cards: which keys and canonical forms verify them, and whether prices are among what was signed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from parsers.claims.card_forms import canonical_forms
from parsers.claims.card_signature import SignatureCheck, signatures, signed_card, verify
from parsers.claims.json_web_key import key_set, verifies
from parsers.errors import ParseError
from tests.parsers.claims.signing import encoded, jwk, raw_signature, signed

PRICES = [{"id": "p", "currency": "USD", "amount": "5", "interval": None, "address": "1abc"}]
CARD: dict[str, Any] = {
    "name": "Écho", "description": "", "version": "1", "documentationUrl": None,
    "supportedInterfaces": [{"url": "https://a.example/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "capabilities": {"streaming": False, "extensions": [{"uri": "https://a.example/x", "required": False}]},
    "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "echo", "name": "Echo", "description": "says it again", "tags": [], "x-own": 1}],
}  # fmt: skip
PRICED = CARD | {"x-payment-config": PRICES}
ALGORITHMS = ("ES256", "ES384", "RS256", "EdDSA")


def signed_form(card: dict[str, Any]) -> dict[str, Any]:
    """The form of CARD and PRICED that A2A 1.0 signs, written out by hand."""
    return {
        "name": "Écho", "version": "1", "supportedInterfaces": card["supportedInterfaces"],
        "capabilities": {"streaming": False, "extensions": [{"uri": "https://a.example/x"}]},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "echo", "name": "Echo", "description": "says it again"}],
    }  # fmt: skip


FRAGMENT: dict[str, Any] = {
    "name": "Example Agent", "description": "", "skills": [],
    "capabilities": {"streaming": False, "pushNotifications": False, "extensions": []},
}  # fmt: skip
"""The worked example of A2A 1.0 §8.4.1, and the bytes that the section prints for it."""

FRAGMENT_FORM = (
    b'{"capabilities":{"pushNotifications":false,"streaming":false},"description":"",'
    b'"name":"Example Agent","skills":[]}'
)


@pytest.mark.parametrize("more", [{}, {"signatures": [{}]}, {"securityRequirements": [], "iconUrl": None, "x-own": ""}])
def test_the_example_of_the_specification_has_the_form_that_it_prints(more: dict[str, Any]) -> None:
    payloads = {form.payload: form.name for form in canonical_forms(FRAGMENT | more)}
    assert payloads[FRAGMENT_FORM] == "a2a-required-jcs"


def test_a_card_signed_as_the_specification_says_is_verified() -> None:
    """REQUIRED members stay though they are empty, and so do `optional` ones and messages that the card states."""
    flows = {"implicit": {"scopes": {}}, "deviceCode": {"tokenUrl": "", "refreshUrl": "", "scopes": {}, "x": 1}}
    params = {"empty": "", "none": None, "list": []}
    card = CARD | {
        "iconUrl": "", "provider": {"organization": "", "url": ""},
        "supportedInterfaces": [CARD["supportedInterfaces"][0] | {"tenant": ""}],
        "capabilities": {"pushNotifications": False, "extensions": [{"uri": "", "required": False, "params": params}]},
        "securitySchemes": {"m": {"mtlsSecurityScheme": {}}, "o": {"oauth2SecurityScheme": {"flows": flows}}},
        "securityRequirements": [{"schemes": {"m": {"list": []}}}, {"schemes": {}}],
    }  # fmt: skip
    form = {
        "name": "Écho", "description": "", "version": "1", "iconUrl": "", "provider": {"organization": "", "url": ""},
        "supportedInterfaces": CARD["supportedInterfaces"],
        "capabilities": {"pushNotifications": False, "extensions": [{"params": params}]},
        "securitySchemes": {
            "m": {"mtlsSecurityScheme": {}},
            "o": {"oauth2SecurityScheme": {"flows": {"implicit": {}, "deviceCode": {"tokenUrl": "", "scopes": {}}}}},
        },
        "securityRequirements": [{"schemes": {"m": {}}}, {}],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "echo", "name": "Echo", "description": "says it again", "tags": []}],
    }  # fmt: skip
    check = verify(signed(card, payload=rfc8785.dumps(form)), [jwk("ES256")])
    assert (check.verified, check.form, check.covers_pricing) == (True, "a2a-required-jcs", False)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_signature_is_verified_by_its_key(algorithm: str) -> None:
    check = verify(signed(PRICED, algorithm), [jwk("ES256", kid="other"), jwk(algorithm)])
    assert check == SignatureCheck(True, "", algorithm, "k1", "all-jcs", True)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("change", [{"name": "Echo"}, {"x-payment-config": []}, {"x": 1}])
def test_any_change_breaks_a_signature_of_all_members(algorithm: str, change: dict[str, Any]) -> None:
    assert verify(signed(PRICED, algorithm) | change, [jwk(algorithm)]).code == "bad-signature"


def test_prices_beside_the_members_of_a2a_are_not_covered_by_its_own_form() -> None:
    card = signed(PRICED, payload=rfc8785.dumps(signed_form(CARD)))
    check = verify(card, [jwk("ES256")])
    assert (check.verified, check.form, check.covers_pricing) == (True, "a2a-jcs", False)
    dearer = card | {"x-payment-config": [PRICES[0] | {"address": "1thief"}]}
    assert verify(dearer, [jwk("ES256")]) == check
    assert verify(card | {"name": "Echo"}, [jwk("ES256")]).code == "bad-signature"


def test_prices_in_the_params_of_an_extension_are_covered_in_every_form() -> None:
    extensions = [{"uri": "https://a.example/x", "params": {"configs": PRICES}}]
    capabilities = {"streaming": False, "extensions": extensions}
    payload = signed_form(CARD) | {"capabilities": capabilities}
    payload["capabilities"]["extensions"][0]["params"]["configs"][0].pop("interval")
    card = signed(CARD | {"capabilities": capabilities}, payload=rfc8785.dumps(payload))
    assert verify(card, [jwk("ES256")]).covers_pricing
    assert not verify(card | {"x-payment-config": PRICES}, [jwk("ES256")]).covers_pricing


def test_a_card_without_prices_covers_none() -> None:
    check = verify(signed(CARD), [jwk("ES256")])
    assert (check.verified, check.covers_pricing) == (True, False)


def test_what_the_first_sdks_signed_is_verified() -> None:
    payload = json.dumps(signed_form(CARD), sort_keys=True, separators=(",", ":")).encode()
    assert b"\\u00c9" in payload
    assert verify(signed(PRICED, payload=payload), [jwk("ES256")]).form == "a2a-python"


@pytest.mark.parametrize(
    ("card", "code"),
    [
        (CARD, "unsigned"),
        (CARD | {"signatures": []}, "unsigned"),
        (CARD | {"signatures": "x"}, "malformed-signature"),
        (CARD | {"signatures": [{}, 5, {"protected": "e30", "signature": "AA"}]}, "malformed-signature"),
        (CARD | {"signatures": [{"protected": "e30=", "signature": "AA"}]}, "malformed-signature"),
        (signed(PRICED, crit=["b64"], b64=False), "malformed-signature"),
        (signed(PRICED, kid=5), "malformed-signature"),
        (signed(PRICED, kid="k2"), "unknown-key"),
    ],
)
def test_what_is_no_signature_says_why(card: dict[str, Any], code: str) -> None:
    assert verify(card, [jwk("ES256")]) == SignatureCheck(verified=False, code=code)


@pytest.mark.parametrize("algorithm", ["none", "HS256", "HS512", "ES256K", "", None, 5])
def test_other_algorithms_are_refused(algorithm: object) -> None:
    card = CARD | {
        "signatures": [{"protected": encoded(json.dumps({"alg": algorithm}).encode()), "signature": encoded(b"x" * 64)}]
    }
    assert signatures(card) == ()


@pytest.mark.parametrize("header", ALGORITHMS)
@pytest.mark.parametrize("key", ALGORITHMS)
def test_a_key_verifies_its_own_algorithm_only(header: str, key: str) -> None:
    assert verify(signed(PRICED, header), [jwk(key)]).verified == (header == key)


@pytest.mark.parametrize("more", [{"use": "enc"}, {"key_ops": ["sign"]}, {"alg": "RS256"}])
def test_keys_for_other_uses_do_not_count(more: dict[str, Any]) -> None:
    assert verify(signed(PRICED), [jwk("ES256", **more)]).code == "unknown-key"


def test_a_short_rsa_key_is_refused() -> None:
    assert verify(signed(PRICED, "RS256", bits=1024), [jwk("RS256", bits=1024)]).code == "bad-signature"


@pytest.mark.parametrize("name", ["x", "y", "crv", "kty"])
@pytest.mark.parametrize("value", ["", "A", "AAAA", "é", None, 7])
def test_malformed_keys_verify_nothing(name: str, value: object) -> None:
    key = jwk("ES256") | {name: value}
    assert not verifies(key, "ES256", raw_signature("ES256", b"message"), b"message")


def test_the_first_of_many_signatures_that_verifies_counts() -> None:
    bad, good = signed(PRICED, "EdDSA"), signed(PRICED)
    card = PRICED | {"signatures": [*bad["signatures"], *good["signatures"]]}
    assert verify(card, [jwk("ES256")]).algorithm == "ES256"
    assert not verify(PRICED | {"signatures": bad["signatures"] * 4 + good["signatures"]}, [jwk("ES256")]).verified


def test_a_signed_card_of_the_field_is_verified(shared: Path) -> None:
    """Of hypeprinter007-stack/anchor-x402 (MIT), by the key that its did.json publishes."""
    key = {
        "kty": "EC", "crv": "P-256", "kid": "anchor-card-2026-01", "use": "sig", "alg": "ES256",
        "x": "mm_YYcGVzj3vKlvNlnmtK17hkq5vftvEo4VahGJlE_E", "y": "Y1PuJRaLw5lpzkeyl32deprXftNgPjw6ddmnoefkyOw",
    }  # fmt: skip
    lines = (shared / "data" / "a2a-cards.jsonl").read_bytes().splitlines()
    [card] = [record for line in lines if (record := json.loads(line)["card"]).get("signatures")]
    check = verify(card, [key])
    assert (check.verified, check.form, check.kid) == (True, "all-jcs", "anchor-card-2026-01")
    assert not verify(card | {"description": "x"}, [key]).verified


def test_key_sets_are_lists_of_objects() -> None:
    assert key_set(b'{"keys": [{"kty": "EC"}, 5, null]}') == ({"kty": "EC"},)
    for body in (b"", b"[]", b"{}", b'{"keys": {}}', b"\xff"):
        with pytest.raises(ParseError):
            key_set(body)


def test_integers_are_doubles_in_the_canonical_form() -> None:
    payloads = {form.name: form.payload for form in canonical_forms({"n": 2**53, "x": 333333333.33333329})}
    assert payloads["all-jcs"] == b'{"n":9007199254740992,"x":333333333.3333333}'


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["capabilities", "extensions", "skills", "supportedInterfaces", "signatures", "provider"])


@given(st.dictionaries(names, json_values | st.dictionaries(names, json_values)), json_values)
def test_any_card_and_key_give_an_answer(card: dict[str, Any], more: Any) -> None:
    entry = {"protected": encoded(json.dumps({"alg": "ES256", "kid": more}).encode()), "signature": encoded(b"x" * 64)}
    key = jwk("ES256") | {"x": more, "use": more or "sig"}
    assert not verify(card, [key]).verified
    assert not verify(card | {"signatures": [more, entry]}, [key, jwk("ES256")]).verified


@given(st.binary())
def test_any_bytes_are_a_signed_card_or_none(body: bytes) -> None:
    assert signed_card(body) is None
    assert signed_card(body + b'"signatures"') is None
