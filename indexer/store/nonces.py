"""Used nonces: tokens and signed requests count once, in any process.

The table is its own, in the registry's database or any other. Times are seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from sqlalchemy import BigInteger, Connection, Engine, Index, LargeBinary, String

from indexer.store.database import writing
from indexer.store.queries import Queries, trim_expired, upsert
from indexer.store.schema import keys, original_table, required

seen_nonces = original_table(
    "seen_nonces",
    *keys(scope=String, nonce=LargeBinary),
    *required(expires_at=BigInteger),
    Index("seen_nonces_by_expiry", "expires_at"),
)


CLOCK_SECONDS = 900
"""Seconds by which the clock of a server may differ from that of the database. A nonce is stored so much longer than it
counts, and one that ended so long ago by the clock of the database is refused."""

DatabaseClock = Callable[[Connection], int]
"""Gives seconds since 1970, the same to all servers of a database."""


def database_time(connection: Connection) -> int:
    """Seconds since 1970 by the clock of the database; that of SQLite is this machine's."""
    is_sqlite = connection.dialect.name == "sqlite"
    statement = "SELECT strftime('%s', 'now')" if is_sqlite else "SELECT extract(epoch FROM clock_timestamp())"
    return int(connection.exec_driver_sql(statement).scalar_one())


class Nonces(Queries):
    """The nonces in a database. Several threads and processes may use it at once. Every method raises StoreError when
    the database refuses."""

    def __init__(self, engine: Engine, clock: DatabaseClock = database_time) -> None:
        super().__init__(engine)
        self._clock = clock

    def use(self, scope: str, nonce: str, expires_at: int) -> bool:
        """Use a nonce of a scope (a protocol, or a protocol and signer): False where it was used before. `expires_at`
        is the end of the token or request that it protects, the same time on every server: never a time that is counted
        from now, as servers' clocks differ."""
        with writing(self._engine) as connection:
            return use_nonce(connection, scope, nonce, expires_at, self._clock(connection) - CLOCK_SECONDS)


def use_nonce(connection: Connection, scope: str, nonce: str, expires_at: int, before: int) -> bool:
    """`Nonces.use` within a transaction: used with the writes of that transaction, or not at all. `before` is
    CLOCK_SECONDS ago by the clock of the database: nonces with an earlier end are deleted, so they count as used."""
    if expires_at < before:
        return False
    row: dict[str, Any] = {"scope": scope, "nonce": sha256(nonce.encode(errors="surrogatepass")).digest()}
    added = upsert(connection, seen_nonces).values(**row, expires_at=expires_at).on_conflict_do_nothing()
    is_new = connection.execute(added.returning(seen_nonces.c.scope)).first() is not None
    if is_new:
        trim_expired(connection, seen_nonces, before)
    return is_new
