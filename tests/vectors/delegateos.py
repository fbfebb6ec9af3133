"""DelegateOS: capability tokens, patterns, contracts, attestations and checks of outputs (`delegateos.jsonl`).

Where the reference diverges from its specification, a vector has what the specification says, which is what counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parsers.claims import ed25519
from parsers.claims.canonical_json import DocumentError, base64url_text, jcs, read
from parsers.claims.delegateos import capability_token as tokens
from parsers.claims.delegateos import contracts, token_issue
from parsers.claims.delegateos.output_checks import check_output
from parsers.claims.delegateos.resource_globs import is_part, matches
from parsers.claims.delegateos.signed_objects import digest_text, principal_of, sign_object
from parsers.claims.rfc3339 import instant
from tests.vectors.runner import Vector

SEEDS = {principal_of(bytes([number]) * 32): bytes([number]) * 32 for number in range(1, 64)}
"""The private keys of the principals in the vectors: 32 times the same byte."""

ROOT = bytes([11]) * 32


def row(vector: Vector) -> Any:
    """The vector, with numbers as the product reads them."""
    return read(vector.line.encode(), max_bytes=1 << 20)


def principal(vector: Vector) -> dict[str, Any]:
    return {"id": base64url_text(ed25519.public_key_of(bytes.fromhex(row(vector)["input"]["seed_hex"])))}


def blake2b(vector: Vector) -> dict[str, Any]:
    value = row(vector)["input"]
    return {
        "canonical": jcs(value).decode(),
        "blake2b256_b64url": digest_text(value),
        "signature_by_root": sign_object(ROOT, value),
    }


def described(dct: dict[str, str]) -> dict[str, Any]:
    decoded = tokens.read_dct(dct)
    ids = tokens.revocation_ids(decoded)
    return {"dct": dct, "decoded": decoded, "inspect": token_issue.inspect_dct(dct), "revocationIds": ids}


def create(vector: Vector) -> dict[str, Any]:
    """The token with the expected authority, signed again."""
    expected = row(vector)
    authority = expected["expected"]["decoded"]["authority"]
    return described(token_issue.create_dct(bytes.fromhex(expected["input"]["issuer_seed"]), authority))


def attenuate(vector: Vector) -> dict[str, Any]:
    """The expected token without its last attenuation, attenuated again."""
    token = row(vector)["expected"]["decoded"]
    last = token["attenuations"][-1]
    parent = {**token, "attenuations": token["attenuations"][:-1], "signatures": token["signatures"][:-1]}
    return described(token_issue.attenuate_dct(tokens.serialize_dct(parent), SEEDS[last["attenuator"]], last))


def attenuate_reject(vector: Vector) -> dict[str, Any]:
    """An attenuation of a root token like that of `create`, which is not narrower."""
    delegatee = bytes([12]) * 32
    parties = {"delegatee": principal_of(delegatee), "contractId": "ct_1", "delegationId": "del_1"}
    capabilities = [
        {"namespace": "web", "action": "search", "resource": "*"},
        {"namespace": "docs", "action": "read", "resource": "/project/**"},
    ]
    times = {"issuedAt": "2026-03-01T00:00:00.000Z", "expiresAt": "2026-03-01T01:00:00.000Z"}
    limits = {"maxChainDepth": 3, "maxBudgetMicrocents": 500_000, "capabilities": capabilities}
    root = token_issue.create_dct(ROOT, {**parties, **times, **limits})
    members = dict(row(vector)["input"])
    attenuator = members.pop("attenuator_seed", None) or members.pop("attenuator", None)
    seed = bytes.fromhex(attenuator) if attenuator else delegatee
    try:
        token_issue.attenuate_dct(root, seed, {**parties, "delegatee": principal_of(ROOT), **members})
    except DocumentError as error:
        return {"error": error.detail}
    return {"error": None}


def verify(vector: Vector) -> dict[str, Any]:
    supplied = row(vector)["input"]
    context = supplied["ctx"]
    token_context = tokens.TokenContext(
        roots=frozenset((context["rootPublicKey"],)),
        now=instant(context["now"]) or 0,
        operation=context["operation"],
        resource=context["resource"],
        namespace=context.get("namespace"),
        spent=context["spentMicrocents"],
        max_depth=context.get("maxChainDepth", tokens.MAX_DEPTH),
        revoked=frozenset(context.get("revocationIds") or ()),
    )
    try:
        return {"ok": True, "value": tokens.authorize(supplied["dct"], token_context)}
    except tokens.TokenDeniedError as error:
        detail = error.detail.partition(": ")[0] if error.code == "malformed_token" else error.detail
        return {"ok": False, "error": {"type": error.code, "detail": detail, **error.members}}


def glob_match(vector: Vector) -> bool:
    pair = row(vector)["input"]
    return matches(pair["pattern"], pair["value"])


def glob_subset(vector: Vector) -> bool:
    pair = row(vector)["input"]
    return is_part(pair["child"], pair["parent"])


def signed(document: dict[str, Any], check: Callable[[Any, frozenset[str] | None], object], signer: str) -> Any:
    """The document, whether it is signed by its signer, by another one, and after a change."""

    def holds(value: dict[str, Any], principal: str) -> bool:
        try:
            check(value, frozenset((principal,)))
        except DocumentError:
            return False
        return True

    tampered = {**document, "createdAt": "2026-03-02T00:00:00.000Z"}
    other = next(one for one in SEEDS if one != signer)
    return {
        "valid": holds(document, signer),
        "wrong_issuer": holds(document, other),
        "wrong_signer": holds(document, other),
        "tampered": holds(tampered, signer),
    }


def contract(vector: Vector) -> dict[str, Any]:
    expected = row(vector)
    document = expected["expected"]["contract"]
    body = {name: member for name, member in document.items() if name != "signature"}
    again = {**body, "signature": sign_object(SEEDS[document["issuer"]], body)}
    return {"contract": again, **signed(document, contracts.check_contract, expected["input"]["issuer"])}


def attestation(vector: Vector) -> dict[str, Any]:
    expected = row(vector)
    document = expected["expected"]["attestation"]
    body = {name: member for name, member in document.items() if name != "signature"}
    again = {**body, "signature": sign_object(SEEDS[document["principal"]], body)}

    def check(value: Any, trusted: frozenset[str] | None) -> None:
        verdict = contracts.verify_attestation(value, None, trusted)
        if verdict.error:
            raise DocumentError(verdict.error, verdict.detail)

    return {"attestation": again, **signed(document, check, expected["input"]["signer"])}


def verify_output(vector: Vector) -> dict[str, Any]:
    supplied = row(vector)["input"]
    try:
        return {"ok": True, "value": check_output(supplied["verification"], supplied.get("output"))}
    except DocumentError as error:
        return {"ok": False, "error": error.detail}


KINDS: dict[str, Callable[[Vector], Any]] = {
    "hash": blake2b,
    **{
        function.__name__: function
        for function in (
            principal, create, attenuate, attenuate_reject, verify, glob_match, glob_subset, contract, attestation,
            verify_output,
        )
    },
}  # fmt: skip
