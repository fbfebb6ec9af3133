"""Tasks: submitted with a lock on funds, and settled by the worker's receipt and those that it nests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from overlay.systems.relay.store_ledger import InsufficientFundsError
from overlay.systems.relay.store_tasks import SubmittedTask, TaskSettlement, TooManyTasksError
from overlay.systems.relay.task_relay import Relay, RelayRefusedError, insufficient_funds, key_conflict, request_key
from parsers.claims.canonical_json import DocumentError, read
from parsers.claims.motebit.bearer_token import SignedRequest
from parsers.claims.motebit.identifiers import canonical_id, is_same_identity
from parsers.claims.motebit.receipts import MAX_DEPTH, ReceiptNode, ReceiptRules, receipt_tree, verify_receipt
from parsers.claims.motebit.settlement import (
    UNIT,
    Hop,
    RelayAgent,
    RelayTask,
    RelayTaskState,
    lock_of,
    settle,
    settlement_record,
)

LOCK_SECONDS = 3_600
SUBMIT_AUDIENCES = ("task:submit",)
RESULT_AUDIENCES = ("task:result", "task:submit")
QUERY_AUDIENCES = ("task:query", "task:submit")
ALREADY_SETTLED = "already-settled"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRequest:
    """A submitter's request, and the digest of the whole request; a repeated request with the same `idempotency_key`
    gives the same task."""

    worker: str
    submitted_by: str | None
    required_capabilities: Sequence[str]
    max_budget: int | None
    idempotency_key: str | None
    sha256: str = ""


def submit(relay: Relay, request: SignedRequest, task: TaskRequest) -> SubmittedTask:
    """Accept a task for a worker, and lock its price and a buffer. Raises RelayRefusedError."""
    payload = relay.payload(request, SUBMIT_AUDIENCES, None, once=True)
    mid: str = payload["mid"]
    if task.submitted_by is not None and relay.identity(task.submitted_by) != mid:
        raise RelayRefusedError(403, "forbidden", f"submitted_by is not the token's agent, {mid[:200]!a}")
    task = replace(task, worker=relay.identity(task.worker))
    key = request_key(task.idempotency_key, payload)
    # a repeated request is answered whatever has become of the worker and its prices: its funds are locked
    stored = relay.tasks.repeated(mid, key) or _locked(relay, mid, key, task)
    if stored.task.worker != task.worker:
        raise key_conflict("a task of another worker")
    if not relay.tasks.is_request_of(stored.task.id, task.sha256):
        raise key_conflict("a task with another body")
    return stored


def _locked(relay: Relay, mid: str, key: str, task: TaskRequest) -> SubmittedTask:
    """A new task with locked funds for its price. Raises RelayRefusedError."""
    worker, now = relay.agents.agent(task.worker), relay.now()
    if worker is None:
        raise RelayRefusedError(404, "not-registered", f"no agent {task.worker[:200]!a} is registered here")
    if worker.expires_at <= now:
        raise RelayRefusedError(410, "expired", f"the registration of {task.worker[:200]!a} has ended")
    price = price_of(worker, task.required_capabilities)
    if task.max_budget is not None and price > task.max_budget:
        raise RelayRefusedError(409, "too-dear", f"the price is {price:,}, above max_budget", price=price)
    submitted = SubmittedTask(
        task=RelayTask(str(uuid4()), mid, worker.motebit_id, price, lock_of(price), RelayTaskState.PENDING),
        idempotency_key=key,
        created_at=now,
        expires_at=now + LOCK_SECONDS,
    )
    try:
        return relay.tasks.submit(submitted, task.sha256)
    except InsufficientFundsError as error:
        raise insufficient_funds(error, "locked for this task") from None
    except TooManyTasksError as error:
        raise RelayRefusedError(429, "too-many", str(error)) from None


def price_of(worker: RelayAgent, capabilities: Sequence[str]) -> int:
    """The price of a task: the sum over the capabilities that it needs, or the dearest where it names none. Raises
    RelayRefusedError for a capability that the worker does not have."""
    missing = [name for name in capabilities if name not in worker.capabilities]
    if missing:
        raise RelayRefusedError(409, "capability-missing", f"the agent has no capability {missing[0][:200]!a}")
    if not capabilities:
        return max(worker.prices.values(), default=0)
    return sum(worker.prices.get(name, 0) for name in dict.fromkeys(capabilities))


def task_of(relay: Relay, request: SignedRequest, worker: str, id_: str) -> tuple[SubmittedTask, dict[str, Any] | None]:
    """A task and its receipt, for its submitter or worker. Raises RelayRefusedError."""
    mid = relay.caller(request, QUERY_AUDIENCES, once=False)
    submitted = _submitted(relay, worker, id_, mid)
    settlement = relay.tasks.settlement(id_)
    return submitted, None if settlement is None else json.loads(settlement["receipt"])


def task_json(submitted: SubmittedTask) -> dict[str, Any]:
    """A task in an answer; times are milliseconds since 1970."""
    task = submitted.task
    return {
        "task_id": task.id, "status": task.state.value, "submitted_by": task.submitted_by, "motebit_id": task.worker,
        "price": task.price, "locked": task.locked, "currency": UNIT, "created_at": submitted.created_at * 1_000,
        "expires_at": submitted.expires_at * 1_000,
    }  # fmt: skip


def result(relay: Relay, request: SignedRequest, worker: str, id_: str) -> dict[str, Any]:
    """Settle a task by a receipt, the request's body, and the tasks of the receipts that it nests: all or nothing at
    once. Raises RelayRefusedError: 403 for a receipt that is not the worker's for this task."""
    mid = relay.caller(request, RESULT_AUDIENCES, once=True)
    _submitted(relay, worker, id_, mid)
    nodes = _verified(relay, id_, request.body)
    names = {name for node in nodes if isinstance(name := node.receipt.get("relay_task_id"), str)}
    hops = settle(nodes, relay.tasks.tasks(names, relay.now()))
    top = hops[0]
    if top.fault == "expired":
        raise RelayRefusedError(410, "expired", top.detail)
    if top.fault not in ("", ALREADY_SETTLED):
        raise RelayRefusedError(403, top.fault, top.detail)
    settled: set[str] = set()
    if top.is_due:
        settled = set(relay.tasks.settle([_settlement(relay, hop) for hop in hops if hop.is_due], relay.now()))
    return _answer(relay, hops if top.is_due else [top], settled)


