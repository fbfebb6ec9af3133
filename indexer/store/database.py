"""Open a database: SQLite or PostgreSQL, the URL chooses; the schema is made on first use and checked ever after."""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, make_url, select
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from indexer.settings import masked
from indexer.store.tables import SCHEMA, meta, metadata

BUSY_SECONDS = 30
_MAKING = 0x613262
"""PostgreSQL advisory lock held while the schema is made, so that two processes do not make it at once ("a2b")."""

IMPORTING = "importing"
"""Key in `meta` while a snapshot is being taken over; see `indexer.store.adopt`."""


class StoreError(Exception):
    """The database cannot be used as configured: the message names it and says what to do."""


def connect(url: str, *, importing: bool = False) -> Engine:
    """A connection pool for `url` (`sqlite:///PATH` or `postgresql+psycopg://…`), the schema in place.

    Raises StoreError when the URL is no database, it cannot be reached, it is of another version of this program, or
    holds half a snapshot, unless `importing`.
    """
    try:
        target = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError(
            f"{masked(url)!a} is no database URL; use sqlite:///PATH or postgresql+psycopg://user@host/name"
        ) from None
    if target.drivername in ("postgresql", "postgres"):
        target = target.set(drivername="postgresql+psycopg")
    if target.drivername not in ("sqlite", "postgresql+psycopg"):
        raise StoreError(f"{target.drivername!r} is not a database this program knows: use sqlite or postgresql")
    if target.drivername == "sqlite" and target.database in (None, "", ":memory:"):
        raise StoreError("a database in memory cannot be shared between threads: use sqlite:///PATH")
    engine = _sqlite(target) if target.drivername == "sqlite" else create_engine(target, pool_pre_ping=True)
    try:
        with engine.begin() as connection:
            _prepare(connection, engine.dialect.name, importing=importing)
    except StoreError:
        engine.dispose()
        raise
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


def _prepare(connection: Connection, dialect: str, *, importing: bool) -> None:
    if not set(metadata.tables) <= set(inspect(connection).get_table_names()):
        _make(connection, dialect)
    found = dict(connection.execute(select(meta.c.key, meta.c.value)).all())
    if found.get("schema") != SCHEMA:
        raise StoreError(
            f"the database has schema {found.get('schema')!r} and this program reads {SCHEMA!r}: "
            "use the version that made it, or index into a new database"
        )
    if IMPORTING in found and not importing:
        raise StoreError(
            "an import into this database was interrupted or is going on: "
            "run `a2b import` again, or use another database"
        )


def _make(connection: Connection, dialect: str) -> None:
    """Make all tables, or none if the process is killed meanwhile; one process at a time."""
    if dialect == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MAKING})")
    else:
        # the driver itself begins no transaction for CREATE
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    metadata.create_all(connection)
    if connection.execute(select(meta.c.value).where(meta.c.key == "schema")).scalar() is None:
        rows = [{"key": "schema", "value": SCHEMA}, {"key": "epoch", "value": uuid.uuid4().hex}]
        connection.execute(insert(meta), rows)
