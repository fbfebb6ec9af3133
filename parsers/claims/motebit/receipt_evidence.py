"""Evidence in receipts of Motebit: each verified receipt of a tree, counter-signed where another agent nested it."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from parsers.claims.canonical_json import SAFE_INTEGER
from parsers.claims.motebit.receipts import ReceiptNode, ReceiptRules, receipt_tree
from parsers.claims.rating import EvidenceRecord


def bound_receipts(receipt: Any, rules: ReceiptRules) -> list[tuple[EvidenceRecord, Mapping[str, Any]]]:
    """A record, without payment, with its receipt for every receipt of a tree that verifies; others, as of the legacy
    profile, are left out. The agent that nests a receipt signs it, too: its key is the second one if its own receipt
    verifies. Raises ClaimRefusedError for a tree that is too deep, too large or has no RFC 8785 form."""
    return [(_record(node), node.receipt) for node in receipt_tree(receipt, rules) if not node.error]


def _record(node: ReceiptNode) -> EvidenceRecord:
    """A task is named by the key that signed for it, as an identity has more than one spelling."""
    completed_at = min(max(node.receipt["completed_at"], 0), SAFE_INTEGER)
    return EvidenceRecord(
        node.digest,
        _key(node),
        counter_signer=_key(node.parent),
        task=f"{_key(node)}:{sha256(node.receipt['task_id'].encode()).hexdigest()}",
        outcome=node.receipt["status"],
        completed_at=int(completed_at),
    )


def _key(node: ReceiptNode | None) -> str:
    """The key of a receipt that verifies, in hex; empty for none."""
    return node.key.hex() if node is not None and node.key is not None and not node.error else ""
