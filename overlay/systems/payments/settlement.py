"""The states of payments: sent once, watched, given back, recovered after a crash.

Every step is stored before it is done. The state is `sending` before the node is called: after a crash the node is
queried for the transaction, and only a transaction that it lacks is sent. One that the node has before it is stored as
being sent pays nothing: another gate, with a store of its own, may have answered for it.
"""

from __future__ import annotations

import json
import logging
from asyncio import to_thread
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn

from indexer.chains.node.payment_node import Broadcaster
from indexer.errors import RefusedTransactionError, SourceError, SourceUnavailableError
from overlay.systems.payments.checking import offers_in
from overlay.systems.payments.refunds import chain_of, refund, transaction_of
from overlay.systems.payments.renewals import end_of
from overlay.systems.payments.store import PaymentStore
from overlay.systems.payments.store_records import (
    COUNTED,
    PaidInterval,
    PaidTask,
    PaymentState,
    StoredPayment,
    TaskState,
)
from parsers.bitcoin.tx import Transaction
from parsers.cards.offers import Offer

log = logging.getLogger(__name__)

GRACE_SECONDS = 1_800
"""How long the final payment may be missing (A2B §8)."""

WORK_SECONDS = 900
"""How long work may take by default, from the payment on; after that it is taken for lost with its process."""

LEASE_SECONDS = 60
"""How long a payment that is being sent belongs to the process that sends it."""

DEPTH = 6
"""Blocks under which a payment is no longer watched."""

CONFLICT_SECONDS = 14 * 86_400
"""How long after its claim a double-spent payment is still watched: nodes drop unmined transactions in that time."""


SENT_BY_OTHERS = "its transaction was sent already, and not by this payment store: only the paid server sends it"
"""Why a transaction that the node has before this store has sent it pays nothing."""


class NotAcceptedError(Exception):
    """The payment was not sent, or not accepted; `reason` is a code, and the message a sentence."""

    def __init__(self, detail: str, reason: str = "not-accepted") -> None:
        super().__init__(detail)
        self.reason = reason


