"""The words of Motebit's reference implementation for a verdict: its axes, evidence, paragraphs and texts of repair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parsers.claims.motebit.receipts import ReceiptNode
from parsers.claims.verdict import DocumentVerdict

FAIL_CLOSED = "docs/doctrine/verify-family-fail-closed.md"
BINDING = "docs/doctrine/identity-binding-verification.md"
HASH_MISMATCH = "result_hash does not equal hex(SHA-256(result)) — receipt is not self-consistent (strict mode)"
NO_KEY = "§11.3 violation: No embedded public_key — cannot verify without known keys"
NOT_VERIFIED = "§11.2 violation: Ed25519 signature did not verify"
RUNG = (
    "supply an identity file / known-keys map (pinned) or a transparency-log inclusion proof (anchored) — before "
    "treating this as identity-verified."
)


def paragraphs(node: ReceiptNode) -> list[str]:
    """The errors of a receipt's own signature."""
    if node.key is None:
        return [NO_KEY]
    if node.signed:
        return []
    signature = node.detail.removeprefix("the ")
    is_form = signature.startswith("signature ")
    return [f"§11.2 violation: receipt {signature}" if is_form else NOT_VERIFIED]


def repair(code: str, axis: str, summary: str, canonical: str, fix: str) -> dict[str, Any]:
    return {"code": code, "axis": axis, "summary": summary, "canonical": canonical, "fix": fix}


def receipt_verdict(node: ReceiptNode) -> dict[str, Any]:
    """`verifyReceiptVerdict`."""
    repairs = receipt_repair(node)
    evidence = [{"kind": "receipt", "ref": node.receipt["result_hash"]}]
    if node.receipt.get("public_key"):
        evidence.insert(0, {"kind": "public_key", "ref": node.receipt["public_key"]})
    is_whole = node.signed and node.profile == "current" and node.hash_bound
    return {
        "type": "receipt",
        "integrity": "verified" if is_whole else "invalid",
        "identityBinding": node.binding,
        "authority": "unknown",
        "revocation": {"status": "unchecked"},
        "temporalBasis": "clockless",
        "evidenceBasis": evidence,
        **({"repair": repairs} if repairs else {}),
    }


def receipt_repair(node: ReceiptNode) -> dict[str, Any] | None:
    if node.key is None:
        return repair(
            "integrity.no_key", "integrity", "Receipt has no usable embedded public_key to verify against.",
            FAIL_CLOSED,
            "Obtain the receipt with its embedded `public_key` (hex), or supply the signer's key out of band.",
        )  # fmt: skip
    if not node.signed or node.profile != "current":
        return repair(
            "integrity.signature_invalid", "integrity",
            "Ed25519 signature did not verify over the receipt's canonical bytes.", FAIL_CLOSED,
            "The receipt was tampered or signed by a different key — re-fetch the authentic receipt; do not trust this "
            "copy.",
        )  # fmt: skip
    if not node.hash_bound:
        return repair(
            "integrity.hash_inconsistent", "integrity",
            "Signature verifies, but result_hash != hex(SHA-256(result)) — a valid signature over a self-inconsistent "
            "receipt; the digest does not bind the result.",
            "the receipt's result_hash field (recompute hex(SHA-256(result)))",
            "result_hash MUST equal hex(SHA-256(result)). The signer committed an inconsistent digest — reject the "
            "receipt; never trust result_hash as a content address for the result.",
        )  # fmt: skip
    if node.binding == "unverified":
        return repair(
            "identity.binding_unverified", "identityBinding",
            "Signature verifies, but the key-to-motebit_id binding is NOT established (integrity only).", BINDING,
            f"The motebit_id does not commit to this key (not sovereign). Establish a higher rung — {RUNG}",
        )  # fmt: skip
    return None


def tick_verdict(
    verdict: DocumentVerdict, row: Mapping[str, Any], options: Mapping[str, Any], *, is_ordered: bool
) -> dict[str, Any]:
    """`verifyDelegationTokenVerdict`."""
    token, grant = row["token"], row["grant"]
    evidence = [
        {"kind": "delegation_token", "ref": token["signature"]},
        {"kind": "grant", "ref": grant["grant_id"]},
        {"kind": "public_key", "ref": token["delegator_public_key"]},
    ]
    revocation: dict[str, Any] = {"status": verdict.revocation}
    if verdict.revocation != "unchecked":
        revocation["freshness"] = options.get("revocationFreshness") or {"basis": "asserted", "asOf": {}}
    if "revokedBy" in verdict.members:
        evidence.append({"kind": "revocation", "ref": verdict.members["revokedBy"]})
    repairs = tick_repair(verdict)
    return {
        "type": "delegation_token",
        "integrity": verdict.integrity,
        "identityBinding": verdict.binding,
        "authority": verdict.authority,
        "revocation": revocation,
        "temporalBasis": "clockless" if is_ordered else "local_clock",
        "evidenceBasis": evidence,
        **({"repair": repairs} if repairs else {}),
    }


def tick_repair(verdict: DocumentVerdict) -> dict[str, Any] | None:
    if verdict.integrity != "verified":
        return repair(
            "integrity.signature_invalid", "integrity",
            "Ed25519 signature did not verify over the artifact's canonical bytes.", FAIL_CLOSED,
            "Re-fetch the authentic artifact; do not trust this copy.",
        )  # fmt: skip
    if verdict.binding in ("unverified", "invalid"):
        return repair(
            "identity.binding_unverified", "identityBinding",
            "Signature verifies, but the key-to-motebit_id binding is NOT established.", BINDING,
            f"Establish a higher rung — {RUNG}",
        )  # fmt: skip
    if verdict.authority != "valid":
        summary = (
            f'Authority is "{verdict.authority}", not "valid" — the token does not currently confer the authority it '
            "claims."
        )
        return repair(
            f"authority.{verdict.authority}", "authority", summary, "spec/standing-delegation-v1.md",
            AUTHORITY_FIXES.get(verdict.authority, AUTHORITY_FIXES["insufficient"]),
        )  # fmt: skip
    if verdict.revocation in REVOCATION:
        return repair(f"revocation.{verdict.revocation}", "revocation", REVOCATION[verdict.revocation][0], FAIL_CLOSED,
                      REVOCATION[verdict.revocation][1])  # fmt: skip
    return None


AUTHORITY_FIXES = {
    "not_yet_valid": "The token's activation window has not started under this temporal basis — do not act until its "
    "slot; if you judge validity by ordering, set temporalMode: 'ordering'.",
    "expired": "The token's validity window has passed — mint a fresh tick under the grant.",
    "insufficient": "The token is not a valid tick of this grant (scope/parties/TTL/grant). Re-mint within the grant's "
    "ceiling.",
}
REVOCATION = {
    "revoked": (
        "The standing grant behind this token is REVOKED — every tick minted under it is dead authority.",
        "Reject this token and every token minted under the grant; the only safe action is to stop.",
    ),
    "unchecked": (
        "Revocation was not checked — no revocation set was supplied.",
        "Supply the revocation set (build the isRevoked seam via findGrantRevocation) and re-verify.",
    ),
}
