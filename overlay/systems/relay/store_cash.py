"""Money in and out of this relay: deposits that a chain confirms, the coins that they left with the operator, and
withdrawals; the operator signs their transactions elsewhere.

Times are seconds since 1970, amounts satoshis, txids in internal byte order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, insert, select, update

from indexer.store.queries import Queries, count, is_storable, row_of
from overlay.systems.relay.store_coins import (
    MAX_WAITING,
    OPEN,
    WATCHED,
    Build,
    CashRefusedError,
    Deposit,
    DepositState,
    OperatorCoin,
    Withdrawal,
    WithdrawalState,
    add_coins,
    cancel_unsigned,
    check_excess,
    choose,
    drop_coins,
    lock_account,
    relay_coins,
    relay_deposits,
    relay_withdrawals,
    same_coin,
    step,
    transaction_of,
)
from overlay.systems.relay.store_ledger import (
    CHAIN,
    OPERATOR,
    agent_account,
    balance_of,
    booking,
    ledger_entries,
    post,
)


class RelayCash(Queries):
    """Deposits and withdrawals in a database. Every method raises StoreError when the database refuses."""

    # -- deposits

    def announce(self, deposit: Deposit) -> Deposit:
        """Store a deposit, or give the stored one; a lapsed one is watched again. Raises CashRefusedError."""
        same = relay_deposits.c.txid == deposit.txid
        with booking(self._engine) as connection:
            stored = connection.execute(select(relay_deposits).where(same)).mappings().first()
            if stored is not None and stored["state"] is not DepositState.LAPSED:
                return Deposit(**stored)
            waiting = (relay_deposits.c.motebit_id == deposit.motebit_id,
                       relay_deposits.c.state == DepositState.WAITING)  # fmt: skip
            if count(connection, relay_deposits, *waiting) >= MAX_WAITING:
                raise CashRefusedError(f"{MAX_WAITING} deposits of this agent wait for confirmations")
            if stored is None:
                connection.execute(insert(relay_deposits).values(**row_of(deposit)))
                return deposit
            again = {"state": DepositState.WAITING, "created_at": deposit.created_at, "seen_at": deposit.seen_at}
            connection.execute(update(relay_deposits).where(same).values(**again))
            return Deposit(**dict(stored) | again)

    def watched(self, limit: int = 1_000) -> list[Deposit]:
        """Deposits that confirmations and reorganisations may change, those first that were looked at longest ago."""
        states = relay_deposits.c.state.in_((DepositState.WAITING, DepositState.CREDITED))
        rows = self._rows(select(relay_deposits).where(states).order_by(relay_deposits.c.seen_at).limit(limit))
        return [Deposit(**row) for row in rows]

    def credit(self, deposit: Deposit, coins: Sequence[OperatorCoin], now: int) -> bool:
        """Credit a waiting deposit; False where another process was faster."""
        with booking(self._engine) as connection:
            if not _move(connection, deposit, DepositState.CREDITED, now, credits=deposit.credits + 1):
                return False
            add_coins(connection, coins)
            account = agent_account(deposit.motebit_id)
            amounts = {CHAIN: -deposit.amount, account: deposit.amount}
            post(connection, "deposit", _ref(deposit.txid, deposit.credits + 1), now, amounts)
        return True

    def credit_by_operator(self, motebit_id: str, amount: int, id_: str, now: int) -> int:
        """Credit an account with an amount that the operator got in another way than on the chain; the balance."""
        account = agent_account(motebit_id)
        with booking(self._engine) as connection:
            post(connection, "credit", id_, now, {OPERATOR: -amount, account: amount}, may_owe=OPERATOR)
            return balance_of(connection, account)

    def reverse(self, deposit: Deposit, now: int) -> bool:
        """Take a credited deposit back, as no block has it any more: its account may owe from then on, and unsigned
        withdrawals of its coins are cancelled. False where another process was faster."""
        account = agent_account(deposit.motebit_id)
        with booking(self._engine) as connection:
            if not _move(connection, deposit, DepositState.WAITING, now, created_at=now):
                return False
            drop_coins(connection, deposit.txid, now)
            amounts = {account: -deposit.amount, CHAIN: deposit.amount}
            post(connection, "reversal", _ref(deposit.txid, deposit.credits), now, amounts, may_owe=account)
        return True

    def note(self, deposit: Deposit, state: DepositState, now: int) -> bool:
        """Note that a deposit was looked at, and is in this state, which moves no funds."""
        with booking(self._engine) as connection:
            return _move(connection, deposit, state, now)

    # -- withdrawals

    def withdraw(self, withdrawal: Withdrawal, build: Build) -> Withdrawal:
        """Lock an amount and reserve the coins that `build` makes an unsigned transaction of: the smallest one that
        suffices, else the largest together. The stored withdrawal where its agent has used the key before. Raises
        InsufficientFundsError, CashRefusedError."""
        with booking(self._engine) as connection:
            same = (relay_withdrawals.c.motebit_id == withdrawal.motebit_id,
                    relay_withdrawals.c.idempotency_key == withdrawal.idempotency_key)  # fmt: skip
            stored = connection.execute(select(relay_withdrawals).where(*same)).mappings().first()
            if stored is not None:
                return Withdrawal(**stored)
            is_open = (relay_withdrawals.c.motebit_id == withdrawal.motebit_id, relay_withdrawals.c.state.in_(OPEN))
            if count(connection, relay_withdrawals, *is_open) >= MAX_WAITING:
                raise CashRefusedError(f"{MAX_WAITING} withdrawals of this agent are open")
            amounts = {
                agent_account(withdrawal.motebit_id): -withdrawal.amount,
                lock_account(withdrawal): withdrawal.amount,
            }
            post(connection, "withdrawal-lock", withdrawal.id, withdrawal.requested_at, amounts)
            coins, unsigned = choose(connection, withdrawal.amount, build)
            check_excess(connection, withdrawal.amount, coins)
            for coin in coins:
                connection.execute(update(relay_coins).where(*same_coin(coin)).values(withdrawal=withdrawal.id))
            opened = replace(withdrawal, unsigned=unsigned)
            connection.execute(insert(relay_withdrawals).values(**row_of(opened)))
            return opened

    def withdrawal(self, id_: str) -> Withdrawal | None:
        """A withdrawal."""
        row = self._first(select(relay_withdrawals).where(relay_withdrawals.c.id == id_)) if is_storable(id_) else None
        return Withdrawal(**row) if row else None

    def open_withdrawals(self, motebit_id: str | None = None) -> list[Withdrawal]:
        """Withdrawals that are not mined, of one agent or of all, the oldest first."""
        rows = select(relay_withdrawals).where(relay_withdrawals.c.state.in_(OPEN))
        if motebit_id is not None:
            rows = rows.where(relay_withdrawals.c.motebit_id == motebit_id)
        return [Withdrawal(**row) for row in self._rows(rows.order_by(relay_withdrawals.c.requested_at))]

    def watched_withdrawals(self) -> list[Withdrawal]:
        """Signed withdrawals that confirmations and reorganisations may change, the oldest first."""
        rows = select(relay_withdrawals).where(relay_withdrawals.c.state.in_(WATCHED))
        return [Withdrawal(**row) for row in self._rows(rows.order_by(relay_withdrawals.c.requested_at))]

    def cancel(self, withdrawal: Withdrawal, now: int) -> bool:
        """Give an unsigned withdrawal's amount and coins back; False where it is signed or cancelled already."""
        with booking(self._engine) as connection:
            return cancel_unsigned(connection, withdrawal, now)

    def sign(self, withdrawal: Withdrawal, signed: bytes, change: Sequence[OperatorCoin], now: int) -> bool:
        """Store the signed transaction of an open withdrawal; its change can be spent at once. False where the
        withdrawal is no longer open. A transaction stored before is replaced. Raises CashRefusedError where its change
        is spent."""
        is_same = (relay_withdrawals.c.id == withdrawal.id, relay_withdrawals.c.state.in_(OPEN))
        with booking(self._engine) as connection:
            stored = connection.execute(select(relay_withdrawals).where(*is_same)).mappings().first()
            if stored is None:
                return False
            if stored["signed"] not in (None, signed):
                replaced = transaction_of(stored["signed"]).txid
                drop_coins(connection, replaced, now)
                if count(connection, relay_coins, relay_coins.c.txid == replaced):
                    raise CashRefusedError("another withdrawal spends the change of its transaction signed before")
            values = {"signed": signed, "state": WithdrawalState.PROCESSING}
            connection.execute(update(relay_withdrawals).where(*is_same).values(**values))
            add_coins(connection, change)
            return True

    def complete(self, withdrawal: Withdrawal, change: Sequence[OperatorCoin], now: int) -> bool:
        """Book a mined withdrawal, and the coins that its transaction paid back; False where another process was
        faster."""
        with booking(self._engine) as connection:
            if not step(connection, withdrawal, WithdrawalState.COMPLETED, completed_at=now):
                return False
            add_coins(connection, change)
            amounts = {lock_account(withdrawal): -withdrawal.amount, CHAIN: withdrawal.amount}
            times = _reversals(connection, withdrawal)
            post(connection, "withdrawal", f"{withdrawal.id}:{times}" if times else withdrawal.id, now, amounts)
        return True

    def reopen(self, withdrawal: Withdrawal, now: int) -> bool:
        """Take a completed withdrawal back, as no block has its transaction any more: its amount is locked again. False
        where another process was faster."""
        with booking(self._engine) as connection:
            if not step(connection, withdrawal, WithdrawalState.PROCESSING, completed_at=None):
                return False
            amounts = {CHAIN: -withdrawal.amount, lock_account(withdrawal): withdrawal.amount}
            ref = f"{withdrawal.id}:{_reversals(connection, withdrawal) + 1}"
            post(connection, "withdrawal-reversal", ref, now, amounts)
        return True

    def finish(self, withdrawal: Withdrawal) -> bool:
        """Watch a completed withdrawal no longer."""
        with booking(self._engine) as connection:
            return step(connection, withdrawal, WithdrawalState.FINAL)

    def drop_change(self, txid: bytes, now: int) -> bool:
        """Drop the change of a signed transaction that the node refuses, and cancel the unsigned withdrawals that spend
        it; False without one."""
        if not self._rows(select(relay_coins.c.vout).where(relay_coins.c.txid == txid)):
            return False
        with booking(self._engine) as connection:
            return drop_coins(connection, txid, now) > 0


def _reversals(connection: Connection, withdrawal: Withdrawal) -> int:
    """How often a reorganisation took a withdrawal back."""
    of_it = ledger_entries.c.ref.startswith(f"{withdrawal.id}:")
    return count(connection, ledger_entries, ledger_entries.c.kind == "withdrawal-reversal", of_it)


def _move(connection: Connection, deposit: Deposit, state: DepositState, now: int, **values: Any) -> bool:
    """Move a deposit from the state and credit that `deposit` has."""
    same = (
        relay_deposits.c.txid == deposit.txid,
        relay_deposits.c.state == deposit.state,
        relay_deposits.c.credits == deposit.credits,
    )
    moved = update(relay_deposits).where(*same).values(state=state, seen_at=now, **values)
    return connection.execute(moved).rowcount == 1


def _ref(txid: bytes, credits_: int) -> str:
    return f"{txid[::-1].hex()}:{credits_}"
