"""Clients to which the operator gave limits of their own, by the SHA-256 of their tokens."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Engine, delete, select

from indexer.store.database import writing
from indexer.store.queries import Queries, upsert
from indexer.store.schema import columns_of, original_table


class StoredClient(NamedTuple):
    """A client: the SHA-256 of its token, its limits as the setting `limits` is written, and since when it is one, in
    seconds since 1970."""

    name: str
    sha256: bytes
    limits: str
    since: int


clients = original_table("clients", *columns_of(StoredClient, {"name"}))


class ClientQueries(Queries):
    """The stored clients."""

    def all(self) -> list[StoredClient]:
        """All clients by name."""
        columns = [clients.c[name] for name in StoredClient._fields]
        return [StoredClient(**row) for row in self._rows(select(*columns).order_by(clients.c.name))]


def add_client(engine: Engine, client: StoredClient) -> bool:
    """Store a client; False where its name is taken. Raises StoreError."""
    with writing(engine) as connection:
        statement = upsert(connection, clients).values(client._asdict()).on_conflict_do_nothing()
        return bool(connection.execute(statement).rowcount)


def revoke_client(engine: Engine, name: str) -> bool:
    """Delete a client; False where there is none of this name. Raises StoreError."""
    with writing(engine) as connection:
        return bool(connection.execute(delete(clients).where(clients.c.name == name)).rowcount)
