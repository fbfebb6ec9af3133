"""Questions about pointers: what points at an id, and what was fetched for it.

Anybody may point at an id as often as they can pay for: what is read of one is bounded, by the first and the last of
those that can decide, and the last of all others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Select, and_, func, select

from indexer.facts import EventKind
from indexer.pointers import Anchor, Drift, Fact
from indexer.store import rows, stories
from indexer.store.batches import batches
from indexer.store.stories import Revision
from indexer.store.tables import events, fetches, meta, servings, sightings

FEW = 128
"""Anchors of an id that are read whole."""

ENDS = 32
"""Beyond that, how many of the oldest and of the newest are read of those with the same hash on the same chain, and how
many of those seen last."""

MOST_REVISIONS = 500


class Pointed(NamedTuple):
    """The anchors of an id that can decide how it stands, and how many there are."""

    anchors: tuple[Anchor, ...]
    total: int


Facts = dict[str, list[Fact]]

_T = TypeVar("_T")


def facts(engine: Engine, locators: Iterable[str]) -> Facts:
    """What these locators served, by locator."""
    found: Facts = defaultdict(list)
    with engine.connect() as connection:
        for batch in batches(locators):
            for row in connection.execute(select(fetches).where(fetches.c.locator.in_(batch))):
                fact = Fact(row.sha256, row.first_at, row.last_at, row.url, row.by_cid)
                found[row.locator].append(fact)
    return dict(found)


def served(engine: Engine, locators: Iterable[str]) -> list[Drift]:
    """What these locators served one after the other, each since when, the oldest first."""
    found: list[Drift] = []
    with engine.connect() as connection:
        for batch in batches(locators):
            rows = connection.execute(select(servings).where(servings.c.locator.in_(batch)))
            found += [Drift(row.sha256, row.since) for row in rows]
    return sorted(found, key=lambda each: each.since)


def anchors(engine: Engine, ids: Iterable[str]) -> dict[str, Pointed]:
    """What points at these ids; those that nothing points at are left out."""
    found: dict[str, Pointed] = {}
    with engine.connect() as connection:
        for batch in batches(ids):
            counted = select(events.c.anchor, func.count()).where(events.c.anchor.in_(batch)).group_by(events.c.anchor)
            counts: dict[str, int] = dict(connection.execute(counted).all())
            few = [id_ for id_, count in counts.items() if count <= FEW]
            whole: dict[str, list[Anchor]] = defaultdict(list)
            for row in connection.execute(_stand(events.c.anchor.in_(few))).mappings() if few else ():
                whole[row["anchor"]].append(_anchor(row))
            found |= {id_: Pointed(tuple(each), counts[id_]) for id_, each in whole.items()}
            for id_, count in counts.items():
                if count > FEW:
                    found[id_] = Pointed(tuple(_decisive(connection, id_)), count)
    return found


def _decisive(connection: Connection, id_: str) -> Iterator[Anchor]:
    """Of an id that much points at: for each hash that it served, and for none, the ends of what each chain has; and
    those seen last."""
    served = connection.execute(select(fetches.c.sha256).where(fetches.c.locator == id_)).scalars().all()
    for chain in _chains(connection):
        of_chain = (events.c.anchor == id_, events.c.chain == chain)
        places: set[int] = set()
        for digest in (None, *served):
            same = select(events.c.place).where(*of_chain, events.c.anchor_digest == digest)
            for order in (events.c.place, events.c.place.desc()):
                places |= set(connection.execute(same.order_by(order).limit(ENDS)).scalars())
        places |= set(connection.execute(_seen_last(id_, chain, ENDS)).scalars())
        for batch in batches(places):
            stand = _stand(events.c.chain == chain, events.c.place.in_(batch))
            yield from map(_anchor, connection.execute(stand).mappings())


def _seen_last(id_: str, chain: str, most: int) -> Select[Any]:
    """The places of the anchors of an id on a chain that were seen last."""
    last = (
        select(sightings.c.txid, sightings.c.vout)
        .where(sightings.c.locator == id_, sightings.c.chain == chain)
        .order_by(sightings.c.seen_at.desc())
        .limit(most)
        .subquery()
    )
    same = and_(last.c.txid == events.c.txid, last.c.vout == events.c.vout)
    return select(events.c.place).join(last, same).where(events.c.chain == chain, events.c.anchor == id_)


def _stand(*conditions: ColumnElement[bool]) -> Select[Any]:
    """Anchors for which all conditions hold, with when they were seen; not those whose place says something else since,
    in a later block."""
    later = events.alias()
    # as an expression, or SQLite looks through all later blocks instead of at the transaction
    chain = func.coalesce(later.c.chain, "")
    replaced = (
        select(later.c.place)
        .where(chain == events.c.chain, later.c.txid == events.c.txid, later.c.vout == events.c.vout)
        .where(later.c.height > events.c.height)
        .exists()
    )
    same = and_(
        sightings.c.chain == events.c.chain, sightings.c.txid == events.c.txid, sightings.c.vout == events.c.vout
    )
    whole = stories.confirmed(~replaced, *conditions)
    return whole.add_columns(sightings.c.seen_at, sightings.c.locator).outerjoin(sightings, same)


def _anchor(row: rows.Row) -> Anchor:
    event = rows.event(row)
    pointer = event.pointer
    if pointer is None:
        raise ValueError(f"the event at place {row['place']} of {row['chain']} is no pointer")
    return Anchor(
        chain=row["chain"],
        place=row["place"],
        height=row["height"],
        time=row["time"],
        txid=event.txid,
        outpoint=event.outpoint,
        locator=row["locator"] or pointer.locator,
        digest=pointer.digest,
        seen_at=row["seen_at"],
        kind=pointer.kind,
        form=pointer.form,
        valid=event.valid,
        event=EventKind(event.kind),
        owner=event.owner,
    )


def revisions(engine: Engine, id_: str, most: int = MOST_REVISIONS) -> list[Revision]:
    """The anchors of an id, oldest first: of more than `most` those seen last."""
    with engine.connect() as connection:
        count = connection.execute(select(func.count()).where(events.c.anchor == id_)).scalar_one()
        wanted = [[events.c.anchor == id_]] if count <= most else list(_last(connection, id_, most))
        found = [
            stories.revision(row)
            for conditions in wanted
            for row in connection.execute(stories.confirmed(*conditions)).mappings()
        ]
    return sorted(found, key=lambda past: (past.time, past.chain, past.height, past.event.position))[-most:]


def _last(connection: Connection, id_: str, most: int) -> Iterator[list[ColumnElement[bool]]]:
    """What finds the anchors of an id that were seen last on each chain, some at a time."""
    for chain in _chains(connection):
        places = connection.execute(_seen_last(id_, chain, most)).scalars().all()
        for batch in batches(places):
            yield [events.c.chain == chain, events.c.place.in_(batch)]


def _chains(connection: Connection) -> list[str]:
    names = connection.execute(select(meta.c.key).where(meta.c.key.startswith("chain:"))).scalars()
    return sorted(name.removeprefix("chain:") for name in names)


def ids(engine: Engine, after: str | None, limit: int) -> Sequence[str]:
    """Ids that anything points at, sorted, after a given one: for walking through all of them."""
    statement = select(events.c.anchor).where(events.c.anchor.is_not(None)).distinct()
    if after is not None:
        statement = statement.where(events.c.anchor > after)
    with engine.connect() as connection:
        return connection.execute(statement.order_by(events.c.anchor).limit(limit)).scalars().all()
