"""The payments of a paid server: transactions, the outputs that they spend, and the tasks that they pay for.

They are in the registry's database or any other, where no operation on an index changes them. Several threads and
processes may use it at once, for any number of cards. Times are seconds since 1970, txids in internal byte order,
amounts satoshis.

The outputs that a payment spends are primary keys: while one payment holds an output no other can, under any txid, so
no satoshi is counted twice. Deposits of the relay hold theirs here, too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import (
    Connection,
    and_,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from indexer.store.database import writing
from indexer.store.layout import connect
from indexer.store.locks import advisory_lock
from indexer.store.queries import Queries, row_of
from overlay.systems.payments.store_records import (
    COUNTED,
    GIVEN_BACK,
    TRANSITIONS,
    ClaimedTransactionError,
    DuplicatePaymentError,
    PaidInterval,
    PaidTask,
    PaymentState,
    Renew,
    Revise,
    StoredPayment,
    TaskState,
    TaskStateError,
    paid_intervals,
    paid_tasks,
    payment_inputs,
    payments,
)
from parsers.bitcoin.tx import Outpoint, Transaction

PAYMENTS_LOCK = advisory_lock("p")
"""While payments are compared and one is added."""


class PaymentStore(Queries):
    """The payments in a database. Every method raises StoreError when the database refuses."""

    @classmethod
    def open(cls, url: str) -> PaymentStore:
        """The payments at `sqlite:///PATH` or `postgresql+psycopg://…`; its tables are created where they do not
        exist."""
        return cls(connect(url))

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    # -- payments

    def reserve(self, payment: StoredPayment, spends: Sequence[Outpoint], task: PaidTask) -> None:
        """Store a payment and the coins that it spends, and the running task that it pays for: a new task, or for a
        final payment the task that needs it. A payment that was given back may be reserved again. Raises
        DuplicatePaymentError, TaskStateError."""
        with writing(self._engine, PAYMENTS_LOCK) as connection:
            stored = connection.execute(select(payments.c.state).where(*_same(payment))).scalar()
            if stored is not None and stored not in GIVEN_BACK:
                raise ClaimedTransactionError(f"the transaction {payment.txid[::-1].hex()} was claimed before")
            connection.execute(delete(payments).where(*_same(payment)))
            _run_task(connection, task, is_final=payment.stage == "final")
            connection.execute(insert(payments), [row_of(payment)])
            for outpoint in spends:
                if _holder(connection, payment.chain, outpoint) is not None:
                    raise DuplicatePaymentError(f"{outpoint} is spent by a transaction that was claimed before")
                _hold(connection, payment.chain, outpoint, payment.txid)

    def hold(self, chain: str, tx: Transaction) -> bool:
        """Hold the coins of a transaction that pays for something else than a task; False where a payment or another
        transaction holds them. Holding twice changes nothing."""
        with writing(self._engine, PAYMENTS_LOCK) as connection:
            same = payments.c.chain == chain, payments.c.txid == tx.txid
            claimed = select(payments.c.state).where(*same, payments.c.state.not_in(GIVEN_BACK))
            spends = [tx_input.prevout for tx_input in tx.inputs]
            holders = {outpoint: _holder(connection, chain, outpoint) for outpoint in spends}
            if connection.execute(claimed).first() is not None or set(holders.values()) - {None, tx.txid}:
                return False
            for outpoint in (outpoint for outpoint, holder in holders.items() if holder is None):
                _hold(connection, chain, outpoint, tx.txid)
            return True

    def release(self, chain: str, txid: bytes) -> None:
        """Hold nothing any more for a transaction that `hold` was called for."""
        with writing(self._engine, PAYMENTS_LOCK) as connection:
            _release(connection, chain, txid)

    def payment(self, chain: str, txid: bytes) -> StoredPayment | None:
        """A claimed payment."""
        row = self._first(select(payments).where(payments.c.chain == chain, payments.c.txid == txid))
        return StoredPayment(**row) if row else None

    def payments_of(self, task: str) -> list[StoredPayment]:
        """The payments of a task, the oldest first."""
        return self._payments(payments.c.task == task)

    def unfinished(self, before: int) -> list[StoredPayment]:
        """Reserved and sending payments that nothing has happened to since a time."""
        open_ones = payments.c.state.in_((PaymentState.RESERVED, PaymentState.SENDING))
        return self._payments(open_ones, payments.c.updated_at <= before)

    def watched(self, chain: str, since: int, limit: int = 1_000) -> list[StoredPayment]:
        """Payments on a chain that a double spend or reorganisation may still change, those that were looked at longest
        ago first; conflicted ones only where they were claimed since a time."""
        is_sent = payments.c.state == PaymentState.SENT
        is_young = and_(payments.c.state == PaymentState.CONFLICTED, payments.c.created_at >= since)
        watched = select(payments).where(payments.c.chain == chain, or_(is_sent, is_young))
        return [StoredPayment(**row) for row in self._rows(watched.order_by(payments.c.updated_at).limit(limit))]

    def open_chains(self) -> set[str]:
        """The chains of payments that are not finished."""
        states = payments.c.state.in_((PaymentState.RESERVED, PaymentState.SENDING, PaymentState.SENT))
        return {row["chain"] for row in self._rows(select(payments.c.chain).where(states).distinct())}

    def counted(self) -> int:
        """Satoshis of all payments that are counted."""
        return int(self._scalar(select(func.sum(payments.c.paid)).where(payments.c.state.in_(COUNTED))) or 0)

    def move(
        self, payment: StoredPayment, state: PaymentState, now: int, detail: str = "", *, revise: Revise | None = None
    ) -> bool:
        """Move a payment from the state and time that `payment` has; False where another process was faster. A payment
        that is given back sets its coins free. The paid interval of its task is revised with it, where it is the only
        payment of the task that is not counted."""
        with writing(self._engine, PAYMENTS_LOCK) as connection:
            is_moved = _move_payment(connection, payment, state, now, detail)
            if is_moved and revise is not None:
                _revise(connection, payment, revise)
            return is_moved

    # -- tasks

    def task(self, id_: str) -> PaidTask | None:
        """A task."""
        row = self._first(select(paid_tasks).where(paid_tasks.c.id == id_))
        return PaidTask(**row) if row else None

    def waiting(self, name: str, card: str, *, is_late: bool = False) -> PaidTask | None:
        """The task of a card that needs its final payment, or failed, and has this name of A2A; the newest of
        several."""
        state = paid_tasks.c.state == (TaskState.FAILED if is_late else TaskState.NEEDS_FINAL)
        of_card = or_(paid_tasks.c.card == card, paid_tasks.c.card.is_(None))
        named = paid_tasks.c.head.contains(json.dumps(name), autoescape=True)
        rows = self._rows(select(paid_tasks).where(state, of_card, named).order_by(paid_tasks.c.updated_at.desc()))
        return next((task for row in rows if name in (task := PaidTask(**row)).names), None)

    def overdue(self, now: int) -> list[PaidTask]:
        """Tasks past the deadline of their final payment, or of their work."""
        states = paid_tasks.c.state.in_((TaskState.NEEDS_FINAL, TaskState.RUNNING))
        overdue = select(paid_tasks).where(states, paid_tasks.c.deadline <= now)
        return [PaidTask(**row) for row in self._rows(overdue.order_by(paid_tasks.c.deadline))]

    def move_task(self, task: PaidTask, source: TaskState) -> bool:
        """Store a task that leaves the state `source`; False where it is in another one by now."""
        with writing(self._engine, PAYMENTS_LOCK) as connection:
            return _move_task(connection, task, source)

    def move_both(
        self,
        payment: StoredPayment,
        state: PaymentState,
        task: PaidTask,
        *,
        renew: Renew | None = None,
    ) -> bool:
        """`move` with the task's time and detail, `move_task` from running, and renewing the paid interval that the
        task names: all or nothing. A task that stays running is only stored. False where another process was faster."""
        try:
            with writing(self._engine, PAYMENTS_LOCK) as connection:
                if not _move_payment(connection, payment, state, task.updated_at, task.detail):
                    return False
                renewed = renew(_interval(connection, task.subscription)) if renew is not None else None
                if renewed is not None:
                    _store_interval(connection, renewed)
                    task = replace(task, subscription=renewed.id)
                if not _move_task(connection, task, TaskState.RUNNING):
                    raise TaskStateError(f"the task {task.id} is not running")
        except TaskStateError:
            return False
        return True

    def refunds(self) -> list[PaidTask]:
        """Failed tasks with a refund, the newest last."""
        with_refund = select(paid_tasks).where(paid_tasks.c.refund.is_not(None))
        return [PaidTask(**row) for row in self._rows(with_refund.order_by(paid_tasks.c.updated_at))]

    def close_refund(self, task: str) -> bool:
        """Record that the refund of a task was paid; False where none is due."""
        with writing(self._engine, PAYMENTS_LOCK) as connection:
            is_due = paid_tasks.c.id == task, paid_tasks.c.refund.is_not(None)
            return connection.execute(update(paid_tasks).where(*is_due).values(refund=None)).rowcount == 1

    def trim(self, before: int) -> None:
        """Delete what ended before a time and holds no money: answers, payments that were given back, and failed tasks
        without any other payment."""
        ended = paid_tasks.c.state.in_((TaskState.COMPLETED, TaskState.FAILED))
        unpaid = ~exists().where(payments.c.task == paid_tasks.c.id)
        failed = (paid_tasks.c.state == TaskState.FAILED, paid_tasks.c.updated_at < before)
        with writing(self._engine, PAYMENTS_LOCK) as connection:
            old = (ended, paid_tasks.c.updated_at < before, paid_tasks.c.body.is_not(None))
            connection.execute(update(paid_tasks).where(*old).values(body=None))
            connection.execute(delete(payments).where(payments.c.state.in_(GIVEN_BACK), payments.c.updated_at < before))
            connection.execute(delete(paid_tasks).where(*failed, unpaid))

    # -- paid intervals

    def paid_interval(self, id_: str) -> PaidInterval | None:
        """The paid interval with this id."""
        row = self._first(select(paid_intervals).where(paid_intervals.c.id == id_))
        return PaidInterval(**row) if row else None

    def _payments(self, *where: Any) -> list[StoredPayment]:
        statement = select(payments).where(*where).order_by(payments.c.created_at, payments.c.txid)
        return [StoredPayment(**row) for row in self._rows(statement)]


def _same(payment: StoredPayment) -> tuple[Any, ...]:
    return payments.c.chain == payment.chain, payments.c.txid == payment.txid


def _holder(connection: Connection, chain: str, outpoint: Outpoint) -> bytes | None:
    """The txid of the transaction that holds an output."""
    same = payment_inputs.c.chain == chain, payment_inputs.c.spent_txid == outpoint.txid
    held = select(payment_inputs.c.txid).where(*same, payment_inputs.c.spent_vout == outpoint.vout)
    return connection.execute(held).scalar()


def _hold(connection: Connection, chain: str, outpoint: Outpoint, txid: bytes) -> None:
    row = {"chain": chain, "spent_txid": outpoint.txid, "spent_vout": outpoint.vout, "txid": txid}
    connection.execute(insert(payment_inputs).values(**row))


def _release(connection: Connection, chain: str, txid: bytes) -> None:
    connection.execute(delete(payment_inputs).where(payment_inputs.c.chain == chain, payment_inputs.c.txid == txid))


def _run_task(connection: Connection, task: PaidTask, *, is_final: bool) -> None:
    if is_final:
        if not _move_task(connection, task, TaskState.NEEDS_FINAL):
            raise TaskStateError(f"the task {task.id} needs no final payment now")
        return
    state = connection.execute(select(paid_tasks.c.state).where(paid_tasks.c.id == task.id)).scalar()
    held = select(payments.c.txid).where(payments.c.task == task.id, payments.c.state.not_in(GIVEN_BACK))
    if state not in (None, TaskState.FAILED) or connection.execute(held).first() is not None:
        raise TaskStateError(f"the task {task.id} is {state}: name another one")
    connection.execute(delete(paid_tasks).where(paid_tasks.c.id == task.id))
    connection.execute(insert(paid_tasks), [row_of(task)])


def _move_payment(connection: Connection, payment: StoredPayment, state: PaymentState, now: int, detail: str) -> bool:
    unchanged = (payments.c.state == payment.state, payments.c.updated_at == payment.updated_at)
    values: dict[str, Any] = {"state": state, "updated_at": now, "detail": detail}
    if state in GIVEN_BACK:
        values["raw"] = b""
    moved = connection.execute(update(payments).where(*_same(payment), *unchanged).values(**values)).rowcount == 1
    if moved and state in GIVEN_BACK:
        _release(connection, payment.chain, payment.txid)
    return moved


def _move_task(connection: Connection, task: PaidTask, source: TaskState) -> bool:
    if source != task.state and (source, task.state) not in TRANSITIONS:
        raise ValueError(f"a task does not go from {source} to {task.state}")
    same = (paid_tasks.c.id == task.id, paid_tasks.c.state == source)
    return connection.execute(update(paid_tasks).where(*same).values(**row_of(task))).rowcount == 1


def _revise(connection: Connection, payment: StoredPayment, revise: Revise) -> None:
    row = connection.execute(select(paid_tasks).where(paid_tasks.c.id == payment.task)).mappings().first()
    interval = _interval(connection, (row["subscription"] or row["id"]) if row is not None else "")
    lacking = payments.c.state.not_in((*COUNTED, *GIVEN_BACK))
    other = select(payments.c.txid).where(payments.c.task == payment.task, payments.c.txid != payment.txid, lacking)
    if row is not None and interval is not None and connection.execute(other).first() is None:
        _store_interval(connection, revise(PaidTask(**row), interval))


def _interval(connection: Connection, id_: str) -> PaidInterval | None:
    row = connection.execute(select(paid_intervals).where(paid_intervals.c.id == id_)).mappings().first()
    return PaidInterval(**row) if row is not None else None


def _store_interval(connection: Connection, interval: PaidInterval) -> None:
    connection.execute(delete(paid_intervals).where(paid_intervals.c.id == interval.id))
    connection.execute(insert(paid_intervals).values(**row_of(interval)))
