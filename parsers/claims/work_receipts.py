"""Receipts of work, read from signed documents by kind: the work that each shows, and the payment for it.

- `receipt`: a receipt of Motebit with those that it nests. Who nests a receipt signs it, too.
- `attestation`: `{"attestation", "contract"}` of DelegateOS; the second key is that of the contract's issuer.
- `mrp-evidence`: `{"envelope", "request"?, "keys"}` of MRP, a signed EVIDENCE; the second key is that of the signed
  EXECUTE that it replies to. `keys` are those of `/.well-known/mrp-keys.json` of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from parsers.claims.canonical_json import SAFE_INTEGER, DocumentError, from_base64url, jcs
from parsers.claims.delegateos.contracts import check_contract, verify_attestation
from parsers.claims.motebit.bearer_token import payload_of, verify_token
from parsers.claims.motebit.identifiers import KeyRing, hex_bytes
from parsers.claims.motebit.receipts import ReceiptNode, ReceiptRules, receipt_tree
from parsers.claims.mrp.signed_envelope import EnvelopeRules, mrp_keys, verify_envelope
from parsers.claims.payment_proof import bound_txid
from parsers.claims.rating import ReceiptRecord
from parsers.claims.rfc3339 import instant

BIND_AUDIENCE = "custom:a2b-bind"
_MILLISECOND = 1_000_000


class WorkReceipt(NamedTuple):
    """A record without payment, and the txid (hex) of the payment that its task is bound to, "" for none."""

    record: ReceiptRecord
    txid: str = ""


def receipts_in(kind: str, document: Any, now: int, keys: KeyRing | None = None) -> list[WorkReceipt]:
    """The receipts in a document at a time (milliseconds since 1970). `keys` are those of identities that do not follow
    from their key. Raises DocumentError for an unknown kind (unknown-kind), and for a document that proves nothing,
    with the code of its fault."""
    read = KINDS.get(kind)
    if read is None:
        raise DocumentError("unknown-kind", f"the kind {kind[:100]!a} is unknown: send one of {', '.join(KINDS)}")
    return read(document, now, keys or {})


def _receipts(document: Any, now: int, keys: KeyRing) -> list[WorkReceipt]:
    rules = ReceiptRules(keys=keys, now=now)
    return [
        WorkReceipt(record, bound_txid(receipt["task_id"], receipt.get("relay_task_id")))
        for record, receipt in receipt_records(document, rules)
    ]


def receipt_records(receipt: Any, rules: ReceiptRules) -> list[tuple[ReceiptRecord, Mapping[str, Any]]]:
    """A record, without payment, with its receipt for every receipt of a tree that verifies; others, as of the legacy
    profile, are left out. The agent that nests a receipt signs it, too: its key is the second one if its own receipt
    verifies. Raises DocumentError for a tree that is too deep, too large or has no RFC 8785 form."""
    return [(_receipt_record(node), node.receipt) for node in receipt_tree(receipt, rules) if not node.error]


def _receipt_record(node: ReceiptNode) -> ReceiptRecord:
    """A task is named by the key that signed for it, as an identity has more than one spelling."""
    completed_at = min(max(node.receipt["completed_at"], 0), SAFE_INTEGER)
    return ReceiptRecord(
        node.digest,
        _receipt_key(node),
        counter_signer=_receipt_key(node.parent),
        task=f"{_receipt_key(node)}:{sha256(node.receipt['task_id'].encode()).hexdigest()}",
        outcome=node.receipt["status"],
        completed_at=int(completed_at),
    )


def _receipt_key(node: ReceiptNode | None) -> str:
    """The key of a receipt that verifies, in hex; empty for none."""
    return node.key.hex() if node is not None and node.key is not None and not node.error else ""


def _attestation(document: Any, _now: int, _keys: KeyRing) -> list[WorkReceipt]:
    members = _members(document, {"attestation", "contract"}, set())
    attestation, contract = members["attestation"], members["contract"]
    verdict = verify_attestation(attestation, contract, None)
    if verdict.error:
        raise DocumentError(verdict.error, verdict.detail)
    check_contract(contract, None)
    worker = _hex_key(attestation["principal"])
    contract_digest = sha256(jcs(contract)).hexdigest()
    record = ReceiptRecord(
        sha256(jcs(attestation)).hexdigest(),
        worker,
        counter_signer=_other(_hex_key(contract["issuer"]), worker),
        task=f"{worker}:{contract_digest}",
        outcome="completed" if attestation["result"]["success"] else "failed",
        completed_at=max((instant(attestation["createdAt"]) or 0) // _MILLISECOND, 0),
    )
    return [WorkReceipt(record, bound_txid(contract["id"]))]


def _mrp_receipt(document: Any, now: int, _keys: KeyRing) -> list[WorkReceipt]:
    members = _members(document, {"envelope", "keys"}, {"request"})
    keys = mrp_keys(members["keys"])
    envelope, request = members["envelope"], members.get("request")
    worker = _signer(envelope, "EVIDENCE", keys, now * _MILLISECOND)
    counter_signer = ""
    if request is not None:
        sent = instant(request.get("timestamp")) if isinstance(request, dict) else None
        counter_signer = _other(_signer(request, "EXECUTE", keys, sent or 0), worker)
        if envelope.get("in_reply_to") != request["msg_id"]:
            raise DocumentError("task-mismatch", "the EVIDENCE replies to another message than the request")
    settlement = envelope["payload"].get("settlement", {})
    task = envelope["payload"].get("job_id") or envelope.get("in_reply_to") or envelope["msg_id"]
    record = ReceiptRecord(
        sha256(jcs(envelope)).hexdigest(),
        worker,
        counter_signer=counter_signer,
        task=f"{worker}:{sha256(task.encode()).hexdigest()}",
        completed_at=(instant(envelope["timestamp"]) or 0) // _MILLISECOND,
    )
    return [WorkReceipt(record, bound_txid(settlement.get("task"), task))]


def _signer(envelope: Any, msg_type: str, keys: Mapping[str, bytes], now: int) -> str:
    """The key, in hex, that signed an envelope of a type. Raises DocumentError."""
    verdict = verify_envelope(envelope, EnvelopeRules(keys=keys, now=now))
    if verdict.error:
        raise DocumentError(verdict.error, f"{msg_type}: {verdict.detail}")
    if envelope["msg_type"] != msg_type:
        raise DocumentError("malformed", f"the envelope is {envelope['msg_type']}, not {msg_type}")
    return keys[envelope["auth"]["signature"]["key_id"]].hex()


KINDS: dict[str, Callable[[Any, int, KeyRing], list[WorkReceipt]]] = {
    "receipt": _receipts,
    "attestation": _attestation,
    "mrp-evidence": _mrp_receipt,
}
"""The kinds of documents that hold receipts."""


def bound_key(token: Any, public_key: str, origin: str, now: int) -> str:
    """The key (hex) that consents to work for a listing, by a signed bearer token of Motebit for the audience
    BIND_AUDIENCE with the listing as `origin`. Raises DocumentError."""
    if not public_key:
        detail = "the card states no key: give its x-motebit a publicKey, 64 lower-case hex digits, and register it"
        raise DocumentError("bad-key", detail)
    key = hex_bytes(public_key, 32)
    if key is None:
        raise DocumentError("bad-key", "the card's public key is not 64 lower-case hex digits")
    payload, _ = payload_of(token, key, {})
    verdict = verify_token(token, {payload["mid"]: key}, now, audience=BIND_AUDIENCE)
    if verdict.error:
        raise DocumentError(verdict.error, verdict.detail)
    if payload.get("origin") != origin:
        raise DocumentError("audience-mismatch", f"the token's origin is not {origin}")
    return key.hex()


def _members(document: Any, needed: set[str], optional: set[str]) -> Mapping[str, Any]:
    if not isinstance(document, dict) or not needed <= set(document) <= needed | optional:
        raise DocumentError("malformed", f"the document is an object with {', '.join(sorted(needed | optional))}")
    return document


def _hex_key(principal: str) -> str:
    return from_base64url(principal).data.hex()


def _other(key: str, worker: str) -> str:
    """A second key, "" where it is the worker's own."""
    return "" if key == worker else key
