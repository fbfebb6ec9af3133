"""Migration of databases of earlier versions, in place.

Each step leads from one schema to the next, inside one transaction of `layout.connect`; new tables are created after
the steps. A step finds any of the tables missing: payments may be in a database without a registry.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from sqlalchemy import Connection, Index, inspect

from indexer.store.database import StoreError
from indexer.store.schema import metadata, prepare_for_postgresql

OLDEST = "5"
"""The oldest schema that is migrated, of November 2026."""

SUPERSEDED = ("events_by_tx", "events_by_transaction", "events_by_outpoint", "ratings_by_time")
"""Indexes of earlier versions with this schema, of which others do the work."""

log = logging.getLogger(__name__)


def migrate(connection: Connection, version: str) -> None:
    """Migrate tables from schema `version`, a key of `STEPS`, to the one that this program reads."""
    while (step := STEPS.get(version)) is not None:
        step(connection)
        version = str(int(version) + 1)


def create_missing(connection: Connection) -> None:
    """Create the tables and indexes that do not exist."""
    if connection.dialect.name == "postgresql":
        prepare_for_postgresql()
    metadata.create_all(connection)
    for index in missing_indexes(connection):
        index.create(connection)


def drop_superseded(connection: Connection) -> None:
    """Drop the indexes of which others do the work, in a transaction after that of `create_missing`: PostgreSQL locks
    readers out of the table until it ends, also those of a replica."""
    for name in SUPERSEDED:
        connection.exec_driver_sql(f"DROP INDEX IF EXISTS {name}")


def missing_indexes(connection: Connection) -> list[Index]:
    """The indexes that a database with all tables lacks."""
    stored = {index["name"] for indexes in inspect(connection).get_multi_indexes().values() for index in indexes}
    return [index for table in metadata.sorted_tables for index in table.indexes if index.name not in stored]


def _one_layout(connection: Connection) -> None:
    """From "5", in which the tables of payments and of the relay were apart, and some names were not those of the
    code."""
    _separate_paid_intervals(connection)
    inspector = inspect(connection)
    if inspector.has_table("relay_settlements") and not inspector.has_table("relay_trust"):
        raise StoreError(
            "the relay's tables are older than those that this program migrates: "
            f"open them once with a version of this program that has schema {OLDEST}"
        )
    if inspector.has_table("found"):
        connection.exec_driver_sql("ALTER TABLE found RENAME TO extra_transactions")
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("ALTER INDEX IF EXISTS found_pkey RENAME TO extra_transactions_pkey")
        connection.exec_driver_sql("ALTER INDEX IF EXISTS events_by_seat RENAME TO events_by_outpoint")
    else:
        connection.exec_driver_sql("DROP INDEX IF EXISTS events_by_seat")
    _one_queue(connection)


_ENDPOINT = "endpoint || '#' || public_key || '@' || host"
_LOGO = "CASE WHEN lower(substr(url, 1, 8)) = 'https://' THEN url ELSE 'data:' || {hex} END"

_QUEUES = {
    # the table: the kind, name and target of its checks, when each ended, why it failed, columns that go
    "badges": ("badge", "registration", "host", "checked_at", "reason", "tries reason next_at"),
    "card_signatures": ("keys", "{hex}", "url", "checked_at", "reason", "tries checked_at next_at"),
    "motebit_hosts": ("motebit", "host", "host", "0", "reason", "tries next_at"),
    "motebit_endpoints": ("mcp", _ENDPOINT, _ENDPOINT, "checked_at", "reason", "tries next_at"),
    "logos": ("logo", _LOGO, _LOGO, "noted_at", "reason", "tries reason next_at"),
    "mrp_providers": ("mrp", "manifest_url", "manifest_url", "verified_at", "reason", "tries reason next_at"),
}


def _one_queue(connection: Connection) -> None:
    """Move the due times of six kinds of checks into one table; its name belonged to the checks of outpoints before."""
    inspector = inspect(connection)
    is_server = connection.dialect.name == "postgresql"
    if inspector.has_table("checks"):
        connection.exec_driver_sql("ALTER TABLE checks RENAME TO spend_checks")
        if is_server:
            connection.exec_driver_sql("ALTER INDEX IF EXISTS checks_pkey RENAME TO spend_checks_pkey")
    metadata.tables["checks"].create(connection)
    for table, (kind, name, target, checked_at, reason, columns) in _QUEUES.items():
        if not inspector.has_table(table):
            continue
        blob = "url_sha256" if table == "logos" else "card"
        as_hex = f"encode({blob}, 'hex')" if is_server else f"lower(hex({blob}))"
        values = f"{name}, {target}, tries, {checked_at}, {reason}, next_at".format(hex=as_hex)
        where = " WHERE url <> ''" if table == "card_signatures" else ""
        into = "INSERT INTO checks (kind, name, target, tries, checked_at, reason, next_at)"
        connection.exec_driver_sql(f"{into} SELECT '{kind}', {values} FROM {table}{where}")  # noqa: S608 - constants
        connection.exec_driver_sql(f"DROP INDEX IF EXISTS {table}_due")
        for column in columns.split():
            connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN {column}")
    if inspector.has_table("badges"):
        connection.exec_driver_sql("ALTER TABLE badges RENAME COLUMN checked_at TO verified_at")
        connection.exec_driver_sql("UPDATE badges SET verified_at = 0 WHERE by = ''")


def _separate_paid_intervals(connection: Connection) -> None:
    """Where the table `subscriptions`, which is that of webhooks, is what early payments created under the same name,
    give the paid intervals their own table, with their rows."""
    inspector = inspect(connection)
    if not inspector.has_table("subscriptions"):
        return
    if "paid_until" not in {column["name"] for column in inspector.get_columns("subscriptions")}:
        return
    log.warning("the table subscriptions holds paid intervals: it is renamed to paid_intervals")
    if not inspector.has_table("paid_intervals"):
        connection.exec_driver_sql("ALTER TABLE subscriptions RENAME TO paid_intervals")
        return
    connection.exec_driver_sql(
        "INSERT INTO paid_intervals (id, config, started_at, periods, paid_until) "
        "SELECT id, config, started_at, periods, paid_until FROM subscriptions "
        "WHERE id NOT IN (SELECT id FROM paid_intervals)"
    )
    connection.exec_driver_sql("DROP TABLE subscriptions")


STEPS: dict[str, Callable[[Connection], None]] = {"5": _one_layout}
"""By the schema of a database: the step to the next one."""
