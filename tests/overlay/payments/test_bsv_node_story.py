"""Paid work through a real Bitcoin SV node, where `BITCOIND` names one: claims of our own client, whose signatures the
node checks; a refund that it mines; a deposit that it sees double spent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from indexer.chains.node.payment_node import PaymentNode
from overlay.client.payment_claims import SignedPayment, build_claim
from overlay.publish.coins import Coin
from overlay.publish.keys import PublisherKey
from overlay.publish.transactions import sign
from overlay.systems.payments.checking import PaymentSources, check_claim, offers_in
from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.gate_answers import GateAnswer
from overlay.systems.payments.refunds import refund_due
from overlay.systems.payments.settlement import DEPTH
from overlay.systems.payments.store import PaymentStore
from overlay.systems.payments.store_records import PaymentState, TaskState
from parsers.bitcoin.tx import Transaction, serialise
from tests.bitcoind import Bitcoind, installed

TASK = "task-of-the-client-0001"
SERVER = PublisherKey(b"\x21" * 32, "regtest")
CLIENT = PublisherKey(b"\x22" * 32, "regtest")
PRICE = {"id": "p", "currency": "BSV", "amount": Decimal("0.0005"), "depositPct": Decimal("0.2"),
         "address": SERVER.address}  # fmt: skip


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bitcoind]:
    installed()
    with Bitcoind(tmp_path_factory.mktemp("bitcoind") / "node", more=["-persistmempool=0"]) as node:
        node.fund()
        yield node


@pytest.fixture
async def payment_node(node: Bitcoind) -> AsyncIterator[PaymentNode]:
    payment_node = PaymentNode("bsv", node.cookie_url)
    yield payment_node
    await payment_node.close()


@pytest.fixture
def payment_store(tmp_path: Path) -> Iterator[PaymentStore]:
    payment_store = PaymentStore.open(f"sqlite:///{tmp_path / 'payments.db'}")
    yield payment_store
    payment_store.close()


def coin(node: Bitcoind) -> Coin:
    """A confirmed coin of the client, of 0.001 BSV."""
    return Coin(node.give([(100_000, CLIENT.script)]).outpoint(0), 100_000)


def claim(node: Bitcoind, stage: str, paying: Coin | None = None, *, fee_rate: int = 50) -> SignedPayment:
    (offer,) = offers_in(PRICE)
    return build_claim(offer, CLIENT, [paying or coin(node)], most_satoshis=50_000, stage=stage, fee_rate=fee_rate,
                       refund_address=CLIENT.address)  # fmt: skip


async def call(gate: PaymentGate, paid: SignedPayment, status: int = 200) -> GateAnswer:
    async def work() -> GateAnswer:
        return GateAnswer(status, (), b"the watchtower watches")

    return await gate.answer({"A2B-Task": TASK, "A2B-Payment": json.dumps(paid.value)}, b"", work)


def mempool(node: Bitcoind) -> set[str]:
    return set(node.rpc("getrawmempool"))


def raw(tx: Transaction) -> str:
    return serialise(tx.inputs, tx.outputs, tx.version, tx.locktime).hex()


async def test_deposit_work_final_and_both_are_mined(
    node: Bitcoind, payment_node: PaymentNode, payment_store: PaymentStore
) -> None:
    gate = PaymentGate(PRICE, payment_store, payment_node)
    deposit, final = claim(node, "deposit"), claim(node, "final")
    waiting = await call(gate, deposit)
    assert (waiting.status, json.loads(waiting.body)["reason"]) == (402, "needs-final")
    assert mempool(node) == {deposit.payment.tx.hex_id}
    done = await call(gate, final)
    assert (done.status, done.body) == (200, b"the watchtower watches")
    assert mempool(node) == {deposit.payment.tx.hex_id, final.payment.tx.hex_id}
    node.mine(DEPTH)
    await gate.maintain()
    entries = [payment_store.payment("bsv:regtest", one.payment.tx.txid) for one in (deposit, final)]
    assert [entry.state if entry else None for entry in entries] == [PaymentState.SETTLED] * 2
    task = payment_store.task(TASK)
    assert task is not None
    assert (task.state, payment_store.counted()) == (TaskState.COMPLETED, 50_000)


async def test_the_refund_of_failed_work_is_signed_and_mined(
    node: Bitcoind, payment_node: PaymentNode, payment_store: PaymentStore
) -> None:
    gate = PaymentGate(PRICE, payment_store, payment_node)
    assert (await call(gate, claim(node, "deposit"), status=500)).status == 500
    (task,) = payment_store.refunds()
    chain, draft = refund_due(task, payment_store.payments_of(task.id))
    assert (chain, draft.tx.outputs[0].script) == ("bsv:regtest", CLIENT.script)
    txid = node.rpc("sendrawtransaction", sign(draft, SERVER).raw.hex())
    node.mine()
    assert mempool(node) == set()
    assert node.rpc("gettxout", txid, 0)["confirmations"] == 1


@pytest.mark.parametrize("at_once", [True, False])
async def test_one_transaction_pays_for_one_answer_of_five_gates_with_a_store_each(
    node: Bitcoind, payment_node: PaymentNode, tmp_path: Path, at_once: bool
) -> None:
    stores = [PaymentStore.open(f"sqlite:///{tmp_path / str(number)}.db") for number in range(5)]
    paid = claim(node, "full")
    calls = [call(PaymentGate(PRICE, store, payment_node), paid) for store in stores]
    answers = await asyncio.gather(*calls) if at_once else [await coroutine for coroutine in calls]
    assert [answer.status for answer in answers].count(200) == 1
    refused = [json.loads(answer.body) for answer in answers if answer.status == 402]
    assert [answer["code"] for answer in refused] == [-32031] * 4
    # nodes that check the same transaction twice at once may see a double spend of itself
    assert {answer["reason"] for answer in refused} <= ({"duplicate", "not-accepted"} if at_once else {"duplicate"})
    assert sum(store.counted() for store in stores) == 50_000
    assert paid.payment.tx.hex_id in mempool(node)
    for store in stores:
        store.close()


async def test_a_claim_is_checked_by_the_node_and_a_double_spend_is_not_counted(
    node: Bitcoind, payment_node: PaymentNode, payment_store: PaymentStore
) -> None:
    async def reason(value: dict[str, Any]) -> str:
        sources = PaymentSources(chains={"BSV": await payment_node.chain()}, nodes={"BSV": payment_node})
        answer = await check_claim(value, offers_in(PRICE), sources)
        return str(answer["reasons"][0]["code"]) if answer["reasons"] else "ok"

    gate, paying = PaymentGate(PRICE, payment_store, payment_node), coin(node)
    paid, other = claim(node, "full", paying), claim(node, "full", paying, fee_rate=500)
    assert await reason(paid.value) == "ok"
    altered = paid.payment.tx.outputs[0]._replace(satoshis=50_001)
    forged = paid.payment.tx._replace(outputs=(altered, *paid.payment.tx.outputs[1:]))
    assert await reason(paid.value | {"rawTx": raw(forged)}) == "script-failed"
    assert (await call(gate, paid)).status == 200
    assert await reason(other.value) == "input-spent"
    node.mine()
    # a reorganisation in which the other transaction is mined instead
    node.rpc("invalidateblock", node.rpc("getbestblockhash"))
    node.stop()
    node.start()  # with an empty mempool
    node.rpc("sendrawtransaction", raw(other.payment.tx))
    node.mine(2)
    await gate.maintain()
    entry = payment_store.payment("bsv:regtest", paid.payment.tx.txid)
    assert entry is not None
    assert (entry.state, payment_store.counted()) == (PaymentState.CONFLICTED, 0)
