"""Several cards of one operator: a payment pays for one of them, whether their gates share a payment store or not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.gate_answers import GateAnswer
from overlay.systems.payments.settlement import GRACE_SECONDS, LEASE_SECONDS
from overlay.systems.payments.store import PaymentStore
from overlay.systems.payments.store_records import PaymentState, TaskState
from parsers.bitcoin.tx import read_exactly
from tests.overlay.payments.fake_node import PAYER, SERVER, address_of, claim_of, payment, price, script_of
from tests.overlay.payments.paid_server import TASK, PaidServer, header, refusal

CARDS = 5


def card(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "x-payment-config": [price(**members)]}


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[PaymentStore]]:
    stores = [PaymentStore.open(f"sqlite:///{tmp_path / str(number)}.db") for number in range(CARDS)]
    yield stores
    for store in stores:
        store.close()


def gate_of(server: PaidServer, sold: Any, store: PaymentStore | None = None, **members: Any) -> PaymentGate:
    return PaymentGate(sold, store or server.payment_store, server.node, clock=lambda: server.time, **members)


async def call(gate: PaymentGate, claim: Any = None, **headers: str) -> GateAnswer:
    async def work() -> GateAnswer:
        await asyncio.sleep(0)
        return GateAnswer(200, (), b"done")

    carried = {name.replace("_", "-"): value for name, value in headers.items()}
    carried |= {} if claim is None else {"A2B-Payment": json.dumps(claim)}
    return await gate.answer(carried, b"", work)


def outcomes(answers: list[GateAnswer]) -> list[tuple[int, int, str]]:
    """The answers that were given, and why the others were not, sorted."""
    return sorted((200, 0, "") if answer.status == 200 else refusal(answer) for answer in answers)


ONE_PAID = [(200, 0, ""), *[(402, -32031, "duplicate")] * (CARDS - 1)]


@pytest.mark.parametrize("at_once", [False, True])
async def test_one_transaction_pays_for_one_answer_of_five_gates_with_a_store_each(
    server: PaidServer, stores: list[PaymentStore], at_once: bool
) -> None:
    gates, tx = [gate_of(server, price(), store) for store in stores], server.pays()
    calls = [call(gate, claim_of(tx)) for gate in gates]
    answers = await asyncio.gather(*calls) if at_once else [await coroutine for coroutine in calls]
    assert outcomes(answers) == ONE_PAID
    for gate in gates:
        server.time += LEASE_SECONDS
        await gate.maintain()
    assert sum(store.counted() for store in stores) == 50_000
    assert {read_exactly(raw).txid for raw in server.node.sent} == {tx.txid}


@pytest.mark.parametrize("at_once", [False, True])
async def test_one_coin_pays_for_one_answer_of_five_gates_with_one_store(server: PaidServer, at_once: bool) -> None:
    coin = server.node.mint(90_000)
    gates = [gate_of(server, card(f"Card {number}")) for number in range(CARDS)]
    first, *others = (payment([coin], [(50_000 + n, script_of(SERVER))], server.node) for n in range(CARDS))
    calls = [call(gate, claim_of(tx)) for gate, tx in zip(gates, (first, *others), strict=True)]
    answers = await asyncio.gather(*calls) if at_once else [await coroutine for coroutine in calls]
    assert [answer.status for answer in answers].count(200) == 1
    assert {refusal(answer)[:2] for answer in answers if answer.status != 200} == {(402, -32031)}
    assert 50_000 <= server.payment_store.counted() < 100_000
    assert len(server.node.sent) == 1


async def test_a_transaction_that_waits_for_its_work_at_one_gate_pays_at_no_other(server: PaidServer) -> None:
    tx, inner = server.pays(), list[GateAnswer]()
    other = gate_of(server, card("Another"))

    async def work() -> GateAnswer:
        inner.append(await call(other, claim_of(tx)))
        return await server.work()

    assert (await server.gate.answer({"A2B-Payment": json.dumps(claim_of(tx))}, b"", work)).status == 200
    assert refusal(inner[0]) == (402, -32031, "duplicate")


async def test_a_transaction_that_was_mined_before_it_was_claimed_pays_nothing(server: PaidServer) -> None:
    tx = server.pays()
    server.node.accept(tx)
    server.node.mine()
    assert refusal(await server.call(claim_of(tx))) == (402, -32031, "duplicate")
    assert (server.done, server.state_of(tx)) == (0, None)


async def test_a_deposit_that_somebody_sends_while_it_is_reserved_pays_nothing(server: PaidServer) -> None:
    server.with_prices(price(depositPct="0.2"))
    tx, reserve = server.pays(10_000), server.payment_store.reserve

    def sent_meanwhile(*arguments: Any) -> None:
        reserve(*arguments)
        server.node.accept(tx)

    server.payment_store.reserve = sent_meanwhile  # type: ignore[method-assign]
    answer = await server.call(claim_of(tx, stage="deposit"), A2B_Task=TASK)
    assert refusal(answer) == (402, -32031, "duplicate")
    assert (server.done, server.state_of(tx), server.task()) == (0, PaymentState.REFUSED, TaskState.FAILED)


# -- prices with the same id


@pytest.mark.parametrize("named", [True, False])
async def test_a_paid_interval_of_one_card_is_none_of_another(server: PaidServer, named: bool) -> None:
    prices = price(interval="day"), price(interval="day", amount="5")
    if named:
        cheap, dear = (gate_of(server, sold, name=name) for sold, name in zip(prices, ("cheap", "dear"), strict=True))
    else:
        cheap, dear = (gate_of(server, {"name": sold["amount"], "x-payment-config": [sold]}) for sold in prices)
    paid = header(await call(cheap, claim_of(server.pays())), "A2B-Subscription")
    assert (await call(cheap, A2B_Subscription=paid)).status == 200
    assert refusal(await call(dear, A2B_Subscription=paid)) == (402, -32030, "missing")
    tx = payment([server.node.mint(600_000_000)], [(500_000_000, script_of(SERVER))], server.node)
    other = header(await call(dear, claim_of(tx), A2B_Subscription=paid), "A2B-Subscription")
    assert other != paid


async def test_a_final_payment_is_due_at_the_price_of_the_deposit_wherever_it_is_paid(server: PaidServer) -> None:
    dear = gate_of(server, price(depositPct="0.2"), name="dear")
    cheap = gate_of(server, price(depositPct="0.2", amount="0.00001"), name="cheap")
    assert (await call(dear, claim_of(server.pays(10_000), stage="deposit"), A2B_Task=TASK)).status == 402
    short = await call(cheap, claim_of(server.pays(2_000), stage="final"), A2B_Task=TASK)
    assert refusal(short) == (402, -32033, "amount")
    assert [one["amount"] for one in json.loads(short.body)["accepts"]] == ["40000"]
    assert (await call(cheap, claim_of(server.pays(40_000), stage="final"), A2B_Task=TASK)).body == b"done"


async def test_any_gate_of_a_store_finishes_what_another_left(server: PaidServer) -> None:
    """The other one's process crashed after it had sent a payment per interval, and with a deposit for lost work."""
    monthly = gate_of(server, price(interval="month", id="m"), name="monthly")
    staged = gate_of(server, price(depositPct="0.2", id="d"), name="staged")
    other, send = gate_of(server, price(id="other"), name="other"), server.node.send

    async def sends_and_breaks(raw: bytes) -> bool:
        await send(raw)
        server.node.down = True
        return await server.node.next_height() > 0

    server.node.send = sends_and_breaks  # type: ignore[method-assign]
    tx, monthly_task = server.pays(), "task-of-the-client-0002"
    assert (await call(monthly, claim_of(tx, configId="m"), A2B_Task=monthly_task)).status == 503
    server.node.send, server.node.down = send, False  # type: ignore[method-assign]
    deposit = claim_of(server.pays(10_000), stage="deposit", configId="d", refundAddress=address_of(PAYER))
    assert (await call(staged, deposit, A2B_Task=TASK)).status == 402
    server.time += GRACE_SECONDS
    await other.maintain()
    assert (server.state_of(tx), server.task(monthly_task)) == (PaymentState.SENT, TaskState.COMPLETED)
    assert (await call(monthly, A2B_Subscription=monthly_task)).status == 200
    assert [task.id for task in server.payment_store.refunds()] == [TASK]


async def test_a_price_that_changes_ends_no_paid_interval_and_no_refund(server: PaidServer) -> None:
    before = gate_of(server, card("Tower", interval="day", depositPct="0.2"))
    paid = header(await call(before, claim_of(server.pays())), "A2B-Subscription")
    deposit = claim_of(server.pays(10_000), stage="deposit", refundAddress=address_of(PAYER))
    assert (await call(before, deposit, A2B_Task=TASK)).status == 402
    after = gate_of(server, card("Tower", interval="week", amount="1", address="1BoatSLRHtKNngkdXEeobR76b53LETtpyT"))
    assert (await call(after, A2B_Subscription=paid)).status == 200
    server.time += GRACE_SECONDS
    await after.maintain()
    assert [task.id for task in server.payment_store.refunds()] == [TASK]
