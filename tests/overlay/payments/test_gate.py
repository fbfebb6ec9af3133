"""The payment gate: each transition of a task (A2B §5.4), each refusal (§5.3), and each carrier of a claim."""

from __future__ import annotations

import base64
import json
import logging
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from overlay.systems.payments.checking import UnreadableOfferError
from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.gate_answers import GateAnswer, StreamDelivery
from overlay.systems.payments.settlement import DEPTH, GRACE_SECONDS, LEASE_SECONDS, WORK_SECONDS
from overlay.systems.payments.store import PaymentStore
from overlay.systems.payments.store_records import PaymentState, TaskState
from parsers.bitcoin.tx import read_exactly
from tests.overlay.payments.fake_node import PAYER, SERVER, address_of, claim_of, payment, price, script_of
from tests.overlay.payments.paid_server import TASK, PaidServer, a2a, header, mcp, refusal

DEPOSIT = {"depositPct": "0.2"}


@pytest.fixture
def two_stages(server: PaidServer) -> PaidServer:
    server.prices[:] = [price(**DEPOSIT)]
    server.gate = server.new_gate()
    return server


async def test_a_call_without_a_claim_is_402_with_the_price(server: PaidServer) -> None:
    answer = await server.call()
    assert refusal(answer) == (402, -32030, "missing")
    body = json.loads(answer.body)
    (accept,) = body["accepts"]
    assert (accept["scheme"], accept["network"], accept["asset"]) == ("a2b", "bsv:regtest", "BSV")
    assert (accept["amount"], accept["payTo"]) == ("50000", address_of(SERVER))
    assert accept["extra"] == {
        "configId": "p", "stage": "full", "leastSatoshis": 49_500, "interval": None, "depositPct": None,
    }  # fmt: skip
    assert json.loads(base64.b64decode(header(answer, "PAYMENT-REQUIRED")))["accepts"] == body["accepts"]
    assert server.done == 0


async def test_a_full_payment_is_sent_after_the_work_and_before_its_answer(server: PaidServer) -> None:
    tx = server.pays()
    answer = await server.call(claim_of(tx))
    assert (answer.status, answer.body) == (200, b"work 1")
    assert [read_exactly(raw).txid for raw in server.node.sent] == [tx.txid]
    assert server.state_of(tx) is PaymentState.SENT
    assert server.task(header(answer, "A2B-Task")) is TaskState.COMPLETED
    assert server.payment_store.counted() == 50_000


@pytest.mark.parametrize("fails", [500, ValueError("broken")])
async def test_failed_work_gives_a_full_payment_back_and_it_may_be_claimed_again(
    server: PaidServer, fails: Exception | int
) -> None:
    tx, server.fails = server.pays(), fails
    if isinstance(fails, Exception):
        with pytest.raises(ValueError, match="broken"):
            await server.call(claim_of(tx), A2B_Task=TASK)
    else:
        assert (await server.call(claim_of(tx), A2B_Task=TASK)).status == 500
    assert (server.state_of(tx), server.task(), server.node.sent) == (PaymentState.RELEASED, TaskState.FAILED, [])
    server.fails = 0
    assert (await server.call(claim_of(tx), A2B_Task=TASK)).status == 200
    assert server.payment_store.counted() == 50_000


async def test_a_transaction_pays_once_and_so_does_each_of_its_coins(server: PaidServer) -> None:
    coin = server.node.mint(90_000)
    first = payment([coin], [(50_000, script_of(SERVER))], server.node)
    again = payment([coin], [(51_000, script_of(SERVER))], server.node)
    assert (await server.call(claim_of(first))).status == 200
    assert refusal(await server.call(claim_of(first))) == (402, -32031, "duplicate")
    assert refusal(await server.call(claim_of(again))) == (402, -32031, "input-spent")
    assert (server.done, len(server.node.sent), server.payment_store.counted()) == (1, 1, 50_000)


async def test_a_coin_that_another_claim_holds_unsent_is_refused(server: PaidServer) -> None:
    coin = server.node.mint(90_000)
    inner: list[GateAnswer] = []

    async def work() -> GateAnswer:
        other = payment([coin], [(51_000, script_of(SERVER))], server.node)
        inner.append(await server.call(claim_of(other)))
        return await server.work()

    server_work, first = work, payment([coin], [(50_000, script_of(SERVER))], server.node)
    carried = {"A2B-Payment": json.dumps(claim_of(first))}
    assert (await server.gate.answer(carried, b"", server_work)).status == 200
    assert refusal(inner[0]) == (402, -32031, "duplicate")


