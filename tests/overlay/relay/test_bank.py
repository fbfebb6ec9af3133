"""Deposits and withdrawals over a node that mines, reorganises and is double-spent, and over crashes at every step."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from indexer.chains.jsonrpc import RpcError
from indexer.chains.node.client import NodeClient
from indexer.chains.node.payment_node import PaymentNode
from indexer.errors import SourceUnavailableError
from indexer.settings import Settings, SettingsError
from indexer.store import Store, connect
from indexer.store.process_lock import servers_lock
from overlay import cli
from overlay.api.counters import Counters
from overlay.api.identity_key import IdentityKey
from overlay.api.shared_services import PAYMENTS
from overlay.api.systems import Parts
from overlay.app.scheduler import Scheduler
from overlay.listings.change_notifier import ChangeNotifier
from overlay.pricing.exchange_rates import ExchangeRates
from overlay.systems.payments import own_payments
from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.gate_answers import GateAnswer
from overlay.systems.relay import accounts, own_relay
from overlay.systems.relay.bank import DEPTH, FINAL_DEPTH, LAPSE_SECONDS, change_of, is_signed_form
from overlay.systems.relay.store_coins import CashRefusedError
from overlay.systems.relay.store_ledger import CHAIN
from overlay.systems.relay.task_relay import RelayRefusedError
from parsers.bitcoin.address import PREFIXES, address
from parsers.bitcoin.sighash import sign_p2pkh
from parsers.bitcoin.tx import Outpoint, Transaction, TxInput, read_exactly, serialise
from tests.overlay.payments.crashing import Crash, Steps
from tests.overlay.payments.fake_node import PAYER, SERVER, address_of, claim_of, payment, price, script_of
from tests.overlay.relay.kit import AGENTS, World, coins_of, data_output, raw_of
from tests.overlay.relay.test_settlement import refusal
from tests.parsers.claims.motebit.signers import ALICE, BOB, CAROL, Agent
from tests.waiting import until


@pytest.fixture
def world(database_url: str) -> Any:
    engine = connect(database_url)
    world = World(engine)
    world.register(*AGENTS)
    yield world
    engine.dispose()


def run(call: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
    return asyncio.run(call(*arguments))


def announce(world: World, agent: Agent, tx: Transaction) -> dict[str, Any]:
    token = world.token(agent, "account:deposit")
    answer: dict[str, Any] = run(accounts.deposit, world.relay, token, agent.id, raw_of(tx))
    return answer


def withdraw(world: World, agent: Agent, amount: int, key: str | None = None, to: bytes = PAYER) -> dict[str, Any]:
    token = world.token(agent, "account:withdraw")
    answer: dict[str, Any] = run(accounts.withdraw, world.relay, token, agent.id, amount, address_of(to), key)
    return answer


def watch(world: World) -> None:
    run(world.bank.watch)


def funded(world: World, agent: Agent, amount: int) -> Transaction:
    tx = world.deposit(agent, amount)
    announce(world, agent, tx)
    world.mine()
    watch(world)
    return tx


def signed(world: World, answer: dict[str, Any], more: dict[Outpoint, int] | None = None) -> Transaction:
    """The transaction of a withdrawal as the operator's wallet signs it. `more` are coins that the node does not have
    yet."""
    unsigned = read_exactly(bytes.fromhex(answer["withdrawal"]["unsigned_tx"]))
    values = {outpoint: output.satoshis for outpoint, output in world.node.unspent().items()} | (more or {})
    inputs = tuple(
        TxInput(one.prevout, sign_p2pkh(unsigned, vin, SERVER, values[one.prevout]), one.sequence)
        for vin, one in enumerate(unsigned.inputs)
    )
    return read_exactly(serialise(inputs, unsigned.outputs))


def sign(world: World, tx: Transaction) -> None:
    (withdrawal,) = [one for one in world.store.cash.open_withdrawals() if is_signed_form(one, tx)]
    assert world.store.cash.sign(withdrawal, raw_of(tx), change_of(tx), int(world.time))


def books_match_the_chain(world: World) -> None:
    world.check()
    assert coins_of(world.engine) == -world.store.ledger.balance(CHAIN)


def test_a_deposit_counts_after_six_confirmations(world: World) -> None:
    tx = world.deposit(ALICE, 50_000)
    assert announce(world, ALICE, tx)["status"] == "waiting"
    for blocks in range(1, DEPTH + 1):
        world.mine(1)
        watch(world)
        assert world.balance(ALICE) == (50_000 if blocks == DEPTH else 0)
    assert announce(world, ALICE, tx)["status"] == "credited"
    watch(world)
    assert world.balance(ALICE) == 50_000
    books_match_the_chain(world)


def test_a_reorganisation_takes_a_deposit_back_and_its_account_is_frozen_until_covered(world: World) -> None:
    tx = funded(world, ALICE, 10_000)
    task = world.task(ALICE, BOB)
    world.settle(BOB, BOB, task, BOB.receipt(relay_task_id=task))
    world.node.reorganise(DEPTH)
    watch(world)
    assert world.balances(ALICE, BOB) == [-1_000, 950]
    world.check(may_owe=[ALICE])
    assert refusal(world.task, ALICE, BOB) == (402, "insufficient-funds")
    shown = accounts.balance(world.relay, world.token(ALICE, "account:balance"), ALICE.id)
    assert (shown["frozen"], shown["available_for_withdrawal"]) == (True, 0)
    world.node.double_spend(tx.inputs[0].prevout)
    funded(world, ALICE, 5_000)
    assert world.balance(ALICE) == 4_000
    world.task(ALICE, BOB)
    world.check()


def test_a_deposit_that_is_mined_again_is_credited_again(world: World) -> None:
    funded(world, ALICE, 10_000)
    world.node.reorganise(DEPTH)
    watch(world)
    assert world.balance(ALICE) == 0
    world.mine()
    watch(world)
    watch(world)
    assert world.balance(ALICE) == 10_000
    books_match_the_chain(world)


def test_a_deposit_that_is_never_mined_lapses_and_may_be_announced_again(world: World) -> None:
    tx = world.deposit(ALICE, 10_000)
    announce(world, ALICE, tx)
    world.node.evict()
    world.time += LAPSE_SECONDS + 1
    watch(world)
    assert world.store.cash.watched() == []
    assert announce(world, ALICE, tx)["status"] == "waiting"


async def test_a_payment_of_a_gate_is_no_deposit_and_a_deposit_pays_for_no_task(world: World) -> None:
    """Before a node has it, and after: the gate and the relay hold what is spent in one payment store."""
    gate = PaymentGate(price(), world.payment_store, world.node, clock=lambda: world.time)
    outputs = [(50_000, script_of(SERVER)), (0, data_output(ALICE.id))]
    paid, lapsed = (payment([world.node.mint(90_000)], outputs, world.node) for _ in range(2))

    def deposit_of(tx: Transaction) -> tuple[Any, ...]:
        return world.relay, world.token(ALICE, "account:deposit"), ALICE.id, raw_of(tx)

    async def call(tx: Transaction, *announced: Transaction) -> GateAnswer:
        async def work() -> GateAnswer:
            for other in announced:
                with pytest.raises(RelayRefusedError, match="has paid for something else here"):
                    await accounts.deposit(*deposit_of(other))
            return GateAnswer(200, (), b"done")

        return await gate.answer({"A2B-Payment": json.dumps(claim_of(tx))}, b"", work)

    rival = payment([paid.inputs[0].prevout], [(60_000, script_of(SERVER)), *outputs[1:]], world.node)
    assert (await call(paid, paid, rival)).status == 200
    assert (await accounts.deposit(*deposit_of(lapsed)))["status"] == "waiting"
    world.node.evict()
    refused = await call(lapsed)
    assert (refused.status, json.loads(refused.body)["reason"]) == (402, "duplicate")
    world.time += LAPSE_SECONDS + 1
    await world.bank.watch()
    world.node.evict()
    assert (await call(lapsed)).status == 200
    assert world.payment_store.counted() == 100_000


def test_what_is_no_deposit_is_refused(world: World) -> None:
    def tx_of(*outputs: tuple[int, bytes]) -> bytes:
        return raw_of(payment([world.node.mint(90_000)], outputs, world.node))

    ours, other = (1_000, script_of(SERVER)), (1_000, script_of(PAYER))
    wrong = [
        tx_of(ours), tx_of(other, (0, data_output(ALICE.id))), tx_of(ours, (0, data_output(BOB.id))),
        tx_of((100, script_of(SERVER)), (0, data_output(ALICE.id))), b"", b"\0" * 100, b"\0" * 200_000,
        tx_of(ours, (0, b"\x00\x6a\x02\xff\xff")), tx_of(ours, (0, data_output("x")), (0, data_output(ALICE.id))),
    ]  # fmt: skip
    for raw in wrong:
        token = world.token(ALICE, "account:deposit")
        status = refusal(run, accounts.deposit, world.relay, token, ALICE.id, raw)
        assert status == (422, "not-a-deposit")


def test_a_withdrawal_locks_and_is_booked_when_its_transaction_is_mined(world: World) -> None:
    funded(world, ALICE, 50_000)
    answer = withdraw(world, ALICE, 20_000, "key")
    assert withdraw(world, ALICE, 20_000, "key")["withdrawal"] == answer["withdrawal"]
    assert refusal(withdraw, world, ALICE, 20_001, "key") == (409, "bad-request")
    assert world.balance(ALICE) == 30_000
    tx = signed(world, answer)
    assert 19_000 < tx.outputs[0].satoshis < 20_000
    assert tx.outputs[1].satoshis == 30_000
    world.node.accept(tx)
    sign(world, tx)
    world.mine(DEPTH - 1)
    watch(world)
    assert world.store.cash.open_withdrawals()[0].state == "processing"
    world.mine(1)
    watch(world)
    assert world.store.cash.open_withdrawals() == []
    assert world.balance(ALICE) == 30_000
    books_match_the_chain(world)
    assert withdraw(world, ALICE, 30_000)["withdrawal"]["status"] == "pending", "the change is a coin again"


def test_withdrawals_that_cannot_be_made_leave_the_account_alone(world: World) -> None:
    funded(world, ALICE, 50_000)
    world.fund(BOB, 90_000)
    assert refusal(withdraw, world, CAROL, 10_000) == (402, "insufficient-funds")
    assert refusal(withdraw, world, ALICE, 50_001) == (402, "insufficient-funds")
    assert refusal(withdraw, world, ALICE, 100) == (503, "no-coins")
    assert refusal(withdraw, world, BOB, 60_000) == (503, "no-coins")
    assert refusal(withdraw, world, ALICE, 0) == (400, "bad-request")
    assert refusal(withdraw, world, ALICE, 10_000, None, SERVER) == (422, "bad-destination")
    assert world.balances(ALICE, BOB) == [50_000, 90_000]
    assert withdraw(world, ALICE, 50_000)["withdrawal"]["amount"] == 50_000
    assert refusal(withdraw, world, BOB, 10_000) == (503, "no-coins"), "the only coin is reserved"
    world.check()


def test_only_a_transaction_with_the_same_inputs_and_outputs_is_that_of_a_withdrawal(world: World) -> None:
    funded(world, ALICE, 50_000)
    tx = signed(world, withdraw(world, ALICE, 20_000))
    (withdrawal,) = world.store.cash.open_withdrawals()
    assert is_signed_form(withdrawal, tx)
    assert not is_signed_form(withdrawal, tx._replace(outputs=tx.outputs[:1]))
    assert not is_signed_form(withdrawal, tx._replace(outputs=tx.outputs[::-1]))
    assert not is_signed_form(withdrawal, tx._replace(inputs=tx.inputs * 2))
    assert not is_signed_form(withdrawal, read_exactly(withdrawal.unsigned))


def test_the_operator_lists_withdrawals_and_hands_in_what_was_signed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*arguments: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(["relay", "--database", url, *arguments])
        return ended.value.code, capsys.readouterr().out

    url = f"sqlite:///{tmp_path}/a2b.db"
    engine = connect(url)
    world = World(engine)
    world.register(*AGENTS)
    funded(world, ALICE, 50_000)
    assert command("--json") == (0, "[]\n")
    answer = withdraw(world, ALICE, 20_000)["withdrawal"]
    code, text = command("--json")
    (row,) = json.loads(text)
    assert (code, row["unsigned_tx"], row["amount"]) == (0, answer["unsigned_tx"], 20_000)
    assert row["withdrawal_id"] in command()[1]
    assert command("--signed", "00")[0] == command("--signed", "x")[0] == 2
    foreign = payment([world.node.mint(9_000)], [(1_000, script_of(SERVER))], world.node)
    assert command("--signed", raw_of(foreign).hex())[0] == 1
    tx = signed(world, {"withdrawal": answer})
    assert command("--signed", raw_of(tx).hex())[0] == 0
    world.node.accept(tx)
    world.mine()
    watch(world)
    assert command() == (0, "no withdrawal is open\n")
    assert command("--signed", raw_of(tx).hex())[0] == 1
    answer = withdraw(world, ALICE, 10_000)["withdrawal"]
    assert command("--cancel", answer["withdrawal_id"])[0] == 0
    assert command("--cancel", answer["withdrawal_id"])[0] == command("--cancel", "x")[0] == 1
    code, text = command("--signed", raw_of(signed(world, {"withdrawal": answer})).hex())
    assert (code, "do not send" in text, world.balance(ALICE)) == (1, True, 30_000)
    engine.dispose()


def story(world: World) -> None:
    """A deposit that is taken back and mined again, and a withdrawal of it."""
    tx = next(iter(world.node.mempool.values()), None) or world.deposit(ALICE, 50_000)
    announce(world, ALICE, tx)
    world.mine()
    watch(world)
    world.node.reorganise(DEPTH)
    watch(world)
    world.mine()
    watch(world)
    answer = withdraw(world, ALICE, 20_000, "key")
    paid = signed(world, answer)
    world.node.accept(paid)
    sign(world, paid)
    world.mine()
    watch(world)


def test_a_crash_at_any_step_counts_nothing_twice(tmp_path: Path) -> None:
    steps, number = Steps(), 0
    while number <= 2 * steps.count:
        crash, after = divmod(number, 2)
        engine = connect(f"sqlite:///{tmp_path}/{number}.db")
        steps = Steps(crash, after=bool(after))
        world = World(engine, steps=steps)
        world.register(*AGENTS)
        try:
            story(world)
        except Crash:
            again = World(engine, node=world.node)
            again.time = world.time
            recover(again)
            world = again
        assert world.balance(ALICE) == 30_000
        books_match_the_chain(world)
        engine.dispose()
        number += 1
    assert number > 20


def recover(world: World) -> None:
    """Repeat each step of agent and operator that is not done after a crash."""
    stored = [tx for block in world.node.blocks for tx in block] + list(world.node.mempool.values())
    tx = next((one for one in stored if len(one.outputs) == 2 and not one.outputs[1].satoshis), None)
    announce(world, ALICE, tx or world.deposit(ALICE, 50_000))
    world.mine()
    watch(world)
    answer = withdraw(world, ALICE, 20_000, "key")
    if answer["withdrawal"]["status"] != "completed":
        unsigned = read_exactly(bytes.fromhex(answer["withdrawal"]["unsigned_tx"]))
        paid = next((one for one in stored if one.outputs == unsigned.outputs), None)
        if paid is None:
            paid = signed(world, answer)
            world.node.accept(paid)
        sign(world, paid)
        world.mine()
        watch(world)


def test_a_coin_that_a_withdrawal_spent_is_not_spent_again_after_a_deep_reorganisation(world: World) -> None:
    funded(world, ALICE, 50_000)
    paid = signed(world, withdraw(world, ALICE, 20_000))
    world.node.accept(paid)
    sign(world, paid)
    world.mine()
    watch(world)
    world.node.reorganise(2 * DEPTH)
    watch(world)
    assert world.balance(ALICE) == -20_000
    world.mine()
    watch(world)
    assert world.balance(ALICE) == 30_000
    books_match_the_chain(world)
    again = read_exactly(bytes.fromhex(withdraw(world, ALICE, 10_000)["withdrawal"]["unsigned_tx"]))
    assert {one.prevout for one in again.inputs} <= world.node.unspent().keys()


def test_what_no_node_takes_is_not_watched(world: World) -> None:
    coin = world.node.mint(90_000)
    outputs = [(50_000, script_of(SERVER)), (0, data_output(ALICE.id))]
    unsent = payment([coin], outputs, world.node, PAYER)
    assert announce(world, ALICE, unsent)["status"] == "waiting"
    assert unsent.hex_id in world.node.mempool
    huge = [(2**63 - 1, script_of(SERVER))] * 2
    lost = [(-1, script_of(SERVER)), (50_000, script_of(SERVER))]
    for tx in (
        payment([coin], [*outputs, (1, script_of(SERVER))], world.node, PAYER),
        *(payment([world.node.mint(1)], [*more, outputs[1]], world.node, PAYER) for more in (huge, lost)),
    ):
        assert refusal(announce, world, ALICE, tx) == (422, "not-a-deposit")
    assert len(world.store.cash.watched()) == 1


def test_a_deposit_that_the_node_cannot_answer_for_holds_no_other_up(world: World) -> None:
    stuck, other = world.deposit(ALICE, 10_000), world.deposit(BOB, 10_000)
    for agent, tx in ((ALICE, stuck), (BOB, other)):
        announce(world, agent, tx)
        world.time += 1
    world.mine()
    world.node.slow = [stuck]
    for _ in range(2):
        with pytest.raises(SourceUnavailableError):
            watch(world)
    assert world.balances(ALICE, BOB) == [0, 10_000]


def test_a_withdrawal_that_the_node_cannot_answer_for_holds_nothing_up(world: World) -> None:
    funded(world, ALICE, 50_000)
    funded(world, BOB, 50_000)
    stuck, other = (signed(world, withdraw(world, agent, 50_000)) for agent in (ALICE, BOB))
    for tx in (stuck, other):
        sign(world, tx)
    later = world.deposit(CAROL, 10_000)
    announce(world, CAROL, later)
    watch(world)
    world.mine()
    world.node.slow = [stuck]
    with pytest.raises(SourceUnavailableError):
        watch(world)
    assert [withdrawal.motebit_id for withdrawal in world.store.cash.open_withdrawals()] == [ALICE.id]
    assert world.balance(CAROL) == 10_000


@pytest.mark.parametrize("is_indexing", [True, False])
def test_a_node_that_still_makes_its_index_takes_no_deposit_back(
    world: World, monkeypatch: pytest.MonkeyPatch, is_indexing: bool
) -> None:
    tx = world.deposit(ALICE, 10_000)
    message = "No such mempool transaction."
    if is_indexing:
        message += " Blockchain transactions are still in the process of being indexed."
    node = PaymentNode("ltc", "http://127.0.0.1:1")

    async def batch(_client: NodeClient, calls: list[Any]) -> list[Any]:
        return [RpcError("ltc", "the node", "getrawtransaction", -5, message), *(None for _ in calls[1:])]

    monkeypatch.setattr(NodeClient, "batch", batch)
    if is_indexing:
        with pytest.raises(SourceUnavailableError, match="still makes its transaction index"):
            run(node.confirmations, tx)
    else:
        assert run(node.confirmations, tx) is None


@pytest.mark.parametrize("form", ["list", "card", "spaced", "cashaddr"])
def test_the_address_of_a_price_is_no_address_of_deposits(tmp_path: Path, form: str) -> None:
    coin = "bch" if form == "cashaddr" else "bsv"
    pay_to = str(address(script_of(SERVER), PREFIXES["bsv"]["mainnet"]))
    priced = {"cashaddr": str(address(script_of(SERVER), PREFIXES["bch"]["mainnet"])), "spaced": f" {pay_to}"}
    offer = price(currency=coin.upper(), acceptedCurrencies=[coin.upper()], address=priced.get(form, pay_to))
    (tmp_path / "prices.json").write_text(json.dumps({"x-payment-config": [offer]} if form == "card" else [offer]))
    environ = {
        "A2B_PRICES": str(tmp_path / "prices.json"), "A2B_CHAINS": f"{coin}=http://127.0.0.1:1", "A2B_RELAY": "on",
        "A2B_RELAY_ADDRESS": f"{coin}:{pay_to}",
    }  # fmt: skip
    settings = Settings.load({}, environ, None)
    store = Store(connect(f"sqlite:///{tmp_path}/a2b.db"))
    try:
        parts = Parts(
            settings=settings, store=store, notifier=ChangeNotifier(), exchange=ExchangeRates(), chains=dict,
            identity=IdentityKey(b"\1" * 32, b"\2" * 32),
        )  # fmt: skip
        parts.services.update(own_payments.bring(parts))
        with pytest.raises(SettingsError, match="would count twice"):
            own_relay.bring(parts)
    finally:
        store.close()


def test_the_relay_is_off_without_payments_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(connect(f"sqlite:///{tmp_path}/a2b.db"))
    parts = Parts(
        settings=Settings.load({"relay": "on"}), store=store, notifier=ChangeNotifier(), exchange=ExchangeRates(),
        chains=dict, identity=IdentityKey(b"\1" * 32, b"\2" * 32),
    )  # fmt: skip
    assert own_relay.bring(parts) == {}
    assert "the relay is off: payments is left out of systems" in caplog.text
    parts.services.update(own_payments.bring(parts))
    assert own_relay.RELAY in own_relay.bring(parts)
    store.close()


def cancel(world: World, agent: Agent, answer: dict[str, Any]) -> dict[str, Any]:
    token = world.token(agent, "account:withdraw")
    cancelled = accounts.cancel(world.relay, token, agent.id, answer["withdrawal"]["withdrawal_id"])
    shown: dict[str, Any] = cancelled["withdrawal"]
    return shown


def test_an_unsigned_withdrawal_is_cancelled_by_its_agent_only_and_a_signed_one_by_nobody(world: World) -> None:
    funded(world, ALICE, 50_000)
    answer = withdraw(world, ALICE, 20_000, "key")
    foreign = {"withdrawal": {"withdrawal_id": "00000000-0000-4000-8000-000000000000"}}
    assert refusal(cancel, world, BOB, answer) == refusal(cancel, world, ALICE, foreign) == (404, "unknown-withdrawal")
    shown = cancel(world, ALICE, answer)
    assert (shown["status"], shown["failure_reason"]) == ("failed", "cancelled")
    assert cancel(world, ALICE, answer) == shown, "once"
    assert withdraw(world, ALICE, 20_000, "key")["withdrawal"]["status"] == "failed"
    assert world.balance(ALICE) == 50_000
    books_match_the_chain(world)
    answer = withdraw(world, ALICE, 30_000)
    sign(world, signed(world, answer))
    assert refusal(cancel, world, ALICE, answer) == (409, "signed")
    assert world.balance(ALICE) == 20_000
    books_match_the_chain(world)


def test_a_withdrawal_is_cancelled_when_a_reorganisation_takes_its_coin(world: World) -> None:
    funded(world, ALICE, 50_000)
    withdraw(world, ALICE, 20_000)
    world.node.reorganise(DEPTH)
    watch(world)
    assert (world.balance(ALICE), world.store.cash.open_withdrawals()) == (0, [])
    books_match_the_chain(world)
    world.mine()
    watch(world)
    assert withdraw(world, ALICE, 50_000)["withdrawal"]["status"] == "pending"
    books_match_the_chain(world)


def paid_out(world: World, agent: Agent, amount: int) -> Transaction:
    """A withdrawal that is signed, and that the relay sends."""
    tx = signed(world, withdraw(world, agent, amount))
    sign(world, tx)
    watch(world)
    return tx


def test_a_withdrawal_is_sent_and_watched_as_deeply_as_a_deposit(world: World) -> None:
    funded(world, ALICE, 50_000)
    tx = paid_out(world, ALICE, 20_000)
    assert world.node.mempool.keys() == {tx.hex_id}
    world.mine()
    watch(world)
    assert world.store.ledger.balance(CHAIN) == -30_000
    world.node.reorganise(DEPTH)
    world.node.evict()
    watch(world)
    assert world.store.ledger.balance(CHAIN) == -50_000
    assert [one.state for one in world.store.cash.open_withdrawals()] == ["processing"]
    assert world.node.mempool.keys() == {tx.hex_id}, "it is sent again"
    books_match_the_chain(world)
    world.mine(FINAL_DEPTH)
    watch(world)
    watch(world)
    assert (world.balance(ALICE), world.store.ledger.balance(CHAIN)) == (30_000, -30_000)
    assert world.store.cash.watched_withdrawals() == []
    books_match_the_chain(world)


def test_a_withdrawal_of_change_is_cancelled_when_the_change_is_gone(world: World) -> None:
    coin = funded(world, ALICE, 50_000).outpoint(0)
    paid_out(world, ALICE, 20_000)
    withdraw(world, ALICE, 10_000)
    world.node.evict()
    world.node.double_spend(coin)
    watch(world)
    assert (world.balance(ALICE), len(world.store.cash.open_withdrawals())) == (30_000, 1)
    assert refusal(withdraw, world, ALICE, 10_000) == (503, "no-coins")
    world.check()


def test_a_transaction_that_is_signed_again_replaces_the_first(world: World) -> None:
    funded(world, ALICE, 50_000)
    first = signed(world, withdraw(world, ALICE, 20_000))
    sign(world, first)
    other = first.inputs[0]._replace(script=b"\x00" + first.inputs[0].script)
    again = read_exactly(serialise((other,), first.outputs))
    (withdrawal,) = world.store.cash.open_withdrawals()
    withdraw(world, ALICE, 10_000)
    assert world.store.cash.sign(withdrawal, raw_of(again), change_of(again), 0)
    assert (world.balance(ALICE), len(world.store.cash.open_withdrawals())) == (30_000, 1), "its change is another coin"
    books_match_the_chain(world)
    second = signed(world, withdraw(world, ALICE, 10_000), {again.outpoint(1): 30_000})
    sign(world, second)
    with pytest.raises(CashRefusedError, match="another withdrawal spends the change"):
        world.store.cash.sign(withdrawal, raw_of(first), change_of(first), 0)


def test_small_withdrawals_lock_few_of_the_operators_coins(world: World) -> None:
    for amount in (90_000, 20_000, 50_000):
        funded(world, ALICE, amount)
    for agent in (BOB, CAROL):
        world.fund(agent, 1_000)
    answer = withdraw(world, BOB, 500)
    assert spent(answer) == [20_000], "the smallest coin that suffices"
    assert spent(withdraw(world, CAROL, 500)) == [50_000]
    assert refusal(withdraw, world, CAROL, 500) == (503, "no-coins"), "they would lock all coins"
    assert spent(withdraw(world, ALICE, 80_000)) == [90_000]
    tx = signed(world, answer)
    sign(world, tx)
    assert spent(withdraw(world, ALICE, 19_000)) == [19_500], "change is a coin as soon as it is signed"


def spent(answer: dict[str, Any]) -> list[int]:
    """The sum of the coins of a withdrawal."""
    tx = read_exactly(bytes.fromhex(answer["withdrawal"]["unsigned_tx"]))
    change = sum(output.satoshis for output in tx.outputs[1:])
    return [answer["withdrawal"]["amount"] + change]


def test_a_large_withdrawal_spends_several_coins(world: World) -> None:
    for amount in (20_000, 50_000, 30_000):
        funded(world, ALICE, amount)
    answer = withdraw(world, ALICE, 75_000)
    assert (spent(answer), len(signed(world, answer).inputs)) == ([80_000], 2)
    books_match_the_chain(world)


async def test_payments_and_deposits_are_watched_where_another_server_holds_the_lock(
    tmp_path: Path, database_url: str
) -> None:
    (tmp_path / "prices.json").write_text(json.dumps([price()]))
    environ = {"A2B_PRICES": str(tmp_path / "prices.json"), "A2B_CHAINS": "bsv=http://127.0.0.1:1", "A2B_RELAY": "on"}
    store = Store(connect(database_url))
    parts = Parts(
        settings=Settings.load({}, environ, None), store=store, notifier=ChangeNotifier(), exchange=ExchangeRates(),
        chains=dict, identity=IdentityKey(b"\1" * 32, b"\2" * 32),
    )  # fmt: skip
    parts.services.update(own_payments.bring(parts))
    parts.services.update(own_relay.bring(parts))
    other, lock = (servers_lock(store.engine) for _ in range(2))
    assert other.acquire()
    scheduler = Scheduler(lock, Counters(), parts.notifier)
    scheduler.add([*own_payments.jobs(parts), *own_relay.jobs(parts)])
    running = asyncio.create_task(scheduler.run())
    await until(lambda: {one.name for one in scheduler.statuses() if one.seconds is not None} == {"payments", "relay"})
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    for node in parts.services[PAYMENTS].nodes.values():
        await node.close()
    other.release()
    store.close()
