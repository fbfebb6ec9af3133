"""One paid call: its claim is checked and reserved, the work is done, and its answer is withheld until it is paid."""

from __future__ import annotations

import json
import logging
import secrets
from asyncio import CancelledError, shield, sleep, to_thread
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any, cast

from indexer.chains.node.payment_node import Broadcaster
from indexer.errors import SourceError
from overlay.listings.item_json import offer_json
from overlay.systems.payments.carriers import SUBSCRIPTION_HEADER, TASK_HEADER, PaidCall
from overlay.systems.payments.checking import PaymentSources, check_inputs, currency_of
from overlay.systems.payments.gate_answers import (
    MAX_ANSWER_BYTES,
    GateAnswer,
    StreamDelivery,
    a2a_tasks,
    is_failed,
    limited,
    payment_required,
    too_large,
    unavailable,
)
from overlay.systems.payments.gate_limits import GateLimits
from overlay.systems.payments.gate_receipts import ReceiptSigner
from overlay.systems.payments.settlement import GRACE_SECONDS, SENT_BY_OTHERS, NotAcceptedError, Settlement
from overlay.systems.payments.store import PaymentStore
from overlay.systems.payments.store_records import (
    COUNTED,
    GIVEN_BACK,
    ClaimedTransactionError,
    DuplicatePaymentError,
    PaidTask,
    PaymentState,
    StoredPayment,
    TaskState,
    TaskStateError,
)
from overlay.text.timestamps import timestamp
from parsers.cards.offers import Offer
from parsers.claims.amount_due import PaymentRefusedError
from parsers.claims.payment import Payment, read_claim, transaction_of, verify

log = logging.getLogger(__name__)

WAIT_SECONDS, POLL_SECONDS = 10.0, 0.25
"""How long a call waits for the end of another one with the same claim and task, and how often it looks."""

Work = Callable[[], Awaitable[GateAnswer]]
"""A function that does the work of a call."""


