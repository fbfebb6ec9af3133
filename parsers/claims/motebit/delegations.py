"""Delegation tokens of Motebit, chains of them, and the revocable grants that they are minted under
(standing-delegation@1.0). A token without `suite` and with keys in base64url, as the delegation specification prints
it, has the profile `legacy`: every other rule is checked, and it never counts.

Codes: malformed, legacy-profile, unknown-suite, weak-key, bad-signature, non-canonical, key-mismatch, expired,
not-yet-valid, future-dated, replayed; of chains: broken-chain, scope-widened; of grants: grant-mismatch, grant-invalid,
revoked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parsers.claims.canonical_json import DocumentError, jcs, without
from parsers.claims.motebit.identifiers import (
    SUITE,
    KeyRing,
    binding,
    check_signature,
    hex_bytes,
    legacy_key,
    public_key,
    without_suite,
)
from parsers.claims.record_shape import COUNT, HEX_KEY, NAME, NUMBER, OBJECT, TEXT, RecordShape, one_of, or_null
from parsers.claims.verdict import LEGACY, SKEW_MS, DocumentVerdict, authority_by, refused, refused_part

MAX_LINKS = 32
"""Tokens of a chain."""

MAX_REVOCATIONS = 256

_PARTIES = {
    **dict.fromkeys(("delegator_id", "delegate_id"), NAME),
    **dict.fromkeys(("delegator_public_key", "delegate_public_key"), HEX_KEY),
}
_SIGNED = {"suite": one_of(SUITE), "signature": NAME}
TOKEN_SHAPE = RecordShape(
    "a delegation token",
    {**_PARTIES, "scope": NAME, "issued_at": NUMBER, "expires_at": NUMBER, **_SIGNED},
    {"not_before": NUMBER, "grant_id": TEXT},
)
_LEGACY_KEY = (lambda value: legacy_key(value) is not None, "a public key in base64url")
LEGACY_TOKEN_SHAPE = RecordShape(
    "a delegation token before suites",
    {
        **TOKEN_SHAPE.without("suite").required,
        **dict.fromkeys(("delegator_public_key", "delegate_public_key"), _LEGACY_KEY),
    },
    TOKEN_SHAPE.optional,
)
GRANT_SHAPE = RecordShape(
    "a standing delegation",
    {
        **_PARTIES,
        **dict.fromkeys(("grant_id", "scope"), NAME),
        "subject": TEXT,
        **dict.fromkeys(("issued_at", "expires_at", "max_token_ttl_ms"), NUMBER),
        "not_before": or_null(NUMBER),
        **_SIGNED,
    },
    {
        "cadence_ms": NUMBER,
        "cadence": OBJECT,
        "spec": TEXT,
        "subject_binding": OBJECT,
        "spend_ceiling": OBJECT,
        "version": COUNT,
    },
)
REVOCATION_SHAPE = RecordShape(
    "a delegation revocation",
    {
        **dict.fromkeys(("grant_id", "delegator_id"), NAME),
        "delegator_public_key": HEX_KEY,
        "revoked_at": NUMBER,
        **_SIGNED,
    },
    {},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationRules:
    """The inputs against which delegations are verified: keys by identity, and the time (milliseconds since 1970);
    without a time, as history, in which tokens may have expired. `seen`: signatures of tokens that were used before."""

    keys: KeyRing
    now: float | None = None
    seen: frozenset[str] = frozenset()


def scopes(text: str) -> frozenset[str]:
    """The capabilities of a scope; `*` is all of them."""
    return frozenset(filter(None, map(str.strip, text.split(","))))


def is_narrowed(parent: str, child: str) -> bool:
    """Whether a scope has nothing that its parent lacks."""
    allowed, requested = scopes(parent), scopes(child)
    return "*" in allowed or ("*" not in requested and requested <= allowed)


def check_signed(record: Any, shape: RecordShape) -> None:
    """Check the form of a record and its signature by the delegator's key. Raises DocumentError."""
    if isinstance(record, dict) and "suite" not in record:
        raise DocumentError("unknown-suite", f"suite is missing: {SUITE} is expected", ["suite"])
    if isinstance(record, dict) and record["suite"] != SUITE:
        raise DocumentError("unknown-suite", f"suite is {str(record['suite'])[:100]!a}, not {SUITE}")
    shape.check(record)
    key = hex_bytes(record["delegator_public_key"], 32) or b""
    if not check_signature(record["signature"], jcs(without(record, "signature")), key):
        raise DocumentError("non-canonical", "the signature is not spelt as base64url without padding")


