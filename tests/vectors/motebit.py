"""Motebit: receipts, delegations, tokens, identity files, discovery, trust and routing (`motebit.jsonl`).

What the reference implementation says in words of its own is made here from the codes of the product: its texts of
repair, and the paragraphs of its specification. Its functions take less into account than `verified` does, so that
`signed` of the current profile is what they call verified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from parsers.claims import ed25519
from parsers.claims.canonical_json import DocumentError, jcs, read
from parsers.claims.motebit import delegations, receipts, trust_graph
from parsers.claims.motebit.bearer_token import verify_token
from parsers.claims.motebit.delegations import DelegationRules
from parsers.claims.motebit.identifiers import did_key, hex_bytes, key_ring, sovereign_id
from parsers.claims.motebit.identity_file import parse_identity, verify_identity, verify_relay_metadata
from parsers.claims.motebit.receipts import ReceiptNode, ReceiptRules, receipt_tree
from parsers.claims.motebit.route_ranking import PathWeight, RouteCandidate, rank
from parsers.claims.motebit.succession import check_record
from parsers.claims.motebit.txt_record import read_txt
from tests.vectors import motebit_words
from tests.vectors.runner import Vector

TIME_OF_VECTORS = 1_787_000_000_000
"""The reference reads the clock where its function takes no time: a moment of the year in which it ran."""


def data(vector: Vector) -> Any:
    """The input, with numbers as the product reads them."""
    return read(vector.line.encode(), max_bytes=1 << 20)["input"]


def identity_derivation(vector: Vector) -> dict[str, Any]:
    key = ed25519.public_key_of(bytes.fromhex(data(vector)["seed_hex"]))
    return {"public_key_hex": key.hex(), "sovereign_motebit_id": sovereign_id(key), "did_key": did_key(key)}


def canonical_json(vector: Vector) -> dict[str, Any]:
    form = jcs(data(vector))
    return {"canonical": form.decode(), "sha256": sha256(form).hexdigest()}


def receipt(vector: Vector) -> dict[str, Any]:
    row = data(vector)
    document, keys = row["receipt"], key_ring(row.get("known_keys", {}))
    trusting = receipt_tree(document, ReceiptRules(keys=keys))
    embedded = receipt_tree(document, ReceiptRules(keys={}))
    is_pinned = document.get("motebit_id") in keys
    return {
        "verifyExecutionReceipt_known": is_current(trusting[0]) if is_pinned else None,
        "verifyReceiptChain": chain(trusting[0]),
        "verifyReceipt": embedded_verdict(embedded, is_strict=False),
        "verifyReceipt_strict": embedded_verdict(embedded, is_strict=True),
        "verdict": motebit_words.receipt_verdict(embedded[0]),
        "digest": trusting[0].digest,
    }


def is_current(node: ReceiptNode) -> bool:
    return node.signed and node.profile == "current"


def chain(node: ReceiptNode) -> dict[str, Any]:
    source = {"keySource": node.key_source} if node.key_source else {"error": "unknown motebit_id"}
    members = {
        "task_id": node.receipt["task_id"],
        "motebit_id": node.receipt["motebit_id"],
        "verified": is_current(node),
    }
    return {**members, **source, "delegations": [chain(child) for child in node.children]}


def embedded_verdict(nodes: list[ReceiptNode], *, is_strict: bool) -> dict[str, Any]:
    """`verifyReceipt`, which takes the embedded key and looks at no suite, of a receipt and all below it."""
    errors = motebit_words.paragraphs(nodes[0])
    errors += [
        f"§11.5 violation: delegation {child.receipt['task_id']} verification failed"
        for child in nodes[0].children
        if not whole(child)
    ]
    if is_strict and not nodes[0].hash_bound:
        errors.append(motebit_words.HASH_MISMATCH)
    signer = {} if nodes[0].key is None else {"signer": did_key(nodes[0].key)}
    return {"valid": not errors, **signer, "errors": errors}


def whole(node: ReceiptNode) -> bool:
    return node.signed and all(map(whole, node.children))


def receipt_sequence(vector: Vector) -> dict[str, Any]:
    entries = data(vector)["entries"]
    for index, entry in enumerate(entries):
        keys = {entry["receipt"]["motebit_id"]: bytes.fromhex(entry["signer_public_key_hex"])}
        if not is_current(receipt_tree(entry["receipt"], ReceiptRules(keys=keys))[0]):
            return {"valid": False, "error": f"Receipt {index} has invalid signature", "index": index}
    ordered = [entry["receipt"] for entry in entries]
    fault = receipts.order_fault(ordered)
    return {"valid": True} if fault is None else {"valid": False, "error": fault[1].detail, "index": fault[0]}


def delegation_token(vector: Vector) -> dict[str, Any]:
    row = data(vector)
    options = row.get("options") or {}
    now = options.get("now", TIME_OF_VECTORS) if options.get("checkExpiry", True) else None
    return {"valid": delegations.verify_delegation(row["token"], DelegationRules(keys={}, now=now)).verified}


def delegation_chain(vector: Vector) -> dict[str, Any]:
    verdict = delegations.verify_delegation_chain(data(vector)["chain"], DelegationRules(keys={}))
    return {"valid": True} if verdict.verified else {"valid": False, "error": verdict.detail}


def scope_narrowed(vector: Vector) -> bool:
    return delegations.is_narrowed(data(vector)["parent"], data(vector)["child"])


def signed_token(vector: Vector) -> dict[str, Any] | None:
    row = data(vector)
    key = bytes.fromhex(row["public_key_hex"])
    trusting = AnyIdentity(key)
    verdict = verify_token(row["token"], trusting, row.get("now", TIME_OF_VECTORS))
    return verdict.members["payload"] if verdict.verified else None


class AnyIdentity(dict[str, bytes]):
    """One key for every identity, as the reference is given it."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self.key = key

    def get(self, _identity: str, _default: Any = None) -> Any:
        return self.key


