"""Settlement of relay tasks by receipts (Motebit's settlement@1.0, multi-hop): what each hop of a tree pays.

A hop costs the price that was fixed when its task was submitted. Amounts are integers in the ledger's unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from parsers.claims.motebit.identifiers import SUITE, is_same_identity
from parsers.claims.motebit.receipts import ReceiptNode

FEE_PERCENT = 5
LOCK_TENTHS = 12
"""The locked amount, in tenths of the price: the part above the price is a buffer for risk, and is returned."""

MAX_PRICE = 21 * 10**14
"""All satoshis that there can be."""


def lock_of(price: int) -> int:
    """The amount that a task of this price locks, rounded down."""
    return price * LOCK_TENTHS // 10


def fee_of(price: int) -> int:
    """The relay's fee for a completed task of this price, rounded down."""
    return price * FEE_PERCENT // 100


class RelayTaskState(StrEnum):
    """`pending`: its funds are locked. `settled`: a receipt arrived. `expired`: none arrived in time; all was
    unlocked."""

    PENDING = "pending"
    SETTLED = "settled"
    EXPIRED = "expired"


class RelayTask(NamedTuple):
    """A task as its submitter (a `motebit_id`) had it accepted for a worker."""

    id: str
    submitted_by: str
    worker: str
    price: int
    locked: int
    state: RelayTaskState


UNIT = "SAT"
"""The unit of amounts, as prices name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayAgent:
    """An agent that registered with a relay. `prices` are the prices of one task by capability. As a worker it is
    offered until `expires_at`; its key and account stay. Times are seconds since 1970."""

    motebit_id: str
    public_key: bytes
    endpoint: str
    capabilities: tuple[str, ...]
    prices: Mapping[str, int] = field(default_factory=dict)
    name: str = ""
    description: str = ""
    last_seen: int
    expires_at: int

    @property
    def terms(self) -> dict[str, Any]:
        """The prices and the last request of the agent, as members of a row of agents."""
        pricing = [
            {"capability": name, "unit_cost": cost, "currency": UNIT, "per": "task"}
            for name, cost in self.prices.items()
        ]
        return {"pricing": pricing or None, "last_seen_at": self.last_seen * 1_000}


class Hop(NamedTuple):
    """The result of a receipt of a tree. `task` is None where it names none; `fault` (a code) is why it is skipped,
    `already-settled` where the task has its receipt."""

    node: ReceiptNode
    task: RelayTask | None
    fault: str = ""
    detail: str = ""

    @property
    def is_due(self) -> bool:
        """Whether the hop is due for settlement now."""
        return not self.fault

    @property
    def payout(self) -> int:
        """The amount for the worker: nothing for a failed or denied task."""
        return 0 if self.task is None or not self.is_completed else self.task.price - fee_of(self.task.price)

    @property
    def fee(self) -> int:
        """The amount for the relay."""
        return 0 if self.task is None or not self.is_completed else fee_of(self.task.price)

    @property
    def is_completed(self) -> bool:
        """Whether the work was done, and not failed or denied."""
        return self.node.receipt.get("status") == "completed"


def settle(nodes: Sequence[ReceiptNode], tasks: Mapping[str, RelayTask]) -> list[Hop]:
    """The results of the receipts of a tree, parents first. `nodes` were verified with the registered keys, `tasks` are
    by id.

    A receipt counts for the task that it names as `relay_task_id`, where its signer is that task's worker and the task
    was submitted by the signer of the receipt above. An invalid receipt is skipped, and proves no delegation: those
    below it count only for tasks of the nearest valid signer further up.
    """
    hops: list[Hop] = []
    signers: dict[int, str | None] = {}
    used: set[str] = set()
    for node in nodes:
        above = None if node.parent is None else signers[id(node.parent)]
        task = tasks.get(_text(node.receipt.get("relay_task_id")))
        fault, detail = _fault(node, task, above, used)
        signers[id(node)] = above if task is None or fault else task.worker
        if task is not None and not fault:
            used.add(task.id)
            fault, detail = _unlocked(task)
        hops.append(Hop(node, task, fault, detail))
    return hops


def _fault(node: ReceiptNode, task: RelayTask | None, above: str | None, used: set[str]) -> tuple[str, str]:
    """Why a receipt is not a proof of its task."""
    signer = _text(node.receipt.get("motebit_id"))
    if node.error:
        return node.error, node.detail
    if node.key_source != "external":
        return "unregistered", f"{signer[:100]!a} is not registered with this relay"
    if task is None:
        return "unknown-task", "relay_task_id names no task of this relay"
    if not is_same_identity(task.worker, signer):
        return "wrong-worker", f"the task {task.id} is not for {signer[:100]!a}"
    if node.parent is not None and task.submitted_by != above:
        return "wrong-submitter", f"the task {task.id} was not submitted by the signer above"
    if task.id in used:
        return "repeated", f"the task {task.id} has another receipt in this tree"
    return "", ""


def _unlocked(task: RelayTask) -> tuple[str, str]:
    """Why a proven task pays nothing now."""
    if task.state is RelayTaskState.SETTLED:
        return "already-settled", f"the task {task.id} is settled"
    if task.state is RelayTaskState.EXPIRED:
        return "expired", f"the task {task.id} expired, and its funds were unlocked"
    return "", ""


def settlement_record(hop: Hop, task: RelayTask, settlement_id: str, settled_at: int, relay_id: str) -> dict[str, Any]:
    """The SettlementRecord (v1) of a hop that is due, without its signature. `settled_at` is in milliseconds since
    1970."""
    return {
        "settlement_id": settlement_id,
        "allocation_id": task.id,
        "motebit_id": task.worker,
        "receipt_hash": hop.node.digest,
        "ledger_hash": None,
        "amount_settled": hop.payout,
        "platform_fee": hop.fee,
        "platform_fee_rate": FEE_PERCENT / 100,
        "settlement_mode": "relay",
        "status": "completed" if hop.is_completed else "refunded",
        "settled_at": settled_at,
        "issuer_relay_id": relay_id,
        "suite": SUITE,
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
