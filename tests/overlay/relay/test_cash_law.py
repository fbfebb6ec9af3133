"""The law of money in and out: whatever agents, the operator and the chain do, no satoshi is made or lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from indexer.store import connect
from overlay.systems.relay import accounts
from overlay.systems.relay.bank import DEPTH, change_of
from overlay.systems.relay.store_coins import relay_coins, relay_deposits, relay_withdrawals
from overlay.systems.relay.store_ledger import CHAIN
from overlay.systems.relay.task_relay import RelayRefusedError
from parsers.bitcoin.tx import Outpoint, Transaction, read_exactly, serialise
from tests.overlay.payments.fake_node import PAYER, SERVER, address_of, script_of
from tests.overlay.relay.kit import World, raw_of
from tests.parsers.claims.motebit.signers import ALICE, BOB

PARTIES = (ALICE, BOB)
parties, numbers = st.integers(0, len(PARTIES) - 1), st.integers(0, 4)
actions = st.one_of(
    st.tuples(st.just("deposit"), parties, st.sampled_from([600, 5_000, 20_000])),
    st.tuples(st.just("withdraw"), parties, st.sampled_from([600, 4_000, 20_000])),
    st.tuples(st.sampled_from(["sign", "cancel", "double_spend"]), numbers),
    st.tuples(st.just("evict")),
    st.tuples(st.just("mine"), st.sampled_from([1, DEPTH]), st.booleans()),
    st.tuples(st.just("reorganise"), st.sampled_from([1, DEPTH, 2 * DEPTH]), st.booleans()),
)


class CashHistory:
    """A relay with a deposit of each agent, the withdrawals that there were, and a chain that takes blocks back."""

    def __init__(self, folder: str) -> None:
        self.world = World(connect(f"sqlite:///{Path(folder) / 'relay.db'}"))
        self.world.register(*PARTIES)
        self.deposits: list[Transaction] = []
        self.withdrawals: list[dict[str, str]] = []
        for party in range(len(PARTIES)):
            self.do_deposit(party, 20_000)
        self.do_mine(DEPTH, True)

    def act(self, name: str, *arguments: int) -> None:
        with suppress(RelayRefusedError):
            getattr(self, f"do_{name}")(*arguments)

    def do_deposit(self, party: int, amount: int) -> None:
        tx, token = self.world.deposit(PARTIES[party], amount), self.world.token(PARTIES[party], "account:deposit")
        self.deposits.append(tx)
        asyncio.run(accounts.deposit(self.world.relay, token, PARTIES[party].id, raw_of(tx)))

    def do_withdraw(self, party: int, amount: int) -> None:
        token = self.world.token(PARTIES[party], "account:withdraw")
        withdrawal = (PARTIES[party].id, amount, address_of(PAYER), None)
        answer = asyncio.run(accounts.withdraw(self.world.relay, token, *withdrawal))
        self.withdrawals.append(answer["withdrawal"])

    def do_sign(self, number: int) -> None:
        """The operator signs what it was shown, cancelled by now or not, and hands it in."""
        if number < len(self.withdrawals):
            unsigned = read_exactly(bytes.fromhex(self.withdrawals[number]["unsigned_tx"]))
            tx = read_exactly(serialise([one._replace(script=b"\x51") for one in unsigned.inputs], unsigned.outputs))
            withdrawal = self.world.store.cash.withdrawal(self.withdrawals[number]["withdrawal_id"])
            assert withdrawal
            self.world.store.cash.sign(withdrawal, raw_of(tx), change_of(tx), int(self.world.time))

    def do_cancel(self, number: int) -> None:
        if number < len(self.withdrawals):
            one = self.withdrawals[number]
            agent = next(agent for agent in PARTIES if agent.id == one["motebit_id"])
            token = self.world.token(agent, "account:withdraw")
            accounts.cancel(self.world.relay, token, agent.id, one["withdrawal_id"])

    def do_double_spend(self, number: int) -> None:
        if number < len(self.deposits):
            self.world.node.double_spend(self.deposits[number].inputs[0].prevout)

    def watch(self) -> None:
        asyncio.run(self.world.bank.watch())

    def do_evict(self) -> None:
        self.world.node.evict()

    def do_mine(self, blocks: int, is_watched: bool) -> None:
        self.world.mine(blocks)
        if is_watched:
            self.watch()

    def do_reorganise(self, depth: int, is_watched: bool) -> None:
        self.world.node.reorganise(depth)
        if is_watched:
            self.watch()

    def check(self) -> None:
        """The books are what the states of deposits and withdrawals add up to."""
        self.world.check(may_owe=PARTIES)
        with self.world.engine.connect() as connection:
            deposits = connection.execute(select(relay_deposits)).all()
            withdrawals = {row.id: row for row in connection.execute(select(relay_withdrawals))}
            coins = connection.execute(select(relay_coins)).all()
        credited = [one for one in deposits if one.state in ("credited", "final")]
        paid = [one for one in withdrawals.values() if one.state in ("completed", "final")]
        booked = [one for one in withdrawals.values() if one.state != "cancelled"]
        for agent in PARTIES:
            mine = sum(one.amount for one in credited if one.motebit_id == agent.id)
            gone = sum(one.amount for one in booked if one.motebit_id == agent.id)
            assert self.world.balance(agent) == mine - gone
        balances = self.world.store.ledger.balances()
        assert balances.get(CHAIN, 0) == sum(one.amount for one in paid) - sum(one.amount for one in credited)
        locked = sum(amount for name, amount in balances.items() if name.startswith("withdrawal:"))
        assert locked == sum(one.amount for one in booked if one not in paid)
        assert all(withdrawals[coin.withdrawal].state != "cancelled" for coin in coins if coin.withdrawal)

    def settle(self) -> None:
        """When the chain rests, the operator has what the books say, and each coin that is not spent is there."""
        for _ in range(3):
            self.watch()
            self.do_mine(DEPTH, True)
        self.check()
        unspent = {
            outpoint: output.satoshis
            for outpoint, output in self.world.node.unspent().items()
            if output.script == script_of(SERVER)
        }
        assert sum(unspent.values()) == -self.world.store.ledger.balance(CHAIN)
        with self.world.engine.connect() as connection:
            signed = select(relay_withdrawals.c.id).where(relay_withdrawals.c.signed.is_not(None))
            reserved = relay_coins.c.withdrawal.in_(signed)
            rows = connection.execute(select(relay_coins).where(relay_coins.c.withdrawal.is_(None) | ~reserved)).all()
        assert {Outpoint(row.txid, row.vout): row.amount for row in rows} == unspent


@settings(max_examples=60, deadline=None)
@given(st.lists(actions, max_size=12))
def test_no_satoshi_is_made_or_lost(history: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder:
        past = CashHistory(folder)
        try:
            for action in history:
                past.act(*action)
                past.check()
            past.settle()
        finally:
            past.world.engine.dispose()
