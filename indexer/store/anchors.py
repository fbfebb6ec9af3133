"""Noting pointers as they come and go with their blocks: when each was first seen, and what that asks to be fetched.

Each function works inside a transaction of the writer, together with the events it is about.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Table, and_, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from indexer.facts import Event, Reading
from indexer.store.batches import batches
from indexer.store.tables import events, locators, sightings

Notes = list[dict[str, Any]]
Place = tuple[bytes, int]


def see(connection: Connection, chain: str, readings: Iterable[Reading], now: int) -> Notes:
    """Note that the pointers of these blocks, which are about to be stored, were seen (`now` in milliseconds since
    1970), and that what they name is to be fetched. Answers with notes for the ids whose pointers they replace."""
    said = [(reading.ref.height, event) for reading in readings for event in reading.events if _is_anchor(event)]
    if not said:
        return []
    standing = _at_places(connection, chain, {event.txid for _, event in said})
    notes: Notes = []
    fresh: dict[Place, dict[str, Any]] = {}
    anew: dict[Place, dict[str, Any] | None] = {}
    for height, event in said:
        place, name = _place(event), _name(event)
        if (before := standing.get(place)) is not None:
            notes.append({"chain": chain, "op": "upsert", "id": before, "height": height, "reason": "replaced"})
        row = _sighting(chain, event, now)
        if before is not None:
            anew[place] = row
        elif row is not None:
            fresh[place] = row
        standing[place] = name
    _put(connection, [*fresh.values()])
    left = _locators_at(connection, chain, anew)
    _drop(connection, chain, anew)
    again = [row for row in anew.values() if row is not None]
    _put(connection, again)
    rest(connection, left)
    _ask(connection, dict.fromkeys(row["locator"] for row in (*fresh.values(), *again)), now)
    return notes


def see_again(connection: Connection, said: Iterable[tuple[str, Event]], now: int) -> None:
    """Note that pointers which are stored already, with the chain of each, are first seen `now` (milliseconds since
    1970), and that what they name is to be fetched; a later one at the same place stands for those before."""
    latest = {(chain, *_place(event)): _sighting(chain, event, now) for chain, event in said}
    seen = [row for row in latest.values() if row is not None]
    for chain in {chain for chain, _, _ in latest}:
        _drop(connection, chain, {(txid, vout) for of, txid, vout in latest if of == chain})
    _put(connection, seen)
    _ask(connection, dict.fromkeys(row["locator"] for row in seen), now)


def _is_anchor(event: Event) -> bool:
    return event.pointer is not None and event.pointer.id is not None


def _name(event: Event) -> str:
    return event.pointer.id or "" if event.pointer is not None else ""


def _place(event: Event) -> Place:
    if event.outpoint is None:
        raise ValueError(f"a pointer in {event.txid[::-1].hex()} has no place")
    return event.txid, event.outpoint.vout


def _sighting(chain: str, event: Event, now: int) -> dict[str, Any] | None:
    """The row of a pointer that can be fetched, None for others."""
    pointer = event.pointer
    if pointer is None or not event.valid or (locator := pointer.locator) is None:
        return None
    txid, vout = _place(event)
    told = {"chain": chain, "txid": txid, "vout": vout, "locator": locator}
    return told | {"digest": pointer.digest or b"", "seen_at": now}


def _at_places(connection: Connection, chain: str, txids: Iterable[bytes]) -> dict[Place, str]:
    """What already stands at places of these transactions: the ids of the newest pointers there."""
    found: dict[Place, str] = {}
    for batch in batches(txids):
        columns = (events.c.txid, events.c.vout, events.c.anchor)
        stand = select(*columns).where(events.c.txid.in_(batch), events.c.chain == chain, events.c.anchor.is_not(None))
        found |= {(row.txid, row.vout): row.anchor for row in connection.execute(stand.order_by(events.c.place))}
    return found


def _put(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Write sightings; those there are stay as they are."""
    if rows:
        connection.execute(_insert(connection, sightings).on_conflict_do_nothing(), rows)


def _drop(connection: Connection, chain: str, places: Collection[Place]) -> None:
    """Forget what was seen at these places: they say something else now."""
    for txid, vout in places:
        here = (sightings.c.chain == chain, sightings.c.txid == txid, sightings.c.vout == vout)
        connection.execute(delete(sightings).where(*here))


def _ask(connection: Connection, wanted: Iterable[str], now: int) -> None:
    """Have these locators fetched at once: those that are new, and those that an anchor has just named again, for it is
    met only by a fetch begun after it was seen (law 9)."""
    rows = [
        {
            "locator": locator, "state": "new", "reason": "", "detail": "", "tries": 0, "added_at": now,
            "last_at": None, "next_at": now, "serving": None, "serving_since": None, "validators": "{}",
        }
        for locator in wanted
    ]  # fmt: skip
    if rows:
        statement = _insert(connection, locators)
        again = {"tries": 0, "added_at": now, "next_at": now}
        connection.execute(statement.on_conflict_do_update(index_elements=["locator"], set_=again), rows)


def _insert(connection: Connection, table: Table) -> Any:
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table)


def lose(connection: Connection, chain: str, above: int) -> tuple[set[str], set[str]]:
    """The ids whose pointers change when the blocks above a height go, and what those pointers have fetched: to be
    called before they go."""
    gone = select(events.c.anchor, events.c.txid, events.c.vout).where(
        events.c.chain == chain, events.c.height > above, events.c.anchor.is_not(None)
    )
    rows = connection.execute(gone).all()
    before = _at_places(connection, chain, {row.txid for row in rows})
    named = _locators_at(connection, chain, {(row.txid, row.vout) for row in rows})
    return {row.anchor for row in rows} | set(before.values()), named


def _locators_at(connection: Connection, chain: str, places: Collection[Place]) -> set[str]:
    found: set[str] = set()
    for batch in batches({txid for txid, _ in places}):
        seen = select(sightings.c.txid, sightings.c.vout, sightings.c.locator).where(
            sightings.c.txid.in_(batch), sightings.c.chain == chain
        )
        found |= {row.locator for row in connection.execute(seen) if (row.txid, row.vout) in places}
    return found


def rest(connection: Connection, left: Iterable[str]) -> None:
    """Fetch those of these locators no longer that no pointer on chain names any more."""
    same = and_(
        events.c.chain == sightings.c.chain, events.c.txid == sightings.c.txid, events.c.vout == sightings.c.vout
    )
    named = select(sightings.c.locator).join(events, same & events.c.anchor.is_not(None))
    for batch in batches(left):
        idle = update(locators).where(
            locators.c.locator.in_(batch), ~named.where(sightings.c.locator == locators.c.locator).exists()
        )
        connection.execute(idle.values(next_at=None))