class WorkError(Exception):
    """An error of the work itself, not of its payment."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class PaidWork:
    """One call with a claim, or that lacks one."""

    def __init__(
        self,
        payment_store: PaymentStore,
        sources: PaymentSources,
        settlement: Settlement,
        offers: Sequence[Offer],
        call: PaidCall,
        work: Work,
        work_seconds: int,
        delivery: StreamDelivery,
        card: str,
        receipts: ReceiptSigner | None = None,
        limits: GateLimits | None = None,
    ) -> None:
        self._store, self._sources, self._settlement, self._card = payment_store, sources, settlement, card
        self._sold = self._offers = offers
        self._receipts, self._limits = receipts, limits
        self._call, self._work, self._work_seconds = call, work, work_seconds
        self._state, self._delivery = TaskState.PENDING, delivery
        self._id, self._payer = call.task or call.a2a_task, ""
        self._began_at, self._has_reserved = monotonic(), False

    async def run(self) -> GateAnswer:
        """The answer."""
        try:
            task, stored, paid = await self._read_ended()
            if stored is not None:
                return await self._again(paid, stored)
            if task is not None and self._is_late(task):
                raise await to_thread(self._failure, task)
            return await self._taken(task)
        except PaymentRefusedError as error:
            return self._refused(error)
        except (DuplicatePaymentError, TaskStateError) as error:
            return self._refused(PaymentRefusedError("PaymentInvalid", "duplicate", str(error)))
        except NotAcceptedError as error:
            return self._refused(PaymentRefusedError("PaymentInvalid", error.reason, str(error)))
        except SourceError:
            detail = "the chain's node does not answer: repeat the call with the same claim and task later"
            return unavailable(self._call, detail, taskId=self._id)

    async def _taken(self, task: PaidTask | None) -> GateAnswer:
        """The answer to a call with a new claim. Where the same claim came for the same task at the same time, the
        other call does the work, and its answer is that of both."""
        try:
            return await self._take(await self._verified(task), task)
        except (PaymentRefusedError, DuplicatePaymentError, TaskStateError) as error:
            _, stored, paid = await to_thread(self._read)
            is_given_back = stored is None and isinstance(error, ClaimedTransactionError)
            if self._has_reserved or not (is_given_back or _is_of(stored, paid)):
                raise
        _, stored, paid = await self._read_ended()
        if stored is None:  # the work of the other call failed
            return unavailable(self._call, "the payment was given back: repeat the call", taskId=self._id)
        return await self._again(paid, stored)

    async def _read_ended(self) -> tuple[PaidTask | None, StoredPayment | None, PaidTask | None]:
        """`_read` when no other call with the same claim works for the same task any more, at the latest WAIT_SECONDS
        after the call began."""
        while True:
            task, stored, paid = await to_thread(self._read)
            is_running = _is_of(stored, paid) and paid is not None and paid.state is TaskState.RUNNING
            if not is_running or monotonic() >= self._began_at + WAIT_SECONDS:
                return task, stored, paid
            await sleep(POLL_SECONDS)

    def _read(self) -> tuple[PaidTask | None, StoredPayment | None, PaidTask | None]:
        """The task that the call names, the payment of its claim where it was accepted before, and the task that this
        pays for, read while the payment did not change."""
        stored, task = self._stored(), self._named()
        while stored is not None and (newer := self._stored()) != stored:
            stored, task = newer, self._named()
        self._state, self._offers = TaskState.PENDING, self._sold
        if task is not None and task.state is not TaskState.FAILED:
            self._state, self._offers = task.state, self._offers_of(task)
        return task, stored, None if stored is None else self._paid_by(stored, task)

    def _named(self) -> PaidTask | None:
        """The task that the call names. One that has ended keeps no other payment from the same task of A2A, which may
        go on: it is another task here."""
        call, ended = self._call, (TaskState.COMPLETED, TaskState.FAILED)
        if call.task or not call.a2a_task:
            return self._store.task(call.task) if call.task else None
        task = self._store.waiting(call.a2a_task, self._card) or self._store.task(call.a2a_task)
        if task is None and self._is_final:
            task = self._store.waiting(call.a2a_task, self._card, is_late=True)
        if task is not None and task.state in ended and not self._is_late(task):
            self._id = ""
            return None
        self._id = self._id if task is None else task.id
        return task

    @property
    def _is_final(self) -> bool:
        """Whether the call has a final payment."""
        return isinstance(self._call.claim, dict) and self._call.claim.get("stage") == "final"

    def _is_late(self, task: PaidTask) -> bool:
        """Whether the call has the final payment of a task that failed."""
        return self._is_final and task.state is TaskState.FAILED

    def _failure(self, task: PaidTask) -> PaymentRefusedError:
        """The reason why a failed task takes no payment, and the state of its deposit."""
        is_paid = any(paid.stage == "deposit" and paid.state in COUNTED for paid in self._store.payments_of(task.id))
        refund = (
            f"its deposit is refunded to {task.refund_address}" if task.refund else "no refund of its deposit is due"
        )
        causes = [f"the task failed{': ' * bool(task.detail)}{task.detail}", *([refund] if is_paid else [])]
        detail = "; ".join([*causes, "name another one, with another payment"])
        return PaymentRefusedError("StageMismatch", "task-failed", detail)

    def _offers_of(self, task: PaidTask) -> Sequence[Offer]:
        """The offers, where the price at which a task was begun replaces the present price with its id."""
        begun = self._settlement.offer_of(task)
        return self._offers if begun is None else [begun, *(offer for offer in self._offers if offer.id != begun.id)]

    def _paid_by(self, stored: StoredPayment, task: PaidTask | None) -> PaidTask | None:
        """The task that a stored payment pays for, where the call names it."""
        named = self._call.a2a_task
        if self._call.task or not named:
            return task
        paid = self._store.task(stored.task)
        return paid if paid is not None and named in (paid.id, *paid.names) else None

    def _stored(self) -> StoredPayment | None:
        """The payment of the claim where it was accepted before. The rest of the claim is not checked again, as rates
        and prices may have changed since."""
        try:
            claim = read_claim(self._call.claim)
            chain = self._sources.chains[claim.currency]
            txid = transaction_of(claim, chain).txid
        except (PaymentRefusedError, KeyError):
            return None  # the claim is refused with its reason when it is verified
        stored = self._store.payment(chain.name, txid)
        return None if stored is None or stored.state in GIVEN_BACK else stored

    async def _verified(self, task: PaidTask | None) -> Payment:
        """The payment of the call. Raises PaymentRefusedError, SourceError."""
        node = self._node()
        height = await node.next_height() if node is not None else None
        terms = self._sources.terms(self._offers, self._call.skill, self._state)
        payment = await to_thread(verify, self._call.claim, replace(terms, height=lambda _chain: height))
        if payment.claim.stage == "final":
            await self._check_deposit(payment, cast("PaidTask", task))
        node = self._sources.nodes[payment.claim.currency]
        spent = await node.outputs([tx_input.prevout for tx_input in payment.tx.inputs])
        if None in spent and await node.confirmations(payment.tx) is not None:
            raise PaymentRefusedError("PaymentInvalid", "duplicate", SENT_BY_OTHERS)
        await to_thread(check_inputs, payment, spent)
        self._payer = spent[0].script.hex() if spent[0] is not None else ""
        return payment

    def _node(self) -> Broadcaster | None:
        return self._sources.nodes.get(currency_of(self._call.claim))

    async def _check_deposit(self, payment: Payment, task: PaidTask) -> None:
        """Raises PaymentRefusedError for a final payment of another offer, or after a deposit that was given back."""
        if payment.offer.id != task.config:
            detail = f"the deposit of this task was for {task.config[:64]!a}"
            raise PaymentRefusedError("StageMismatch", "unknown-config", detail)
        for deposit in await to_thread(self._store.payments_of, task.id):
            if deposit.stage == "deposit" and await self._settlement.look(deposit) is PaymentState.CONFLICTED:
                raise PaymentRefusedError("StageMismatch", "deposit-gone", "the deposit was spent otherwise meanwhile")

    async def _take(self, payment: Payment, task: PaidTask | None) -> GateAnswer:
        """Reserve a payment and do the work of its stage."""
        now, stage, self._delivery.config = self._settlement.now(), payment.claim.stage, payment.offer.id
        entry = StoredPayment(
            chain=payment.chain.name, txid=payment.tx.txid, task=self._task_id(), config=payment.offer.id,
            stage=stage, needed=payment.needed, paid=payment.paid, raw=payment.claim.raw,
            created_at=now, updated_at=now,
        )  # fmt: skip
        running = PaidTask(
            id=entry.task, state=TaskState.RUNNING, config=payment.offer.id, updated_at=now,
            deadline=now + self._work_seconds, subscription=self._call.subscription,
            refund_address=payment.claim.refund_address, card=self._card, price=_stored_price(payment.offer),
        )  # fmt: skip
        if stage == "final" and task is not None:
            running = replace(task, state=TaskState.RUNNING, updated_at=now, deadline=now + self._work_seconds)
        if self._limits is not None and (wait := self._limits.take(self._payer, payment.paid)):
            return limited(self._call, wait)
        spends = [tx_input.prevout for tx_input in payment.tx.inputs]
        await to_thread(self._store.reserve, entry, spends, running)
        self._has_reserved = True
        log.info("payment %s is reserved: %d satoshis, %s", payment.tx.hex_id, payment.paid, stage)
        steps = {"full": self._full, "deposit": self._deposit, "final": self._final}
        return await steps[stage](entry, running)

    async def _full(self, entry: StoredPayment, task: PaidTask) -> GateAnswer:
        self._delivery.settle_before(partial(self._send, entry, task))
        answer = await self._worked(partial(self._release_undelivered, entry))
        if self._delivery.has_begun:
            await self._keep(task.id, answer)
            return (await self._paid(answer, task.id))._replace(payment=entry)
        if self._delivery.failure is not None:  # the payment may have been sent: `recover` finds out
            await to_thread(self._store.move_task, await self._with(task, answer), TaskState.RUNNING)
            raise self._delivery.failure
        if is_failed(answer, self._call):
            await self._settlement.release(entry, f"the work failed with status {answer.status}")
            return answer
        await self._send(entry, await self._with(task, answer))
        return (await self._paid(answer, task.id))._replace(payment=entry)

    async def _deposit(self, entry: StoredPayment, task: PaidTask) -> GateAnswer:
        await self._send(entry, task)
        self._delivery.settle_before(partial(self._keep_deposit, task))
        answer = await self._worked(partial(self._fail, task))
        if is_failed(answer, self._call):
            await self._fail(task)
            return answer
        task, now = self._delivered(task), self._settlement.now()
        waiting = replace(
            await self._with(task, answer), state=TaskState.NEEDS_FINAL, updated_at=now, deadline=now + GRACE_SECONDS
        )
        if not await to_thread(self._store.move_task, waiting, TaskState.RUNNING):
            raise TaskStateError("the task failed meanwhile, as its work took too long")
        return self._needs_final(waiting, streamed=answer.streamed)

    async def _final(self, entry: StoredPayment, task: PaidTask) -> GateAnswer:
        await self._send(entry, task)
        return await self._paid(_withheld(task), task.id)

    async def _release_undelivered(self, entry: StoredPayment) -> None:
        if not self._delivery.has_begun:
            await self._settlement.release(entry, "the work raised an error")

    async def _keep(self, id_: str, answer: GateAnswer) -> None:
        """Store the last part of an answer that was paid before its first part was sent."""
        task = await to_thread(self._store.task, id_)
        if task is not None and task.state is TaskState.COMPLETED:
            await to_thread(self._store.move_task, await self._with(task, answer), TaskState.COMPLETED)

    async def _keep_deposit(self, task: PaidTask) -> None:
        """Refund nothing from now on: parts of the answer go out. Raises TaskStateError."""
        unrefundable = replace(task, refund_address="", updated_at=self._settlement.now())
        if not await to_thread(self._store.move_task, unrefundable, TaskState.RUNNING):
            raise TaskStateError("the task failed meanwhile, as its work took too long")

    def _delivered(self, task: PaidTask) -> PaidTask:
        return replace(task, refund_address="") if self._delivery.has_begun else task

    async def _fail(self, task: PaidTask) -> None:
        await self._settlement.fail(self._delivered(task))

    async def _worked(self, undo: Callable[[], Coroutine[Any, Any, None]]) -> GateAnswer:
        """The answer of the work; `undo` gives its payment back where it raises, also when it is cancelled."""
        try:
            answer = await self._work()
            return answer if len(answer.body) <= MAX_ANSWER_BYTES else too_large(self._call)
        except Exception as error:
            if self._delivery.failure is not None:
                raise self._delivery.failure from None
            await undo()
            raise WorkError(error) from error
        except CancelledError:
            await shield(undo())
            raise

    async def _send(self, entry: StoredPayment, task: PaidTask) -> None:
        try:
            await self._settlement.send(entry, task)
        except SourceError:
            stored = await to_thread(self._store.payment, entry.chain, entry.txid)
            if stored is not None and stored.state is PaymentState.RESERVED:  # nothing was sent
                await self._settlement.release(stored, "the node does not answer")
            raise

    async def _again(self, task: PaidTask | None, stored: StoredPayment) -> GateAnswer:
        """The stored answer of a task for a repeated call. Raises PaymentRefusedError without one."""
        if task is None or not _is_of(stored, task):
            raise PaymentRefusedError("PaymentInvalid", "duplicate", f"{stored.txid[::-1].hex()} was claimed before")
        if task.state is TaskState.FAILED:
            raise await to_thread(self._failure, task)
        if stored.state is PaymentState.CONFLICTED and await self._settlement.look(stored) is PaymentState.CONFLICTED:
            raise PaymentRefusedError("PaymentInvalid", "input-spent", "the payment was double-spent")
        if task.state is TaskState.NEEDS_FINAL:
            return self._needs_final(task, streamed=False)
        if task.state is TaskState.COMPLETED and task.body is None:
            raise PaymentRefusedError("StageMismatch", "answer-gone", "the task is completed, and its answer deleted")
        if task.state is TaskState.COMPLETED:
            return await self._paid(_withheld(task), task.id)
        return unavailable(self._call, f"the task is {task.state}: repeat the call later", taskId=task.id)

    async def _paid(self, answer: GateAnswer, task: str) -> GateAnswer:
        """The answer with the payment's data for its client."""
        headers = [*answer.headers, (TASK_HEADER, task)]
        stored = await to_thread(self._store.task, task)
        interval_id = (stored.subscription if stored is not None else "") or task
        interval = await to_thread(self._store.paid_interval, interval_id)
        if interval is not None:
            headers += [(SUBSCRIPTION_HEADER, interval_id), ("A2B-Paid-Until", timestamp(interval.paid_until))]
        answer = answer._replace(headers=tuple(headers))
        return answer if self._receipts is None or stored is None else await to_thread(self._receipted, answer, stored)

    def _receipted(self, answer: GateAnswer, task: PaidTask) -> GateAnswer:
        """The answer with the receipt of its work, where its price is paid."""
        paid = [payment for payment in self._store.payments_of(task.id) if payment.stage != "deposit"]
        counted = [payment for payment in paid if payment.state in COUNTED]
        if self._receipts is None or not counted:
            return answer
        return self._receipts.receipted(self._call, answer, task, counted[-1])

    def _needs_final(self, task: PaidTask, *, streamed: bool) -> GateAnswer:
        error = PaymentRefusedError("AmountInsufficient", "needs-final", "the work is done: the final payment is due")
        offers = [offer for offer in self._offers_of(task) if offer.id == task.config]
        members = {"taskId": task.id, "until": timestamp(task.deadline or 0)}
        answer = payment_required(self._call, error, offers, self._sources, TaskState.NEEDS_FINAL, **members)
        return answer._replace(headers=(*answer.headers, (TASK_HEADER, task.id)), streamed=streamed)

    def _refused(self, error: PaymentRefusedError) -> GateAnswer:
        members = {"taskId": self._id} if self._id else {}
        return payment_required(self._call, error, self._offers, self._sources, self._state, **members)

    def _task_id(self) -> str:
        """The client's own id, or a new one. The id is a secret: it gives access to the answer."""
        return self._id or secrets.token_urlsafe(24)

    async def _with(self, task: PaidTask, answer: GateAnswer) -> PaidTask:
        """The task with an answer to withhold."""
        head: list[Any] = [answer.status, answer.headers]
        head.append(list(dict.fromkeys(filter(None, (self._call.a2a_task, *a2a_tasks(answer))))))
        if self._receipts is not None:
            head.append(await to_thread(self._receipts.traces, task.id, self._call, answer, self._delivery))
        return replace(task, head=json.dumps(head), body=answer.body)


def _is_of(stored: StoredPayment | None, task: PaidTask | None) -> bool:
    """Whether a stored payment pays for a task."""
    return stored is not None and task is not None and stored.task == task.id


def _stored_price(offer: Offer) -> str:
    """A price as its task stores it, without texts for people."""
    return json.dumps(offer_json(replace(offer, name="", description="")))


def _withheld(task: PaidTask) -> GateAnswer:
    status, headers = json.loads(task.head)[:2]
    return GateAnswer(status, tuple((name, value) for name, value in headers), task.body or b"")
