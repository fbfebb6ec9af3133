"""Migration of databases of version 0.2.0, in place: one step, in one transaction of `layout.connect`, which then
creates new tables. Any may be missing: a program has the tables of its own modules."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, Index, delete, insert, literal_column, null, select

from indexer.model import EVM
from indexer.store.schema import (
    CHAIN,
    READ_TWICE,
    meta,
    metadata,
    new_hash_key,
    outbox_positions,
    prepare_for_postgresql,
)

PREVIOUS, PREVIOUS_VERSION = "6", "0.2.0"
"""The only schema that is migrated and whose backups are restored; the version of this program that has it."""

RENAMED = {"claim_documents": "signed_documents", "cursors": "outbox_positions", "evidence": "receipts"}
"""The names of tables of that version, and those that they have now."""

SUPERSEDED = (
    "events_by_tx", "events_by_outpoint", "ratings_by_time", "evidence_by_counter_signer", "evidence_by_listing",
    "evidence_by_paid", "evidence_by_payment", "evidence_by_time", "evidence_by_worker",
)  # fmt: skip
"""Indexes of that version whose work other indexes do."""


def migrate(connection: Connection) -> None:
    """Migrate tables of schema `PREVIOUS`. State hashes are computed again, with those of pointers, and of EVM chains
    for blocks that were read twice: their lines are those of the newest block."""
    connection.exec_driver_sql("DROP TABLE IF EXISTS state_hashes")
    stored = stored_columns(connection).keys()
    for name in RENAMED.keys() & stored:
        connection.exec_driver_sql(f"ALTER TABLE {name} RENAME TO {RENAMED[name]}")
    tables = present_names(stored)
    _read_twice(connection, tables)
    _add_columns(connection, tables)
    if "ratings" in tables:
        _count_customers(connection)
    connection.execute(insert(meta), [new_hash_key()])


def present_names(stored: Iterable[str]) -> set[str]:
    """The names that stored tables have after a migration."""
    return {RENAMED.get(name, name) for name in stored}


def create_missing(connection: Connection) -> None:
    """Create the tables and indexes that do not exist."""
    if connection.dialect.name == "postgresql":
        prepare_for_postgresql()
    stored = stored_columns(connection)
    missing = [table for table in metadata.sorted_tables if table.name not in stored]
    metadata.create_all(connection, missing, checkfirst=False)
    for index in missing_indexes(connection):
        index.create(connection)


def drop_superseded(connection: Connection) -> None:
    """Drop the indexes whose work others do, in a transaction after that of `create_missing`: PostgreSQL locks readers
    out of the table until it ends, also those of a replica."""
    for name in SUPERSEDED:
        connection.exec_driver_sql(f"DROP INDEX IF EXISTS {name}")


def missing_indexes(connection: Connection) -> list[Index]:
    """The indexes that a database with all tables lacks."""
    stored = set(connection.exec_driver_sql(_INDEXES[connection.dialect.name]).scalars())
    return [index for table in metadata.sorted_tables for index in table.indexes if index.name not in stored]


_INDEXES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'index'",
    "postgresql": "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()",
}
_COLUMNS = {
    "sqlite": "SELECT tables.name, columns.name FROM sqlite_master AS tables "
    "JOIN pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'",
    "postgresql": "SELECT relname, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid "
    "WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped",
}


def stored_columns(connection: Connection) -> dict[str, set[str]]:
    """The names of the columns of each table in a database, by one statement: an inspector takes one for each table."""
    stored: dict[str, set[str]] = {}
    for table, column in connection.exec_driver_sql(_COLUMNS[connection.dialect.name]):
        stored.setdefault(table, set()).add(column)
    return stored


_NEW_COLUMNS = {
    "events": ("map_base BIGINT",),
    "pending": ("map_base BIGINT",),
    "blocks": ("source INTEGER NOT NULL DEFAULT 1",),
    "paid_tasks": ("card TEXT", "price TEXT"),
    "paid_intervals": ("card TEXT",),
    "deliveries": ("mark TEXT NOT NULL DEFAULT ''",),
    "submission_shares": (
        "number BIGINT NOT NULL DEFAULT 0", "listings INTEGER NOT NULL DEFAULT 1", "size BIGINT NOT NULL DEFAULT 0",
        "settled BOOLEAN NOT NULL DEFAULT FALSE",
    ),
    "motebit_hosts": ("served_key VARCHAR NOT NULL DEFAULT ''", "changed_at BIGINT NOT NULL DEFAULT 0"),
}  # fmt: skip
"""Columns that schema `PREVIOUS` lacks, by table."""


def values_of_new_columns(table: str) -> dict[str, ColumnElement[Any]]:
    """The columns that a table lacks in schema `PREVIOUS`, with the value that its rows get: of a backup as in a
    database."""
    values = {}
    for column in _NEW_COLUMNS.get(table, ()):
        name, default = column.split()[0], column.partition(" DEFAULT ")[2]
        values[name] = literal_column(default) if default else null()
    return values


def _add_columns(connection: Connection, tables: Collection[str]) -> None:
    """Give payments the card that each is for: a store belonged to one card; shares of submissions their listings
    and bytes: transactions were counted; and blocks the number of their source."""
    for table, columns in _NEW_COLUMNS.items():
        for column in columns if table in tables else ():
            connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {column}")


def _read_twice(connection: Connection, tables: Collection[str]) -> None:
    """Have the blocks of EVM chains read a second time."""
    of_logs = meta.c.key.startswith(CHAIN) & meta.c.value.startswith(EVM)
    for key in connection.execute(select(meta.c.key).where(of_logs)).scalars().all():
        name = key.removeprefix(CHAIN)
        connection.execute(insert(meta).values(key=READ_TWICE + name, value="-1"))
        if outbox_positions.name in tables:
            connection.execute(delete(outbox_positions).where(outbox_positions.c.name == f"state:{name}"))


def _count_customers(connection: Connection) -> None:
    """Give ratings their counts: they are absent until they are computed again."""
    for column in ("paid_tasks", "customers", "complaints", "disputed"):
        connection.exec_driver_sql(f"ALTER TABLE ratings ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0")
    connection.exec_driver_sql("UPDATE ratings SET score = NULL, submitted = submitted + 1")
