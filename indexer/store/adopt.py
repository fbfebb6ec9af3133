"""Taking over facts from a snapshot: the database is marked while that goes on, and emptied when it fails.

A marked database is refused by `connect`, so that half a snapshot is never taken for a whole one.
"""

from __future__ import annotations

import uuid
from collections.abc import Container, Iterable, Mapping
from hashlib import sha256

from sqlalchemy import Engine, Table, delete, insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from indexer.store.batches import batches
from indexer.store.database import IMPORTING, StoreError
from indexer.store.tables import cards, meta, metadata, parents

_FILLED = [table for table in metadata.sorted_tables if table is not meta]


def begin(engine: Engine) -> None:
    """Mark the database as being filled from a snapshot; what an interrupted import left is removed.

    Raises StoreError when the database holds anything already: a failed import empties it.
    """
    with engine.connect() as connection:
        marked = connection.execute(select(meta.c.key).where(meta.c.key == IMPORTING)).first()
        filled = [table.name for table in _FILLED if connection.execute(select(table).limit(1)).first()]
    if marked:
        empty(engine)
    elif filled:
        named = engine.url.render_as_string()
        raise StoreError(f"the database {named} holds {', '.join(filled)} already: import into a new database")
    with engine.begin() as connection:
        connection.execute(insert(meta).values(key=IMPORTING, value="1"))


def finish(engine: Engine) -> None:
    """Take the mark off: what was imported is whole."""
    with engine.begin() as connection:
        connection.execute(delete(meta).where(meta.c.key == IMPORTING))


def empty(engine: Engine) -> None:
    """Delete every row but the schema's version, in one transaction; the outbox gets a new epoch."""
    with engine.begin() as connection:
        for table in reversed(_FILLED):
            connection.execute(delete(table))
        connection.execute(delete(meta).where(meta.c.key != "schema"))
        connection.execute(insert(meta).values(key="epoch", value=uuid.uuid4().hex))


def keep_cards(engine: Engine, bodies: Iterable[bytes]) -> None:
    """Store card bodies under their SHA-256. Raises StoreError when the database refuses."""
    _keep(engine, cards, [{"sha256": sha256(body).digest(), "body": body} for body in bodies])


def keep_parents(engine: Engine, raws: Mapping[bytes, bytes]) -> None:
    """Store raw transactions by txid (internal byte order). Raises StoreError when the database refuses."""
    _keep(engine, parents, [{"txid": txid, "raw": raw} for txid, raw in raws.items()])


def keep_only_parents(engine: Engine, wanted: Container[bytes]) -> None:
    """Delete the raw transactions of other txids than these."""
    with engine.begin() as connection:
        txids = connection.execute(select(parents.c.txid)).scalars().all()
        for batch in batches(txid for txid in txids if txid not in wanted):
            connection.execute(delete(parents).where(parents.c.txid.in_(batch)))


def _keep(engine: Engine, table: Table, rows: list[dict[str, bytes]]) -> None:
    if not rows:
        return
    dialect = postgresql if engine.dialect.name == "postgresql" else sqlite
    try:
        with engine.begin() as connection:
            connection.execute(dialect.insert(table).on_conflict_do_nothing(), rows)
    except DBAPIError as error:
        raise StoreError(f"cannot write to {engine.url.render_as_string()}: {error.orig}") from error
