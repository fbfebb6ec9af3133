"""Databases that earlier versions of this program made: brought up to date where they are, nothing lost.

Each step leads from one schema to the next, inside one transaction of `database.connect`; tables that are merely new
are made by it afterwards. Facts stay as they are: what a step adds follows from them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Connection, Table, bindparam, inspect, select, update

from indexer.facts import Event
from indexer.store import anchors, rows
from indexer.store.tables import events, meta, metadata, pending
from parsers.cards import Kind

_AT_ONCE = 1_000  # events held in memory


def migrate(connection: Connection, found: str) -> None:
    """Lead a database from schema `found`, a key of `STEPS`, to the one that this program reads."""
    while (step := STEPS.get(found)) is not None:
        step(connection)
        found = str(int(found) + 1)
        connection.execute(update(meta).where(meta.c.key == "schema").values(value=found))


def make_missing(connection: Connection) -> None:
    """Make the tables and the indexes that are not there."""
    metadata.create_all(connection)
    for table in metadata.sorted_tables:
        there = {index["name"] for index in inspect(connection).get_indexes(table.name)}
        for index in table.indexes:
            if index.name not in there:
                index.create(connection)


def _living_chains(_: Connection) -> None:
    """From "1", which followed files alone: the tables of proofs, headers, requests and the unconfirmed are new. What
    was stored before stays without a proof until it is read again."""


def _pointers(connection: Connection) -> None:
    """From "2", which wrote pointers down without fetching for them: each tells its digest and its kind from now on,
    and is due to be fetched as if it had just been seen, for nothing fetched earlier could meet it (law 9)."""
    binary = events.c.anchor_digest.type.compile(connection.dialect)
    there = set(inspect(connection).get_table_names())
    for table in (events, pending):
        if table.name in there:
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN anchor_digest {binary}")
    connection.exec_driver_sql("DROP INDEX IF EXISTS events_by_anchor")
    make_missing(connection)
    now = int(time.time() * 1000)
    for table in (events, pending):
        for batch in _pointed(connection, table):
            _tell_more(connection, table, batch)
            if table is events:
                _see(connection, batch, now)


def _pointed(connection: Connection, table: Table) -> Iterator[list[dict[str, Any]]]:
    """The rows of pointers, in order, in batches."""
    columns = (table.c.chain, table.c.place)
    last: tuple[str, int] = ("", -1)
    while True:
        later = (table.c.chain > last[0]) | ((table.c.chain == last[0]) & (table.c.place > last[1]))
        statement = select(table).where(table.c.pointer.is_not(None), later).order_by(*columns).limit(_AT_ONCE)
        found = [dict(row) for row in connection.execute(statement).mappings()]
        if not found:
            return
        last = (found[-1]["chain"], found[-1]["place"])
        yield found


def _tell_more(connection: Connection, table: Table, found: list[dict[str, Any]]) -> None:
    """Write the digest beside the anchor, and the kind, an agent, behind the other parts of the pointer."""
    told = []
    for row in found:
        parts = json.loads(row["pointer"])[:4]
        row["pointer"] = json.dumps([*parts, Kind.AGENT.value], separators=(",", ":"))
        row["anchor_digest"] = bytes.fromhex(parts[1]) if parts[1] is not None and row["anchor"] is not None else None
        told.append({"c": row["chain"], "p": row["place"], "text": row["pointer"], "digest": row["anchor_digest"]})
    here = (table.c.chain == bindparam("c"), table.c.place == bindparam("p"))
    statement = update(table).where(*here)
    connection.execute(statement.values(pointer=bindparam("text"), anchor_digest=bindparam("digest")), told)


def _see(connection: Connection, found: list[dict[str, Any]], now: int) -> None:
    pointers: list[tuple[str, Event]] = [(row["chain"], rows.event(row)) for row in found if row["anchor"] is not None]
    anchors.see_again(connection, pointers, now)


STEPS: dict[str, Callable[[Connection], None]] = {"1": _living_chains, "2": _pointers}
"""By the schema that a database has: what leads to the next one."""
