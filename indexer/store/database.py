"""Open a database: SQLite or PostgreSQL, by its URL; the schema is created on first use and checked on every later
one."""

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

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    MetaData,
    Table,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor, ExceptionContext
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from indexer import sqlite_integrity as integrity
from indexer.masking import masked
from indexer.store import migrations
from indexer.store.keepalive import parameters
from indexer.store.schema import SCHEMA, meta, metadata

BUSY_SECONDS = 30
_RETRY_SECONDS = 0.02
_SCHEMA_LOCK = 0x613262
"""PostgreSQL advisory lock held while the schema is created, so that one process at a time does it ("a2b")."""

WRITER_LOCK = 0x61326277
"""PostgreSQL advisory lock of the one writer ("a2bw")."""

IMPORTING = "importing"
"""Key in `meta` while a snapshot is being imported: `connect` refuses such a database, which is incomplete."""


class StoreError(Exception):
    """The database cannot be used as configured: the message names it and says what to do."""


class DatabaseUrlError(StoreError):
    """The URL is that of no database."""


class StoreUnavailableError(StoreError):
    """The database cannot be reached, or has just closed the connection: worth a retry."""


class DamagedDatabaseError(StoreUnavailableError):
    """The file of the database is damaged: the message says what to do. Loops try again, as for one out of reach."""


class OtherChainError(StoreError):
    """The database holds another chain, or another program's accounts, under the name of one that is configured."""


DATABASE_ERRORS = (StoreError, SQLAlchemyError)
"""What statements raise that the database does not run: those of `writing` the first, reads the second."""

log = logging.getLogger(__name__)


def connect_read_only(file: Path) -> Engine:
    """A connection pool for a SQLite file that this user cannot write, or beside which no files can be created.

    While another process writes it, its write-ahead log is read, too; otherwise the file is opened as immutable. Raises
    StoreError as `connect`.
    """
    for query in ({"uri": "true", "mode": "ro"}, {"uri": "true", "mode": "ro", "immutable": "1"}):
        url = URL.create("sqlite", database=f"file:{quote(str(file.absolute()))}", query=query)
        engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})
        _guard(engine, str(file))
        try:
            with engine.connect() as connection:
                _check(connection, importing=False, replica=False)
        except OperationalError as error:
            engine.dispose()
            last_error = error
        except BaseException:
            engine.dispose()
            raise
        else:
            return engine
    raise StoreError(f"cannot read the database {file}: {last_error.orig}") from last_error


def connect(url: str, *, importing: bool = False, replica: bool = False) -> Engine:
    """A connection pool for `url` (`sqlite:///PATH` or `postgresql+psycopg://…`) with the schema in place: created in
    an empty database, migrated in one of an earlier version. A `replica` is only read.

    Raises StoreError when the URL names no database, or one of another version of this program, or, unless `importing`,
    one with an incomplete import; StoreUnavailableError when it cannot be reached.
    """
    engine = unchecked(url)
    name = engine.url.render_as_string()
    try:
        with engine.begin() as connection:
            if not replica:
                _prepare(connection, engine.url.database if engine.dialect.name == "sqlite" else None)
            _check(connection, importing=importing, replica=replica)
    except DamagedDatabaseError:
        engine.dispose()
        raise
    except StoreUnavailableError as error:
        engine.dispose()
        raise StoreUnavailableError(f"cannot use the database {name}: {error}") from error
    except DatabaseError as error:
        engine.dispose()
        raise StoreError(f"cannot use the database {name}: {error.orig}") from error
    except BaseException:
        engine.dispose()
        raise
    return engine


def unchecked(url: str) -> Engine:
    """A connection pool for `url` that has not connected yet, and neither creates nor checks the schema. Raises
    DatabaseUrlError when the URL names no database."""
    try:
        target = make_url(url)
    except (ArgumentError, ValueError):
        raise DatabaseUrlError(
            f"{masked(url)!a} is no database URL; use sqlite:///PATH or postgresql+psycopg://user@host/name"
        ) from None
    if target.drivername in ("postgresql", "postgres"):
        target = target.set(drivername="postgresql+psycopg")
    if target.drivername not in ("sqlite", "postgresql+psycopg"):
        raise DatabaseUrlError(f"{target.drivername!r} is not a database this program knows: use sqlite or postgresql")
    if target.drivername == "sqlite" and target.database in (None, "", ":memory:"):
        raise DatabaseUrlError("a database in memory cannot be shared between threads: use sqlite:///PATH")
    return _sqlite(target) if target.drivername == "sqlite" else _postgresql(target)


def _postgresql(target: URL) -> Engine:
    engine = create_engine(target, pool_pre_ping=True, connect_args=parameters(target.query))
    event.listen(engine, "handle_error", _raise_unavailable)
    return engine