async def test_a_double_spend_during_the_work_withholds_the_answer(server: PaidServer) -> None:
    coin = server.node.mint(90_000)
    tx = payment([coin], [(50_000, script_of(SERVER))], server.node)

    async def work() -> GateAnswer:
        server.node.double_spend(coin)
        return await server.work()

    answer = await server.gate.answer({"A2B-Payment": json.dumps(claim_of(tx))}, b"", work)
    assert refusal(answer) == (402, -32031, "not-accepted")
    assert (server.state_of(tx), server.payment_store.counted(), server.node.sent) == (PaymentState.REFUSED, 0, [])


async def test_a_double_spend_after_the_sending_is_seen_and_not_counted(two_stages: PaidServer) -> None:
    server, coin = two_stages, two_stages.node.mint(90_000)
    deposit = payment([coin], [(10_000, script_of(SERVER))], server.node)
    assert refusal(await server.call(claim_of(deposit, stage="deposit"), A2B_Task=TASK))[2] == "needs-final"
    server.node.double_spend(coin)
    await server.gate.maintain()
    assert (server.state_of(deposit), server.task(), server.payment_store.counted()) == (
        PaymentState.CONFLICTED, TaskState.FAILED, 0,
    )  # fmt: skip
    final = claim_of(server.pays(40_000), stage="final")
    assert refusal(await server.call(final, A2B_Task=TASK)) == (402, -32032, "task-failed")


async def test_a_final_payment_is_refused_after_a_deposit_that_is_gone(two_stages: PaidServer) -> None:
    server, coin = two_stages, two_stages.node.mint(90_000)
    deposit = payment([coin], [(10_000, script_of(SERVER))], server.node)
    await server.call(claim_of(deposit, stage="deposit"), A2B_Task=TASK)
    server.node.double_spend(coin)
    final = claim_of(server.pays(40_000), stage="final")
    assert refusal(await server.call(final, A2B_Task=TASK)) == (402, -32032, "deposit-gone")


async def test_deposit_then_work_then_402_then_final_then_the_answer(two_stages: PaidServer) -> None:
    server = two_stages
    deposit, final = server.pays(10_000), server.pays(40_000)
    query = await server.call(claim_of(deposit, stage="deposit"), A2B_Task=TASK)
    assert refusal(query) == (402, -32033, "needs-final")
    body = json.loads(query.body)
    assert (body["taskId"], body["state"]) == (TASK, "needsFinal")
    assert [(one["amount"], one["extra"]["stage"]) for one in body["accepts"]] == [("40000", "final")]
    assert (server.task(), server.state_of(deposit)) == (TaskState.NEEDS_FINAL, PaymentState.SENT)
    restarted = server.gate = server.new_gate()
    answer = await server.call(claim_of(final, stage="final"), A2B_Task=TASK)
    assert restarted
    assert (answer.status, answer.body, header(answer, "Content-Type")) == (200, b"work 1", "text/plain")
    assert (server.task(), server.payment_store.counted(), server.done) == (TaskState.COMPLETED, 50_000, 1)
    assert [read_exactly(raw).txid for raw in server.node.sent] == [deposit.txid, final.txid]


async def test_failed_work_after_a_deposit_fails_the_task_and_prepares_a_refund(two_stages: PaidServer) -> None:
    server, deposit = two_stages, two_stages.pays(10_000)
    server.fails = 500
    claim = claim_of(deposit, stage="deposit", refundAddress=address_of(PAYER))
    assert (await server.call(claim, A2B_Task=TASK)).status == 500
    task = server.payment_store.task(TASK)
    assert task is not None
    assert task.state is TaskState.FAILED
    refund = read_exactly(task.refund or b"")
    assert [one.prevout for one in refund.inputs] == [deposit.outpoint(0)]
    assert [output.script for output in refund.outputs] == [script_of(PAYER)]
    assert 9_000 < refund.outputs[0].satoshis < 10_000
    assert (await server.call(claim_of(server.pays(10_000), stage="deposit"), A2B_Task=TASK)).status == 402