def grant_tick_verdict(vector: Vector) -> dict[str, Any]:
    row = data(vector)
    options = row.get("options") or row
    is_ordered = options.get("temporalMode") == "ordering"
    rules = DelegationRules(keys={}, now=options.get("now", TIME_OF_VECTORS))
    verdict = delegations.verify_tick(
        row["token"], row["grant"], options.get("revocations"), rules, by_order=is_ordered
    )
    return motebit_words.tick_verdict(verdict, row, options, is_ordered=is_ordered)


def trust_transition(vector: Vector) -> str | None:
    row = data(vector)
    return trust_graph.transition(row["trust_level"], row["successful_tasks"], row["failed_tasks"])


def trust_constants(_vector: Vector) -> dict[str, Any]:
    limits = trust_graph.THRESHOLDS
    return {
        "scores": trust_graph.SCORES,
        "thresholds": {
            "promoteToVerified_minTasks": limits.verified_tasks,
            "promoteToVerified_minRate": limits.verified_rate,
            "promoteToTrusted_minTasks": limits.trusted_tasks,
            "promoteToTrusted_minRate": limits.trusted_rate,
            "demote_belowRate": limits.demotion_rate,
            "demote_minTasks": limits.demotion_tasks,
        },
    }


def compose_delegation_trust(vector: Vector) -> float:
    row = data(vector)
    return trust_graph.delegated_trust(row["direct"], row["tree"], row["trust"])


def route_rank(vector: Vector) -> list[dict[str, Any]]:
    row = data(vector)
    required = frozenset(row["requirements"]["required_capabilities"])
    edges = [
        (one["from"], one["to"], path_weight(one["weight"]))
        for one in row.get("peer_edges", [])
    ]  # fmt: skip
    ranked = rank(
        [route_candidate(one, required) for one in row["candidates"]],
        required, row["requirements"].get("max_budget"), edges,
    )  # fmt: skip
    return [
        {"motebit_id": one.identity, "composite": one.composite, "sub_scores": one.scores, "selected": True}
        for one in ranked
    ]


