"""Paid work on a real litecoind: deposit, work, 402, final, and both transactions in its mempool and blocks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from indexer.chains.node.payment_node import PaymentNode, nodes_of
from indexer.errors import RefusedTransactionError, SourceError
from overlay.systems.payments.aiohttp_gate import middleware
from overlay.systems.payments.checking import PaymentSources, check_claim
from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.settlement import DEPTH
from overlay.systems.payments.store import PaymentStore
from overlay.systems.payments.store_records import PaymentState, TaskState
from parsers.bitcoin.tx import Outpoint, Transaction, TxInput, TxOutput, read, serialise
from parsers.claims.payment import UtxoChain
from tests.conftest import missing
from tests.litecoind import Litecoind, binary

TASK = "task-of-the-client-0001"
COIN, FEE = 10_000_000, 50_000
CHAIN = UtxoChain("ltc", "regtest")


class Wallet:
    """The wallet of a node, with P2PKH coins."""

    def __init__(self, node: Litecoind) -> None:
        self.node, self.server = node, node.rpc("getnewaddress", "", "legacy")

    def coin(self, kind: str = "legacy") -> Outpoint:
        """A new confirmed coin of 0.1 LTC."""
        address = self.node.rpc("getnewaddress", "", kind)
        txid = self.node.rpc("sendtoaddress", address, COIN / 10**8)
        self.node.mine()
        outputs = self.node.rpc("gettransaction", txid, True, True)["decoded"]["vout"]
        vout = next(output["n"] for output in outputs if address in str(output["scriptPubKey"]))
        return Outpoint(bytes.fromhex(txid)[::-1], vout)

    def pays(self, coin: Outpoint, satoshis: int) -> Transaction:
        """A signed transaction of a coin, not sent, with its change."""
        outputs = tuple(
            TxOutput(amount, bytes.fromhex(self.node.rpc("getaddressinfo", address)["scriptPubKey"]))
            for amount, address in (
                (satoshis, self.server),
                (COIN - satoshis - FEE, self.node.rpc("getnewaddress", "", "legacy")),
            )
        )
        unsigned = serialise((TxInput(coin, b"", 0xFFFFFFFF),), outputs, 2)
        signed = self.node.rpc("signrawtransactionwithwallet", unsigned.hex())
        assert signed["complete"], signed
        return read(bytes.fromhex(signed["hex"]), segwit=True)


def claim(wallet: Wallet, tx: Transaction, **members: Any) -> dict[str, Any]:
    raw = serialise(tx.inputs, tx.outputs, tx.version, tx.locktime).hex()
    return {"configId": "p", "stage": "full", "currency": "LTC", "rawTx": raw} | members


def price(wallet: Wallet, **members: Any) -> dict[str, Any]:
    """9,900,000 litoshis: most of a coin, so that the rest is the fee."""
    return {"id": "p", "currency": "LTC", "amount": Decimal("0.099"), "address": wallet.server} | members


@pytest.fixture(scope="module")
def wallet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wallet]:
    if binary() is None:
        missing("litecoind")
    with Litecoind(tmp_path_factory.mktemp("litecoind") / "node") as node:
        node.fund()
        yield Wallet(node)


@pytest.fixture
async def node(wallet: Wallet) -> AsyncIterator[PaymentNode]:
    node = nodes_of({"lite": [f"{wallet.node.cookie_url}&chain=ltc"], "files": ["files:/nowhere"]})["LTC"]
    yield node
    await node.close()


@pytest.fixture
def payment_store(tmp_path: Path) -> Iterator[PaymentStore]:
    payment_store = PaymentStore.open(f"sqlite:///{tmp_path / 'payments.db'}")
    yield payment_store
    payment_store.close()


async def serve(gate: PaymentGate, runner: web.AppRunner) -> str:
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    return f"http://{host}:{port}"


async def test_deposit_work_402_final_and_the_transactions_are_seen(
    wallet: Wallet, node: PaymentNode, payment_store: PaymentStore
) -> None:
    async def work(_request: web.Request) -> web.Response:
        return web.Response(text="the watchtower watches")

    gate = PaymentGate(price(wallet, depositPct=Decimal("0.2"), amount=Decimal("0.12")), payment_store, node)
    app = web.Application(middlewares=[middleware(gate, {"/work": None})])
    app.router.add_post("/work", work)
    runner = web.AppRunner(app)
    deposit, final = wallet.pays(wallet.coin(), 2_400_000), wallet.pays(wallet.coin(), 9_600_000)
    try:
        url = await serve(gate, runner)
        async with ClientSession(url) as client:
            answer = await post(client, None)
            assert [one["extra"]["stage"] for one in answer["accepts"]] == ["deposit", "full"]
            assert answer["accepts"][0]["amount"] == "2400000"
            waiting = await post(client, claim(wallet, deposit, stage="deposit"))
            assert (waiting["code"], waiting["accepts"][0]["amount"]) == (-32033, "9600000")
            assert deposit.hex_id in wallet.node.rpc("getrawmempool")
            carried = {"A2B-Payment": json.dumps(claim(wallet, final, stage="final")), "A2B-Task": TASK}
            async with client.post("/work", headers=carried) as response:
                assert (response.status, await response.text()) == (200, "the watchtower watches")
        assert final.hex_id in wallet.node.rpc("getrawmempool")
    finally:
        await runner.cleanup()
    wallet.node.mine(DEPTH)
    await gate.maintain()
    states = [payment_store.payment("ltc:regtest", tx.txid) for tx in (deposit, final)]
    assert [entry.state if entry else None for entry in states] == [PaymentState.SETTLED] * 2
    task = payment_store.task(TASK)
    assert task is not None
    assert (task.state, payment_store.counted()) == (TaskState.COMPLETED, 12_000_000)


async def post(client: ClientSession, value: Any) -> dict[str, Any]:
    carried = {"A2B-Task": TASK} | ({"A2B-Payment": json.dumps(value)} if value else {})
    async with client.post("/work", headers=carried) as response:
        assert response.status == 402
        body: dict[str, Any] = await response.json()
        return body


async def test_a_double_spend_is_seen_before_and_after_the_sending(
    wallet: Wallet, node: PaymentNode, payment_store: PaymentStore
) -> None:
    gate = PaymentGate(price(wallet), payment_store, node)
    coin = wallet.coin()
    tx, other = wallet.pays(coin, 9_900_000), wallet.pays(coin, 9_850_000)
    carried = {"A2B-Payment": json.dumps(claim(wallet, tx))}

    async def work() -> Any:
        from overlay.systems.payments.gate_answers import GateAnswer

        return GateAnswer(200, (), b"done")

    assert (await gate.answer(carried, b"", work)).status == 200
    assert tx.hex_id in wallet.node.rpc("getrawmempool")
    again = await gate.answer({"A2B-Payment": json.dumps(claim(wallet, other))}, b"", work)
    assert (again.status, json.loads(again.body)["code"]) == (402, -32031)
    wallet.node.mine()
    with pytest.raises(RefusedTransactionError):
        await node.send(serialise(other.inputs, other.outputs, other.version, other.locktime))
    # a reorganisation in which the other transaction is mined instead
    best = wallet.node.rpc("getbestblockhash")
    wallet.node.rpc("invalidateblock", best)
    raw = serialise(other.inputs, other.outputs, other.version, other.locktime).hex()
    address = wallet.node.rpc("getnewaddress", "", "bech32")
    wallet.node.rpc("generateblock", address, [raw])
    wallet.node.rpc("generateblock", address, [])
    await gate.maintain()
    entry = payment_store.payment("ltc:regtest", tx.txid)
    assert entry is not None
    assert (entry.state, payment_store.counted()) == (PaymentState.CONFLICTED, 0)


async def test_the_dry_run_checks_the_inputs_by_the_node(wallet: Wallet, node: PaymentNode) -> None:
    from overlay.systems.payments.checking import offers_in

    sources = PaymentSources(chains={"LTC": await node.chain()}, nodes={"LTC": node})
    assert sources.chains["LTC"] == CHAIN

    async def reason(tx: Transaction) -> str:
        answer = await check_claim(claim(wallet, tx), offers_in(price(wallet)), sources)
        return str(answer["reasons"][0]["code"]) if answer["reasons"] else "ok"

    coin = wallet.coin()
    tx = wallet.pays(coin, 9_900_000)
    assert await reason(tx) == "ok"
    altered = tx.outputs[0]._replace(satoshis=9_900_001)
    assert await reason(tx._replace(outputs=(altered, *tx.outputs[1:]))) == "script-failed"
    wallet.node.rpc("sendrawtransaction", serialise(tx.inputs, tx.outputs, tx.version, tx.locktime).hex())
    assert await reason(tx) == "input-spent"
    witnessed = wallet.pays(wallet.coin("bech32"), 9_900_000)
    forged = tuple(one._replace(script=b"\x51", witness=()) for one in witnessed.inputs)
    assert await reason(witnessed._replace(inputs=forged)) == "script-not-checkable"


async def test_a_node_that_is_gone_or_another_chains_is_an_error(wallet: Wallet) -> None:
    gone = PaymentNode("ltc", "http://127.0.0.1:1")
    with pytest.raises(SourceError):
        await gone.outputs([Outpoint(bytes(32), 0)])
    await gone.close()
    other = PaymentNode("doge", wallet.node.cookie_url)
    with pytest.raises(SourceError, match="does not follow doge"):
        await other.chain()
    await other.close()
