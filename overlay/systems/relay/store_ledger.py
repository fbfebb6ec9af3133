"""A double-entry ledger: every entry moves amounts between accounts, and its postings sum to zero.

Amounts are integers in one unit. Its tables are its own, in the registry's database or any other; so are those of what
is booked in it, which are written in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from sqlalchemy import BigInteger, Connection, Engine, Index, String, delete, exists, func, insert, select

from indexer.store.database import writing
from indexer.store.locks import advisory_lock
from indexer.store.queries import Queries, Row, upsert
from indexer.store.schema import judges, keys, original_table, required

LEDGER_LOCK = advisory_lock("l")
"""While the ledger of the relay is written."""

ledger_entries = original_table("ledger_entries", *keys(kind=String, ref=String), *required(at=BigInteger))

ledger_postings = original_table(
    "ledger_postings",
    *keys(kind=String, ref=String, account=String),
    *required(amount=BigInteger),
    Index("ledger_postings_by_account", "account"),
)

ledger_balances = original_table("ledger_balances", *keys(account=String), *required(amount=BigInteger))

CHAIN, FEES, OPERATOR = "chain", "fees", "operator"
"""Accounts: the coins held on the chain (as a negative balance), the operator's fees, and the operator's credits (as a
negative balance)."""


class InsufficientFundsError(Exception):
    """An account has less than an entry takes from it."""

    def __init__(self, account: str, balance: int, needed: int) -> None:
        super().__init__(f"{account} has {balance:,}, and {needed:,} are needed")
        self.balance, self.needed = balance, needed


def agent_account(motebit_id: str) -> str:
    """The account of an agent."""
    return f"agent:{motebit_id}"


@contextmanager
def booking(engine: Engine) -> Iterator[Connection]:
    """One transaction that writes the ledger; one at a time. Raises StoreError."""
    with writing(engine, LEDGER_LOCK) as connection:
        yield connection


def post(
    connection: Connection, kind: str, ref: str, now: int, amounts: Mapping[str, int], *, may_owe: str = ""
) -> None:
    """Book an entry: `amounts` by account, in a transaction of `booking`. The caller rolls the transaction back where
    this raises.

    Raises ValueError where the amounts do not sum to zero, InsufficientFundsError where an account other than `CHAIN`
    and `may_owe` would have a negative balance after paying, and IntegrityError (of SQLAlchemy) for an entry that is
    booked already.
    """
    if sum(amounts.values()):
        raise ValueError(f"the postings of {kind} {ref} sum to {sum(amounts.values())}, not to zero")
    connection.execute(insert(ledger_entries).values(kind=kind, ref=ref, at=now))
    for account, amount in sorted(amounts.items()):
        if not amount:
            continue
        connection.execute(insert(ledger_postings).values(kind=kind, ref=ref, account=account, amount=amount))
        added = upsert(connection, ledger_balances).values(account=account, amount=amount)
        total = {"amount": ledger_balances.c.amount + added.excluded.amount}
        moved = added.on_conflict_do_update(index_elements=["account"], set_=total).returning(ledger_balances.c.amount)
        balance = connection.execute(moved).scalar_one()
        if amount < 0 and balance < 0 and account not in (CHAIN, may_owe):
            raise InsufficientFundsError(account, balance - amount, -amount)


def forget(connection: Connection, kinds: Iterable[str], refs: Iterable[str]) -> None:
    """Delete entries without postings, which moved nothing, in a transaction of `booking`."""
    same = (ledger_entries.c.kind.in_(list(kinds)), ledger_entries.c.ref.in_(list(refs)))
    posted = (ledger_postings.c.kind == ledger_entries.c.kind, ledger_postings.c.ref == ledger_entries.c.ref)
    connection.execute(delete(ledger_entries).where(*same, ~exists().where(*posted)))


def balance_of(connection: Connection, account: str) -> int:
    """The balance of an account."""
    same = select(ledger_balances.c.amount).where(ledger_balances.c.account == account)
    return int(connection.execute(same).scalar() or 0)


class Ledger(Queries):
    """The ledger in a database. Several threads and processes may use it at once. Every method raises StoreError when
    the database refuses."""

    def balance(self, account: str) -> int:
        """The balance of an account."""
        with self._engine.connect() as connection:
            return balance_of(connection, account)

    def entries_of(self, account: str, limit: int) -> list[Row]:
        """The newest postings of an account: kind, ref, at (seconds since 1970) and amount."""
        entry = (ledger_entries.c.kind == ledger_postings.c.kind) & (ledger_entries.c.ref == ledger_postings.c.ref)
        columns = (ledger_entries, ledger_postings.c.amount)
        rows = select(*columns).join(ledger_postings, entry).where(ledger_postings.c.account == account)
        newest = rows.order_by(ledger_entries.c.at.desc(), ledger_entries.c.kind, ledger_entries.c.ref)
        return self._rows(newest.limit(limit))

    def balances(self) -> dict[str, int]:
        """All balances by account, those of zero included."""
        return self._counts(select(ledger_balances.c.account, ledger_balances.c.amount))

    def faults(self) -> list[str]:
        """As `ledger_faults`."""
        with self._engine.connect() as connection:
            return ledger_faults(connection)


@judges(ledger_balances)
def ledger_faults(connection: Connection) -> list[str]:
    """The accounts with a balance that is not the sum of their postings, and the entries that do not sum to zero."""
    total = func.sum(ledger_postings.c.amount)
    posted = connection.execute(select(ledger_postings.c.account, total).group_by(ledger_postings.c.account))
    booked = connection.execute(select(ledger_balances.c.account, ledger_balances.c.amount))
    entries = select(ledger_postings.c.kind, ledger_postings.c.ref).group_by(*ledger_postings.c["kind", "ref"])
    uneven = connection.execute(entries.having(total != 0))
    sums = {account: int(amount) for account, amount in posted}
    balances = {account: int(amount) for account, amount in booked}
    wrong = sorted(account for account in sums.keys() | balances.keys() if sums.get(account) != balances.get(account))
    return wrong + [f"{kind} {ref}" for kind, ref in uneven]