def judged_receipt(relay: Relay, agent: RelayAgent, document: bytes) -> dict[str, Any]:
    """Whether a document is a valid receipt of an agent, and the code and sentence of its fault."""
    rules = ReceiptRules(keys={agent.motebit_id: agent.public_key}, now=relay.now_ms())
    try:
        receipt = read(document)
        verdict = verify_receipt(receipt, rules)
        if verdict.error:
            raise DocumentError(verdict.error, verdict.detail)
        if not is_same_identity(receipt["motebit_id"], agent.motebit_id):
            raise DocumentError("wrong-worker", "the receipt is that of another agent")
    except DocumentError as error:
        return {"valid": False, "reason": error.code, "detail": error.detail}
    return {"valid": True}


def _submitted(relay: Relay, worker: str, id_: str, mid: str) -> SubmittedTask:
    submitted = relay.tasks.submitted(id_)
    if submitted is None or submitted.task.worker != relay.identity(worker):
        raise RelayRefusedError(404, "unknown-task", f"{worker[:200]!a} has no task {id_[:100]!a}")
    if mid not in (submitted.task.worker, submitted.task.submitted_by):
        raise RelayRefusedError(403, "forbidden", "the task is not one of the token's agent")
    return submitted


def _verified(relay: Relay, id_: str, body: bytes) -> list[ReceiptNode]:
    """The receipts of a tree, verified with the registered keys; below the depth limit none is looked at."""
    try:
        receipt = read(body)
        rules = ReceiptRules(keys=_keys(relay, _signers(receipt)), now=relay.now_ms(), relay_task_id=id_, cut=True)
        return receipt_tree(receipt, rules)
    except DocumentError as error:
        raise RelayRefusedError(400, error.code, error.detail) from None


def _keys(relay: Relay, signers: set[str]) -> dict[str, bytes]:
    """The registered keys of these identities, as they are written and in their canonical forms."""
    return relay.agents.keys(signers | {form for signer in signers if (form := canonical_id(signer))})


def _signers(receipt: Any) -> set[str]:
    """The identities that receipts within the depth limit name."""
    level, signers = [receipt], set()
    for _ in range(MAX_DEPTH + 1):
        level = [member for member in level if isinstance(member, dict)]
        signers |= {name for member in level if isinstance(name := member.get("motebit_id"), str)}
        nested = [member.get("delegation_receipts") for member in level]
        level = [child for children in nested if isinstance(children, list) for child in children]
    return signers


def _settlement(relay: Relay, hop: Hop) -> TaskSettlement:
    if hop.task is None:
        raise ValueError("a hop without a task is never due")
    record = relay.signed(settlement_record(hop, hop.task, str(uuid4()), relay.now_ms(), relay.id))
    return TaskSettlement(
        task=hop.task, outcome=hop.node.receipt["status"], payout=hop.payout, fee=hop.fee,
        receipt_sha256=hop.node.digest,
        receipt=hop.node.canonical.decode(), record=json.dumps(record),
    )  # fmt: skip


def _answer(relay: Relay, hops: Sequence[Hop], settled: set[str]) -> dict[str, Any]:
    """The answer, with the record of every settled hop. One that another request settled meanwhile is settled
    already."""
    rows = [_row(relay, hop, settled) for hop in hops]
    top = rows[0]
    return {"task_id": top["task_id"], "status": top["status"], "settlement": top.get("settlement"), "hops": rows}


def _row(relay: Relay, hop: Hop, settled: set[str]) -> dict[str, Any]:
    signer = hop.node.receipt.get("motebit_id")
    task = None if hop.task is None else hop.task.id
    row: dict[str, Any] = {"task_id": task, "motebit_id": signer[:200] if isinstance(signer, str) else None}
    if hop.fault not in ("", ALREADY_SETTLED) or task is None:
        return row | {"status": "skipped", "reason": hop.fault, "detail": hop.detail}
    settlement = relay.tasks.settlement(task)
    if settlement is None:
        return row | {"status": "skipped", "reason": "expired", "detail": f"the task {task} expired meanwhile"}
    status = "settled" if task in settled else "already_settled"
    return row | {"status": status, "settlement": json.loads(settlement["record"])}
