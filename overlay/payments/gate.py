"""A gate that lets calls of a server through when they are paid for (A2B §5, §7, §8, §9).

`full`: the work is done, its answer is withheld until the node has accepted the payment; failed work gives the payment
back unsent. `deposit`: the payment is sent first; the answer of the work, or the last part of a streamed one, is
withheld until the `final` payment is sent. A call that repeats its claim and task, because its client did not receive
the answer, gets the answer and pays once. A subscription pays for all calls until its end.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from asyncio import CancelledError, shield, to_thread
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from indexer.errors import SourceError
from indexer.store.payments import (
    DuplicatePaymentError,
    LedgerPayment,
    PaidTask,
    PaymentLedger,
    PaymentState,
    TaskState,
    TaskStateError,
)
from overlay.payments.carriers import SUBSCRIPTION_HEADER, TASK_HEADER, PaidCall, read_call
from overlay.payments.checking import PaymentSources, offers_in
from overlay.payments.gate_answers import GateAnswer, payment_required, unavailable
from overlay.payments.inputs import check_inputs
from overlay.payments.node import Broadcaster
from overlay.payments.settlement import GRACE_SECONDS, WORK_SECONDS, NotAcceptedError, Settlement
from overlay.pricing.exchange_rates import ExchangeRates, timestamp
from parsers.cards.offers import Offer
from parsers.claims.amount_due import PaymentRefusedError
from parsers.claims.payment import Payment, verify

log = logging.getLogger(__name__)

MAX_ANSWER_BYTES = 8 << 20
"""Bytes of an answer that can be withheld."""

KEPT_SECONDS = 86_400
"""How long the answer of a task that ended is there for a client that did not receive it."""

_TASK_ID = re.compile(r"[A-Za-z0-9_-]{16,128}")

Work = Callable[[], Awaitable[GateAnswer]]
"""Does what was called for."""


class PaymentGate:
    """`card` is an agent card, a price list or a single price (JSON); `ledger` remembers the payments, `broadcasters`
    are nodes of the chains that they are made on. Call `maintain` every few seconds, in one process or several."""

    def __init__(
        self,
        card: Any,
        ledger: PaymentLedger,
        *broadcasters: Broadcaster,
        exchange: ExchangeRates | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.offers: tuple[Offer, ...] = offers_in(card)
        self._ledger, self._broadcasters, self._clock = ledger, broadcasters, clock
        self._exchange = exchange or ExchangeRates()
        self._opened: tuple[PaymentSources, Settlement] | None = None

    async def _open(self) -> tuple[PaymentSources, Settlement]:
        """What needs the chains of the nodes. Raises SourceError."""
        if self._opened is None:
            nodes = {await node.chain(): node for node in self._broadcasters}
            sources = PaymentSources(
                chains={chain.coin.upper(): chain for chain in nodes},
                nodes={chain.coin.upper(): node for chain, node in nodes.items()},
                exchange=self._exchange,
            )
            by_name = {f"{chain.coin}:{chain.network}": node for chain, node in nodes.items()}
            self._opened = sources, Settlement(self._ledger, by_name, self.offers, self._clock)
        return self._opened

    async def maintain(self) -> None:
        """Finish what crashed, watch what was sent, and fail what is overdue. Raises SourceError."""
        _, settlement = await self._open()
        try:
            await settlement.recover()
        finally:
            await settlement.watch()
        await to_thread(self._ledger.trim, settlement.now() - KEPT_SECONDS)

    async def answer(
        self, headers: Mapping[str, str], body: bytes, work: Work, *, url: str = "", skill: str | None = None
    ) -> GateAnswer:
        """`handle` for an HTTP request; `skill` is what it asks for where its body does not say."""
        try:
            call = read_call(headers, body, url)
        except PaymentRefusedError as error:
            call = PaidCall(url=url)
            try:
                sources, _ = await self._open()
            except SourceError:
                return unavailable(call, str(error))
            return payment_required(call, error, self.offers, sources, TaskState.PENDING)
        return await self.handle(call if call.skill is not None else replace(call, skill=skill), work)

    async def handle(self, call: PaidCall, work: Work) -> GateAnswer:
        """The answer of `work` to a call that is paid for, is for no priced skill, or has a subscription; else 402, and
        503 where that cannot be decided now. Raises what `work` raises, with the payment given back."""
        offers = self._offers_for(call)
        if not offers:
            return await work()
        try:
            sources, settlement = await self._open()
        except SourceError:
            return unavailable(call, "the chain's node does not answer, so that no payment can be checked")
        if call.claim is None and await to_thread(self._is_subscribed, call, offers):
            return await work()
        try:
            return await _PaidWork(self._ledger, sources, settlement, offers, call, work).run()
        except _WorkError as failed:
            raise failed.error from None

    def _offers_for(self, call: PaidCall) -> list[Offer]:
        """The offers that pay for a call; none where it is free."""
        if not call.is_paid:
            return []
        return [
            offer
            for offer in self.offers
            if call.skill is None or offer.skill_ids is None or call.skill in offer.skill_ids
        ]

    def _is_subscribed(self, call: PaidCall, offers: Sequence[Offer]) -> bool:
        subscription = self._ledger.subscription(call.subscription) if call.subscription else None
        if subscription is None or subscription.paid_until <= self._clock():
            return False
        return any(offer.id == subscription.config for offer in offers)


class _WorkError(Exception):
    """What the work raised, which is none of the errors of its payment."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class _PaidWork:
    """One call with a claim, or that lacks one."""

    def __init__(
        self,
        ledger: PaymentLedger,
        sources: PaymentSources,
        settlement: Settlement,
        offers: Sequence[Offer],
        call: PaidCall,
        work: Work,
    ) -> None:
        self._ledger, self._sources, self._settlement = ledger, sources, settlement
        self._offers, self._call, self._work = offers, call, work
        self._state = TaskState.PENDING

    async def run(self) -> GateAnswer:
        """The answer."""
        call = self._call
        try:
            task = await to_thread(self._ledger.task, call.task) if _TASK_ID.fullmatch(call.task) else None
            if task is not None and task.state is not TaskState.FAILED:
                self._state = task.state
            payment = await self._verified(task)
            if payment is None:
                return await self._again(cast("PaidTask", task))
            return await self._take(payment, task)
        except PaymentRefusedError as error:
            return self._refused(error)
        except (DuplicatePaymentError, TaskStateError) as error:
            return self._refused(PaymentRefusedError("PaymentInvalid", "duplicate", str(error)))
        except NotAcceptedError as error:
            return self._refused(PaymentRefusedError("PaymentInvalid", "not-accepted", str(error)))
        except SourceError:
            detail = "the chain's node does not answer: repeat the call with the same claim and task later"
            return unavailable(call, detail, taskId=call.task)

    async def _verified(self, task: PaidTask | None) -> Payment | None:
        """The payment of the call, None where it was taken before for this very task. Raises PaymentRefusedError,
        SourceError."""
        height = await self._height()
        terms = self._sources.terms(self._offers, self._call.skill, None)
        payment = await to_thread(verify, self._call.claim, replace(terms, height=lambda _chain: height))
        stored = await to_thread(self._ledger.payment, _name(payment), payment.tx.txid)
        if stored is not None and stored.state not in (PaymentState.REFUSED, PaymentState.RELEASED):
            if task is not None and stored.task == task.id:
                return None
            raise PaymentRefusedError("PaymentInvalid", "duplicate", f"{payment.tx.hex_id} was claimed before")
        await to_thread(verify, self._call.claim, replace(terms, state=self._state, height=lambda _chain: height))
        if payment.claim.stage == "final":
            await self._check_deposit(payment, cast("PaidTask", task))
        node = self._sources.nodes[payment.claim.currency]
        spent = await node.outputs([tx_input.prevout for tx_input in payment.tx.inputs])
        await to_thread(check_inputs, payment, spent)
        return payment

    async def _height(self) -> int | None:
        claim = self._call.claim
        currency = claim.get("currency") if isinstance(claim, Mapping) else None
        node = self._sources.nodes.get(currency.strip().upper()) if isinstance(currency, str) else None
        return None if node is None else await node.next_height()

    async def _check_deposit(self, payment: Payment, task: PaidTask) -> None:
        """Raises PaymentRefusedError for a final payment of another offer, or after a deposit that is gone."""
        if payment.offer.id != task.config:
            detail = f"the deposit of this task was for {task.config[:64]!a}"
            raise PaymentRefusedError("StageMismatch", "unknown-config", detail)
        for deposit in await to_thread(self._ledger.payments_of, task.id):
            if deposit.stage == "deposit" and await self._settlement.look(deposit) is PaymentState.CONFLICTED:
                raise PaymentRefusedError("StageMismatch", "deposit-gone", "the deposit was spent otherwise meanwhile")

    async def _take(self, payment: Payment, task: PaidTask | None) -> GateAnswer:
        """Reserve a payment and do what its stage asks for."""
        now, stage = self._settlement.now(), payment.claim.stage
        entry = LedgerPayment(
            chain=_name(payment), txid=payment.tx.txid, task=self._task_id(), config=payment.offer.id, stage=stage,
            needed=payment.needed, paid=payment.paid, raw=payment.claim.raw, created_at=now, updated_at=now,
        )  # fmt: skip
        running = PaidTask(
            id=entry.task, state=TaskState.RUNNING, config=payment.offer.id, updated_at=now,
            deadline=now + WORK_SECONDS, subscription=self._call.subscription,
            refund_address=payment.claim.refund_address,
        )  # fmt: skip
        if stage == "final" and task is not None:
            running = replace(task, state=TaskState.RUNNING, updated_at=now, deadline=now + WORK_SECONDS)
        spends = [tx_input.prevout for tx_input in payment.tx.inputs]
        await to_thread(self._ledger.reserve, entry, spends, running)
        log.info("payment %s is reserved: %d satoshis, %s", payment.tx.hex_id, payment.paid, stage)
        steps = {"full": self._full, "deposit": self._deposit, "final": self._final}
        return await steps[stage](entry, running)

    async def _full(self, entry: LedgerPayment, task: PaidTask) -> GateAnswer:
        answer = await self._worked(partial(self._settlement.release, entry, "the work raised an error"))
        if _failed(answer, self._call):
            await self._settlement.release(entry, f"the work failed with status {answer.status}")
            return answer
        await self._send(entry, _with(task, answer))
        return (await self._paid(answer, task.id))._replace(payment=entry)

    async def _deposit(self, entry: LedgerPayment, task: PaidTask) -> GateAnswer:
        await self._send(entry, task)
        answer = await self._worked(partial(self._settlement.fail, task))
        if _failed(answer, self._call):
            await self._settlement.fail(task)
            return answer
        now = self._settlement.now()
        waiting = replace(
            _with(task, answer), state=TaskState.NEEDS_FINAL, updated_at=now, deadline=now + GRACE_SECONDS
        )
        if not await to_thread(self._ledger.move_task, waiting, TaskState.RUNNING):
            raise TaskStateError("the task failed meanwhile, as its work took too long")
        return self._needs_final(waiting, streamed=answer.streamed)

    async def _final(self, entry: LedgerPayment, task: PaidTask) -> GateAnswer:
        await self._send(entry, task)
        return await self._paid(_withheld(task), task.id)

    async def _worked(self, undo: Callable[[], Coroutine[Any, Any, None]]) -> GateAnswer:
        """The answer of the work; `undo` gives its payment back where it raises, also when it is cancelled."""
        try:
            return await self._work()
        except Exception as error:
            await undo()
            raise _WorkError(error) from error
        except CancelledError:
            await shield(undo())
            raise

    async def _send(self, entry: LedgerPayment, task: PaidTask) -> None:
        try:
            await self._settlement.send(entry, task)
        except SourceError:
            stored = await to_thread(self._ledger.payment, entry.chain, entry.txid)
            if stored is not None and stored.state is PaymentState.RESERVED:  # nothing was sent
                await self._settlement.release(stored, "the node does not answer")
            raise

    async def _again(self, task: PaidTask) -> GateAnswer:
        """The answer of a task for a client that repeats its call."""
        if task.state is TaskState.NEEDS_FINAL:
            return self._needs_final(task, streamed=False)
        if task.state is TaskState.COMPLETED and task.body is not None:
            return await self._paid(_withheld(task), task.id)
        return unavailable(self._call, f"the task is {task.state}: repeat the call later", taskId=task.id)

    async def _paid(self, answer: GateAnswer, task: str) -> GateAnswer:
        """The answer with what its client needs to know of the payment."""
        headers = [*answer.headers, (TASK_HEADER, task)]
        own = self._call.subscription or task
        subscription = await to_thread(self._ledger.subscription, own)
        if subscription is not None:
            headers += [(SUBSCRIPTION_HEADER, own), ("A2B-Paid-Until", timestamp(subscription.paid_until))]
        return answer._replace(headers=tuple(headers))

    def _needs_final(self, task: PaidTask, *, streamed: bool) -> GateAnswer:
        error = PaymentRefusedError("AmountInsufficient", "needs-final", "the work is done: the final payment is due")
        offers = [offer for offer in self._offers if offer.id == task.config]
        members = {"taskId": task.id, "until": timestamp(task.deadline or 0)}
        answer = payment_required(self._call, error, offers, self._sources, TaskState.NEEDS_FINAL, **members)
        return answer._replace(headers=(*answer.headers, (TASK_HEADER, task.id)), streamed=streamed)

    def _refused(self, error: PaymentRefusedError) -> GateAnswer:
        members = {"taskId": self._call.task} if self._call.task else {}
        return payment_required(self._call, error, self._offers, self._sources, self._state, **members)

    def _task_id(self) -> str:
        """The client's own id, if it is hard to guess: whoever knows it gets the answer; else a new one."""
        return self._call.task if _TASK_ID.fullmatch(self._call.task) else secrets.token_urlsafe(24)


def _name(payment: Payment) -> str:
    return f"{payment.chain.coin}:{payment.chain.network}"


def _failed(answer: GateAnswer, call: PaidCall) -> bool:
    """Whether an answer is an error, by its status or as a JSON-RPC error."""
    if answer.status >= 400 or len(answer.body) > MAX_ANSWER_BYTES:
        return True
    if not call.rpc or answer.streamed:
        return False
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("error") is not None


def _with(task: PaidTask, answer: GateAnswer) -> PaidTask:
    """The task with an answer to withhold."""
    return replace(task, head=json.dumps([answer.status, answer.headers]), body=answer.body)


def _withheld(task: PaidTask) -> GateAnswer:
    status, headers = json.loads(task.head)
    return GateAnswer(status, tuple((name, value) for name, value in headers), task.body or b"")
