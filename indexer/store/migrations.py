"""Migration of databases of earlier versions, in place.

Each step leads from one schema to the next, inside one transaction of `database.connect`; new tables are created after
the steps. Facts stay as they are: what a step adds follows from them.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Connection, Table, bindparam, inspect, select, update

from indexer.model import Event
from indexer.store import rows, sightings, topic_anchors
from indexer.store.schema import CHAIN, events, meta, metadata, pending
from parsers.cards import Kind

_BATCH = 1_000  # events in memory

log = logging.getLogger(__name__)


def migrate(connection: Connection, version: str) -> None:
    """Migrate a database from schema `version`, a key of `STEPS`, to the one that this program reads."""
    while (step := STEPS.get(version)) is not None:
        step(connection)
        version = str(int(version) + 1)
        connection.execute(update(meta).where(meta.c.key == "schema").values(value=version))


def create_missing(connection: Connection) -> None:
    """Create the tables and indexes that do not exist."""
    metadata.create_all(connection)
    for table in metadata.sorted_tables:
        existing = {index["name"] for index in inspect(connection).get_indexes(table.name)}
        for index in table.indexes:
            if index.name not in existing:
                index.create(connection)


def is_misnamed(connection: Connection) -> bool:
    """Whether the table `subscriptions`, which is that of webhooks, is what earlier versions of the payments created
    under the same name."""
    if not inspect(connection).has_table("subscriptions"):
        return False
    return "paid_until" in {column["name"] for column in inspect(connection).get_columns("subscriptions")}


def separate_paid_intervals(connection: Connection) -> None:
    """Give the paid intervals of earlier versions their own table, with their rows. Where the webhooks' table was
    there first, the intervals have none: `create_tables` creates it."""
    if not is_misnamed(connection):
        return
    log.warning("the table subscriptions holds paid intervals: it is renamed to paid_intervals")
    if not inspect(connection).has_table("paid_intervals"):
        connection.exec_driver_sql("ALTER TABLE subscriptions RENAME TO paid_intervals")
        return
    connection.exec_driver_sql(
        "INSERT INTO paid_intervals (id, config, started_at, periods, paid_until) "
        "SELECT id, config, started_at, periods, paid_until FROM subscriptions "
        "WHERE id NOT IN (SELECT id FROM paid_intervals)"
    )
    connection.exec_driver_sql("DROP TABLE subscriptions")


def _living_chains(_: Connection) -> None:
    """From "1", which read files only: tables of proofs, headers, requests and unconfirmed events are new. Blocks
    stored before have no proofs until they are read again."""


def _pointers(connection: Connection) -> None:
    """From "2", which stored pointers without fetching: each gets its digest and kind, and is due to be fetched as if
    it had just been seen, for nothing fetched earlier could meet it (law 9)."""
    binary = events.c.anchor_digest.type.compile(connection.dialect)
    existing = set(inspect(connection).get_table_names())
    for table in (events, pending):
        if table.name in existing:
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN anchor_digest {binary}")
    connection.exec_driver_sql("DROP INDEX IF EXISTS events_by_anchor")
    create_missing(connection)
    now = int(time.time() * 1000)
    for table in (events, pending):
        for batch in _pointer_rows(connection, table):
            _add_digest(connection, table, batch)
            if table is events:
                _record_sightings(connection, batch, now)


def _pointer_rows(connection: Connection, table: Table) -> Iterator[list[dict[str, Any]]]:
    """The rows of pointers, in order, in batches."""
    columns = (table.c.chain, table.c.place)
    last: tuple[str, int] = ("", -1)
    while True:
        later = (table.c.chain > last[0]) | ((table.c.chain == last[0]) & (table.c.place > last[1]))
        statement = select(table).where(table.c.pointer.is_not(None), later).order_by(*columns).limit(_BATCH)
        page = [dict(row) for row in connection.execute(statement).mappings()]
        if not page:
            return
        last = (page[-1]["chain"], page[-1]["place"])
        yield page


def _add_digest(connection: Connection, table: Table, page: list[dict[str, Any]]) -> None:
    """Store the digest in its column, and the kind, an agent, as the last part of the pointer."""
    updates = []
    for row in page:
        parts = json.loads(row["pointer"])[:4]
        row["pointer"] = json.dumps([*parts, Kind.AGENT.value], separators=(",", ":"))
        row["anchor_digest"] = bytes.fromhex(parts[1]) if parts[1] is not None and row["anchor"] is not None else None
        updates.append({"c": row["chain"], "p": row["place"], "text": row["pointer"], "digest": row["anchor_digest"]})
    same = (table.c.chain == bindparam("c"), table.c.place == bindparam("p"))
    statement = update(table).where(*same)
    connection.execute(statement.values(pointer=bindparam("text"), anchor_digest=bindparam("digest")), updates)


def _record_sightings(connection: Connection, page: list[dict[str, Any]], now: int) -> None:
    pointers: list[tuple[str, Event]] = [(row["chain"], rows.event(row)) for row in page if row["anchor"] is not None]
    sightings.record_stored(connection, pointers, now)


def _anchors(connection: Connection) -> None:
    """From "3", which had no anchors of the topic: they follow from the stored blocks and events."""
    create_missing(connection)
    names = connection.execute(select(meta.c.key).where(meta.c.key.startswith(CHAIN))).scalars().all()
    for name in names:
        topic_anchors.extend(connection, name.removeprefix(CHAIN))


RENAMED = (
    ("requests", "asked_at", "requested_at"),
    ("checks", "asked_at", "tried_at"),
    ("checks", "told_at", "announced_at"),
    ("quotes", "at", "quoted_at"),
)
"""Columns that were renamed: table, old name, new name."""


def _rename_columns(connection: Connection) -> None:
    """From "4", in which columns of times had other names. Tables that an earlier step created have the new ones."""
    create_missing(connection)
    for table, old, new in RENAMED:
        if old in {column["name"] for column in inspect(connection).get_columns(table)}:
            connection.exec_driver_sql(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")


STEPS: dict[str, Callable[[Connection], None]] = {
    "1": _living_chains,
    "2": _pointers,
    "3": _anchors,
    "4": _rename_columns,
}
"""By the schema of a database: the step to the next one."""
