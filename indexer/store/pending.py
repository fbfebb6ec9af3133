"""The unconfirmed in the database: what would be if the source's mempool were mined next.

Each function works inside a transaction of the writer and answers with what the outbox has to say about it. Nothing of
the mempool is left behind when it goes: the bodies of its cards stand in a table of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, select

from indexer.facts import UNCONFIRMED, BlockRef, Event, Reading
from indexer.store.batches import batches
from indexer.store.ranks import ranked, staying
from indexer.store.rows import Row, event_row, place
from indexer.store.tables import POSITION_BITS, events, pending, pending_cards
from parsers.tx import Outpoint

_WHERE_IT_STANDS = ("tx_index", "updated_height", "created_height")
"""What changes of an event when it is mined, though it says the same."""

_PLACES = range(place(UNCONFIRMED), place(UNCONFIRMED) + (1 << POSITION_BITS))
"""Where events may stand. They keep their place as long as they say the same in the same order: with 5,000 of them, one
more takes 0.15 s, and writing all again takes 1.2 s."""

Notes = list[dict[str, Any]]
Content = tuple[Any, ...]
"""A row of `pending` without its place."""

_NAMES = tuple(column.name for column in pending.columns if column.name != "place")
_CARD, _ID = (_NAMES.index(name) for name in ("card", "registration"))


def replace(connection: Connection, chain: str, said: Iterable[Event], bodies: Mapping[bytes, bytes]) -> Notes:
    """Let these events, in this order, and the cards they name be all that is unconfirmed of a chain. Only what differs
    from what is there is written."""
    nowhere = BlockRef(chain, UNCONFIRMED, b"", b"", 0, b"")
    after = [_content(event_row(nowhere, event)) for event in said]
    places, before = _rows(connection, chain)
    if before == after:
        return []
    stays = {new: places[old] for new, old in staying(before, after).items()}
    there = set(stays.values())
    stand = ranked(stays, len(after), _PLACES)
    if stand is None:
        there, stand = set(), ranked({}, len(after), _PLACES) or []
    gone = {at: content for at, content in zip(places, before, strict=True) if at not in there}
    come = {at: content for at, content in zip(stand, after, strict=True) if at not in there}
    _delete(connection, chain, list(gone))
    _insert(connection, pending, [dict(zip(_NAMES, content, strict=True), place=at) for at, content in come.items()])
    _replace_cards(connection, chain, {digest for each in after if (digest := each[_CARD]) in bodies}, bodies)
    touched = {content[_ID] for content in (*gone.values(), *come.values())}
    return _notes(connection, chain, _by_registration(before, touched), _by_registration(after, touched))


def _content(row: Row) -> Content:
    return tuple(row[name] for name in _NAMES)


def _replace_cards(
    connection: Connection, chain: str, wanted: Collection[bytes], bodies: Mapping[bytes, bytes]
) -> None:
    """Let these cards be the ones kept of a chain's unconfirmed events."""
    ours = pending_cards.c.chain == chain
    kept = set(connection.execute(select(pending_cards.c.sha256).where(ours)).scalars())
    gone = [digest for digest in kept if digest not in wanted]
    for batch in batches(gone):
        connection.execute(delete(pending_cards).where(ours, pending_cards.c.sha256.in_(batch)))
    fresh = [{"chain": chain, "sha256": digest, "body": bodies[digest]} for digest in wanted if digest not in kept]
    _insert(connection, pending_cards, fresh)


def chains(connection: Connection) -> Sequence[str]:
    """The chains of which something is unconfirmed."""
    return connection.execute(select(pending.c.chain).distinct()).scalars().all()


def _rows(connection: Connection, chain: str) -> tuple[list[int], list[Content]]:
    """Where the unconfirmed events of a chain stand, in order, and what they are."""
    columns = (pending.c.place, *(pending.c[name] for name in _NAMES))
    found = connection.execute(select(*columns).where(pending.c.chain == chain).order_by(pending.c.place)).all()
    return [row[0] for row in found], [tuple(row)[1:] for row in found]