def path_weight(weight: Mapping[str, Any]) -> PathWeight:
    names = ("trust", "cost", "latency", "reliability", "regulatory_risk")
    return PathWeight(*(weight[name] for name in names))


def route_candidate(one: Mapping[str, Any], required: frozenset[str]) -> RouteCandidate:
    record = one.get("trust_record") or {}
    tasks = record.get("successful_tasks", 0) + record.get("failed_tasks", 0)
    prices = [price["unit_cost"] for price in one["listing"]["pricing"] if price["capability"] in required]
    return RouteCandidate(
        identity=one["motebit_id"],
        trust=trust_graph.SCORES[record.get("trust_level", "unknown")],
        rate=record["successful_tasks"] / tasks if tasks else 0.5,
        price=sum(prices),
        latency_ms=(one.get("latency_stats") or {}).get("avg_ms", one["listing"]["sla"]["max_latency_ms"]),
        capabilities=frozenset(one["listing"]["capabilities"]),
        is_online=one["is_online"],
    )


def identity_file(vector: Vector) -> dict[str, Any]:
    verdict = verify_identity(data(vector)["content"], {})
    succession = verdict.members.get("succession")
    if verdict.integrity != "verified":
        return {"valid": False, "did": None, "error": verdict.detail, "succession": None, "identity": None}
    members = {name: verdict.members[name] for name in ("did", "identity")}
    return {"valid": True, "error": None, "succession": succession, **members}


def succession_verify(vector: Vector) -> dict[str, Any]:
    row = data(vector)
    guardian = row.get("guardian_public_key") or row.get("guardian_public_key_hex")
    try:
        check_record(row["record"], guardian)
    except DocumentError:
        return {"valid": False}
    return {"valid": True}


def relay_metadata(vector: Vector) -> dict[str, Any]:
    return {"valid": verify_relay_metadata(data(vector)).verified}


OK_IDENTITY_SEED = bytes([2]) * 32
"""The agent of the identity file that discovery vectors name instead of having it."""


def own_identity_file() -> str:
    key = ed25519.public_key_of(OK_IDENTITY_SEED)
    text = f'motebit_id: "{sovereign_id(key)}"\nidentity:\n  algorithm: "Ed25519"\n  public_key: "{key.hex()}"'
    signature = ed25519.sign(OK_IDENTITY_SEED, text.encode()).hex()
    return f"---\n{text}\n---\n<!-- motebit:sig:motebit-jcs-ed25519-hex-v1:{signature} -->\n"


def dns_txt(vector: Vector) -> dict[str, Any]:
    row = data(vector)
    record = read_txt(row["txt_records"])
    if record is None:
        error = "No valid v=motebit1 TXT record found"
        return {"domain": row["domain"], "motebitUrl": "", "identityVerified": False, "error": error}
    body = row.get("fetched_body")
    text = own_identity_file() if body == "identity_file ok vector" else body
    endpoint = {"endpointUrl": record.endpoint} if record.endpoint else {}
    answer = {"domain": row["domain"], "motebitUrl": record.url, **endpoint}
    verdict = verify_identity(text, {})
    if not verdict.verified:
        return {**answer, "identityVerified": False, "error": verdict.detail}
    content = parse_identity(text).content
    key = hex_bytes(content["identity"]["public_key"], 32) or b""
    return {**answer, "identityVerified": True, "motebitId": content["motebit_id"], "publicKey": key.hex()}


KINDS: dict[str, Callable[[Vector], Any]] = {
    function.__name__: function
    for function in (
        identity_derivation, canonical_json, receipt, receipt_sequence, delegation_token, delegation_chain,
        scope_narrowed, signed_token, grant_tick_verdict, trust_transition, trust_constants, compose_delegation_trust,
        route_rank, identity_file, succession_verify, relay_metadata, dns_txt,
    )
}  # fmt: skip
