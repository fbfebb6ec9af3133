"""What registry entries go on from: the newest events about each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Connection, Engine, func, select

from indexer.facts import Event
from indexer.store import rows
from indexer.store.tables import events

BATCH = 450
"""Names asked for in one statement: twice as many are below SQLite's oldest limit of 999 parameters."""


def newest(engine: Engine, chain: str, ids: Iterable[str]) -> dict[str, list[tuple[int, Event]]]:
    """Of each of these ids the newest event of its registration and the newest of its anchors, oldest first, as far as
    there are any: with the heights of their blocks."""
    found: dict[str, list[tuple[int, Event]]] = {id_: [] for id_ in ids}
    with engine.connect() as connection:
        for batch in _batches(found):
            places = {*_places(connection, chain, events.c.registration, batch)}
            places |= {*_places(connection, chain, events.c.anchor, batch)}
            for some in _batches(sorted(places)):
                statement = select(events).where(events.c.chain == chain, events.c.place.in_(some))
                for row in connection.execute(statement.order_by(events.c.place)).mappings():
                    id_ = row["registration"] if row["registration"] is not None else row["anchor"]
                    found[id_].append((row["height"], rows.event(row)))
    return found


def _places(connection: Connection, chain: str, name: Any, batch: list[str]) -> Iterator[int]:
    last = select(func.max(events.c.place)).where(name.in_(batch), events.c.chain == chain).group_by(name)
    return iter(connection.execute(last).scalars())


def _batches(items: Iterable[Any]) -> Iterator[list[Any]]:
    wanted = list(items)
    for at in range(0, len(wanted), BATCH):
        yield wanted[at : at + BATCH]
