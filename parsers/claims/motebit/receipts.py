"""Execution receipts of Motebit (execution-ledger@1.0 §11, delegation@1.0 §5): single, nested and in sequence.

A receipt is signed by the worker alone, and proves that the holder of a key wrote it, not that work was done. Without
`suite`, as the delegation specification prints it, it has the profile `legacy`: every other rule is checked, and it
never counts. Codes: malformed, legacy-profile, unknown-suite, unknown-key, weak-key, bad-signature, non-canonical,
hash-mismatch, time-window, future-dated, replayed, task-mismatch; of trees: too-deep, too-many-receipts; of sequences:
time-order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from typing import Any

from parsers.claims.canonical_json import DocumentError, jcs, joined, without
from parsers.claims.motebit.identifiers import (
    SUITE,
    KeyRing,
    binding,
    check_signature,
    did_key,
    hex_bytes,
    key_of,
    public_key,
    without_suite,
)
from parsers.claims.record_shape import COUNT, NAME, NUMBER, OBJECT, OBJECTS, TEXT, TEXTS, RecordShape, one_of
from parsers.claims.verdict import LEGACY, SKEW_MS, DocumentVerdict, refused, refused_part

MAX_DEPTH, MAX_RECEIPTS = 10, 64
"""Delegations below a receipt, and receipts of a tree or a sequence."""

WINDOW_MS = 3_600_000
"""How far apart `submitted_at` and `completed_at` may be (delegation@1.0 §5.3)."""

DIGEST_SHAPE = RecordShape("source_digest", {"algorithm": TEXT, "value": TEXT}, {})
SHAPE = RecordShape(
    "a receipt",
    {
        **dict.fromkeys(("task_id", "motebit_id", "device_id"), NAME),
        **dict.fromkeys(("submitted_at", "completed_at"), NUMBER),
        "status": one_of("completed", "failed", "denied"),
        "result": TEXT,
        "tools_used": TEXTS,
        "memories_formed": COUNT,
        **dict.fromkeys(("prompt_hash", "result_hash"), TEXT),
        "suite": one_of(SUITE),
        "signature": TEXT,
    },
    {
        **dict.fromkeys(("public_key", "relay_task_id", "delegated_scope", "source_projection"), TEXT),
        "delegation_receipts": OBJECTS,
        "source_digest": OBJECT,
        "invocation_origin": one_of("user-tap", "ai-loop", "scheduled", "agent-to-agent"),
    },
)
LEGACY_SHAPE = SHAPE.without("suite")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRules:
    """The rules that receipts are verified by: keys by `motebit_id`, the time (milliseconds since 1970; None to ignore
    it), receipts seen before as `motebit_id:task_id`, and the relay task that the outermost one must be bound to.
    `cut`: of a tree that is too deep the receipts within the depth are judged; else it is refused."""

    keys: KeyRing
    now: float | None = None
    seen: frozenset[str] = frozenset()
    relay_task_id: str | None = None
    cut: bool = False


@dataclass(slots=True)
class ReceiptNode:
    """A receipt of a tree. `signed`: its bytes verify under the key, independent of other faults; `profile`: current,
    legacy (never counts) or unknown; `key_source`: external (the caller's) or embedded; `digest`: SHA-256 of its
    canonical form, signature included."""

    receipt: Mapping[str, Any]
    parent: ReceiptNode | None = None
    children: list[ReceiptNode] = field(default_factory=list)
    canonical: bytes = b""
    key: bytes | None = None
    key_source: str | None = None
    profile: str = "unknown"
    signed: bool = False
    hash_bound: bool = False
    binding: str = "unverified"
    error: str = ""
    detail: str = ""
    missing: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical form, in hex."""
        return sha256(self.canonical).hexdigest()

    @property
    def identity(self) -> str:
        """`motebit_id:task_id`, by which a receipt is counted once."""
        return f"{self.receipt.get('motebit_id')}:{self.receipt.get('task_id')}"

    @property
    def integrity(self) -> str:
        """Whether the bytes are those that the key signed; unknown without a key, or by another suite."""
        is_whole = self.signed and self.hash_bound and self.profile == "current"
        if is_whole and self.error not in ("malformed", "non-canonical"):
            return "verified"
        return "unknown" if self.key is None or self.profile == "unknown" else "invalid"

    def verdict(self, **members: Any) -> DocumentVerdict:
        """The verdict on this receipt, without those below it."""
        key = {} if self.key is None else {"keySource": self.key_source, "signer": did_key(self.key)}
        checks = {
            "task_id": _shown(self.receipt.get("task_id")),
            "motebit_id": _shown(self.receipt.get("motebit_id")),
            "signed": self.signed,
            "profile": self.profile,
            "digest": self.digest,
            **key,
        }
        return DocumentVerdict(
            error=self.error,
            detail=self.detail,
            missing=self.missing,
            integrity=self.integrity,
            binding=self.binding,
            members={**checks, **members},
        )


def receipt_tree(receipt: Any, rules: ReceiptRules) -> list[ReceiptNode]:
    """The nodes of a receipt and all it nests, parents first, each one checked. Raises DocumentError for a tree
    that is too deep, too large or has no RFC 8785 form."""
    nodes = _nodes(receipt, cut=rules.cut)
    for node in reversed(nodes):  # children first: a parent signs their canonical forms
        _canonicalize_and_sign(node, rules)
    seen = set(rules.seen)
    for node in nodes:
        try:
            _check(node, rules, seen)
        except DocumentError as error:
            lacks_suite = node.profile == "legacy" and "suite" not in error.missing
            node.error, node.detail = error.code, error.detail
            node.missing = (*error.missing, "suite") if lacks_suite else error.missing
        seen.add(node.identity)
    return nodes


def _nodes(receipt: Any, *, cut: bool) -> list[ReceiptNode]:
    if not isinstance(receipt, dict):
        raise DocumentError("malformed", "a receipt is not a JSON object")
    nodes = [ReceiptNode(receipt)]
    level = nodes
    for depth in range(MAX_DEPTH + 1):
        below = [(parent, child) for parent in level for child in _nested(parent.receipt)]
        if not below:
            return nodes
        if depth == MAX_DEPTH:
            if cut:
                return nodes
            raise DocumentError("too-deep", f"receipts are nested more than {MAX_DEPTH} deep")
        level = []
        for parent, child in below:
            node = ReceiptNode(child, parent)
            parent.children.append(node)
            level.append(node)
        nodes = nodes + level
        if len(nodes) > MAX_RECEIPTS:
            raise DocumentError("too-many-receipts", f"more than {MAX_RECEIPTS} receipts in a tree")
    return nodes


def _nested(receipt: Mapping[str, Any]) -> list[dict[str, Any]]:
    nested = receipt.get("delegation_receipts")
    if not isinstance(nested, list):
        return []
    return [child for child in nested if isinstance(child, dict)]


def _canonicalize_and_sign(node: ReceiptNode, rules: ReceiptRules) -> None:
    """Write the canonical form once, from the forms of the receipts below, and verify the signature over it."""
    receipt = node.receipt
    members = {name: jcs(value) for name, value in receipt.items() if name != "delegation_receipts"}
    if "delegation_receipts" in receipt:
        nested = receipt["delegation_receipts"]
        is_whole = isinstance(nested, list) and len(nested) == len(node.children)
        forms = b"[" + b",".join(child.canonical for child in node.children) + b"]"
        members["delegation_receipts"] = forms if is_whole else jcs(nested)
    node.canonical = joined(members)
    suite = receipt.get("suite")
    node.profile = "current" if suite == SUITE else "legacy" if suite is None else "unknown"
    _choose_key(node, rules.keys)
    if node.key is not None:
        try:
            is_canonical = check_signature(receipt.get("signature"), joined(without(members, "signature")), node.key)
        except DocumentError as error:
            node.error, node.detail = error.code, error.detail
        else:
            node.signed = True
            if not is_canonical:
                node.error, node.detail = "non-canonical", "the signature is not spelt as base64url without padding"
    result = receipt.get("result")
    if isinstance(result, str):
        node.hash_bound = sha256(result.encode()).hexdigest() == receipt.get("result_hash")


def _choose_key(node: ReceiptNode, keys: KeyRing) -> None:
    """The caller's key for the identity, else the key in the receipt itself."""
    identity = node.receipt.get("motebit_id")
    identity = identity if isinstance(identity, str) else ""
    embedded = hex_bytes(node.receipt.get("public_key"), 32)
    trusted = key_of(identity, keys)
    node.key = embedded if trusted is None else trusted
    if node.key is not None:
        node.key_source = "embedded" if trusted is None else "external"
        node.binding = binding(identity, node.key, keys)


def _check(node: ReceiptNode, rules: ReceiptRules, seen: set[str]) -> None:
    """Raises DocumentError with the first rule that a receipt breaks."""
    receipt = node.receipt
    if node.profile == "unknown":
        raise DocumentError("unknown-suite", f"suite is {_shown(receipt.get('suite'))!a}, not {SUITE}")
    if node.key is None:
        lacking = [name for name in ("public_key",) if name not in receipt]
        raise DocumentError("unknown-key", "unknown motebit_id: neither keys nor public_key has its key", lacking)
    is_legacy = node.profile == "legacy"
    if not node.signed:
        expected = f"; suite is missing: {SUITE} is expected" if is_legacy else ""
        raise DocumentError(node.error, node.detail + expected)
    (LEGACY_SHAPE if is_legacy else SHAPE).check(receipt)
    if "source_digest" in receipt:
        DIGEST_SHAPE.check(receipt["source_digest"])
    if node.error:
        raise DocumentError(node.error, node.detail)
    if not node.hash_bound:
        raise DocumentError("hash-mismatch", "result_hash is not the SHA-256 of result")
    submitted, completed = receipt["submitted_at"], receipt["completed_at"]
    if abs(completed - submitted) > WINDOW_MS:
        raise DocumentError("time-window", "completed_at is more than an hour from submitted_at")
    if rules.now is not None and max(submitted, completed) > rules.now + SKEW_MS:
        raise DocumentError("future-dated", "the receipt is from the future")
    if node.identity in seen:
        raise DocumentError("replayed", f"the receipt {node.identity[:300]!a} was seen before")
    if node.parent is None and rules.relay_task_id not in (None, receipt.get("relay_task_id")):
        raise DocumentError("task-mismatch", "the receipt is bound to another relay task")
    if node.binding == "unverified":
        raise DocumentError("unknown-key", "unknown motebit_id: it is not derived from the embedded key")
    if is_legacy:
        raise DocumentError(LEGACY, without_suite(SUITE))


def verify_receipt(receipt: Any, rules: ReceiptRules) -> DocumentVerdict:
    """The verdict on a receipt; nested receipts are part of its signed form, and not verified by themselves."""
    try:
        return receipt_tree(receipt, rules)[0].verdict()
    except DocumentError as error:
        return refused(error)


def verify_receipt_chain(receipt: Any, rules: ReceiptRules) -> DocumentVerdict:
    """The verdict on a receipt; `delegations` are the verdicts on nested receipts. A parent may be valid although a
    nested receipt is not, as its signature covers those bytes; `allVerified` is whether all are valid."""
    try:
        nodes = receipt_tree(receipt, rules)
    except DocumentError as error:
        return refused(error, delegations=[], allVerified=False)
    answers: dict[int, dict[str, Any]] = {}
    for node in reversed(nodes):
        answers[id(node)] = {
            **node.verdict().as_json(),
            "delegations": [answers[id(child)] for child in node.children],
        }
    members = {"delegations": answers[id(nodes[0])]["delegations"]}
    return nodes[0].verdict(**members, allVerified=not any(node.error for node in nodes), receipts=len(nodes))


def verify_receipt_sequence(sequence: Any, rules: ReceiptRules) -> DocumentVerdict:
    """The verdict on receipts of consecutive work, or on entries `{receipt, signer_public_key}`. An empty sequence is
    valid."""
    if not isinstance(sequence, list) or len(sequence) > MAX_RECEIPTS:
        return refused(DocumentError("malformed", f"a sequence is a list of at most {MAX_RECEIPTS} receipts"))
    seen = rules.seen
    bindings: set[str] = set()
    receipts = []
    for index, entry in enumerate(sequence):
        try:
            receipt, keys = _signed_by(entry, rules.keys)
            receipts.append(receipt)
            node = receipt_tree(receipt, ReceiptRules(keys=keys, now=rules.now, seen=seen))[0]
        except DocumentError as error:
            return refused(error, index=index)
        if node.error:
            fault = DocumentError(node.error, f"Receipt {index}: {node.detail}")
            return refused_part(fault, node.integrity, index=index)
        seen |= {node.identity}
        bindings.add(binding(receipt["motebit_id"], node.key or b"", rules.keys))  # the caller's, not an entry's
    if (wrong := order_fault(receipts)) is not None:
        return DocumentVerdict.of(wrong[1], integrity="verified", members={"index": wrong[0]})
    weakest = next((name for name in ("unverified", "sovereign", "pinned") if name in bindings), "unverified")
    return DocumentVerdict(integrity="verified", binding=weakest, members={"receipts": len(receipts)})


def _signed_by(entry: Any, keys: KeyRing) -> tuple[Any, KeyRing]:
    """The receipt of an entry of a sequence, and the keys with the one that the entry names for its signer. It does not
    replace a key that the caller trusts for that identity. Raises DocumentError."""
    if not isinstance(entry, dict) or set(entry) != {"receipt", "signer_public_key"}:
        return entry, keys
    receipt, key = entry["receipt"], public_key(entry["signer_public_key"])
    if key is None:
        raise DocumentError("malformed", "signer_public_key is not 64 hex digits")
    identity = receipt.get("motebit_id") if isinstance(receipt, dict) else None
    if not isinstance(identity, str) or key_of(identity, keys) is not None:
        return receipt, keys
    return receipt, {**keys, identity: key}


def order_fault(receipts: Sequence[Mapping[str, Any]]) -> tuple[int, DocumentError] | None:
    """The number of the first receipt that was submitted before the one ahead of it was completed, and the fault."""
    for index, (before, receipt) in enumerate(pairwise(receipts), 1):
        completed, submitted = before["completed_at"], receipt["submitted_at"]
        if completed > submitted:
            order = f"({submitted}) is before receipt {index - 1} completed_at ({completed})"
            return index, DocumentError("time-order", f"Receipt {index} submitted_at {order}")
    return None


def _shown(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) else None