async def test_a_missing_final_payment_fails_the_task_after_thirty_minutes(two_stages: PaidServer) -> None:
    server = two_stages
    claim = claim_of(server.pays(10_000), stage="deposit", refundAddress=address_of(PAYER))
    await server.call(claim, A2B_Task=TASK)
    server.time += GRACE_SECONDS - 1
    await server.gate.maintain()
    assert server.task() is TaskState.NEEDS_FINAL
    server.time += 1
    await server.gate.maintain()
    task = server.payment_store.task(TASK)
    assert task is not None
    assert (task.state, task.body, task.refund is not None) == (TaskState.FAILED, None, True)
    late = await server.call(claim_of(server.pays(40_000), stage="final"), A2B_Task=TASK)
    assert refusal(late) == (402, -32032, "task-failed")
    assert json.loads(late.body)["detail"] == (
        f"the task failed: the final payment is missing; its deposit is refunded to {address_of(PAYER)}; "
        "name another one, with another payment"
    )
    assert len(server.node.sent) == 1
    assert server.payment_store.close_refund(TASK)
    paid_back = await server.call(claim_of(server.pays(40_000), stage="final"), A2B_Task=TASK)
    assert "; no refund of its deposit is due; " in json.loads(paid_back.body)["detail"]


async def test_a_late_final_payment_finds_its_task_by_its_id_of_a2a(two_stages: PaidServer) -> None:
    server, id_ = two_stages, "task-of-the-agent-0001"
    server.body = json.dumps({"jsonrpc": "2.0", "id": 7, "result": {"kind": "task", "id": id_, "status": {}}}).encode()
    part = {"kind": "data", "data": {"x-payment": claim_of(server.pays(10_000), stage="deposit")}}
    assert (await server.call(body=a2a(part))).status == 402
    server.time += GRACE_SECONDS
    await server.gate.maintain()
    late = {"kind": "data", "data": {"x-payment": claim_of(server.pays(40_000), stage="final")}}
    answer = json.loads((await server.call(body=a2a(late, taskId=id_))).body)["error"]
    assert (answer["code"], answer["data"]["reason"]) == (-32032, "task-failed")


async def test_a_final_payment_that_the_node_refuses_leaves_the_task_open(two_stages: PaidServer) -> None:
    server = two_stages
    await server.call(claim_of(server.pays(10_000), stage="deposit"), A2B_Task=TASK)
    send, server.node.send = server.node.send, _refuse  # type: ignore[method-assign]
    answer = await server.call(claim_of(server.pays(40_000), stage="final"), A2B_Task=TASK)
    assert refusal(answer) == (402, -32031, "not-accepted")
    assert server.task() is TaskState.NEEDS_FINAL
    server.node.send = send  # type: ignore[method-assign]
    assert (await server.call(claim_of(server.pays(40_000), stage="final"), A2B_Task=TASK)).body == b"work 1"


async def _refuse(_raw: bytes) -> None:
    from indexer.errors import RefusedTransactionError

    raise RefusedTransactionError("the fee is too low")


@pytest.mark.parametrize("stage", ["final", "deposit"])
async def test_a_stage_that_the_task_does_not_take_is_a_mismatch(server: PaidServer, stage: str) -> None:
    assert refusal(await server.call(claim_of(server.pays(), stage=stage)))[:2] == (402, -32032)


async def test_a_client_that_repeats_its_call_gets_the_answer_and_pays_once(server: PaidServer) -> None:
    claim = claim_of(server.pays())
    first = await server.call(claim, A2B_Task=TASK)
    again = await server.call(claim, A2B_Task=TASK)
    assert first.body == again.body == b"work 1"
    assert (server.done, len(server.node.sent)) == (1, 1)
    assert refusal(await server.call(claim, A2B_Task="another-task-of-it-2")) == (402, -32031, "duplicate")


async def test_an_unreachable_node_decides_nothing(server: PaidServer) -> None:
    tx = server.pays()
    await server.gate.maintain()
    server.node.down = True
    assert (await server.call(claim_of(tx))).status == 503
    assert (server.done, server.state_of(tx)) == (0, None)

    async def work() -> GateAnswer:
        server.node.down = True
        return await server.work()

    server.node.down = False
    carried = {"A2B-Payment": json.dumps(claim_of(tx)), "A2B-Task": TASK}
    assert (await server.gate.answer(carried, b"", work)).status == 503
    assert (server.state_of(tx), server.node.sent) == (PaymentState.RELEASED, [])


