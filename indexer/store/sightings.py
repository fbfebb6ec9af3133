"""When each pointer was first seen, and the fetches that it makes due: written with the pointer's event.

The functions work inside the transaction of the writer that stores or deletes the events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import Connection, delete, select, update

from indexer.model import BlockFacts, Event
from indexer.store.event_codec import event_position
from indexer.store.pointer_queries import SAME_POINTER
from indexer.store.queries import batches, insert_new, outpoint_parameters, outpoint_values, rows_at, upsert
from indexer.store.schema import events, locators, sightings

OutboxRow = dict[str, Any]
SightingKey = tuple[bytes, int]
"""The position of a pointer: the txid (internal byte order) and the index of the output, or their equivalent on other
chains."""


def record(connection: Connection, chain: str, block_facts: Iterable[BlockFacts], now_ms: int) -> list[OutboxRow]:
    """Record the pointers of these blocks, before they are stored, as seen at `now_ms` (milliseconds since 1970), and
    make their locators due. Returns outbox rows for the ids with pointers that they replace."""
    pointers = [
        (facts.ref.height, event)
        for facts in block_facts
        for event in facts.events
        if event.pointer is not None and event.pointer.id is not None
    ]
    if not pointers:
        return []
    current = _ids_at(connection, chain, {_key(event) for _, event in pointers})
    changes: list[OutboxRow] = []
    new: dict[SightingKey, dict[str, Any] | None] = {}
    replaced: dict[SightingKey, dict[str, Any] | None] = {}
    for height, event in pointers:
        key, row = _key(event), _sighting(chain, event, now_ms)
        before = current.get(key)
        if before is not None:
            changes.append({"chain": chain, "op": "upsert", "id": before, "height": height, "reason": "replaced"})
            replaced[key] = row
        else:
            new[key] = row
        current[key] = event.pointer.id or "" if event.pointer is not None else ""
    for key, stored in _stored_at(connection, chain, new).items():
        # from a backup of a database that read the account earlier
        if (row := new[key]) is None or stored != (row["locator"], row["digest"]):
            replaced.setdefault(key, new.pop(key))
    first = [row for row in new.values() if row is not None]
    insert_new(connection, sightings, first)
    unnamed = {locator for locator, _ in _stored_at(connection, chain, replaced).values()}
    for txid, vout in replaced:
        same = (sightings.c.chain == chain, sightings.c.txid == txid, sightings.c.vout == vout)
        connection.execute(delete(sightings).where(*same))
    replacing = [row for row in replaced.values() if row is not None]
    insert_new(connection, sightings, replacing)
    stop_unnamed(connection, unnamed)
    _make_due(connection, dict.fromkeys(row["locator"] for row in (*first, *replacing)), now_ms)
    return changes


def _key(event: Event) -> SightingKey:
    if event.outpoint is None:
        raise ValueError(f"a pointer in {event.txid[::-1].hex()} has no outpoint")
    return event.txid, event.outpoint.vout


def _sighting(chain: str, event: Event, now_ms: int) -> dict[str, Any] | None:
    """The row of a pointer that can be fetched; None for any other."""
    pointer = event.pointer
    if pointer is None or not event.valid or (locator := pointer.locator) is None:
        return None
    txid, vout = _key(event)
    key = {"chain": chain, "txid": txid, "vout": vout}
    return key | {"locator": locator, "digest": pointer.digest or b"", "seen_at": now_ms}


def _ids_at(
    connection: Connection, chain: str, outpoints: Iterable[SightingKey], before: int = 2**63 - 1
) -> dict[SightingKey, str]:
    """The ids of the newest pointers at these places that are stored at a lower `events.place` than `before`."""
    ids: dict[SightingKey, str] = {}
    for batch in batches(outpoints):
        pairs = outpoint_values(len(batch)).c
        # an expression of the chain, or SQLite may read the events of the whole chain
        newest = (
            select(events.c.anchor)
            .where(events.c.txid == pairs.column1, events.c.vout == pairs.column2, events.c.chain.concat("") == chain)
            .where(events.c.place < before, events.c.anchor.is_not(None))
            .order_by(events.c.place.desc())
            .limit(1)
            .scalar_subquery()
        )
        pointers = connection.execute(select(pairs.column1, pairs.column2, newest), outpoint_parameters(batch))
        ids |= {(txid, vout): id_ for txid, vout, id_ in pointers if id_ is not None}
    return ids


def _make_due(connection: Connection, names: Iterable[str], now_ms: int) -> None:
    """Make locators due at once: new ones, and those that an anchor has just named again, for it is met only by a fetch
    that began after it was seen (law 9)."""
    new = [
        {
            "locator": name, "state": "new", "reason": "", "detail": "", "tries": 0, "added_at": now_ms,
            "last_at": None, "next_at": now_ms, "serving": None, "serving_since": None, "validators": "{}",
        }
        for name in names
    ]  # fmt: skip
    if new:
        due = {"tries": 0, "added_at": now_ms, "next_at": now_ms}
        statement = upsert(connection, locators).on_conflict_do_update(index_elements=["locator"], set_=due)
        connection.execute(statement, new)


def before_rollback(connection: Connection, chain: str, above: int) -> tuple[set[str], set[str]]:
    """The changes that a rollback of the blocks above a height makes: the ids that lose or regain pointers, and the
    locators that those pointers name. To be called before the blocks are deleted."""
    statement = select(events.c.anchor, events.c.txid, events.c.vout).where(
        events.c.chain == chain, events.c.height > above, events.c.anchor.is_not(None)
    )
    lost = connection.execute(statement).all()
    outpoints = {(row.txid, row.vout) for row in lost}
    again = _ids_at(connection, chain, outpoints, event_position(above + 1))
    stored = _stored_at(connection, chain, outpoints)
    return {row.anchor for row in lost} | set(again.values()), {locator for locator, _ in stored.values()}


def _stored_at(
    connection: Connection, chain: str, outpoints: Collection[SightingKey]
) -> dict[SightingKey, tuple[str, bytes]]:
    """The locators and digests of the sightings at these places."""
    of_chain = select(sightings).where(sightings.c.chain == chain)
    seen = rows_at(connection, of_chain, sightings.c.txid, sightings.c.vout, outpoints)
    return {(row["txid"], row["vout"]): (row["locator"], row["digest"]) for row in seen}


def stop_unnamed(connection: Connection, names: Iterable[str]) -> None:
    """Stop fetching the locators, of those passed in, that no stored pointer names any more."""
    named = select(sightings.c.locator).join(events, SAME_POINTER & events.c.anchor.is_not(None))
    for batch in batches(names):
        unnamed = update(locators).where(
            locators.c.locator.in_(batch), ~named.where(sightings.c.locator == locators.c.locator).exists()
        )
        connection.execute(unnamed.values(next_at=None))
