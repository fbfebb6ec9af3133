"""The tables of a database: created on its first use, migrated where that is requested, and checked on every later
use, whichever component opens it: those of the core and of every part that declares more (`declarations`)."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, func, insert, inspect, select, update
from sqlalchemy.exc import DatabaseError, OperationalError

from indexer.declarations import declarations
from indexer.model import SCHEMA
from indexer.store import (  # noqa: F401 - they declare
    chain_counts,
    clients,
    followers,
    hidden,
    listed_pointers,
    logos,
    migrations,
    nonces,
    peer_addresses,
    requests,
    search_counts,
    statistics,
)
from indexer.store.database import (
    BUSY_SECONDS,
    DamagedDatabaseError,
    StoreError,
    StoreUnavailableError,
    guard,
    unchecked,
)
from indexer.store.database_copy import CopyPlan, make_copy, planned_copy
from indexer.store.locks import advisory_lock
from indexer.store.process_lock import writer_lock
from indexer.store.schema import IMPORTING, meta, metadata, new_hash_key

log = logging.getLogger(__name__)

_SCHEMA_LOCK = advisory_lock("")
"""While tables are created or migrated."""

_MIGRATE = "run `a2b migrate`, `a2b index` or `a2b up` of this version on it once"


class Migration(Enum):
    """The treatment of a database of version 0.2.0. A file of SQLite is copied first, beside it, unless the copy is
    declined."""

    REFUSED = 0
    WITH_COPY = 1
    WITHOUT_COPY = 2


class MigrationPlan(NamedTuple):
    """The changes of a migration: the schema of the database, the tables that it lacks, and the copy that is made
    first, of SQLite."""

    version: str
    missing: tuple[str, ...]
    copy: CopyPlan | None


def connect_read_only(file: Path) -> Engine:
    """A connection pool for a SQLite file that this user cannot write, or beside which no files can be created.

    While another process writes it, its write-ahead log is read, too; otherwise the file is opened as immutable. Raises
    StoreError as `connect`.
    """
    _declare_tables()
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


def connect(
    url: str,
    *,
    create: bool = True,
    migration: Migration = Migration.REFUSED,
    importing: bool = False,
    replica: bool = False,
) -> Engine:
    """A connection pool for `url` (`sqlite:///PATH` or `postgresql+psycopg://…`) with the schema in place: missing
    tables are created with `create`, and tables of version 0.2.0 are migrated as `migration` says. A `replica` is only
    read.

    Raises StoreError when the URL names no database, or one of another version of this program, or, unless `importing`,
    one with an incomplete import; StoreUnavailableError when it cannot be reached.
    """
    with _connecting(url) as engine, ExitStack() as after_error:
        if create and not replica:
            _make_private(engine)
        with engine.begin() as connection:
            is_changed = create and not replica and _prepare(engine, connection, migration, after_error)
            _check(connection, importing=importing, replica=replica)
        after_error.pop_all()
        if is_changed:
            with engine.begin() as connection:
                migrations.drop_superseded(connection)
    return engine


def plan_migration(url: str) -> MigrationPlan:
    """The migration that `connect` would make in a database; nothing is changed. Raises StoreError, also where this
    version cannot migrate it."""
    with _connecting(url) as engine, engine.connect() as connection:
        version = _version(connection)
        if version not in (SCHEMA, migrations.PREVIOUS):
            _check(connection, importing=False, replica=False)
        missing = sorted(metadata.tables.keys() - migrations.present_names(migrations.stored_columns(connection)))
        copy = _planned_copy(engine) if version == migrations.PREVIOUS else None
    engine.dispose()
    return MigrationPlan(str(version), tuple(missing), copy)


def _make_private(engine: Engine) -> None:
    """Make the file of a new SQLite database, which its user alone may read: the files beside it have its mode."""
    if engine.dialect.name == "sqlite":
        with suppress(OSError):  # it exists, or cannot be made, which opening it names
            os.close(os.open(str(engine.url.database), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _declare_tables() -> None:
    for declare in declarations:
        declare()


@contextmanager
def _connecting(url: str) -> Iterator[Engine]:
    """A connection pool that an error closes; errors of its driver become a StoreError that names the database. First
    all tables are declared."""
    _declare_tables()
    engine = unchecked(url)
    name = engine.url.render_as_string()
    try:
        yield engine
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


def _prepare(engine: Engine, connection: Connection, migration: Migration, after_error: ExitStack) -> bool:
    """Create or migrate the tables: all or nothing, one process at a time. Returns whether that was needed."""
    version = _version(connection)
    if version == migrations.PREVIOUS and migration is Migration.REFUSED:
        return False
    if version == SCHEMA and _is_complete(connection):
        return False
    if engine.dialect.name == "sqlite":
        # the driver itself begins no transaction for CREATE
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(select(func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
    version = _version(connection)
    if version == migrations.PREVIOUS:
        _migrate(engine, connection, migration, after_error)
    if version in (None, SCHEMA, migrations.PREVIOUS):
        _check_columns(connection, migrations.stored_columns(connection))
        migrations.create_missing(connection)
        statistics.write_missing(connection)
    if version is None:
        rows = [{"key": "schema", "value": SCHEMA}, {"key": "epoch", "value": uuid.uuid4().hex}, new_hash_key()]
        connection.execute(insert(meta), rows)
    return True


def _is_complete(connection: Connection) -> bool:
    has_tables = metadata.tables.keys() <= migrations.stored_columns(connection).keys()
    return has_tables and not migrations.missing_indexes(connection) and not statistics.missing(connection)


def _migrate(engine: Engine, connection: Connection, migration: Migration, after_error: ExitStack) -> None:
    """Migrate while no indexer of that version writes; `after_error` removes the copy. Raises StoreError while one
    does, or where there is no room for the copy."""
    lock = writer_lock(engine)
    if not lock.acquire():
        raise StoreError(
            f"an indexer of version {migrations.PREVIOUS_VERSION} writes to the database, which would be migrated: "
            "stop it first"
        )
    try:
        copy = _planned_copy(engine) if migration is Migration.WITH_COPY else None
        if copy is not None:
            make_copy(copy)
            after_error.callback(copy.path.unlink, missing_ok=True)
        copied = f"it was copied to {copy.path} first" if copy is not None else "without a copy of it"
        log.warning(
            "the database has schema %s, of version %s: migrating it to %s, %s",
            migrations.PREVIOUS, migrations.PREVIOUS_VERSION, SCHEMA, copied,
        )  # fmt: skip
        migrations.migrate(connection)
        connection.execute(update(meta).where(meta.c.key == "schema").values(value=SCHEMA))
    finally:
        lock.release()


def _planned_copy(engine: Engine) -> CopyPlan | None:
    """The copy before a migration; None of a database on a server."""
    return (
        planned_copy(Path(str(engine.url.database)), migrations.PREVIOUS) if engine.dialect.name == "sqlite" else None
    )


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
    stored = migrations.stored_columns(connection)
    missing = metadata.tables.keys() - stored.keys()
    if missing:
        raise StoreError(f"the database lacks the tables {', '.join(sorted(missing))}: {_MIGRATE}")
    _check_columns(connection, stored)
    is_importing = select(meta.c.key).where(meta.c.key == IMPORTING)
    if not importing and connection.execute(is_importing).first() is not None:
        raise StoreError(
            "an import into this database was interrupted or is under way: "
            "run `a2b import` again, or use another database"
        )


def _advice(version: str) -> str:
    if version == migrations.PREVIOUS:
        return _MIGRATE
    if version.isdecimal() and int(version) < int(SCHEMA):
        return (
            f"this version migrates databases of version {migrations.PREVIOUS_VERSION} (schema {migrations.PREVIOUS}) "
            "alone: open it once with that version, or index into a new database"
        )
    return "use the version that made it, or index into a new database"


def _check_columns(connection: Connection, stored: Mapping[str, set[str]]) -> None:
    """Raises StoreError where a table has other columns: it is another program's, or of another version."""
    for name, columns in stored.items():
        if name in metadata.tables and (other := columns ^ set(metadata.tables[name].columns.keys())):
            raise StoreError(
                f"the table {name} of {connection.engine.url.render_as_string()} has other columns than this program's "
                f"({', '.join(sorted(other))}): use the version that made it, or another database"
            )