def _is_legacy(token: Any) -> bool:
    """Whether a token without `suite` has the signature of its delegator; the delegator's key is in base64url."""
    key = legacy_key(token.get("delegator_public_key")) if isinstance(token, dict) and "suite" not in token else None
    if key is None:
        return False
    try:
        return check_signature(token.get("signature"), jcs(without(token, "signature")), bytes.fromhex(key))
    except DocumentError:
        return False


def verify_delegation(token: Any, rules: DelegationRules) -> DocumentVerdict:
    """The verdict on one token."""
    is_legacy = _is_legacy(token)
    profile = "legacy" if is_legacy else "unknown"
    try:
        if is_legacy:
            LEGACY_TOKEN_SHAPE.check(token)
        else:
            check_signed(token, TOKEN_SHAPE)
    except DocumentError as error:
        return refused(error, profile=profile)
    fault = _fault(token, rules)
    if is_legacy:
        code, detail = (fault.code, fault.detail) if fault else (LEGACY, f"{without_suite(SUITE)}, and keys in hex")
        return refused(DocumentError(code, detail, ["suite"]), profile=profile)
    bound = _binding(token, rules)
    members = {"profile": "current", "scope": sorted(scopes(token["scope"]))}
    return DocumentVerdict.of(
        fault, integrity="verified", binding=bound, authority=authority_by(fault), members=members
    )


def _binding(token: Mapping[str, Any], rules: DelegationRules) -> str:
    return binding(token["delegator_id"], public_key(token["delegator_public_key"]) or b"", rules.keys)


def _fault(token: Mapping[str, Any], rules: DelegationRules) -> DocumentError | None:
    """The first rule that a signed token breaks."""
    try:
        check_window(token, rules.now)
        if token["signature"] in rules.seen:
            raise DocumentError("replayed", "the token was used before")
        if _binding(token, rules) == "invalid":
            raise DocumentError("key-mismatch", "the delegator's key is not the one that you trust")
    except DocumentError as error:
        return error
    return None


def check_window(token: Mapping[str, Any], now: float | None) -> None:
    """Raises DocumentError where a token is not valid at a time; at its last millisecond it is."""
    if now is None:
        return
    if token["expires_at"] < now:
        raise DocumentError("expired", f"expired at {token['expires_at']}")
    if now < token.get("not_before", now):
        raise DocumentError("not-yet-valid", f"valid from {token['not_before']}")
    if token["issued_at"] > now + SKEW_MS:
        raise DocumentError("future-dated", "issued in the future")


def verify_delegation_chain(chain: Any, rules: DelegationRules) -> DocumentVerdict:
    """The verdict on tokens from the root to the last delegate. An empty chain holds, and delegates nothing."""
    if not isinstance(chain, list) or len(chain) > MAX_LINKS:
        return refused(DocumentError("malformed", f"a chain is a list of at most {MAX_LINKS} tokens"))
    verdicts: list[DocumentVerdict] = []
    for index, token in enumerate(chain):
        verdicts.append(verify_delegation(token, rules))
        fault = _link_fault(index, verdicts[-1], chain)
        if fault is not None:
            return refused_part(fault, verdicts[-1].integrity, index=index)
    root = verdicts[0].binding if verdicts else "unverified"
    scope = verdicts[-1].members["scope"] if verdicts else []
    return DocumentVerdict(integrity="verified", binding=root, authority="valid", members={"scope": scope})


