"""Open a database: SQLite or PostgreSQL, the URL chooses; the schema is made on first use and checked ever after."""

from __future__ import annotations

import fcntl
import logging
import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, insert, inspect, make_url, select, text
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor, ExceptionContext
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from indexer.absence import parameters
from indexer.settings import masked
from indexer.store import migrations
from indexer.store.tables import SCHEMA, meta, metadata

BUSY_SECONDS = 30
_AGAIN = 0.02  # seconds
_MAKING = 0x613262
"""PostgreSQL advisory lock held while the schema is made, so that two processes do not make it at once ("a2b")."""

WRITER = 0x61326277
"""PostgreSQL advisory lock of the one writer ("a2bw")."""

IMPORTING = "importing"
"""Key in `meta` while a snapshot is being taken over; see `indexer.store.adopt`."""


class StoreError(Exception):
    """The database cannot be used as configured: the message names it and says what to do."""


class StoreUnavailableError(StoreError):
    """The database cannot be reached, or has just cut the connection: worth another try later."""


log = logging.getLogger(__name__)


def connect_read_only(file: Path) -> Engine:
    """A connection pool for a SQLite file that this user cannot write, or beside which no files can be made.

    While somebody writes it, what is committed is read from the write-ahead log; otherwise the file is read as one
    that nobody changes. Raises StoreError as `connect`.
    """
    for query in ({"uri": "true", "mode": "ro"}, {"uri": "true", "mode": "ro", "immutable": "1"}):
        url = URL.create("sqlite", database=f"file:{quote(str(file.absolute()))}", query=query)
        engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})
        try:
            with engine.connect() as connection:
                _check(connection, importing=False, replica=False)
        except OperationalError as error:
            engine.dispose()
            refused = error
        except BaseException:
            engine.dispose()
            raise
        else:
            return engine
    raise StoreError(f"cannot read the database {file}: {refused.orig}") from refused


def connect(url: str, *, importing: bool = False, replica: bool = False) -> Engine:
    """A connection pool for `url` (`sqlite:///PATH` or `postgresql+psycopg://…`), the schema in place: made in an empty
    database, brought up to date in one of an earlier version. Of a `replica` nothing is asked but to be read.

    Raises StoreError when the URL is no database, it is of another version of this program, or holds half a snapshot,
    unless `importing`; StoreUnavailableError when it cannot be reached.
    """
    engine = unchecked(url)
    named = engine.url.render_as_string()
    try:
        with engine.begin() as connection:
            if not replica:
                _prepare(connection, engine.url.database if engine.dialect.name == "sqlite" else None)
            _check(connection, importing=importing, replica=replica)
    except StoreUnavailableError as error:
        engine.dispose()
        raise StoreUnavailableError(f"cannot use the database {named}: {error}") from error
    except DatabaseError as error:
        engine.dispose()
        raise StoreError(f"cannot use the database {named}: {error.orig}") from error
    except BaseException:
        engine.dispose()
        raise
    return engine


def unchecked(url: str) -> Engine:
    """A connection pool for `url` that has not connected yet: of a database that others look after. Raises StoreError
    when the URL is no database."""
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
    return _sqlite(target) if target.drivername == "sqlite" else _postgresql(target)


def _postgresql(target: URL) -> Engine:
    engine = create_engine(target, pool_pre_ping=True, connect_args=parameters(target.query))
    event.listen(engine, "handle_error", _tell_apart)
    return engine


def _sqlite(target: Any) -> Engine:
    engine = create_engine(target, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def tune(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        _write_ahead(cursor)
        for pragma in ("synchronous=FULL", "foreign_keys=ON", "cache_size=-32768"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    return engine


def _write_ahead(cursor: DBAPICursor) -> None:
    """Let a database have a write-ahead log. While others begin to use a new one SQLite does not wait for them, as it
    does elsewhere, but refuses."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= until:
                raise
            time.sleep(_AGAIN)
        else:
            return


def _tell_apart(context: ExceptionContext) -> None:
    """What comes of a server that is gone, starting, stopping or out of connections passes; other trouble does not."""
    if context.is_pre_ping or not isinstance(context.sqlalchemy_exception, OperationalError):
        return
    raise StoreUnavailableError(" ".join(str(context.original_exception).split())) from context.original_exception


@contextmanager
def writing(engine: Engine, lock: int | None = None) -> Iterator[Connection]:
    """One transaction, begun as a writer: a reader that becomes one may find that others have written since. In
    PostgreSQL it waits for whoever holds the same `lock`. Raises StoreError when the database refuses."""
    try:
        with engine.begin() as connection:
            if engine.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            elif lock is not None:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({lock})")
            yield connection
    except DBAPIError as error:
        raise StoreError(f"cannot write to {engine.url.render_as_string()}: {error.orig}") from error


def _prepare(connection: Connection, file: str | None) -> None:
    """Make the tables, or bring them up to date: all of it, or nothing if the process is killed meanwhile; one process
    at a time. `file` is SQLite's."""
    there = set(inspect(connection).get_table_names())
    if set(metadata.tables) <= there and _schema(connection) not in migrations.STEPS:
        return
    if file is None:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MAKING})
    else:
        # the driver itself begins no transaction for CREATE
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    found = _schema(connection) if meta.name in inspect(connection).get_table_names() else None
    if found in migrations.STEPS:
        with _without_writer(connection, file, found):
            log.warning("the database has schema %s, of an earlier version: bringing it up to %s", found, SCHEMA)
            migrations.migrate(connection, found)
    if found is None or found in {SCHEMA, *migrations.STEPS}:
        migrations.make_missing(connection)
    if found is None:
        rows = [{"key": "schema", "value": SCHEMA}, {"key": "epoch", "value": uuid.uuid4().hex}]
        connection.execute(insert(meta), rows)


def _schema(connection: Connection) -> str | None:
    found: str | None = connection.execute(select(meta.c.value).where(meta.c.key == "schema")).scalar()
    return found


@contextmanager
def _without_writer(connection: Connection, file: str | None, found: str) -> Iterator[None]:
    """Raises StoreError while an indexer, which must be of an earlier version, is writing."""
    busy = f"the database has schema {found!r}, and an indexer of an earlier version is writing to it; stop it first"
    if file is None:
        if not connection.execute(select(func.pg_try_advisory_xact_lock(WRITER))).scalar_one():
            raise StoreError(busy)
        yield
        return
    with Path(f"{file}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(busy) from None
        yield


def _check(connection: Connection, *, importing: bool, replica: bool) -> None:
    if replica and meta.name not in inspect(connection).get_table_names():
        raise StoreError("the replica holds no registry yet: let `a2b index` make it in A2B_DATABASE, and wait for it")
    found = dict(connection.execute(select(meta.c.key, meta.c.value)).all())
    if found.get("schema") != SCHEMA:
        raise StoreError(
            f"the {'replica' if replica else 'database'} has schema {found.get('schema')!r} and this program reads "
            f"{SCHEMA!r}: use the version that made it, or index into a new database"
        )
    if IMPORTING in found and not importing:
        raise StoreError(
            "an import into this database was interrupted or is going on: "
            "run `a2b import` again, or use another database"
        )
