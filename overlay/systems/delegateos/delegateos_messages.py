"""The messages of DelegateOS (§9): delegations to an agent that then calls the tools, their completion, and
revocations.

A delegation is accepted where its token is valid here, its chain holds, and its contract is signed and requires only
actions of this registry that the token grants. It is stored until a week after the token expires.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from aiohttp import web

from overlay.api.answers import json_answer
from overlay.api.executors import PUBLISHING, SECONDS, run_in
from overlay.api.problems import ProblemError
from overlay.systems.delegateos.delegated_access import ACTIONS, NAMESPACE, Access, DelegatedAccess, delegated_access
from overlay.systems.delegateos.revocations import store_revocation
from overlay.text.compact_json import encode
from parsers.claims.canonical_json import DocumentError, check_size, plain, read
from parsers.claims.delegateos.capability_token import FORMAT, TokenDeniedError, is_covered, revocation_ids
from parsers.claims.delegateos.contracts import check_contract, verify_attestation
from parsers.claims.delegateos.signed_objects import is_principal
from parsers.claims.delegateos.token_issue import Delegation, last_delegation
from parsers.claims.rfc3339 import instant

MAX_DOCUMENT = 16_384
"""Bytes of a contract, and of an attestation."""

_REFUSED = -32602
_ID = re.compile(r"del_[0-9a-f]{12}")
_NANOSECONDS = 10**9


async def answer(request: web.Request, message: dict[str, Any], document: bytes) -> web.Response:
    """The response to a message, as read from a document; to a notification none, or status 400 where it is
    refused."""
    id_ = message.get("id")
    try:
        check_size(document)
        result = await run_in(request, PUBLISHING, _result, delegated_access(request), plain(message))
    except DocumentError as error:
        return _error(id_, error.detail, {"type": error.code, "detail": error.detail})
    except ProblemError as problem:
        if not problem.faults:
            raise
        return _error(id_, problem.detail, {"type": problem.faults[0].code, "detail": problem.detail})
    if id_ is None:
        return web.Response(status=202)
    return json_answer({"jsonrpc": "2.0", "id": id_, "result": result})


def _error(id_: Any, detail: str, data: dict[str, str]) -> web.Response:
    error = {"code": _REFUSED, "message": detail[:300], "data": data}
    return json_answer({"jsonrpc": "2.0", "id": id_, "error": error}, status=400 if id_ is None else 200)


def _result(access: DelegatedAccess, message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params")
    if not isinstance(params, dict):
        raise DocumentError("malformed", "params is not an object")
    return METHODS[message["method"]](access, params)


def _delegate(access: DelegatedAccess, params: dict[str, Any]) -> dict[str, Any]:
    """The acceptance of a delegation (§9.2), or its rejection with the reason (§9.3)."""
    from overlay.systems.delegateos.store import RecordsFullError, StoredDelegation

    try:
        contract = _bounded(params.get("contract"), "contract")
        if params.get("dctFormat", FORMAT) != FORMAT:
            raise TokenDeniedError("malformed_token", f"dctFormat is not {FORMAT}")
        granted = access.verify(params.get("dct"))
        delegation = last_delegation(granted.token)
        if (params.get("delegationId"), params.get("parentDelegationId")) != (delegation.id, delegation.parent_id):
            raise DocumentError("broken_chain", "delegationId and parentDelegationId are not those of the token")
        if not all(map(_ID.fullmatch, (delegation.id, delegation.parent_id))) or not is_principal(delegation.delegatee):
            raise DocumentError("malformed", "an id is not del_ and 12 hex digits, or the delegatee no key")
        _check_contract(contract, granted, delegation, access.now())
        stored = StoredDelegation(
            block=revocation_ids(granted.token)[-1], id=delegation.id, parent_id=delegation.parent_id,
            delegator=delegation.delegator, delegatee=delegation.delegatee, depth=delegation.depth,
            dct=params["dct"], contract=encode(contract).decode(),
            expires_at=(instant(granted.steps[-1].expires) or 0) // _NANOSECONDS,
        )  # fmt: skip
        status = access.records.add_delegation(stored, access.now() // _NANOSECONDS)
    except DocumentError as error:
        return {"accepted": False, "reason": error.code, "details": error.detail}
    except RecordsFullError as error:
        return {"accepted": False, "reason": "busy", "details": str(error)}
    # a request costs one unit, and a search is given up after SECONDS
    estimates = {"estimatedDurationMs": int(1_000 * SECONDS), "estimatedCostMicrocents": 1}
    return {"accepted": True, "delegationId": delegation.id, "status": status, **estimates}


def _check_contract(contract: Any, granted: Access, delegation: Delegation, now: int) -> None:
    """Check that a contract is signed, and bound to a token (§5.2). Raises DocumentError."""
    check_contract(contract, None)
    constraints = contract["constraints"]
    if contract["id"] != delegation.contract_id:
        raise DocumentError("contract_mismatch", "the token is for another contract")
    if now > (instant(constraints["deadline"]) or 0):
        raise DocumentError("expired", "the deadline of the contract is over")
    if delegation.depth > constraints["maxChainDepth"]:
        raise DocumentError("chain_depth_exceeded", "the token is delegated further than the contract allows")
    for name in constraints["requiredCapabilities"]:
        namespace, _, action = name.rpartition(":")
        if namespace != NAMESPACE or action not in ACTIONS:
            raise DocumentError("capability_mismatch", f"this registry does not support {name[:100]!a}")
        if not is_covered(name, granted.steps[-1].capabilities):
            raise DocumentError("capability_mismatch", f"the token does not grant {name}")


def _complete(access: DelegatedAccess, params: dict[str, Any]) -> dict[str, Any]:
    """The end of a delegation, by its delegatee's attestation of an output that meets the contract (§9.4)."""
    attestation, id_ = _bounded(params.get("attestation"), "attestation"), params.get("delegationId")
    principal = attestation.get("principal")
    if not isinstance(id_, str) or not _ID.fullmatch(id_) or attestation.get("delegationId") != id_:
        raise DocumentError("malformed", "delegationId is not del_ and 12 hex digits, as in the attestation")
    if not isinstance(principal, str) or not is_principal(principal):
        raise DocumentError("malformed", "principal is not a public key in base64url")
    delegations = access.records.delegations(id_, principal)
    if not delegations:
        raise DocumentError("unknown_delegation", f"{principal[:60]!a} got no delegation {id_[:60]!a} here")
    stored = next((delegation for delegation in delegations if delegation.status == "active"), delegations[0])
    verdict = verify_attestation(attestation, read(stored.contract.encode()), None)
    if verdict.error:
        raise DocumentError(verdict.error, verdict.detail)
    try:
        access.verify(stored.dct)
    except TokenDeniedError as error:
        if error.code != "expired":
            raise
    status, text = "completed" if attestation["result"]["success"] else "failed", encode(attestation).decode()
    if not access.records.finish(stored.block, status, text) and stored.attestation != text:
        raise DocumentError("already_ended", f"the delegation is {stored.status} by another attestation")
    return {"delegationId": id_, "status": status}


def _bounded(document: Any, name: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise DocumentError("malformed", f"{name} is not an object")
    if len(encode(document)) > MAX_DOCUMENT:
        raise DocumentError("too-large", f"{name} has more than {MAX_DOCUMENT:,} bytes")
    return document


METHODS: dict[str, Callable[[DelegatedAccess, dict[str, Any]], dict[str, Any]]] = {
    "delegateos/delegate": _delegate, "delegateos/complete": _complete, "delegateos/revoke": store_revocation,
}  # fmt: skip
