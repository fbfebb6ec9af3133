"""The unconfirmed in the database: what would be if the source's mempool were mined next, replaced as a whole.

Each function works inside a transaction of the writer and answers with what the outbox has to say about it. Nothing of
the mempool is left behind when it goes: the bodies of its cards stand in a table of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, select

from indexer.facts import UNCONFIRMED, BlockRef, Event, Reading
from indexer.store.rows import Row, event_row
from indexer.store.tables import events, pending, pending_cards
from parsers.tx import Outpoint

BATCH = 500
"""Names in one statement: below SQLite's oldest limit of 999 parameters."""

_WHERE_IT_STANDS = ("place", "tx_index", "updated_height", "created_height")
"""What changes of an event when others come or go, or are mined, though it says the same."""

Notes = list[dict[str, Any]]


def replace(connection: Connection, chain: str, said: Iterable[Event], bodies: Mapping[bytes, bytes]) -> Notes:
    """Let these events, and the cards they name, be all that is unconfirmed of a chain; nothing is written when they
    are so already."""
    nowhere = BlockRef(chain, UNCONFIRMED, b"", b"", 0, b"")
    after = [event_row(nowhere, event) for event in said]
    before = _rows(connection, chain)
    if before == after:
        return []
    connection.execute(delete(pending).where(pending.c.chain == chain))
    connection.execute(delete(pending_cards).where(pending_cards.c.chain == chain))
    _insert(connection, pending, after)
    named = {digest: bodies[digest] for row in after if (digest := row["card"]) in bodies}
    cards = [{"chain": chain, "sha256": digest, "body": body} for digest, body in named.items()]
    _insert(connection, pending_cards, cards)
    return _notes(connection, chain, _by_registration(before), _by_registration(after))


def chains(connection: Connection) -> Sequence[str]:
    """The chains of which something is unconfirmed."""
    return connection.execute(select(pending.c.chain).distinct()).scalars().all()


def _rows(connection: Connection, chain: str) -> list[dict[str, Any]]:
    found = connection.execute(select(pending).where(pending.c.chain == chain).order_by(pending.c.place))
    return [dict(row) for row in found.mappings()]


def _insert(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    if rows:
        connection.execute(insert(table), rows)


def _by_registration(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Of each registration what is said of it, without where that stands among the rest."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row["registration"] is not None:
            kept = {name: value for name, value in row.items() if name not in _WHERE_IT_STANDS}
            found.setdefault(row["registration"], []).append(kept)
    return found


def _notes(connection: Connection, chain: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Notes:
    gone = before.keys() - after.keys()
    stay = _confirmed(connection, chain, gone)
    changed = sorted(id_ for id_, rows in after.items() if before.get(id_) != rows)
    news = [(id_, "upsert", "pending") for id_ in changed]
    news += [(id_, "upsert" if id_ in stay else "remove", "evicted") for id_ in sorted(gone)]
    return [{"chain": chain, "op": op, "id": id_, "height": None, "reason": why} for id_, op, why in news]


def _confirmed(connection: Connection, chain: str, ids: Iterable[str]) -> set[str]:
    """Those of these registrations that are in a block."""
    found: set[str] = set()
    wanted = list(ids)
    for at in range(0, len(wanted), BATCH):
        some = events.c.registration.in_(wanted[at : at + BATCH])
        found |= set(connection.execute(select(events.c.registration).where(some, events.c.chain == chain)).scalars())
    return found


def mined(connection: Connection, chain: str, readings: Sequence[Reading]) -> None:
    """Take out what these blocks hold, and what they contradict; what goes on from them stays.

    The blocks' own notes name every registration concerned.
    """
    columns = (pending.c.place, pending.c.txid, pending.c.registration, pending.c.spent_txid, pending.c.spent_vout)
    waiting = connection.execute(select(*columns).where(pending.c.chain == chain).order_by(pending.c.place)).all()
    if not waiting:
        return
    said = [event for reading in readings for event in reading.events]
    txids = {event.txid for event in said}
    seats = {event.state.id: event.state.outpoint for event in said if event.state}
    gone = [row.place for row in waiting if row.txid in txids]
    rest = sorted((row for row in waiting if row.txid not in txids and row.registration in seats), key=_id)
    for id_, group in groupby(rest, key=_id):
        left = list(group)
        if Outpoint(left[0].spent_txid, left[0].spent_vout) != seats[id_]:
            gone += [row.place for row in left]
    _delete(connection, chain, gone)


def _id(row: Any) -> str:
    id_: str = row.registration
    return id_


def _delete(connection: Connection, chain: str, places: Sequence[int]) -> None:
    for at in range(0, len(places), BATCH):
        some = pending.c.place.in_(places[at : at + BATCH])
        connection.execute(delete(pending).where(pending.c.chain == chain, some))


def forgotten(connection: Connection, chain: str, ids: Sequence[str]) -> None:
    """Take out what goes on from blocks that are no longer there: all that is said of these registrations."""
    for at in range(0, len(ids), BATCH):
        some = pending.c.registration.in_(ids[at : at + BATCH])
        connection.execute(delete(pending).where(pending.c.chain == chain, some))
