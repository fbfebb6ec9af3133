"""No money lost on either side: chains that are gone or down, refunds, repeated calls, failed work, renewals."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from indexer.errors import RefusedTransactionError, SourceError, SourceUnavailableError
from indexer.store import StoreError, unchecked
from overlay.pricing.exchange_rates import ExchangeRates
from overlay.systems.payments.gate import KEPT_SECONDS, REOPEN_SECONDS, PaymentGate
from overlay.systems.payments.gate_answers import GateAnswer
from overlay.systems.payments.refunds import refund
from overlay.systems.payments.settlement import CONFLICT_SECONDS, DEPTH, LEASE_SECONDS
from overlay.systems.payments.store import PaymentStore
from overlay.systems.payments.store_records import PaymentState, TaskState
from parsers.bitcoin.address import PREFIXES, address
from parsers.bitcoin.script import p2pkh
from parsers.bitcoin.tx import Outpoint, Transaction, TxInput, TxOutput, read, read_exactly, serialise
from parsers.cards.rate_table import RateTable
from parsers.claims.payment import UtxoChain
from tests.overlay.payments.fake_node import PAYER, SERVER, FakeNode, address_of, claim_of, price, script_of
from tests.overlay.payments.paid_server import TASK, PaidServer, a2a, header, mcp, refusal

DEPOSIT = price(depositPct="0.2")
ON_BCH = price(id="bch", currency="BCH", acceptedCurrencies=["BCH"],
               address=address(script_of(SERVER), PREFIXES["bch"]["regtest"]))  # fmt: skip


class BchNode(FakeNode):
    """A node of another chain, on which transactions are signed as on BSV."""

    async def chain(self) -> UtxoChain:
        self._answer()
        return UtxoChain("bch", "regtest")


async def refuse(_raw: bytes) -> None:
    raise RefusedTransactionError("the fee is too low")


def deposit(tx: Transaction, **members: Any) -> dict[str, Any]:
    return claim_of(tx, stage="deposit", **{"refundAddress": address_of(PAYER)} | members)


# -- nodes


@pytest.fixture
def two_chains(server: PaidServer) -> tuple[PaidServer, BchNode]:
    bch = BchNode()
    server.prices[:] = [price(), ON_BCH]
    server.gate = PaymentGate(server.prices, server.payment_store, bch, server.node, clock=lambda: server.time)
    return server, bch


def pays_bch(server: PaidServer, bch: BchNode) -> Transaction:
    tx = server.pays()
    bch.coins |= {tx_input.prevout: server.node.coins[tx_input.prevout] for tx_input in tx.inputs}
    return tx


async def test_a_payment_on_a_chain_that_is_no_longer_configured_is_left_as_it_is(
    server: PaidServer, caplog: pytest.LogCaptureFixture
) -> None:
    tx = server.pays()
    await server.call(claim_of(tx))
    elsewhere = PaymentGate(server.prices, server.payment_store, BchNode(), clock=lambda: server.time)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await elsewhere.maintain()
    assert server.state_of(tx) is PaymentState.SENT
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [text.count("bsv:regtest") for text in warnings] == [1]


async def test_a_node_that_is_down_hides_no_double_spend_on_another_chain(
    two_chains: tuple[PaidServer, BchNode],
) -> None:
    server, bch = two_chains
    coin = server.node.mint(90_000)
    tx, on_bch = server.pays(coin=coin), pays_bch(server, bch)
    paid = claim_of(on_bch, configId="bch", currency="BCH")
    assert [(await server.call(claim)).status for claim in (paid, claim_of(tx))] == [200, 200]
    server.node.double_spend(coin)
    bch.down = True
    with pytest.raises(SourceError):
        await server.gate.maintain()
    assert server.state_of(tx) is PaymentState.CONFLICTED


async def test_a_node_that_is_down_at_the_start_stops_only_payments_on_its_chain(
    two_chains: tuple[PaidServer, BchNode],
) -> None:
    server, bch = two_chains
    bch.down = True
    assert (await server.call(claim_of(server.pays()))).status == 200
    paid = claim_of(pays_bch(server, bch), configId="bch", currency="BCH")
    assert (await server.call(paid)).status == 503
    bch.down = False
    server.time += REOPEN_SECONDS
    assert (await server.call(paid)).status == 200


# -- refunds


def outpoints(raw: bytes | None) -> list[Outpoint]:
    return [tx_input.prevout for tx_input in read_exactly(raw or b"").inputs]


async def test_the_deposit_that_was_sent_is_refunded_and_not_one_that_was_refused(server: PaidServer) -> None:
    server.with_prices(DEPOSIT)
    send, server.node.send = server.node.send, refuse  # type: ignore[method-assign]
    assert refusal(await server.call(deposit(server.pays(10_000)), A2B_Task=TASK))[2] == "not-accepted"
    server.node.send, server.fails, server.time = send, 500, server.time + 1  # type: ignore[method-assign]
    sent = server.pays(10_000)
    assert (await server.call(deposit(sent), A2B_Task=TASK)).status == 500
    task = server.payment_store.task(TASK)
    assert task is not None
    assert outpoints(task.refund) == [sent.outpoint(0)]
    assert [one.id for one in server.payment_store.refunds()] == [TASK]


async def test_a_failed_task_whose_deposit_was_sent_is_not_used_again(server: PaidServer, caplog: Any) -> None:
    server.with_prices(DEPOSIT)
    server.fails = 500
    with caplog.at_level(logging.INFO):
        await server.call(
            claim_of(server.pays(10_000), stage="deposit"), A2B_Task=TASK
        )  # names no address for a refund
    assert TASK in caplog.text  # by which the operator finds it
    server.time += 1
    assert refusal(await server.call(deposit(server.pays(10_000)), A2B_Task=TASK))[:2] == (402, -32031)
    assert (server.done, len(server.node.sent), server.payment_store.refunds()) == (1, 1, [])


@pytest.mark.parametrize("without_prefix", [str, lambda text: text.rpartition(":")[2]])
def test_a_deposit_in_bch_is_refunded_between_cashaddrs(without_prefix: Callable[[str], str]) -> None:
    prefixes = PREFIXES["bch"]["mainnet"]
    payee, payer = (str(address(p2pkh(bytes([byte]) * 20), prefixes)) for byte in (1, 2))
    raw = refund(paid_to(p2pkh(b"\1" * 20), 50_000), without_prefix(payee), without_prefix(payer),
                 UtxoChain("bch", "mainnet"))  # fmt: skip
    assert [(one.satoshis, one.script) for one in read_exactly(raw or b"").outputs] == [(49_807, p2pkh(b"\2" * 20))]


@pytest.mark.parametrize(
    ("coin", "satoshis", "left"),
    [("doge", 1_192_999, None), ("doge", 1_193_000, 1_000_000), ("ltc", 7_389, None), ("ltc", 7_390, 5_460),
     ("btc", 738, None), ("btc", 739, 546), ("bsv", 193, None), ("bsv", 194, 1)],
)  # fmt: skip
def test_a_refund_has_the_fee_and_the_least_output_of_its_coin(coin: str, satoshis: int, left: int | None) -> None:
    prefixes = PREFIXES[coin]["mainnet"]
    payee, payer = (str(address(p2pkh(bytes([byte]) * 20), prefixes)) for byte in (1, 2))
    raw = refund(paid_to(p2pkh(b"\1" * 20), satoshis), payee, payer, UtxoChain(coin, "mainnet"))
    assert (raw and read_exactly(raw).outputs[0].satoshis) == left


def paid_to(script: bytes, satoshis: int) -> Transaction:
    return read(serialise((TxInput(Outpoint(b"\1" * 32, 0), b"\0", 0xFFFFFFFF),), (TxOutput(satoshis, script),)))


# -- repeated calls


class Rates(ExchangeRates):
    """One rate, of BSV in USD, that moves."""

    bsv_per_usd = Decimal("0.01")

    def paying(self, *_currencies: str) -> RateTable:
        rates = {"USD": Decimal(1), "BSV": self.bsv_per_usd}
        return RateTable(base="USD", rates=rates, source="", quoted_at=0, until=10**12)


async def test_a_paid_call_is_repeated_at_whatever_rate_there_is_by_then(server: PaidServer) -> None:
    rates, in_usd = Rates(), price(currency="USD", amount="0.05", acceptedCurrencies=["USD", "BSV"])
    server.gate = PaymentGate([in_usd], server.payment_store, server.node, exchange=rates, clock=lambda: server.time)
    claim = claim_of(server.pays())
    first = await server.call(claim, A2B_Task=TASK)
    rates.bsv_per_usd *= 2
    server.node.down = True  # nor is a node needed for it
    again = await server.call(claim, A2B_Task=TASK)
    assert (first.status, again.status, again.body) == (200, 200, first.body)
    assert server.done == 1


async def test_a_client_that_sends_its_own_payment_during_the_work_has_not_paid(server: PaidServer) -> None:
    tx = server.pays()

    async def work() -> GateAnswer:
        server.node.accept(tx)
        return await server.work()

    answer = await server.gate.answer({"A2B-Payment": json.dumps(claim_of(tx))}, b"", work)
    assert refusal(answer) == (402, -32031, "duplicate")  # it may have paid for another server's answer
    assert (server.state_of(tx), server.payment_store.counted()) == (PaymentState.REFUSED, 0)


async def test_a_task_that_failed_or_whose_answer_is_gone_says_so(server: PaidServer) -> None:
    server.with_prices(DEPOSIT)
    failed, completed = deposit(server.pays(10_000)), claim_of(server.pays())
    server.fails = 500
    await server.call(failed, A2B_Task=TASK)
    assert refusal(await server.call(failed, A2B_Task=TASK)) == (402, -32032, "task-failed")
    server.fails, other = 0, "task-of-the-client-0002"
    await server.call(completed, A2B_Task=other)
    server.time += KEPT_SECONDS + 1
    await server.gate.maintain()
    assert refusal(await server.call(completed, A2B_Task=other)) == (402, -32032, "answer-gone")


# -- failed work


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":7,"result":{"content":[],"isError":true}}',
        b'event: message\r\ndata: {"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"x"}}\r\n\r\n',
        b': hello\n\ndata: {"jsonrpc":"2.0","id":7,\ndata: "result":{"isError":true}}\n\n',
        b'{"jsonrpc":"2.0","id":7,"result":{"kind":"task","status":{"state":"failed"}}}',
        b'{"jsonrpc":"2.0","id":7,"result":{"task":{"status":{"state":"TASK_STATE_REJECTED"}}}}',
        b'data: {"id":7,"result":{"kind":"status-update","status":{"state":"canceled"},"final":true}}\n\n',
        b'data: {"id":7,"result":{"statusUpdate":{"status":{"state":"TASK_STATE_FAILED"}}}}\n\n',
    ],
)
async def test_failed_work_is_not_charged_whatever_form_its_error_has(server: PaidServer, body: bytes) -> None:
    server.body = body
    answer = await server.call(body=mcp(**{"x-payment": claim_of(server.pays())}))
    assert (answer.status, answer.body, server.node.sent, server.payment_store.counted()) == (200, body, [], 0)


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":7,"result":{"content":[],"isError":false}}',
        b'{"jsonrpc":"2.0","id":7,"error":null,"result":{"kind":"task","status":{"state":"completed"}}}',
        b'{"jsonrpc":"2.0","id":7,"result":[1]}',
        b"data: no JSON\n\n",
    ],
)
async def test_done_work_is_charged(server: PaidServer, body: bytes) -> None:
    server.body = body
    await server.call(body=a2a({"data": {"x-payment": claim_of(server.pays())}}))
    assert server.payment_store.counted() == 50_000


# -- renewals


async def test_renewals_at_once_all_count(server: PaidServer) -> None:
    server.with_prices(price(interval="month"))
    subscription = header(await server.call(claim_of(server.pays())), "A2B-Subscription")
    claims = [claim_of(server.pays()) for _ in range(4)]
    await asyncio.gather(*(server.call(claim, A2B_Subscription=subscription) for claim in claims))
    stored = server.payment_store.paid_interval(subscription)
    assert stored is not None
    assert stored.periods == 5


async def test_a_payment_that_names_an_unknown_subscription_begins_one_and_says_which(server: PaidServer) -> None:
    server.with_prices(price(interval="month"))
    answer = await server.call(claim_of(server.pays()), A2B_Subscription="of-another-server")
    subscription = header(answer, "A2B-Subscription")
    assert (await server.call(A2B_Subscription=subscription)).status == 200


# -- what is deleted


async def test_what_was_given_back_is_deleted_after_a_day(server: PaidServer) -> None:
    coin, server.fails = server.node.mint(90_000), 400
    refused = [server.pays(50_000 + number, coin) for number in range(3)]
    for tx in refused:
        await server.call(claim_of(tx), A2B_Task=TASK)
    server.fails = 0
    paid, other = server.pays(), "task-of-the-client-0002"
    await server.call(claim_of(paid), A2B_Task=other)
    server.time += KEPT_SECONDS + 1
    await server.gate.maintain()
    assert [server.state_of(tx) for tx in (*refused, paid)] == [None, None, None, PaymentState.SENT]
    assert [server.task(task) for task in (TASK, other)] == [None, TaskState.COMPLETED]


async def test_a_payment_that_the_node_cannot_answer_for_holds_no_other_up(server: PaidServer) -> None:
    stuck, other = server.pays(), server.pays()
    for number, tx in enumerate((stuck, other)):
        assert (await server.call(claim_of(tx), A2B_Task=f"{TASK}{number}")).status == 200
        server.time += 1
    for _ in range(DEPTH):
        server.node.mine()
    server.node.slow = [stuck]
    for _ in range(2):
        with pytest.raises(SourceUnavailableError):
            await server.gate.maintain()
        server.time += 1
    assert [server.state_of(tx) for tx in (stuck, other)] == [PaymentState.SENT, PaymentState.SETTLED]


async def test_a_double_spent_payment_is_not_watched_for_ever(server: PaidServer) -> None:
    coin = server.node.mint(90_000)
    await server.call(claim_of(server.pays(coin=coin)))
    server.node.double_spend(coin)
    await server.gate.maintain()
    assert len(server.payment_store.watched("bsv:regtest", int(server.time) - CONFLICT_SECONDS)) == 1
    server.time += CONFLICT_SECONDS + 1
    assert server.payment_store.watched("bsv:regtest", int(server.time) - CONFLICT_SECONDS) == []


async def test_work_may_take_as_long_as_the_gate_says(server: PaidServer) -> None:
    hours = 6 * 3_600
    slow = PaymentGate(server.prices, server.payment_store, server.node, work_seconds=hours, clock=lambda: server.time)

    async def work() -> GateAnswer:
        server.time += hours - 1
        await server.gate.maintain()
        return await server.work()

    tx = server.pays()
    assert (await slow.answer({"A2B-Payment": json.dumps(claim_of(tx))}, b"", work)).status == 200
    assert server.state_of(tx) is PaymentState.SENT


# -- the payments' own database


async def test_a_payment_that_was_sent_before_its_database_failed_is_finished_when_the_database_works_again(
    server: PaidServer, database_url: str
) -> None:
    """The database has no table of paid intervals meanwhile."""

    def run(statement: str) -> None:
        engine = unchecked(database_url)
        with engine.begin() as connection:
            connection.exec_driver_sql(statement)
        engine.dispose()

    run("DROP TABLE paid_intervals")
    tx, repeated = server.pays(), {"A2B_Task": TASK}
    with pytest.raises(StoreError, match="paid_intervals"):
        await server.call(claim_of(tx), **repeated)
    assert (len(server.node.sent), server.task(), server.state_of(tx)) == (1, TaskState.RUNNING, PaymentState.SENDING)
    server.time += LEASE_SECONDS
    with pytest.raises(StoreError, match="paid_intervals"):
        await server.gate.maintain()
    server.payment_store.close()
    server.payment_store = PaymentStore.open(database_url)
    server.gate = server.new_gate()
    server.time += LEASE_SECONDS
    await server.gate.maintain()
    assert (server.task(), server.state_of(tx)) == (TaskState.COMPLETED, PaymentState.SENT)
    answer = await server.call(claim_of(tx), **repeated)
    assert (answer.status, answer.body, len(server.node.sent), server.done) == (200, b"work 1", 1, 1)
    server.payment_store.close()