async def test_a_payment_whose_sending_is_unknown_is_finished_later_and_the_answer_is_there(server: PaidServer) -> None:
    tx, send = server.pays(), server.node.send

    async def sends_and_breaks(raw: bytes) -> None:
        await send(raw)
        server.node.down = True
        await server.node.next_height()

    server.node.send = sends_and_breaks  # type: ignore[method-assign]
    assert (await server.call(claim_of(tx), A2B_Task=TASK)).status == 503
    assert server.state_of(tx) is PaymentState.SENDING
    server.node.down, server.node.send = False, send  # type: ignore[method-assign]
    server.time += LEASE_SECONDS
    await server.gate.maintain()
    assert (server.state_of(tx), server.task(), len(server.node.sent)) == (PaymentState.SENT, TaskState.COMPLETED, 1)
    assert (await server.call(claim_of(tx), A2B_Task=TASK)).body == b"work 1"


async def test_work_that_never_ends_gives_the_payment_back(server: PaidServer) -> None:
    tx = server.pays()

    async def work() -> GateAnswer:
        server.time += WORK_SECONDS
        await server.new_gate().maintain()
        return await server.work()

    carried = {"A2B-Payment": json.dumps(claim_of(tx)), "A2B-Task": TASK}
    assert refusal(await server.gate.answer(carried, b"", work))[2] == "not-accepted"
    assert (server.state_of(tx), server.task(), server.node.sent) == (PaymentState.RELEASED, TaskState.FAILED, [])


async def test_a_payment_is_watched_until_it_is_deep_and_sent_again_when_forgotten(server: PaidServer) -> None:
    tx = server.pays()
    await server.call(claim_of(tx))
    server.node.evict()
    await server.gate.maintain()
    assert tx.hex_id in server.node.mempool
    server.node.mine()
    server.node.reorganise(1)
    coin = tx.inputs[0].prevout
    server.node.double_spend(coin)
    await server.gate.maintain()
    assert (server.state_of(tx), server.payment_store.counted()) == (PaymentState.CONFLICTED, 0)
    server.node.evict()  # the other one is gone: what was sent first is valid again
    await server.gate.maintain()
    assert (server.state_of(tx), server.payment_store.counted()) == (PaymentState.SENT, 50_000)
    for _ in range(DEPTH):
        server.node.mine()
    await server.gate.maintain()
    assert (server.state_of(tx), server.payment_store.watched("bsv:regtest", 0)) == (PaymentState.SETTLED, [])


async def test_a_subscription_pays_until_its_end_and_is_renewed_by_the_calendar(server: PaidServer) -> None:
    server.prices[:] = [price(interval="month")]
    server.gate, server.time = server.new_gate(), 1_769_860_800.0  # 31 January 2026, 12:00
    answer = await server.call(claim_of(server.pays()))
    subscription = header(answer, "A2B-Subscription")
    assert header(answer, "A2B-Paid-Until") == "2026-02-28T12:00:00Z"
    assert (await server.call(A2B_Subscription=subscription)).body == b"work 2"
    assert (await server.call(A2B_Subscription="unknown")).status == 402
    server.time = 1_772_236_800.0  # 28 February, 00:00
    renewed = await server.call(claim_of(server.pays()), A2B_Subscription=subscription)
    assert header(renewed, "A2B-Paid-Until") == "2026-03-31T12:00:00Z"
    server.time = 1_774_958_400.0  # 31 March, 12:00
    assert refusal(await server.call(A2B_Subscription=subscription)) == (402, -32030, "missing")
    late = await server.call(claim_of(server.pays()), A2B_Subscription=subscription)
    assert header(late, "A2B-Paid-Until") == "2026-04-30T12:00:00Z"


