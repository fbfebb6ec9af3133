"""Connections to a database, SQLite or PostgreSQL, by its URL; `layout` creates, migrates and checks its tables."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    event,
    make_url,
)
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor, ExceptionContext
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from indexer import sqlite_integrity as integrity
from indexer.masking import masked
from indexer.store.locks import AdvisoryLock

BUSY_SECONDS = 30
_RETRY_SECONDS = 0.02

READER_CACHE, WRITER_CACHE = 4096, 32_768
"""KiB of SQLite's page cache: of each connection of the pool, which finds most pages in the system's, and of the one
through which facts are written."""

CONNECTION_DEFAULTS = {
    "connect_timeout": 5,  # seconds, of each host that a URL names
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,  # milliseconds
}
"""Parameters of libpq that detect a failed server of PostgreSQL within 30 s, unless the operator's URL sets others. A
server that stops closes its connections. If its machine or network fails, it does not: TCP retransmits for a quarter of
an hour, and an idle connection counts as alive for two hours."""


class StoreError(Exception):
    """The database cannot be used as configured; the message names it and the remedy."""


class DatabaseUrlError(StoreError):
    """The URL names no database."""


class StoreUnavailableError(StoreError):
    """The database cannot be reached, or has just closed the connection: worth a retry."""


class DamagedDatabaseError(StoreUnavailableError):
    """The file of the database is damaged; the message gives the remedy. Loops retry, as for an unreachable
    database."""


class WriteRefusedError(StoreError):
    """The database can be read, and takes no writes: its disk is full, it is locked or read-only. Clients may try again
    when an operator has acted."""


class OtherChainError(StoreError):
    """The database holds another chain, or the records of another contract or program, under the name of one that is
    configured."""


class HeldNetworkError(StoreError):
    """Another name holds the network that is configured."""


DATABASE_ERRORS = (StoreError, SQLAlchemyError)
"""Errors of statements that the database does not run: the first of writes, the second of reads."""


def unchecked(url: str) -> Engine:
    """A connection pool for `url` that has not connected yet, and neither creates nor checks the schema. Raises
    DatabaseUrlError when the URL names no database."""
    try:
        target = make_url(url)
    except (ArgumentError, ValueError):
        raise DatabaseUrlError(
            f"{masked(url)!a} is not a database URL; use sqlite:///PATH or postgresql+psycopg://user@host/name"
        ) from None
    if target.drivername in ("postgresql", "postgres"):
        target = target.set(drivername="postgresql+psycopg")
    if target.drivername not in ("sqlite", "postgresql+psycopg"):
        raise DatabaseUrlError(f"{target.drivername!r} is not a supported database: use sqlite or postgresql")
    if target.drivername == "sqlite" and target.database in (None, "", ":memory:"):
        raise DatabaseUrlError("a database in memory cannot be shared between threads: use sqlite:///PATH")
    return _sqlite(target) if target.drivername == "sqlite" else _postgresql(target)


def _postgresql(target: URL) -> Engine:
    defaults = {name: value for name, value in CONNECTION_DEFAULTS.items() if name not in target.query}
    engine = create_engine(target, pool_pre_ping=True, connect_args=defaults)
    event.listen(engine, "handle_error", _raise_unavailable)
    return engine


def _sqlite(target: Any) -> Engine:
    # the connection that was used last: every one of the pool fills a page cache
    engine = create_engine(target, connect_args={"timeout": BUSY_SECONDS}, pool_use_lifo=True)
    guard(engine, str(target.database))

    @event.listens_for(engine, "connect")
    def tune(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        _write_ahead(cursor)
        for pragma in ("synchronous=FULL", "foreign_keys=ON", f"cache_size={-READER_CACHE}"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    return engine


def guard(engine: Engine, file: str) -> None:
    """Raise DamagedDatabaseError for an error of SQLite that means damage, and for every transaction once a check has
    found damage: a damaged file may also answer wrongly without an error."""
    state = integrity.guard_of(file)

    @event.listens_for(engine, "begin")
    def refuse(_: Connection) -> None:
        if damage := state.damage():
            raise DamagedDatabaseError(damage)

    @event.listens_for(engine, "handle_error")
    def explain(context: ExceptionContext) -> None:
        if integrity.is_damage(context.original_exception):
            state.suspected.set()
            detail = integrity.advice(file, str(context.original_exception))
            raise DamagedDatabaseError(detail) from context.original_exception


def _write_ahead(cursor: DBAPICursor) -> None:
    """Turn the write-ahead log on. While another process does the same with a new database SQLite fails at once,
    instead of waiting as it does elsewhere."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _raise_unavailable(context: ExceptionContext) -> None:
    """Errors of a server that stopped, starts, stops or is out of connections are temporary, others are not."""
    if context.is_pre_ping or not isinstance(context.sqlalchemy_exception, OperationalError):
        return
    raise StoreUnavailableError(" ".join(str(context.original_exception).split())) from context.original_exception


@contextmanager
def reading_at_once(engine: Engine) -> Iterator[Connection]:
    """A transaction for reading only: all that it reads is of one instant. It is not declared read-only: the driver
    would begin the next one on that connection as READ WRITE, which a replica refuses."""
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN")  # the driver begins none for reads
        else:
            connection.execution_options(isolation_level="REPEATABLE READ")
        yield connection


@contextmanager
def writing(engine: Engine, lock: AdvisoryLock | None = None) -> Iterator[Connection]:
    """One transaction, begun as a writer's: SQLite refuses to upgrade a reader's after another process has written. On
    PostgreSQL it holds the advisory `lock`. Raises StoreError when the database refuses."""
    try:
        with engine.begin() as connection:
            if engine.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            elif lock is not None:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({lock:d})")
            yield connection
    except DBAPIError as error:
        raise write_error(engine.url.render_as_string(), error) from error


_REFUSALS = ("25006", "42501")
"""SQLSTATE of the errors by which PostgreSQL refuses all writers: a read-only transaction, a user without the
privilege."""


def write_error(name: str, error: DBAPIError) -> StoreError:
    """The error for a failed write to the database `name`: a refusal by the database, or a mistake in the statement."""
    is_refused = isinstance(error, OperationalError) or getattr(error.orig, "sqlstate", None) in _REFUSALS
    return (WriteRefusedError if is_refused else StoreError)(f"cannot write to {name}: {error.orig}")
