"""Taking over facts from a snapshot: the database is marked while that goes on, and emptied when it fails.

A marked database is refused by `connect`, so that half a snapshot is never taken for a whole one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from hashlib import sha256

from sqlalchemy import Engine, delete, insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from indexer.store.database import IMPORTING, StoreError
from indexer.store.tables import blocks, cards, meta, metadata


def begin(engine: Engine) -> None:
    """Mark the database as being filled from a snapshot; what an interrupted import left is removed.

    Raises StoreError when the database holds blocks already.
    """
    with engine.connect() as connection:
        marked = connection.execute(select(meta.c.key).where(meta.c.key == IMPORTING)).first()
        filled = connection.execute(select(blocks.c.height).limit(1)).first()
    if marked:
        empty(engine)
    elif filled:
        raise StoreError(
            f"the database {engine.url.render_as_string()} holds blocks already: import into a new database"
        )
    with engine.begin() as connection:
        connection.execute(insert(meta).values(key=IMPORTING, value="1"))


def finish(engine: Engine) -> None:
    """Take the mark off: what was imported is whole."""
    with engine.begin() as connection:
        connection.execute(delete(meta).where(meta.c.key == IMPORTING))


def empty(engine: Engine) -> None:
    """Delete every row but the schema's version, in one transaction; the outbox gets a new epoch."""
    with engine.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            if table is not meta:
                connection.execute(delete(table))
        connection.execute(delete(meta).where(meta.c.key != "schema"))
        connection.execute(insert(meta).values(key="epoch", value=uuid.uuid4().hex))


def keep_cards(engine: Engine, bodies: Iterable[bytes]) -> None:
    """Store card bodies under their SHA-256. Raises StoreError when the database refuses."""
    rows = [{"sha256": sha256(body).digest(), "body": body} for body in bodies]
    if not rows:
        return
    dialect = postgresql if engine.dialect.name == "postgresql" else sqlite
    try:
        with engine.begin() as connection:
            connection.execute(dialect.insert(cards).on_conflict_do_nothing(), rows)
    except DBAPIError as error:
        raise StoreError(f"cannot write to {engine.url.render_as_string()}: {error.orig}") from error
