"""An import into a database: marked as incomplete until it is finished, and emptied where it fails."""

from __future__ import annotations

import uuid

from sqlalchemy import Engine, Table, delete, insert, select

from indexer.store.database import StoreError
from indexer.store.schema import (
    HASH_KEY,
    IMPORTING,
    cards,
    fill_rebuilt,
    locators,
    meta,
    metadata,
    outbox_runs,
    sightings,
)


def begin_import(engine: Engine) -> None:
    """Mark the database as incomplete until `finish_import`; the rows of an interrupted import are deleted.

    Raises StoreError when the database holds rows in tables that an import fills.
    """
    with engine.connect() as connection:
        is_marked = connection.execute(select(meta.c.key).where(meta.c.key == IMPORTING)).first() is not None
        tables = [table for table in _filled_tables() if table is not outbox_runs]  # it has that of this process
        filled = [table.name for table in tables if connection.execute(select(table).limit(1)).first()]
    if is_marked:
        empty(engine)
    elif filled:
        name = engine.url.render_as_string()
        raise StoreError(
            f"the database {name} holds {', '.join(filled)} already: import into a new database (--data, A2B_DATABASE)"
        )
    with engine.begin() as connection:
        connection.execute(insert(meta).values(key=IMPORTING, value="1"))


def finish_import(engine: Engine) -> None:
    """Mark the database as complete."""
    with engine.begin() as connection:
        connection.execute(delete(meta).where(meta.c.key == IMPORTING))


def empty(engine: Engine) -> None:
    """Delete every row that an import may have written, in one transaction; the outbox gets a new epoch."""
    with engine.begin() as connection:
        for table in reversed(_filled_tables()):
            connection.execute(delete(table))
        connection.execute(delete(meta).where(meta.c.key.not_in(("schema", HASH_KEY))))
        connection.execute(insert(meta).values(key="epoch", value=uuid.uuid4().hex))
        fill_rebuilt(connection)


def _filled_tables() -> list[Table]:
    """The tables that an import fills, each after those that it refers to: tables that can be rebuilt, and the cards
    and times that come with blocks. Data from clients is not changed."""
    return [table for table in metadata.sorted_tables if table.info["rebuilt"] or table in (cards, sightings, locators)]
