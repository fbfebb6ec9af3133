"""What registry entries go on from: the newest event about each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Connection, Engine, func, select

from indexer.facts import Event
from indexer.store import rows
from indexer.store.batches import batches
from indexer.store.tables import events


def newest(engine: Engine, chain: str, ids: Iterable[str]) -> dict[str, Event]:
    """The newest event about each of these ids, of its registration or of an anchor; others are left out."""
    found: dict[str, Event] = {}
    with engine.connect() as connection:
        for batch in batches(sorted(ids)):
            places = {*_places(connection, chain, events.c.registration, batch)}
            places |= {*_places(connection, chain, events.c.anchor, batch)}
            for some in batches(sorted(places)):
                statement = select(events).where(events.c.chain == chain, events.c.place.in_(some))
                for row in connection.execute(statement.order_by(events.c.place)).mappings():
                    found[row["anchor"] if row["registration"] is None else row["registration"]] = rows.event(row)
    return found


def _places(connection: Connection, chain: str, name: Any, batch: list[str]) -> Iterator[int]:
    last = select(func.max(events.c.place)).where(name.in_(batch), events.c.chain == chain).group_by(name)
    return iter(connection.execute(last).scalars())
