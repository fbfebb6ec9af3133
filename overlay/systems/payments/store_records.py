"""The tables of the payments of a paid server, and their rows. Times are seconds since 1970, txids in internal
byte order, amounts satoshis."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import BigInteger, Index, LargeBinary, String

from indexer.store.schema import columns_of, keys, original_table, required


class PaymentState(StrEnum):
    """How far a claimed payment has come.

    `reserved`: nothing is sent. `sending`: it may have been sent. `sent`: the chain's node accepted it. `settled`: it
    is deep in the chain. `conflicted`: after it was sent, another transaction spent what it spends. `refused`: the node
    refused it. `released`: it was given back unsent. `sent` and `settled` are counted.
    """

    RESERVED = "reserved"
    SENDING = "sending"
    SENT = "sent"
    SETTLED = "settled"
    CONFLICTED = "conflicted"
    REFUSED = "refused"
    RELEASED = "released"


COUNTED = (PaymentState.SENT, PaymentState.SETTLED)
GIVEN_BACK = (PaymentState.REFUSED, PaymentState.RELEASED)


class TaskState(StrEnum):
    """The states of a task (A2B §5.4). A task without a valid payment is pending, and is not stored."""

    PENDING = "pending"
    RUNNING = "running"
    NEEDS_FINAL = "needsFinal"
    COMPLETED = "completed"
    FAILED = "failed"


TRANSITIONS = {
    (TaskState.PENDING, TaskState.RUNNING),
    (TaskState.RUNNING, TaskState.NEEDS_FINAL),
    (TaskState.NEEDS_FINAL, TaskState.RUNNING),
    (TaskState.RUNNING, TaskState.COMPLETED),
    (TaskState.RUNNING, TaskState.FAILED),
    (TaskState.NEEDS_FINAL, TaskState.FAILED),
}
"""The moves of a task that are allowed (A2B §5.4). A final payment that the node refuses leads from running back to
needsFinal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPayment:
    """A claimed payment. `chain` is `coin:network`; `raw` is empty once the payment was given back."""

    chain: str
    txid: bytes
    task: str
    config: str
    stage: str
    needed: int
    paid: int
    raw: bytes
    state: PaymentState = PaymentState.RESERVED
    detail: str = ""
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidTask:
    """A task that was paid for. `head` (JSON: status, headers, `names`, `traces`) and `body` are an answer that is
    withheld, or kept for a client that did not receive it; `deadline` is when the work, or the final payment, is due;
    `subscription` the paid interval that it is to renew ("" for a new one), and once it is completed the one that it
    paid for; `refund` an unsigned transaction that pays the deposit back. `card` is the name of the gate's card, and
    `price` the entry of its price list (JSON) that was paid, so that a later price of this id changes nothing; version
    0.2.0 stored neither."""

    id: str
    state: TaskState
    config: str
    updated_at: int
    deadline: int | None = None
    subscription: str = ""
    refund_address: str = ""
    refund: bytes | None = None
    head: str = ""
    body: bytes | None = None
    detail: str = ""
    card: str | None = None
    price: str | None = None

    @property
    def names(self) -> list[str]:
        """The ids of A2A tasks that the call and its answer had."""
        names: list[str] = json.loads(self.head)[2] if self.head else []
        return names

    @property
    def traces(self) -> dict[str, str] | None:
        """The hashes of the call and its answer that the receipt of the work says; None of a task without a receipt."""
        traces: list[dict[str, str] | None] = json.loads(self.head)[3:] if self.head else []
        return traces[0] if traces else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidInterval:
    """The intervals paid under one id: for which price of which card (None, of version 0.2.0: any), since when, how
    many, and until when."""

    id: str
    config: str
    started_at: int
    periods: int
    paid_until: int
    card: str | None = None

    def is_for(self, card: str | None, config: str) -> bool:
        """Whether this was paid for a price of a card."""
        return self.config == config and self.card in (None, card)


payments = original_table(
    "payments",
    *columns_of(StoredPayment, {"chain", "txid"}),
    Index("payments_by_state", "state", "updated_at"),
    Index("payments_by_task", "task"),
)

payment_inputs = original_table(
    "payment_inputs",
    *keys(chain=String, spent_txid=LargeBinary, spent_vout=BigInteger),
    *required(txid=LargeBinary),
    Index("payment_inputs_by_tx", "chain", "txid"),
)

paid_tasks = original_table(
    "paid_tasks", *columns_of(PaidTask, {"id"}), Index("paid_tasks_by_state", "state", "deadline")
)

paid_intervals = original_table("paid_intervals", *columns_of(PaidInterval, {"id"}))


Renew = Callable[[PaidInterval | None], PaidInterval | None]
"""The paid interval after a payment renews another one; None without an interval."""

Revise = Callable[[PaidTask, PaidInterval], PaidInterval]
"""A function for the rest of a paid interval when the payment of a task is no longer counted, or is counted again."""


class DuplicatePaymentError(Exception):
    """The transaction, or an output that it spends, is claimed already."""


class ClaimedTransactionError(DuplicatePaymentError):
    """The transaction itself is claimed, and not given back."""


class TaskStateError(Exception):
    """The task is not in the state that this needs: another request, or its deadline, moved it."""