@pytest.mark.parametrize("others", [[], [price(id="any")]])
async def test_a_paid_interval_that_a_message_names_alone_is_enough(
    server: PaidServer, others: list[dict[str, Any]]
) -> None:
    monthly = price(id="m", interval="month", skillIds=["watch"])
    server.with_prices(price(id="c", skillIds=["cut"]), monthly, *others)
    claimed = a2a({"data": {"x-payment": claim_of(server.pays(), configId="m")}})
    subscription = header(await server.call(body=claimed), "A2B-Subscription")

    async def call(delivery: StreamDelivery, named: str, **metadata: str) -> GateAnswer:
        body = json.loads(a2a({"kind": "text", "text": "watch"}))
        body["params"]["metadata"] = {"x-payment-subscription": named, **metadata}
        return await server.gate.answer({}, json.dumps(body).encode(), server.work, delivery=delivery)

    delivery = StreamDelivery()
    assert (await call(delivery, subscription)).body == b"work 2"
    assert delivery.config == "m"  # by which the application knows what was paid for
    assert (await call(StreamDelivery(), subscription, skillId="watch")).status == 200
    refused = [
        await call(StreamDelivery(), subscription, skillId="cut"),
        await call(StreamDelivery(), "unknown-" + "0" * 9),
    ]
    assert [json.loads(answer.body)["error"]["code"] for answer in refused] == [-32030, -32030]


async def test_each_carrier_of_a_claim_is_read(server: PaidServer) -> None:
    def bodies() -> list[tuple[dict[str, str], bytes]]:
        claims = [claim_of(server.pays()) for _ in range(7)]
        text = json.dumps(claims[0])
        return [
            ({"A2B-Payment": text}, b"plain"),
            ({"A2B-Payment": base64.urlsafe_b64encode(json.dumps(claims[1]).encode()).decode().rstrip("=")}, b""),
            ({}, a2a({"kind": "text", "text": "do"}, {"kind": "data", "data": {"x-payment": claims[2]}})),
            ({}, a2a({"data": {"x-payment": claims[3]}}, method="SendMessage")),
            ({}, a2a({"type": "data", "data": {"x-payment": claims[4]}}, method="tasks/send")),
            ({}, a2a({"data": {"data": {"x-payment": claims[5]}}}, method="SendMessage")),
            ({}, mcp(**{"x-payment": claims[6]})),
        ]

    for number, (headers, body) in enumerate(bodies(), 1):
        answer = await server.gate.answer(headers, body, server.work)
        assert (answer.status, answer.body) == (200, b"work %d" % number), body
    assert server.payment_store.counted() == 350_000


async def test_json_rpc_calls_are_refused_in_their_own_form(server: PaidServer) -> None:
    for body in (a2a({"kind": "text", "text": "do"}), mcp()):
        answer = await server.gate.answer({}, body, server.work)
        error = json.loads(answer.body)
        assert (answer.status, error["id"], error["error"]["code"]) == (402, 7, -32030)
        assert error["error"]["message"] == "PaymentMissing"
        assert error["error"]["data"]["accepts"][0]["scheme"] == "a2b"


async def test_what_asks_for_no_work_or_is_named_as_free_is_free(server: PaidServer) -> None:
    server.prices[:] = [price(skillIds=["paid"])]
    server.gate = PaymentGate(server.prices, server.payment_store, server.node, free=["free", "resources/read"])
    for method in ("tools/list", "initialize", "notifications/initialized", "tasks/get", "resources/read"):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode()
        assert (await server.gate.answer({}, body, server.work)).status == 200, method
    for body in (mcp("free"), a2a(metadata={"skillId": "free"})):
        assert (await server.gate.answer({}, body, server.work)).status == 200
    for body in (mcp("paid"), a2a(metadata={"skillId": "paid"}), a2a()):
        assert (await server.gate.answer({}, body, server.work)).status == 402


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"A2B-Payment": "?"}, b""),
        ({"A2B-Payment": "e30x"}, b""),
        ({}, b"[" + mcp() + b"]"),
        ({}, b'{"jsonrpc": "2.0", "method": "tools/list", "method": "tools/call", "id": 1}'),
        ({}, b'{"method": ' + b"[" * 500),
        ({}, b"\xef\xbb\xbf" + mcp()),
    ],
)
async def test_a_request_that_others_may_read_otherwise_is_refused(
    server: PaidServer, headers: dict[str, str], body: bytes
) -> None:
    assert refusal(await server.gate.answer(headers, body, server.work))[:2] == (402, -32031)
    assert server.done == 0


