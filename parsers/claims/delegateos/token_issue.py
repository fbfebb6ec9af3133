"""Capability tokens of DelegateOS created, attenuated, revoked and inspected (§3.3, §3.4, §4.1), and the delegation
that a token states (§8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from parsers.claims.canonical_json import DocumentError
from parsers.claims.delegateos.capability_token import (
    ATTENUATION_SHAPE,
    FORMAT,
    Token,
    TokenDeniedError,
    blocks,
    check_form,
    read_dct,
    revocation_ids,
    scopes,
    serialize_dct,
)
from parsers.claims.delegateos.signed_objects import principal_of, sign_object

ROOT_PARENT = "del_000000000000"


def create_dct(seed: bytes, authority: Mapping[str, Any]) -> dict[str, str]:
    """A root token with this authority, issued by the owner of the key. Raises DocumentError."""
    whole = {"chainDepth": 0, "parentDelegationId": ROOT_PARENT, **authority, "issuer": principal_of(seed)}
    signature = {
        "signer": whole["issuer"],
        "signature": sign_object(seed, {"authority": whole}),
        "covers": "authority",
    }
    token = {"format": FORMAT, "authority": whole, "attenuations": [], "signatures": [signature]}
    check_form(token)
    return serialize_dct(token)


_NOT_NARROWER = {
    "Attenuator mismatch": "Attenuator must be the current delegatee",
    "Budget expansion": "Budget cannot exceed parent",
    "Expiry expansion": "Expiry cannot exceed parent",
    "Chain depth expansion": "Max chain depth must be less than parent",
}


def attenuate_dct(serialized: Any, seed: bytes, attenuation: Mapping[str, Any]) -> dict[str, str]:
    """The token narrowed by the owner of the key, its delegatee. Raises DocumentError where it would not be
    narrower."""
    token = read_dct(serialized)
    scope = scopes(token)[-1]
    whole = {**attenuation, "attenuator": principal_of(seed)}
    ATTENUATION_SHAPE.check(whole)
    try:
        scope.narrowed(whole)
    except TokenDeniedError as error:
        wider = error.members.get("capability", {})
        named = ":".join(wider.get(name, "") for name in ("namespace", "action", "resource"))
        detail = _NOT_NARROWER.get(error.detail, f"Capability expansion not allowed: {named}")
        raise DocumentError(error.code, detail) from None
    attenuations = [*token["attenuations"], whole]
    signature = {
        "signer": whole["attenuator"],
        "signature": sign_object(seed, {"authority": token["authority"], "attenuations": attenuations}),
        "covers": len(attenuations) - 1,
    }
    signatures = [*token["signatures"], signature]
    return serialize_dct({**token, "attenuations": attenuations, "signatures": signatures})


def revoke_block(seed: bytes, revocation_id: str, revoked_at: str, scope: str = "block") -> dict[str, str]:
    """A signed entry that revokes a block, or with the scope `chain` what builds on one's own block."""
    entry = {
        "revocationId": revocation_id,
        "revokedBy": principal_of(seed),
        "revokedAt": revoked_at,
        "scope": scope,
    }
    return {**entry, "signature": sign_object(seed, entry)}


def block_signers(serialized: Any) -> list[str]:
    """The principal that each block of a token names as its signer, unverified. Raises DocumentError."""
    return [block.get("attenuator", block.get("issuer")) for block in blocks(read_dct(serialized))]


def inspect_dct(serialized: Any) -> dict[str, Any]:
    """The content of a token, unverified. Raises DocumentError."""
    token = read_dct(serialized)
    scope = scopes(token)[-1]
    last = blocks(token)[-1]
    return {
        "issuer": token["authority"]["issuer"],
        "delegatee": scope.delegatee,
        "contractId": last["contractId"],
        "delegationId": last["delegationId"],
        "capabilities": list(scope.capabilities),
        "maxBudgetMicrocents": scope.budget,
        "expiresAt": scope.expires,
        "chainDepth": token["authority"]["chainDepth"] + len(token["attenuations"]),
        "revocationIds": revocation_ids(token),
    }


class Delegation(NamedTuple):
    """A delegation (§8.1): its id and its parent's, the delegating and the receiving principal, its contract, and its
    depth."""

    id: str
    parent_id: str
    delegator: str
    delegatee: str
    contract_id: str
    depth: int


def last_delegation(token: Token) -> Delegation:
    """The delegation of the last block of a verified token. Blocks form a chain by themselves, so only the root can
    break an invariant of §8.2. Raises DocumentError: broken_chain."""
    authority, (*ahead, last) = token["authority"], blocks(token)
    if authority["parentDelegationId"] != ROOT_PARENT or authority["chainDepth"] != 0:
        raise DocumentError("broken_chain", f"the root has not the parent {ROOT_PARENT} and depth 0")
    parent_id = ahead[-1]["delegationId"] if ahead else ROOT_PARENT
    delegator = last.get("attenuator", authority["issuer"])
    return Delegation(last["delegationId"], parent_id, delegator, last["delegatee"], last["contractId"], len(ahead))
