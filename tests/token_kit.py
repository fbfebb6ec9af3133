"""Capability tokens for tests: an issuer, who delegates to an agent, who delegates to a helper."""

from __future__ import annotations

import secrets
from typing import Any

from parsers.claims.delegateos.capability_token import read_dct, revocation_ids
from parsers.claims.delegateos.holder_proof import sign_proof
from parsers.claims.delegateos.signed_objects import principal_of, sign_object
from parsers.claims.delegateos.token_issue import attenuate_dct, create_dct, revoke_block
from parsers.claims.rfc3339 import instant

ISSUER, AGENT, HELPER, STRANGER = (bytes([number]) * 32 for number in (1, 2, 3, 4))
NOW_TEXT = "2026-11-23T09:00:00Z"
NOW = instant(NOW_TEXT) or 0


def capability(action: str = "search", resource: str = "**", namespace: str = "registry") -> dict[str, str]:
    return {"namespace": namespace, "action": action, "resource": resource}


def issued(
    *capabilities: dict[str, str], seed: bytes = ISSUER, to: bytes = AGENT, budget: float = 1_000, **members: Any
) -> str:
    """The text of a root token."""
    authority = {
        "delegatee": principal_of(to), "contractId": "ct_1", "delegationId": "del_0000000000a1",
        "capabilities": list(capabilities) or [capability()], "maxChainDepth": 3, "maxBudgetMicrocents": budget,
        "expiresAt": "2026-11-24T00:00:00Z", "issuedAt": "2026-11-23T00:00:00Z", **members,
    }  # fmt: skip
    return create_dct(seed, authority)["token"]


def narrowed(token: str, seed: bytes = AGENT, to: bytes = HELPER, **members: Any) -> str:
    """The text of a token with one attenuation more."""
    parties = {"delegatee": principal_of(to), "contractId": "ct_1", "delegationId": "del_0000000000a2"}
    return attenuate_dct(token, seed, {**parties, **members})["token"]


def stripped(token: str) -> str:
    """The token without its last attenuation, as whoever holds it can make it."""
    from parsers.claims.delegateos.capability_token import serialize_dct

    whole = read_dct(token)
    parts = {name: whole[name][:-1] for name in ("attenuations", "signatures")}
    return serialize_dct({**whole, **parts})["token"]


def proof(seed: bytes, method: str, path: str, body: bytes, time: str = NOW_TEXT, nonce: str = "") -> str:
    return sign_proof(seed, method=method, path=path, body=body, time=time, nonce=nonce or secrets.token_hex(8))


def revocation(seed: bytes, token: str, block: int = 0, scope: str = "block") -> dict[str, str]:
    """A signed revocation of a block of a token."""
    return revoke_block(seed, revocation_ids(read_dct(token))[block], NOW_TEXT, scope)


def contract(seed: bytes = ISSUER, **constraints: Any) -> dict[str, Any]:
    """A signed task contract."""
    body = {
        "id": "ct_1", "version": "0.1", "issuer": principal_of(seed), "createdAt": NOW_TEXT,
        "task": {
            "title": "Find watchtowers", "description": "…", "inputs": {},
            "outputSchema": {"type": "object", "required": ["ids"]},
        },
        "verification": {
            "method": "deterministic_check", "checkName": "field_exists", "checkParams": {"fields": ["ids"]}
        },
        "constraints": {
            "maxBudgetMicrocents": 100, "deadline": "2026-11-24T00:00:00Z", "maxChainDepth": 3,
            "requiredCapabilities": ["registry:search"], **constraints,
        },
    }  # fmt: skip
    return {**body, "signature": sign_object(seed, body)}


def attestation(seed: bytes, delegation: str, output: Any, **members: Any) -> dict[str, Any]:
    """A signed attestation of completion."""
    body = {
        "id": "att_1", "version": "0.1", "contractId": "ct_1", "delegationId": delegation,
        "principal": principal_of(seed), "createdAt": NOW_TEXT, "type": "completion",
        "result": {"success": True, "output": output, "costMicrocents": 1, "durationMs": 5}, "childAttestations": [],
        **members,
    }  # fmt: skip
    return {**body, "signature": sign_object(seed, body)}