def _insert(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    if rows:
        connection.execute(insert(table), rows)


def _by_registration(rows: Iterable[Content], ids: Collection[str]) -> dict[str, list[Row]]:
    """What is said of each of these registrations, without what changes though it says the same."""
    found: dict[str, list[Row]] = {}
    for content in rows:
        if content[_ID] is not None and content[_ID] in ids:
            said = dict(zip(_NAMES, content, strict=True))
            found.setdefault(content[_ID], []).append({n: v for n, v in said.items() if n not in _WHERE_IT_STANDS})
    return found


def _notes(connection: Connection, chain: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Notes:
    changed = sorted(id_ for id_, rows in after.items() if before.get(id_) != rows)
    news = [_note(chain, id_, "upsert", "pending") for id_ in changed]
    return news + _left(connection, chain, before.keys() - after.keys())


def _confirmed(connection: Connection, chain: str, ids: Iterable[str]) -> set[str]:
    """Those of these registrations that are in a block."""
    found: set[str] = set()
    for batch in batches(ids):
        some = events.c.registration.in_(batch)
        found |= set(connection.execute(select(events.c.registration).where(some, events.c.chain == chain)).scalars())
    return found


def mined(connection: Connection, chain: str, readings: Sequence[Reading]) -> Notes:
    """Take out what these blocks hold, and what they contradict; what goes on from them stays.

    The blocks' own notes name every registration that they speak of. The answer names the others that lose something:
    a transaction may say in a block what it did not say unconfirmed, when not all before it had been looked at.
    """
    columns = (pending.c.place, pending.c.txid, pending.c.registration, pending.c.spent_txid, pending.c.spent_vout)
    waiting = connection.execute(select(*columns).where(pending.c.chain == chain).order_by(pending.c.place)).all()
    if not waiting:
        return []
    txids_waiting, registrations = {row.txid for row in waiting}, {row.registration for row in waiting}
    txids, seats = set[bytes](), dict[str, Outpoint | None]()
    # a block may say more than memory holds: only what concerns those that wait is gathered
    for event in (event for reading in readings for event in reading.events):
        if event.txid in txids_waiting:
            txids.add(event.txid)
        if event.state and event.state.id in registrations:
            seats[event.state.id] = event.state.outpoint
    gone = [row for row in waiting if row.txid in txids]
    rest = sorted((row for row in waiting if row.txid not in txids and row.registration in seats), key=_id)
    for id_, group in groupby(rest, key=_id):
        left = list(group)
        if Outpoint(left[0].spent_txid, left[0].spent_vout) != seats[id_]:
            gone += left
    unsaid = {row.registration for row in gone if row.registration is not None} - seats.keys()
    gone += [row for row in waiting if row.registration in unsaid]
    _delete(connection, chain, list({row.place for row in gone}))
    return _left(connection, chain, unsaid)


def _left(connection: Connection, chain: str, ids: Collection[str]) -> Notes:
    """What there is to say of registrations of which nothing is unconfirmed any more."""
    stay = _confirmed(connection, chain, ids)
    return [_note(chain, id_, "upsert" if id_ in stay else "remove", "evicted") for id_ in sorted(ids)]


def _note(chain: str, id_: str, op: str, why: str) -> dict[str, Any]:
    return {"chain": chain, "op": op, "id": id_, "height": None, "reason": why}


def _id(row: Any) -> str:
    id_: str = row.registration
    return id_


def _delete(connection: Connection, chain: str, places: Sequence[int]) -> None:
    for batch in batches(places):
        some = pending.c.place.in_(batch)
        connection.execute(delete(pending).where(pending.c.chain == chain, some))


def forgotten(connection: Connection, chain: str, ids: Sequence[str]) -> None:
    """Take out what goes on from blocks that are no longer there: all that is said of these registrations."""
    for batch in batches(ids):
        some = pending.c.registration.in_(batch)
        connection.execute(delete(pending).where(pending.c.chain == chain, some))
