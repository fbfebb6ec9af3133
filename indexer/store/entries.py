"""What registry entries go on from: the newest event about each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Connection, Engine, func, select

from indexer.facts import Event
from indexer.store import rows
from indexer.store.tables import events

BATCH = 450
"""Names asked for in one statement: twice as many are below SQLite's oldest limit of 999 parameters."""


def newest(engine: Engine, chain: str, ids: Iterable[str]) -> dict[str, Event]:
    """The newest event about each of these ids, of its registration or of an anchor; others are left out."""
    found: dict[str, Event] = {}
    with engine.connect() as connection:
        for batch in _batches(ids):
            places = {*_places(connection, chain, events.c.registration, batch)}
            places |= {*_places(connection, chain, events.c.anchor, batch)}
            for some in _batches(places):
                statement = select(events).where(events.c.chain == chain, events.c.place.in_(some))
                for row in connection.execute(statement.order_by(events.c.place)).mappings():
                    found[row["anchor"] if row["registration"] is None else row["registration"]] = rows.event(row)
    return found


def _places(connection: Connection, chain: str, name: Any, batch: list[str]) -> Iterator[int]:
    last = select(func.max(events.c.place)).where(name.in_(batch), events.c.chain == chain).group_by(name)
    return iter(connection.execute(last).scalars())


def _batches(items: Iterable[Any]) -> Iterator[list[Any]]:
    wanted = sorted(items)
    for at in range(0, len(wanted), BATCH):
        yield wanted[at : at + BATCH]
