"""The tables of a database: created on its first use, migrated in one of an earlier version, and checked on every later
use, whichever component opens it: those of every module that was imported before."""

from __future__ import annotations

import logging
import uuid
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, func, insert, inspect, select, update
from sqlalchemy.exc import DatabaseError, OperationalError

from indexer.model import SCHEMA
from indexer.store import migrations, nonces, requests, statistics  # noqa: F401 - they declare tables
from indexer.store.database import (
    BUSY_SECONDS,
    DamagedDatabaseError,
    StoreError,
    StoreUnavailableError,
    guard,
    unchecked,
)
from indexer.store.locks import AdvisoryLock
from indexer.store.process_lock import writer_lock
from indexer.store.schema import IMPORTING, meta, metadata

log = logging.getLogger(__name__)


def connect_read_only(file: Path) -> Engine:
    """A connection pool for a SQLite file that this user cannot write, or beside which no files can be created.

    While another process writes it, its write-ahead log is read, too; otherwise the file is opened as immutable. Raises
    StoreError as `connect`.
    """
    for query in ({"uri": "true", "mode": "ro"}, {"uri": "true", "mode": "ro", "immutable": "1"}):
        url = URL.create("sqlite", database=f"file:{quote(str(file.absolute()))}", query=query)
        engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})
        guard(engine, str(file))
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
            is_changed = not replica and _prepare(engine, connection)
            _check(connection, importing=importing, replica=replica)
        if is_changed:
            with engine.begin() as connection:
                migrations.drop_superseded(connection)
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


def _prepare(engine: Engine, connection: Connection) -> bool:
    """Create or migrate the tables: all or nothing, one process at a time. Returns whether that was needed."""
    if _version(connection) == SCHEMA and _is_complete(connection):
        return False
    if engine.dialect.name == "sqlite":
        # the driver itself begins no transaction for CREATE
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(select(func.pg_advisory_xact_lock(int(AdvisoryLock.SCHEMA))))
    version = _version(connection)
    if version in migrations.STEPS:
        _migrate(engine, connection, version)
    elif version is None:
        # none, or payments of an earlier version without a registry
        migrations.migrate(connection, migrations.OLDEST)
    if version is None or version in {SCHEMA, *migrations.STEPS}:
        _check_columns(connection)
        migrations.create_missing(connection)
        statistics.write_missing(connection)
    if version is None:
        rows = [{"key": "schema", "value": SCHEMA}, {"key": "epoch", "value": uuid.uuid4().hex}]
        connection.execute(insert(meta), rows)
    return True


def _is_complete(connection: Connection) -> bool:
    has_tables = metadata.tables.keys() <= {*inspect(connection).get_table_names()}
    return has_tables and not migrations.missing_indexes(connection) and not statistics.missing(connection)


def _migrate(engine: Engine, connection: Connection, version: str) -> None:
    """Migrate while no indexer writes, which must be of an earlier version. Raises StoreError while one does."""
    lock = writer_lock(engine)
    if not lock.acquire():
        raise StoreError(
            f"the database has schema {version!r}, and an indexer of an earlier version is writing to it; stop it first"
        )
    try:
        log.warning("the database has schema %s, of an earlier version: migrating it to %s", version, SCHEMA)
        migrations.migrate(connection, version)
        connection.execute(update(meta).where(meta.c.key == "schema").values(value=SCHEMA))
    finally:
        lock.release()


def _version(connection: Connection) -> str | None:
    """The schema version in the database; None where it holds no registry."""
    if not inspect(connection).has_table(meta.name):
        return None
    return connection.execute(select(meta.c.value).where(meta.c.key == "schema")).scalar()


def _check(connection: Connection, *, importing: bool, replica: bool) -> None:
    version = _version(connection)
    if replica and version is None:
        raise StoreError(
            "the replica holds no registry yet: let `a2b index` create it in A2B_DATABASE, and wait for it"
        )
    if version is None:
        raise StoreError(
            f"the database {connection.engine.url.database} holds no registry yet: run `a2b index` of this version once"
        )
    if version != SCHEMA:
        raise StoreError(
            f"the {'replica' if replica else 'database'} has schema {version!r} and this program reads {SCHEMA!r}: "
            + _advice(version)
        )
    missing = metadata.tables.keys() - set(inspect(connection).get_table_names())
    if missing:
        raise StoreError(
            f"the database lacks the tables {', '.join(sorted(missing))}: run `a2b index` of this version on it once"
        )
    _check_columns(connection)
    is_importing = select(meta.c.key).where(meta.c.key == IMPORTING)
    if not importing and connection.execute(is_importing).first() is not None:
        raise StoreError(
            "an import into this database was interrupted or is under way: "
            "run `a2b import` again, or use another database"
        )


def _advice(version: str) -> str:
    if version in migrations.STEPS:
        return "run `a2b index` of this version on it once"
    if version.isdecimal() and int(version) < int(migrations.OLDEST):
        return (
            f"open it once with a version of this program that has schema {migrations.OLDEST} (of November 2026), "
            "which migrates it, or index into a new database"
        )
    return "use the version that made it, or index into a new database"


def _check_columns(connection: Connection) -> None:
    """Raises StoreError where a table has other columns: it is another program's, or of another version."""
    for (_, name), columns in inspect(connection).get_multi_columns().items():
        stored = {column["name"] for column in columns}
        if name in metadata.tables and (other := stored ^ set(metadata.tables[name].columns.keys())):
            raise StoreError(
                f"the table {name} of {connection.engine.url.render_as_string()} has other columns than this program's "
                f"({', '.join(sorted(other))}): use the version that made it, or another database"
            )
