"""Task contracts and attestations of DelegateOS (§5, §7): their signatures, and whether an output meets a contract.

Codes: malformed, unknown-key, weak-key, bad-signature, bad-verification, output-refused, hash-mismatch,
contract-mismatch, over-budget, and those of schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parsers.claims.canonical_json import DocumentError, without
from parsers.claims.delegateos.output_checks import check_output, check_weights
from parsers.claims.delegateos.signed_objects import (
    check_object,
    check_record,
    digest_text,
    principal_of,
    sign_object,
)
from parsers.claims.json_schema import first_error
from parsers.claims.record_shape import BOOLEAN, NUMBER, OBJECT, TEXT, TEXTS, TIME, RecordShape, one_of
from parsers.claims.rfc3339 import instant
from parsers.claims.verdict import DocumentVerdict, refused

CONTRACT_SHAPE = RecordShape(
    "a contract",
    {
        **dict.fromkeys(("id", "issuer", "signature"), TEXT),
        "version": one_of("0.1"),
        "createdAt": TIME,
        **dict.fromkeys(("task", "verification", "constraints"), OBJECT),
    },
    {},
)
CONSTRAINTS_SHAPE = RecordShape(
    "the constraints",
    {"maxBudgetMicrocents": NUMBER, "deadline": TIME, "maxChainDepth": NUMBER, "requiredCapabilities": TEXTS},
    {},
    is_open=True,
)
ATTESTATION_SHAPE = RecordShape(
    "an attestation",
    {
        **dict.fromkeys(("id", "contractId", "delegationId", "principal", "signature"), TEXT),
        "version": one_of("0.1"),
        "createdAt": TIME,
        "type": one_of("completion", "delegation_verification"),
        "result": OBJECT,
        "childAttestations": TEXTS,
    },
    {},
)
RESULT_SHAPE = RecordShape(
    "the result",
    {"success": BOOLEAN, "costMicrocents": NUMBER, "durationMs": NUMBER},
    {"outputHash": TEXT, "verificationOutcome": OBJECT},
    is_open=True,
)


def check_contract(contract: Any, trusted: frozenset[str] | None) -> None:
    """Check a contract's form and its issuer's signature. Raises DocumentError."""
    CONTRACT_SHAPE.check(contract)
    CONSTRAINTS_SHAPE.check(contract["constraints"])
    _check_trusted(contract["issuer"], trusted)
    check_record(contract["issuer"], contract, _UNSIGNED)


_UNSIGNED = "the Ed25519 signature does not verify"


def _check_trusted(signer: str, trusted: frozenset[str] | None) -> None:
    if trusted is not None and signer not in trusted:
        raise DocumentError("unknown-key", "the signer is not among the trusted keys")


def _binding(trusted: frozenset[str] | None) -> str:
    """Principals are keys, and so bound to them by themselves."""
    return "sovereign" if trusted is None else "pinned"


def sign_contract(seed: bytes, members: Mapping[str, Any]) -> dict[str, Any]:
    """A contract with these members, issued by the owner of the key. Raises DocumentError for members that give no
    contract that verifies."""
    contract = _signed(seed, members, "issuer")
    check_contract(contract, None)
    check_weights(contract["verification"])
    return contract


def sign_attestation(seed: bytes, members: Mapping[str, Any], contract: Any) -> dict[str, Any]:
    """An attestation with these members by the owner of the key, which holds under its contract. Raises
    DocumentError."""
    attestation = _signed(seed, members, "principal")
    verdict = verify_attestation(attestation, contract, None)
    if verdict.error:
        raise DocumentError(verdict.error, verdict.detail, verdict.missing)
    return attestation


def _signed(seed: bytes, members: Mapping[str, Any], role: str) -> dict[str, Any]:
    """Members signed by the owner of the key, in a role that names him."""
    body = {role: principal_of(seed), **without(members, "signature")}
    if body[role] != principal_of(seed):
        raise DocumentError("unknown-key", f"{role} is not the principal of the key: {principal_of(seed)}")
    return {**body, "signature": sign_object(seed, body)}


def verify_contract_output(contract: Any, output: Any, trusted: frozenset[str] | None, now: int) -> DocumentVerdict:
    """The verdict on a contract and an output: signed by its issuer, and met. After the deadline the authority is
    expired, which is for the caller to judge."""
    try:
        check_contract(contract, trusted)
    except DocumentError as error:
        return refused(error)
    is_late = now > (instant(contract["constraints"]["deadline"]) or 0)
    axes: dict[str, Any] = {
        "integrity": "verified",
        "binding": _binding(trusted),
        "authority": "expired" if is_late else "valid",
    }
    try:
        check_weights(contract["verification"])
        outcome = check_output(contract["verification"], output)
    except DocumentError as error:
        return DocumentVerdict.of(error, **axes)
    code = "" if outcome["passed"] else "output-refused"
    detail = "" if outcome["passed"] else str(outcome.get("details", "the output does not pass the verification"))
    return DocumentVerdict(error=code, detail=detail[:1_000], members={"outcome": outcome}, **axes)


def verify_attestation(attestation: Any, contract: Any, trusted: frozenset[str] | None) -> DocumentVerdict:
    """The verdict on an attestation: signed by its principal; with its contract also met by the output, one level deep
    (§7.3). An attestation of failure is verified as one."""
    try:
        ATTESTATION_SHAPE.check(attestation)
        RESULT_SHAPE.check(attestation["result"])
        principal, signed = attestation["principal"], without(attestation, "signature")
        _check_trusted(principal, trusted)
        check_object(principal, signed, attestation["signature"], "bad-signature", _UNSIGNED)
    except DocumentError as error:
        return refused(error)
    members = {"success": attestation["result"]["success"], "principal": attestation["principal"]}
    authority, fault = "unknown" if contract is None else "valid", None
    try:
        result = attestation["result"]
        if "output" in result and result.get("outputHash", "") not in ("", digest_text(result["output"])):
            raise DocumentError("hash-mismatch", "outputHash is not the BLAKE2b-256 of the output")
        if contract is not None:
            _check_contract_of(attestation, contract)
    except DocumentError as error:
        authority, fault = "insufficient", error
    return DocumentVerdict.of(
        fault, integrity="verified", binding=_binding(trusted), authority=authority, members=members
    )


def _check_contract_of(attestation: dict[str, Any], contract: Any) -> None:
    check_contract(contract, None)
    result = attestation["result"]
    if attestation["contractId"] != contract["id"]:
        raise DocumentError("contract-mismatch", "the attestation is for another contract")
    if result["costMicrocents"] > contract["constraints"]["maxBudgetMicrocents"]:
        raise DocumentError("over-budget", "costMicrocents is more than the contract's budget")
    if attestation["type"] != "completion" or not result["success"]:
        return
    if "output" not in result:
        raise DocumentError("output-refused", "there is no output")
    error = first_error(contract["task"].get("outputSchema", True), result["output"])
    if error is not None:
        raise DocumentError("output-refused", error)
    check_weights(contract["verification"])
    outcome = check_output(contract["verification"], result["output"])
    if not outcome["passed"]:
        raise DocumentError("output-refused", str(outcome.get("details", "the verification does not pass")))