def _sqlite(target: Any) -> Engine:
    engine = create_engine(target, connect_args={"timeout": BUSY_SECONDS})
    _guard(engine, str(target.database))

    @event.listens_for(engine, "connect")
    def tune(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        _write_ahead(cursor)
        for pragma in ("synchronous=FULL", "foreign_keys=ON", "cache_size=-32768"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    return engine


def _guard(engine: Engine, file: str) -> None:
    """Raise DamagedDatabaseError for an error of SQLite that means damage, and for every transaction once a check has
    found damage: a damaged file may also answer wrongly without an error."""
    guard = integrity.guard_of(file)

    @event.listens_for(engine, "begin")
    def refuse(_: Connection) -> None:
        if damage := guard.damage():
            raise DamagedDatabaseError(damage)

    @event.listens_for(engine, "handle_error")
    def explain(context: ExceptionContext) -> None:
        if integrity.is_damage(context.original_exception):
            guard.suspected.set()
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
    """Errors of a server that is gone, starting, stopping or out of connections are temporary, others are not."""
    if context.is_pre_ping or not isinstance(context.sqlalchemy_exception, OperationalError):
        return
    raise StoreUnavailableError(" ".join(str(context.original_exception).split())) from context.original_exception


@contextmanager
def writing(engine: Engine, lock: int | None = None) -> Iterator[Connection]:
    """One transaction, begun as a writer's: SQLite refuses to upgrade a reader's after another process has written. On
    PostgreSQL it holds the advisory `lock`. Raises StoreError when the database refuses."""
    try:
        with engine.begin() as connection:
            if engine.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            elif lock is not None:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({lock})")
            yield connection
    except DBAPIError as error:
        raise StoreError(f"cannot write to {engine.url.render_as_string()}: {error.orig}") from error


def create_tables(engine: Engine, tables: MetaData) -> None:
    """Create the tables of a component that do not exist, in a database that other components may share. Raises
    StoreError where one of them has other columns: it is another component's, or of another version."""
    with writing(engine, _SCHEMA_LOCK) as connection:
        migrations.separate_paid_intervals(connection)
        tables.create_all(connection)
        inspector = inspect(connection)
        for table in tables.sorted_tables:
            columns = {column["name"] for column in inspector.get_columns(table.name)}
            if columns != set(table.columns.keys()):
                raise StoreError(
                    f"the table {table.name} of {engine.url.render_as_string()} has other columns than this program's "
                    f"({', '.join(sorted(columns ^ set(table.columns.keys())))}): use the version that made it, or "
                    "another database"
                )


def _prepare(connection: Connection, file: str | None) -> None:
    """Create or migrate the tables: all or nothing, one process at a time. `file` is SQLite's."""
    existing = set(inspect(connection).get_table_names())
    is_whole = set(metadata.tables) <= existing and not migrations.is_misnamed(connection)
    if is_whole and _schema(connection) not in migrations.STEPS:
        return
    if file is None:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _SCHEMA_LOCK})
    else:
        # the driver itself begins no transaction for CREATE
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    version = _schema(connection) if meta.name in inspect(connection).get_table_names() else None
    migrations.separate_paid_intervals(connection)
    if version in migrations.STEPS:
        with _without_writer(connection, file, version):
            log.warning("the database has schema %s, of an earlier version: migrating it to %s", version, SCHEMA)
            migrations.migrate(connection, version)
    if version is None or version in {SCHEMA, *migrations.STEPS}:
        migrations.create_missing(connection)
    if version is None:
        rows = [{"key": "schema", "value": SCHEMA}, {"key": "epoch", "value": uuid.uuid4().hex}]
        connection.execute(insert(meta), rows)


def _schema(connection: Connection) -> str | None:
    return connection.execute(select(meta.c.value).where(meta.c.key == "schema")).scalar()


@contextmanager
def _without_writer(connection: Connection, file: str | None, version: str) -> Iterator[None]:
    """Keep indexers, which must be of an earlier version, from writing meanwhile. Raises StoreError while one does."""
    busy = f"the database has schema {version!r}, and an indexer of an earlier version is writing to it; stop it first"
    if file is None:
        if not connection.execute(select(func.pg_try_advisory_xact_lock(WRITER_LOCK))).scalar_one():
            raise StoreError(busy)
        yield
        return
    with Path(f"{file}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(busy) from None
        yield


def _check(connection: Connection, *, importing: bool, replica: bool) -> None:
    if replica and meta.name not in inspect(connection).get_table_names():
        raise StoreError(
            "the replica holds no registry yet: let `a2b index` create it in A2B_DATABASE, and wait for it"
        )
    values = dict(connection.execute(select(meta.c.key, meta.c.value)).all())
    if values.get("schema") != SCHEMA:
        raise StoreError(
            f"the {'replica' if replica else 'database'} has schema {values.get('schema')!r} and this program reads "
            f"{SCHEMA!r}: use the version that made it, or index into a new database"
        )
    missing = metadata.tables.keys() - set(inspect(connection).get_table_names())
    if missing:
        raise StoreError(
            f"the database lacks the tables {', '.join(sorted(missing))}: run `a2b index` of this version on it once"
        )
    if IMPORTING in values and not importing:
        raise StoreError(
            "an import into this database was interrupted or is under way: "
            "run `a2b import` again, or use another database"
        )


def begin_import(engine: Engine) -> None:
    """Mark the database as incomplete until `finish_import`; the rows of an interrupted import are deleted.

    Raises StoreError when the database holds rows of anything else.
    """
    with engine.connect() as connection:
        is_marked = connection.execute(select(meta.c.key).where(meta.c.key == IMPORTING)).first() is not None
        filled = [table.name for table in _tables() if connection.execute(select(table).limit(1)).first()]
    if is_marked:
        empty(engine)
    elif filled:
        name = engine.url.render_as_string()
        raise StoreError(f"the database {name} holds {', '.join(filled)} already: import into a new database")
    with engine.begin() as connection:
        connection.execute(insert(meta).values(key=IMPORTING, value="1"))


def finish_import(engine: Engine) -> None:
    """Mark the database as complete."""
    with engine.begin() as connection:
        connection.execute(delete(meta).where(meta.c.key == IMPORTING))


def empty(engine: Engine) -> None:
    """Delete every row but the schema's version, in one transaction; the outbox gets a new epoch."""
    with engine.begin() as connection:
        for table in reversed(_tables()):
            connection.execute(delete(table))
        connection.execute(delete(meta).where(meta.c.key != "schema"))
        connection.execute(insert(meta).values(key="epoch", value=uuid.uuid4().hex))


def _tables() -> list[Table]:
    """All tables but `meta`, each after those that it refers to."""
    return [table for table in metadata.sorted_tables if table is not meta]