async def test_an_error_of_json_rpc_gives_the_payment_back(server: PaidServer) -> None:
    tx = server.pays()

    async def work() -> GateAnswer:
        return GateAnswer(200, (), b'{"jsonrpc": "2.0", "id": 7, "error": {"code": -32000, "message": "no"}}')

    assert (await server.gate.answer({}, mcp(**{"x-payment": claim_of(tx)}), work)).status == 200
    assert (server.state_of(tx), server.node.sent) == (PaymentState.RELEASED, [])


async def test_logs_hold_neither_claims_nor_tasks(server: PaidServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    tx = server.pays()
    claim = claim_of(tx)
    await server.call(claim, A2B_Task=TASK)
    await server.gate.maintain()
    assert tx.hex_id in caplog.text
    assert claim["rawTx"] not in caplog.text
    assert TASK not in caplog.text


def test_two_processes_open_one_new_payment_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'payments.db'}"
    first, second = PaymentStore.open(url), PaymentStore.open(url)
    assert first.counted() == second.counted() == 0
    first.close()
    second.close()


# -- prices as programs read them

SPECIFICATION = """[
  {"id": "wt-basic", "name": "Basic Pay-Per-Call", "currency": "BSV", "amount": 0.0005, "address": "%s",
   "acceptedCurrencies": ["BSV"], "skillIds": ["watchChannels"]},
  {"id": "watchtower-18m", "name": "18-Month Enterprise Watchtower", "currency": "BSV", "amount": 0.030,
   "address": "%s", "acceptedCurrencies": ["BSV", "BTC", "USD"], "depositPct": 0.20, "interval": "P18M",
   "skillIds": ["watchChannels"]}
]"""
"""The examples of A2B \u00a74.1."""


async def test_prices_read_by_any_json_reader_are_due_as_they_are_written(server: PaidServer) -> None:
    text = SPECIFICATION % (address_of(SERVER), address_of(SERVER))
    server.with_prices(*json.loads(text))
    assert [offer.amount for offer in server.gate.offers] == [Decimal("0.0005"), Decimal("0.03")]
    body = json.loads((await server.call()).body)
    due = {(one["extra"]["configId"], one["extra"]["stage"]): one["amount"] for one in body["accepts"]}
    assert due == {
        ("wt-basic", "full"): "50000", ("watchtower-18m", "full"): "3000000", ("watchtower-18m", "deposit"): "600000",
    }  # fmt: skip
    assert (await server.call(claim_of(server.pays(50_000), configId="wt-basic"))).status == 200


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"amount": float("nan")}, "/1/amount cannot be read.*nan"),
        ({"amount": float("inf")}, "/1/amount"),
        ({"amount": -0.5}, "/1/amount cannot be read.*-0.5"),
        ({"amount": None}, "/1/amount cannot be read.*absent"),
        ({"amount": "much"}, "/1/amount cannot be read.*much"),
        ({"amount": True}, "/1/amount"),
        ({"currency": 5}, "/1/currency"),
        ({"interval": 30}, "/1/interval"),
        ({"interval": "fortnight"}, "/1/interval cannot be read.*fortnight"),
        ({"depositPct": 2}, "/1/depositPct"),
        ({"address": ["a"]}, "/1/address"),
        ({"skillIds": [7]}, "/1/skillIds/0"),
        ("free", "/1 cannot be read"),
    ],
)
def test_a_price_that_cannot_be_read_is_an_error_of_the_gate_that_names_it(
    server: PaidServer, wrong: Any, words: str
) -> None:
    prices = [price(), price(id="q") | wrong if isinstance(wrong, dict) else wrong]
    with pytest.raises(UnreadableOfferError, match=f"the price {words}"):
        PaymentGate(prices, server.payment_store, server.node)
    with pytest.raises(UnreadableOfferError, match=f"the price /x-payment-config{words}"):
        PaymentGate({"name": "An agent", "x-payment-config": prices}, server.payment_store, server.node)


def test_more_prices_than_are_read_are_an_error_of_the_gate(server: PaidServer) -> None:
    with pytest.raises(UnreadableOfferError, match="only the first 64 of 65 prices"):
        PaymentGate([price(id=str(number)) for number in range(65)], server.payment_store, server.node)