class Settlement:
    """The settlement of stored payments, whatever card they are for. `nodes` are by chain (`coin:network`); `offers`
    are those for which version 0.2.0 stored no price; `clock` gives seconds since 1970."""

    def __init__(
        self,
        payment_store: PaymentStore,
        nodes: Mapping[str, Broadcaster],
        offers: Sequence[Offer],
        clock: Callable[[], float],
    ) -> None:
        self._store, self._nodes, self._clock = payment_store, nodes, clock
        self._offers = {offer.id: offer for offer in reversed(offers)}
        self._skipped: set[str] = set()

    def now(self) -> int:
        """Seconds since 1970."""
        return int(self._clock())

    async def send(self, payment: StoredPayment, task: PaidTask) -> None:
        """Send a reserved payment, and store `task`, running, with it. Raises NotAcceptedError where it is not accepted
        and so given back, as where the node has it already; SourceError where the node does not answer: then `recover`
        continues."""
        node = self._nodes[payment.chain]
        await self._check_unsent(node, payment)
        sending = replace(payment, state=PaymentState.SENDING, updated_at=self.now())
        stored = replace(task, updated_at=sending.updated_at)
        if not await to_thread(self._store.move_both, payment, PaymentState.SENDING, stored):
            raise NotAcceptedError("the payment was given back, as its work took too long")
        await self._check_unsent(node, sending)  # others may have sent it while that was stored
        await self._deliver(node, sending, is_first=True)

    async def release(self, payment: StoredPayment, detail: str) -> None:
        """Give back the reserved payment of a failed task: it is never sent."""
        await self._end(payment, PaymentState.RELEASED, detail)
        log.info("payment %s is released: %s", payment.txid[::-1].hex(), detail)

    async def recover(self) -> None:
        """Finish the payments that a crashed process left, or for which a node did not answer. Raises SourceError,
        after everything else was done."""
        now, errors = self.now(), dict[str, SourceError]()
        for payment in await to_thread(self._store.unfinished, now - LEASE_SECONDS):
            if payment.state is PaymentState.SENDING and payment.chain in errors:
                continue  # a node that is down is waited for once
            try:
                await self._take_up(payment, now)
            except SourceError as unreachable:
                errors[payment.chain] = unreachable
            except NotAcceptedError as conflict:
                log.info("payment %s is refused: %s", payment.txid[::-1].hex(), conflict)
        for task in await to_thread(self._store.overdue, now):
            await self._expire(task)
        for error in errors.values():
            raise error

    async def watch(self) -> None:
        """Check whether sent payments are mined, double-spent or dropped by the node; a dropped one is sent again.
        Raises SourceError, after the other chains were checked. Payments on chains without a node are not changed."""
        error = None
        for chain in self._nodes:
            for payment in await to_thread(self._store.watched, chain, self.now() - CONFLICT_SECONDS):
                try:
                    await self.look(payment)
                except SourceError as unanswered:
                    # the next round begins with others: one that the node cannot answer for must not hold them up
                    await to_thread(self._store.move, payment, payment.state, self.now(), payment.detail)
                    error = unanswered
                    break
        for chain in await to_thread(self._store.open_chains) - self._nodes.keys() - self._skipped:
            self._skipped.add(chain)
            log.warning(
                "there are payments on %s, of which no node answers this gate, which does not watch them", chain
            )
        if error is not None:
            raise error

    async def look(self, payment: StoredPayment) -> PaymentState:
        """The state of a payment that was sent, as the node has it now. The task of a double-spent payment fails,
        unless it is completed; the interval that it paid for is taken back. Raises SourceError."""
        if payment.state is PaymentState.SETTLED:
            return payment.state
        node, tx = self._node(payment), transaction_of(payment)
        confirmations, detail = await node.confirmations(tx), ""
        if confirmations is not None:
            state = PaymentState.SETTLED if confirmations >= DEPTH else PaymentState.SENT
        elif await self._is_double_spent(node, tx):
            state, detail = PaymentState.CONFLICTED, "another transaction spent what it spends"
        else:
            state, detail = await self._resend(node, payment)
        if state != payment.state:
            log.info("payment %s is %s", tx.hex_id, state)
        difference = (state in COUNTED) - (payment.state in COUNTED)
        revise = partial(self._revised, difference) if difference else None
        await to_thread(self._store.move, payment, state, self.now(), detail, revise=revise)
        if state is PaymentState.CONFLICTED:
            task = await to_thread(self._store.task, payment.task)
            if task is not None and task.state is TaskState.NEEDS_FINAL:
                failed = replace(task, state=TaskState.FAILED, updated_at=self.now(), detail=detail)
                await to_thread(self._store.move_task, failed, task.state)
        return state

    # -- steps

    async def _resend(self, node: Broadcaster, payment: StoredPayment) -> tuple[PaymentState, str]:
        """Send a payment again that the node has dropped. Returns its state, and why it is no longer accepted."""
        try:
            await node.send(payment.raw)
        except RefusedTransactionError as error:
            return PaymentState.CONFLICTED, str(error)[:500]
        return PaymentState.SENT, ""

    def _node(self, payment: StoredPayment) -> Broadcaster:
        """The node of a payment. Raises SourceError for a chain that is no longer configured, or has a node that has
        not answered yet."""
        if payment.chain not in self._nodes:
            raise SourceUnavailableError(f"no node of {payment.chain} answers")
        return self._nodes[payment.chain]

    async def _take_up(self, payment: StoredPayment, now: int) -> None:
        if payment.state is PaymentState.RESERVED:
            task = await to_thread(self._store.task, payment.task)
            if task is None or task.deadline is None or task.deadline <= now:
                await self.release(payment, "its work did not end")
            return
        if payment.chain not in self._nodes:
            return  # `watch` warns
        # the lease: of several processes one goes on
        if not await to_thread(self._store.move, payment, PaymentState.SENDING, now):
            return
        node, tx = self._nodes[payment.chain], transaction_of(payment)
        leased = replace(payment, updated_at=now)
        if await node.confirmations(tx) is not None:
            await self._end(leased, PaymentState.SENT, "")
        elif await self._is_double_spent(node, tx):
            await self._refuse(leased, "an output that it spends was spent meanwhile")
        else:
            await self._deliver(node, leased, is_first=False)

    async def _check_unsent(self, node: Broadcaster, payment: StoredPayment) -> None:
        """Refuse a payment that somebody else has sent, or with an output that is spent. Raises NotAcceptedError,
        SourceError."""
        tx = transaction_of(payment)
        if None not in await node.outputs([tx_input.prevout for tx_input in tx.inputs]):
            return
        if await node.confirmations(tx) is None:
            await self._refuse(payment, "an output that it spends was spent meanwhile")
        await self._refuse(payment, SENT_BY_OTHERS, "duplicate")

    async def _deliver(self, node: Broadcaster, payment: StoredPayment, *, is_first: bool) -> None:
        try:
            is_known = await node.send(payment.raw)
        except RefusedTransactionError as error:
            await self._refuse(payment, str(error)[:500])
        if is_known and is_first:
            await self._refuse(payment, SENT_BY_OTHERS, "duplicate")
        await self._end(payment, PaymentState.SENT, "")
        log.info("payment %s is sent: %d satoshis, %s", payment.txid[::-1].hex(), payment.paid, payment.stage)

    async def _refuse(self, payment: StoredPayment, detail: str, reason: str = "not-accepted") -> NoReturn:
        await self._end(payment, PaymentState.REFUSED, detail)
        raise NotAcceptedError(detail, reason)

    async def _end(self, payment: StoredPayment, state: PaymentState, detail: str) -> None:
        """Move a payment to the end of its sending, and its task with it."""
        task = await to_thread(self._store.task, payment.task)
        if task is None or task.state is not TaskState.RUNNING:
            await to_thread(self._store.move, payment, state, self.now(), detail)
            return
        now = self.now()
        moved = replace(task, state=_after(payment.stage, state), updated_at=now, detail=detail)
        if moved.state is TaskState.NEEDS_FINAL:
            moved = replace(moved, deadline=now + GRACE_SECONDS)
        renew = partial(self._renewed, task, now) if moved.state is TaskState.COMPLETED else None
        await to_thread(self._store.move_both, payment, state, moved, renew=renew)

    def offer_of(self, task: PaidTask) -> Offer | None:
        """The price that a task was begun at."""
        return offers_in(json.loads(task.price))[0] if task.price else self._offers.get(task.config)

    def _renewed(self, task: PaidTask, now: int, old: PaidInterval | None) -> PaidInterval | None:
        """The paid interval of a completed task: one of the same offer is renewed from its first day, or begins again
        after a gap; else a new one."""
        offer = self.offer_of(task)
        if offer is None or end_of(now, offer.interval_key, 1) is None:
            return None
        old = old if old is not None and old.is_for(task.card, task.config) else None
        start, periods = (old.started_at, old.periods + 1) if old and old.paid_until >= now else (now, 1)
        until = end_of(start, offer.interval_key, periods)
        return PaidInterval(
            id=old.id if old else task.id,
            config=task.config,
            started_at=start,
            periods=periods,
            paid_until=until or now,
            card=task.card,
        )

    def _revised(self, difference: int, task: PaidTask, old: PaidInterval) -> PaidInterval:
        """A paid interval with a period more or less, where the task paid for one since its first day."""
        is_same = old.is_for(task.card, task.config) and task.state is TaskState.COMPLETED
        if not is_same or task.updated_at < old.started_at:
            return old
        offer, periods = self.offer_of(task), max(0, old.periods + difference)
        until = end_of(old.started_at, offer.interval_key, periods) if offer is not None else None
        return replace(old, periods=periods, paid_until=until or old.started_at)

    async def _expire(self, task: PaidTask) -> None:
        """Fail a task that is overdue, and prepare the refund of its deposit."""
        paid = await to_thread(self._store.payments_of, task.id)
        if any(payment.state in (PaymentState.RESERVED, PaymentState.SENDING) for payment in paid):
            return  # its own recovery comes first
        raw = self._refund(task, paid)
        detail = "the final payment is missing" if task.state is TaskState.NEEDS_FINAL else "its work did not end"
        failed = replace(
            task, state=TaskState.FAILED, deadline=None, refund=raw, body=None, head=json.dumps([0, [], task.names]),
            updated_at=self.now(), detail=detail,
        )  # fmt: skip
        if await to_thread(self._store.move_task, failed, task.state):
            _log_failure(failed)

    async def fail(self, task: PaidTask) -> None:
        """Fail a running task with a sent deposit, and prepare its refund."""
        raw = self._refund(task, await to_thread(self._store.payments_of, task.id))
        failed = replace(
            task, state=TaskState.FAILED, deadline=None, refund=raw, updated_at=self.now(), detail="its work failed"
        )
        if await to_thread(self._store.move_task, failed, TaskState.RUNNING):
            _log_failure(failed)

    def _refund(self, task: PaidTask, paid: Sequence[StoredPayment]) -> bytes | None:
        """The refund of the deposit that was sent."""
        offer = self.offer_of(task)
        sent = [payment for payment in paid if payment.stage == "deposit" and payment.state in COUNTED]
        if offer is None or not sent:
            return None
        return refund(transaction_of(sent[-1]), offer.address, task.refund_address, chain_of(sent[-1]))

    async def _is_double_spent(self, node: Broadcaster, tx: Transaction) -> bool:
        """Whether another transaction spent an output that this transaction spends. The spent outputs are looked up
        first: a client may send its own transaction in between."""
        spent = await node.outputs([tx_input.prevout for tx_input in tx.inputs])
        return None in spent and await node.confirmations(tx) is None


def _after(stage: str, state: PaymentState) -> TaskState:
    """The state of a running task after its payment was sent, refused or released."""
    if state is PaymentState.SENT:
        return TaskState.RUNNING if stage == "deposit" else TaskState.COMPLETED
    return TaskState.NEEDS_FINAL if stage == "final" else TaskState.FAILED


def _log_failure(task: PaidTask) -> None:
    """Log the failure of a task with its id, by which its refund is looked up: after its failure no answer can be had
    with it."""
    log.info("task %s failed: %s; a refund is %s", task.id, task.detail, "prepared" if task.refund else "not prepared")
