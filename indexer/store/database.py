"""Open a database: SQLite or PostgreSQL, the URL chooses; the schema is made on first use and checked ever after."""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, insert, make_url, select
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from indexer.store.tables import SCHEMA, meta, metadata

BUSY_SECONDS = 30
_MAKING = 0x613262
"""PostgreSQL advisory lock held while the schema is made, so that two processes do not make it at once ("a2b")."""


class StoreError(Exception):
    """The database cannot be used as configured: the message names it and says what to do."""


def connect(url: str) -> Engine:
    """A connection pool for `url` (`sqlite:///PATH` or `postgresql+psycopg://…`), the schema in place.

    Raises StoreError when the URL is no database, it cannot be reached, or it is of another version of this program.
    """
    try:
        target = make_url(url)
    except ArgumentError:
        raise StoreError(
            f"A2B_DATABASE={url!r} is no database URL; use sqlite:///PATH or postgresql+psycopg://user@host/name"
        ) from None
    if target.drivername in ("postgresql", "postgres"):
        target = target.set(drivername="postgresql+psycopg")
    if target.drivername not in ("sqlite", "postgresql+psycopg"):
        raise StoreError(f"{target.drivername!r} is not a database this program knows: use sqlite or postgresql")
    engine = _sqlite(target) if target.drivername == "sqlite" else create_engine(target, pool_pre_ping=True)
    try:
        with engine.begin() as connection:
            _prepare(connection, engine.dialect.name)
    except (OperationalError, DatabaseError) as error:
        engine.dispose()
        raise StoreError(f"cannot use the database {target.render_as_string()}: {error.orig}") from error
    return engine


def _sqlite(target: Any) -> Engine:
    engine = create_engine(target, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def tune(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-32768"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    return engine


def _prepare(connection: Connection, dialect: str) -> None:
    if dialect == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MAKING})")
    metadata.create_all(connection)
    found = dict(connection.execute(select(meta.c.key, meta.c.value)).tuples().all())
    if not found:
        rows = [{"key": "schema", "value": SCHEMA}, {"key": "epoch", "value": uuid.uuid4().hex}]
        connection.execute(insert(meta), rows)
    elif found.get("schema") != SCHEMA:
        raise StoreError(
            f"the database has schema {found.get('schema')!r} and this program reads {SCHEMA!r}: "
            "use the version that made it, or index into a new database"
        )
