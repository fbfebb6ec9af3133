"""Used nonces: tokens and signed requests count once, in any process.

The table is its own, in the registry's database or any other. Times are seconds since 1970.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from sqlalchemy import BigInteger, Connection, Index, LargeBinary, String

from indexer.store.database import writing
from indexer.store.queries import Queries, trim_expired, upsert
from indexer.store.schema import keys, original_table, required

seen_nonces = original_table(
    "seen_nonces",
    *keys(scope=String, nonce=LargeBinary),
    *required(expires_at=BigInteger),
    Index("seen_nonces_by_expiry", "expires_at"),
)


class Nonces(Queries):
    """The nonces in a database. Several threads and processes may use it at once. Every method raises StoreError when
    the database refuses."""

    def use(self, scope: str, nonce: str, now: int, expires_at: int) -> bool:
        """Use a nonce of a scope (a protocol, or a protocol and signer): False where it was used before. It is stored
        until `expires_at`, which must not be before the end of what it protects."""
        with writing(self._engine) as connection:
            return use_nonce(connection, scope, nonce, now, expires_at)


def use_nonce(connection: Connection, scope: str, nonce: str, now: int, expires_at: int) -> bool:
    """`Nonces.use` within a transaction: used with what it protects, or not at all."""
    row: dict[str, Any] = {"scope": scope, "nonce": sha256(nonce.encode(errors="surrogatepass")).digest()}
    added = upsert(connection, seen_nonces).values(**row, expires_at=expires_at).on_conflict_do_nothing()
    is_new = connection.execute(added.returning(seen_nonces.c.scope)).first() is not None
    if is_new:
        trim_expired(connection, seen_nonces, now)
    return is_new
