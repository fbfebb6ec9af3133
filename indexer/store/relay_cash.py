"""Money in and out of this relay: deposits that a chain confirms, the coins that they left with the operator, and
withdrawals, whose transactions the operator signs elsewhere.

Times are seconds since 1970, amounts satoshis, txids in internal byte order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Connection,
    Engine,
    Index,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    delete,
    func,
    insert,
    select,
    update,
)

from indexer.store.ledger import CHAIN, agent_account, booking, metadata, post
from indexer.store.queries import Queries, count, insert_new, row_of, texts_of
from indexer.store.schema import keys, optional, required
from parsers.bitcoin.tx import Outpoint

MAX_WAITING = 20
"""Unconfirmed deposits, and open withdrawals, of one agent."""

MAX_COINS = 100
"""Coins that one withdrawal spends."""


class DepositState(StrEnum):
    """`waiting`: too few confirmations. `credited`: counted, and watched for reorganisations. `final`: too deep for
    these. `lapsed`: not mined for so long that it is no longer watched."""

    WAITING = "waiting"
    CREDITED = "credited"
    FINAL = "final"
    LAPSED = "lapsed"


class WithdrawalState(StrEnum):
    """`pending`: its transaction is unsigned. `processing`: it is signed. `completed`: it is mined."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"


relay_deposits = Table(
    "relay_deposits",
    metadata,
    *keys(txid=LargeBinary),
    *required(motebit_id=String, amount=BigInteger, raw=LargeBinary, state=texts_of(DepositState), credits=BigInteger),
    *required(created_at=BigInteger, seen_at=BigInteger),
    Index("relay_deposits_by_state", "state", "seen_at"),
)

relay_coins = Table(
    "relay_coins",
    metadata,
    *keys(txid=LargeBinary, vout=BigInteger),
    *required(amount=BigInteger),
    *optional(withdrawal=String),
)

relay_withdrawals = Table(
    "relay_withdrawals",
    metadata,
    *keys(id=String),
    *required(motebit_id=String, idempotency_key=String, destination=Text, amount=BigInteger, unsigned=LargeBinary),
    *optional(signed=LargeBinary),
    *required(state=texts_of(WithdrawalState), requested_at=BigInteger),
    *optional(completed_at=BigInteger),
    UniqueConstraint("motebit_id", "idempotency_key"),
    Index("relay_withdrawals_by_state", "state"),
)


class OperatorCoin(NamedTuple):
    """An output that pays the operator."""

    outpoint: Outpoint
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deposit:
    """A transaction that pays the operator for an agent's account. `credits` counts how often it was credited."""

    txid: bytes
    motebit_id: str
    amount: int
    raw: bytes
    state: DepositState = DepositState.WAITING
    credits: int = 0
    created_at: int
    seen_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """An amount that leaves an agent's account, with the unsigned and the signed transaction that pays it out."""

    id: str
    motebit_id: str
    idempotency_key: str
    destination: str
    amount: int
    unsigned: bytes = b""
    signed: bytes | None = None
    state: WithdrawalState = WithdrawalState.PENDING
    requested_at: int
    completed_at: int | None = None


_Build = Callable[[Sequence[OperatorCoin]], bytes | None]


class CashRefusedError(Exception):
    """The deposit or withdrawal is not taken now: the message says why."""


