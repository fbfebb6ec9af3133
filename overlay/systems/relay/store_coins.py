"""The tables of money in and out of this relay, and which coins of the operator a withdrawal reserves.

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
    Index,
    LargeBinary,
    String,
    UniqueConstraint,
    delete,
    func,
    select,
    update,
)

from indexer.store.queries import insert_new
from indexer.store.schema import columns_of, keys, optional, original_table, required
from overlay.systems.relay.store_ledger import agent_account, post
from parsers.bitcoin.tx import Outpoint, Transaction, read_exactly

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
    """`pending`: its transaction is unsigned. `processing`: it is signed. `completed`: it is mined, and watched for
    reorganisations. `final`: too deep for these. `cancelled`: it was never signed, and its amount went back."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FINAL = "final"
    CANCELLED = "cancelled"


OPEN = (WithdrawalState.PENDING, WithdrawalState.PROCESSING)
WATCHED = (WithdrawalState.PROCESSING, WithdrawalState.COMPLETED)


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


relay_deposits = original_table(
    "relay_deposits",
    *columns_of(Deposit, {"txid"}),
    Index("relay_deposits_by_state", "state", "seen_at"),
    Index("relay_deposits_by_agent", "motebit_id", "state"),
)

relay_coins = original_table(
    "relay_coins",
    *keys(txid=LargeBinary, vout=BigInteger),
    *required(amount=BigInteger),
    *optional(withdrawal=String),
    Index("relay_coins_by_withdrawal", "withdrawal", "amount"),
)

relay_withdrawals = original_table(
    "relay_withdrawals",
    *columns_of(Withdrawal, {"id"}),
    UniqueConstraint("motebit_id", "idempotency_key"),
    Index("relay_withdrawals_by_state", "state"),
    Index("relay_withdrawals_by_agent", "motebit_id", "state"),
)


def transaction_of(raw: bytes) -> Transaction:
    """A transaction of a wallet, with or without the witness marker (P2PKH inputs have no witnesses). Raises
    ParseError."""
    return read_exactly(raw, segwit=raw[4:6] == b"\0\1")


Build = Callable[[Sequence[OperatorCoin]], bytes | None]


class CashRefusedError(Exception):
    """The deposit or withdrawal is not accepted now; the message gives the reason."""


def choose(connection: Connection, amount: int, build: Build) -> tuple[Sequence[OperatorCoin], bytes]:
    """The smallest free coin that suffices for an amount, else several of the largest, and the transaction that `build`
    makes from them. Raises CashRefusedError."""
    by_amount = (relay_coins.c.amount, relay_coins.c.txid, relay_coins.c.vout)
    for coin in _free_coins(connection, relay_coins.c.amount >= amount, order=by_amount):
        if unsigned := build([coin]):
            return [coin], unsigned
    largest = _free_coins(connection, order=(by_amount[0].desc(), *by_amount[1:]))
    for number in range(2, len(largest) + 1):
        if unsigned := build(largest[:number]):
            return largest[:number], unsigned
    raise CashRefusedError(
        "no coins of the operator add up to this amount now: they wait for other withdrawals to be signed, or would "
        "leave too little change"
    )


def check_excess(connection: Connection, amount: int, coins: Sequence[OperatorCoin]) -> None:
    """Unsigned withdrawals hold back at most half of the operator's coins beyond what they pay: else a stranger locks
    them all with a small amount for each. Raises CashRefusedError."""
    excess = sum(coin.amount for coin in coins) - amount
    pending = relay_withdrawals.c.state == WithdrawalState.PENDING
    paid = connection.execute(select(func.sum(relay_withdrawals.c.amount)).where(pending)).scalar() or 0
    is_reserved = relay_coins.c.withdrawal.in_(select(relay_withdrawals.c.id).where(pending))
    total = select(func.sum(relay_coins.c.amount))
    reserved = int(connection.execute(total.where(is_reserved)).scalar() or 0)
    free = int(connection.execute(total.where(relay_coins.c.withdrawal.is_(None))).scalar() or 0)
    if excess > amount and reserved and 2 * (reserved - int(paid) + excess) > free + reserved:
        raise CashRefusedError(
            f"unsigned withdrawals hold back half of the operator's coins: wait until they are signed, or withdraw at "
            f"least {excess + amount - (excess + amount) // 2:,}"
        )


def _free_coins(connection: Connection, *where: Any, order: Sequence[Any]) -> list[OperatorCoin]:
    free = select(relay_coins).where(relay_coins.c.withdrawal.is_(None), *where)
    rows = connection.execute(free.order_by(*order).limit(MAX_COINS)).mappings()
    return [OperatorCoin(Outpoint(row["txid"], row["vout"]), row["amount"]) for row in rows]


def drop_coins(connection: Connection, txid: bytes, now: int) -> int:
    """Delete the coins of a transaction that is in no block or mempool, and cancel the unsigned withdrawals that spend
    them; coins of signed withdrawals stay, as both may still be mined. Returns the number of deleted coins."""
    users = select(relay_coins.c.withdrawal).where(relay_coins.c.txid == txid)
    for row in connection.execute(select(relay_withdrawals).where(relay_withdrawals.c.id.in_(users))).mappings().all():
        cancel_unsigned(connection, Withdrawal(**row), now)
    free = (relay_coins.c.txid == txid, relay_coins.c.withdrawal.is_(None))
    return connection.execute(delete(relay_coins).where(*free)).rowcount


def cancel_unsigned(connection: Connection, withdrawal: Withdrawal, now: int) -> bool:
    """Give a withdrawal's amount and coins back; False where it is not unsigned any more."""
    pending = replace(withdrawal, state=WithdrawalState.PENDING)
    if not step(connection, pending, WithdrawalState.CANCELLED, completed_at=now):
        return False
    reserved = update(relay_coins).where(relay_coins.c.withdrawal == withdrawal.id)
    connection.execute(reserved.values(withdrawal=None))
    amounts = {lock_account(withdrawal): -withdrawal.amount, agent_account(withdrawal.motebit_id): withdrawal.amount}
    post(connection, "withdrawal-cancel", withdrawal.id, now, amounts)
    return True


def step(connection: Connection, withdrawal: Withdrawal, state: WithdrawalState, **values: Any) -> bool:
    """Move a withdrawal from the state that it has, with the transaction that it has by then."""
    same = (relay_withdrawals.c.id == withdrawal.id, relay_withdrawals.c.state == withdrawal.state)
    signed = () if withdrawal.signed is None else (relay_withdrawals.c.signed == withdrawal.signed,)
    moved = update(relay_withdrawals).where(*same, *signed).values(state=state, **values)
    return connection.execute(moved).rowcount == 1


def add_coins(connection: Connection, coins: Sequence[OperatorCoin]) -> None:
    """Add coins; one that a withdrawal reserves, or has spent, is there already and stays its own."""
    rows = [
        {"txid": coin.outpoint.txid, "vout": coin.outpoint.vout, "amount": coin.amount, "withdrawal": None}
        for coin in coins
    ]
    insert_new(connection, relay_coins, rows)


def same_coin(coin: OperatorCoin) -> tuple[Any, ...]:
    """The condition for the row of a coin."""
    return relay_coins.c.txid == coin.outpoint.txid, relay_coins.c.vout == coin.outpoint.vout


def lock_account(withdrawal: Withdrawal) -> str:
    """The account that holds the amount of an open withdrawal."""
    return f"withdrawal:{withdrawal.id}"