def _link_fault(index: int, verdict: DocumentVerdict, chain: Sequence[Any]) -> DocumentError | None:
    """Why a token does not continue a chain: by its own verdict, or as it is not delegated on by the delegate of the
    one ahead of it, or wider."""
    if verdict.error:
        is_forged = verdict.error == "bad-signature"
        detail = f"Delegation {index}{' has invalid signature' if is_forged else f': {verdict.detail}'}"
        return DocumentError(verdict.error, detail, verdict.missing)
    if index == 0:
        return None
    parent, child = chain[index - 1], chain[index]
    if parent["delegate_id"] != child["delegator_id"]:
        pair = f'delegate_id "{parent["delegate_id"]}" !== delegator_id "{child["delegator_id"]}"'
        return DocumentError("broken-chain", f"Chain break at {index}: {pair}")
    if parent["delegate_public_key"] != child["delegator_public_key"]:
        return DocumentError("broken-chain", f"Chain break at {index}: delegate_public_key mismatch")
    if not is_narrowed(parent["scope"], child["scope"]):
        widened = f'parent="{parent["scope"]}", child="{child["scope"]}"'
        return DocumentError("scope-widened", f"Delegation {index} widens scope: {widened}")
    return None


def find_revocation(grant: Mapping[str, Any], revocations: Sequence[Any]) -> Mapping[str, Any] | None:
    """The first revocation of a grant that its own delegator signed; of others, none counts."""
    for revocation in revocations:
        names = ("grant_id", "delegator_public_key")
        if not isinstance(revocation, dict) or any(revocation.get(name) != grant[name] for name in names):
            continue
        try:
            check_signed(revocation, REVOCATION_SHAPE)
        except DocumentError:
            continue
        return revocation
    return None


def verify_tick(
    token: Any, grant: Any, revocations: Sequence[Any] | None, rules: DelegationRules, *, by_order: bool = False
) -> DocumentVerdict:
    """The verdict on a token under the grant that it was minted for. Authority and revocation are separate: a token of
    a revoked grant may be valid by itself. `by_order` judges it at its own slot and not at `now`."""
    history = verify_delegation(token, DelegationRules(keys=rules.keys))
    if history.error:
        return history
    fault = None
    try:
        check_signed(grant, GRANT_SHAPE)
        _check_tick(token, grant, rules.now, by_order=by_order)
    except DocumentError as error:
        fault = error
    authority, revocation, status = authority_by(fault), None, "unchecked"
    if revocations is not None and isinstance(grant, dict) and not GRANT_SHAPE.fault(grant):
        revocation = find_revocation(grant, revocations[:MAX_REVOCATIONS])
        status = "fresh" if revocation is None else "revoked"
    if fault is None and revocation is not None:
        fault = DocumentError("revoked", f"the grant {grant['grant_id']} was revoked by its delegator")
    return DocumentVerdict.of(
        fault,
        integrity="verified",
        binding=history.binding,
        authority=authority,
        revocation=status,
        members={**history.members, **({"revokedBy": revocation["signature"]} if revocation else {})},
    )


def _check_tick(token: Mapping[str, Any], grant: Mapping[str, Any], now: float | None, *, by_order: bool) -> None:
    """Raises DocumentError with the first rule of the grant that a token breaks."""
    names = ("grant_id", "delegator_id", "delegator_public_key", "delegate_id", "delegate_public_key")
    different = next((name for name in names if token.get(name) != grant[name]), None)
    if different is not None:
        raise DocumentError("grant-mismatch", f"{different} is not that of the grant")
    if not is_narrowed(grant["scope"], token["scope"]):
        raise DocumentError("scope-widened", "the token widens the scope of the grant")
    if token["expires_at"] - token["issued_at"] > grant["max_token_ttl_ms"]:
        raise DocumentError("grant-mismatch", "the token lives longer than max_token_ttl_ms of the grant")
    moment = token.get("not_before", token["issued_at"]) if by_order or now is None else now
    start = grant["issued_at"] - SKEW_MS if grant["not_before"] is None else grant["not_before"]
    if moment < start or grant["expires_at"] < moment:
        raise DocumentError("grant-invalid", "the grant is not valid at this time")
    check_window(token, None if by_order else now)