class RelayCash(Queries):
    """Deposits and withdrawals in a database. Every method raises StoreError when the database refuses."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        with booking(engine) as connection:
            metadata.create_all(connection)

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
            _add_coins(connection, coins)
            account = agent_account(deposit.motebit_id)
            amounts = {CHAIN: -deposit.amount, account: deposit.amount}
            post(connection, "deposit", _ref(deposit.txid, deposit.credits + 1), now, amounts)
        return True

    def reverse(self, deposit: Deposit, now: int) -> bool:
        """Take a credited deposit back, as no block has it any more: its account may owe from then on. False where
        another process was faster."""
        account = agent_account(deposit.motebit_id)
        with booking(self._engine) as connection:
            if not _move(connection, deposit, DepositState.WAITING, now, created_at=now):
                return False
            free = (relay_coins.c.txid == deposit.txid, relay_coins.c.withdrawal.is_(None))
            connection.execute(delete(relay_coins).where(*free))
            amounts = {account: -deposit.amount, CHAIN: deposit.amount}
            post(connection, "reversal", _ref(deposit.txid, deposit.credits), now, amounts, may_owe=account)
        return True

    def note(self, deposit: Deposit, state: DepositState, now: int) -> bool:
        """Note that a deposit was looked at, and is in this state, which moves no funds."""
        with booking(self._engine) as connection:
            return _move(connection, deposit, state, now)

    # -- withdrawals

    def withdraw(self, withdrawal: Withdrawal, build: _Build) -> Withdrawal:
        """Lock an amount and reserve the coins that `build` makes an unsigned transaction of: it is called with ever
        more of them, the largest first, until it gives one. The stored withdrawal where its agent has used the key
        before. Raises InsufficientFundsError, CashRefusedError."""
        with booking(self._engine) as connection:
            same = (relay_withdrawals.c.motebit_id == withdrawal.motebit_id,
                    relay_withdrawals.c.idempotency_key == withdrawal.idempotency_key)  # fmt: skip
            stored = connection.execute(select(relay_withdrawals).where(*same)).mappings().first()
            if stored is not None:
                return Withdrawal(**stored)
            is_open = (relay_withdrawals.c.motebit_id == withdrawal.motebit_id,
                       relay_withdrawals.c.state != WithdrawalState.COMPLETED)  # fmt: skip
            if count(connection, relay_withdrawals, *is_open) >= MAX_WAITING:
                raise CashRefusedError(f"{MAX_WAITING} withdrawals of this agent are open")
            amounts = {agent_account(withdrawal.motebit_id): -withdrawal.amount, _lock(withdrawal): withdrawal.amount}
            post(connection, "withdrawal-lock", withdrawal.id, withdrawal.requested_at, amounts)
            coins, unsigned = _chosen(_free_coins(connection), build)
            for coin in coins:
                connection.execute(update(relay_coins).where(*_same(coin)).values(withdrawal=withdrawal.id))
            opened = replace(withdrawal, unsigned=unsigned)
            connection.execute(insert(relay_withdrawals).values(**row_of(opened)))
            return opened

    def open_withdrawals(self, motebit_id: str | None = None) -> list[Withdrawal]:
        """Withdrawals that are not mined, of one agent or of all, the oldest first."""
        rows = select(relay_withdrawals).where(relay_withdrawals.c.state != WithdrawalState.COMPLETED)
        if motebit_id is not None:
            rows = rows.where(relay_withdrawals.c.motebit_id == motebit_id)
        return [Withdrawal(**row) for row in self._rows(rows.order_by(relay_withdrawals.c.requested_at))]

    def sign(self, withdrawal: Withdrawal, signed: bytes) -> bool:
        """Store the signed transaction of an open withdrawal; False where it is completed."""
        is_open = (relay_withdrawals.c.id == withdrawal.id, relay_withdrawals.c.state != WithdrawalState.COMPLETED)
        values = {"signed": signed, "state": WithdrawalState.PROCESSING}
        with booking(self._engine) as connection:
            return connection.execute(update(relay_withdrawals).where(*is_open).values(**values)).rowcount == 1

    def complete(self, withdrawal: Withdrawal, change: Sequence[OperatorCoin], now: int) -> bool:
        """Book a mined withdrawal, and the coins that its transaction paid back; False where another process was
        faster."""
        same = (relay_withdrawals.c.id == withdrawal.id, relay_withdrawals.c.state == WithdrawalState.PROCESSING,
                relay_withdrawals.c.signed == withdrawal.signed)  # fmt: skip
        values = {"state": WithdrawalState.COMPLETED, "completed_at": now}
        with booking(self._engine) as connection:
            if connection.execute(update(relay_withdrawals).where(*same).values(**values)).rowcount != 1:
                return False
            _add_coins(connection, change)
            amounts = {_lock(withdrawal): -withdrawal.amount, CHAIN: withdrawal.amount}
            post(connection, "withdrawal", withdrawal.id, now, amounts)
        return True

    def held(self) -> int:
        """Satoshis of all coins that are not spent: those of open withdrawals included."""
        done = select(relay_withdrawals.c.id).where(relay_withdrawals.c.state == WithdrawalState.COMPLETED)
        unspent = relay_coins.c.withdrawal.is_(None) | relay_coins.c.withdrawal.not_in(done)
        return int(self._scalar(select(func.sum(relay_coins.c.amount)).where(unspent)) or 0)


def _chosen(free: Sequence[OperatorCoin], build: _Build) -> tuple[Sequence[OperatorCoin], bytes]:
    for number in range(1, len(free) + 1):
        unsigned = build(free[:number])
        if unsigned is not None:
            return free[:number], unsigned
    raise CashRefusedError(
        "no coins of the operator add up to this amount now: they wait for other withdrawals to be mined, or would "
        "leave too little change"
    )


def _free_coins(connection: Connection) -> list[OperatorCoin]:
    free = select(relay_coins).where(relay_coins.c.withdrawal.is_(None))
    largest = free.order_by(relay_coins.c.amount.desc(), relay_coins.c.txid, relay_coins.c.vout).limit(MAX_COINS)
    rows = connection.execute(largest).mappings()
    return [OperatorCoin(Outpoint(row["txid"], row["vout"]), row["amount"]) for row in rows]


def _add_coins(connection: Connection, coins: Sequence[OperatorCoin]) -> None:
    """Add coins; one that a withdrawal reserves, or has spent, is there already and stays its own."""
    rows = [
        {"txid": coin.outpoint.txid, "vout": coin.outpoint.vout, "amount": coin.amount, "withdrawal": None}
        for coin in coins
    ]
    insert_new(connection, relay_coins, rows)


def _same(coin: OperatorCoin) -> tuple[Any, ...]:
    return relay_coins.c.txid == coin.outpoint.txid, relay_coins.c.vout == coin.outpoint.vout


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


def _lock(withdrawal: Withdrawal) -> str:
    return f"withdrawal:{withdrawal.id}"
