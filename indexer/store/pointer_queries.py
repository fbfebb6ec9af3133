"""Pointers: which anchors point at an id, and the bodies that were fetched for it.

Anybody can point at an id as often as they can pay for, so what is read of one id is bounded: of the anchors that can
decide what it shows the oldest and the newest, and of all others the newest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, Select, and_, cast, func, select

from indexer.model import Anchor, Drift, EventKind, FetchFact
from indexer.store import event_codec, history
from indexer.store.history import Revision
from indexer.store.map_changes import with_whole_maps
from indexer.store.queries import Queries, Row, batches, rows_in
from indexer.store.schema import CHAIN, events, fetches, meta, servings, sightings
from parsers.bitcoin.tx import Outpoint

FEW = 128
"""The largest number of anchors of an id up to which all are read."""

ENDS = 32
"""The numbers of anchors that are read for an id with more: of the oldest and of the newest with the same hash on the
same chain, and of those seen last."""

MAX_REVISIONS = 500

SAME_POINTER = and_(
    events.c.chain == sightings.c.chain, events.c.txid == sightings.c.txid, events.c.vout == sightings.c.vout
)
"""Joins `events` with `sightings`."""


class Anchors(NamedTuple):
    """The anchors of an id that can decide what it shows, and how many it has in `total`."""

    anchors: tuple[Anchor, ...]
    total: int


class PointerQueries(Queries):
    """Anchors by pointer id, and facts by locator (law 9)."""

    def facts(self, locators: Iterable[str]) -> dict[str, list[FetchFact]]:
        """The bodies that these locators served, by locator."""
        facts: dict[str, list[FetchFact]] = defaultdict(list)
        for row in self._rows_in(select(fetches), fetches.c.locator, locators):
            fact = FetchFact(row["sha256"], row["first_at"], row["last_at"], row["url"], row["by_cid"])
            facts[row["locator"]].append(fact)
        return dict(facts)

    def servings(self, locators: Iterable[str]) -> list[Drift]:
        """The bytes that these locators served, with since when (milliseconds since 1970), the oldest first."""
        matches = self._rows_in(select(servings), servings.c.locator, locators)
        return sorted((Drift(row["sha256"], row["since"]) for row in matches), key=lambda change: change.since)

    def anchors(self, ids: Iterable[str]) -> dict[str, Anchors]:
        """The anchors of these ids; ids without any are left out."""
        by_id: dict[str, Anchors] = {}
        with self._engine.connect() as connection:
            for batch in batches(ids):
                number = select(events.c.anchor, func.count()).where(events.c.anchor.in_(batch))
                counts: dict[str, int] = dict(connection.execute(number.group_by(events.c.anchor)).all())
                few = [id_ for id_, count in counts.items() if count <= FEW]
                complete: dict[str, list[Anchor]] = defaultdict(list)
                for row in connection.execute(_current(events.c.anchor.in_(few))).mappings() if few else ():
                    complete[row["anchor"]].append(_anchor(row))
                by_id |= {id_: Anchors(tuple(anchors), counts[id_]) for id_, anchors in complete.items()}
                for id_, count in counts.items():
                    if count > FEW:
                        by_id[id_] = Anchors(tuple(_decisive(connection, id_)), count)
        return by_id

    def revisions(self, id_: str, limit: int = MAX_REVISIONS) -> list[Revision]:
        """The anchors of an id, oldest first: of more than `limit` those seen last."""
        with self._engine.connect() as connection:
            count = connection.execute(select(func.count()).where(events.c.anchor == id_)).scalar_one()
            few = history.confirmed(events.c.anchor == id_)
            matches = connection.execute(few).mappings() if count <= limit else _seen_last_rows(connection, id_, limit)
            past_anchors = list(map(history.revision, with_whole_maps(connection, matches)))
        return sorted(past_anchors, key=lambda past: (past.time, past.chain, past.height, past.event.position))[-limit:]

    def ids(self, after: str | None, limit: int) -> list[str]:
        """At most `limit` ids that have anchors, sorted, after the id `after`: to page through all of them."""
        statement = select(events.c.anchor).where(events.c.anchor.is_not(None)).distinct()
        if after is not None:
            statement = statement.where(events.c.anchor > after)
        return self._scalars(statement.order_by(events.c.anchor).limit(limit))


def _decisive(connection: Connection, id_: str) -> Iterator[Anchor]:
    """The anchors that are read for an id with many: for each hash that it served, and for none, the oldest and the
    newest of each chain; and those seen last."""
    served = connection.execute(select(fetches.c.sha256).where(fetches.c.locator == id_)).scalars().all()
    for chain in _chains(connection):
        of_chain = (events.c.anchor == id_, events.c.chain == chain)
        event_places: set[int] = set()
        for digest in (None, *served):
            same = select(events.c.place).where(*of_chain, events.c.anchor_digest == digest)
            for order in (events.c.place, events.c.place.desc()):
                event_places |= set(connection.execute(same.order_by(order).limit(ENDS)).scalars())
        event_places |= set(connection.execute(_seen_last(id_, chain, ENDS)).scalars())
        current = _current(events.c.chain == chain)
        yield from map(_anchor, rows_in(connection, current, events.c.place, event_places))


def _seen_last(id_: str, chain: str, limit: int) -> Select[Any]:
    """The places of the anchors of an id on a chain that were seen last."""
    last = (
        select(sightings.c.txid, sightings.c.vout)
        .where(sightings.c.locator == id_, sightings.c.chain == chain)
        .order_by(sightings.c.seen_at.desc())
        .limit(limit)
        .subquery()
    )
    same = and_(last.c.txid == events.c.txid, last.c.vout == events.c.vout)
    return select(events.c.place).join(last, same).where(events.c.chain == chain, events.c.anchor == id_)


def _current(*conditions: ColumnElement[bool]) -> Select[Any]:
    """Anchors that meet all conditions, with when they were seen; without those of an output that holds another pointer
    since a later block."""
    later = events.alias()
    # as an expression, or SQLite looks through all later blocks instead of at the transaction
    chain = func.coalesce(later.c.chain, "")
    next_block = (cast(events.c.height, BigInteger) + 1) * event_codec.event_position(1)
    replaced = (
        select(later.c.place)
        .where(chain == events.c.chain, later.c.txid == events.c.txid, later.c.vout == events.c.vout)
        .where(later.c.place >= next_block)
        .exists()
    )
    statement = history.confirmed(~replaced, *conditions)
    return statement.add_columns(sightings.c.seen_at, sightings.c.locator).outerjoin(sightings, SAME_POINTER)


def _anchor(row: Row) -> Anchor:
    pointer = event_codec.pointer(row)
    if pointer is None:
        raise ValueError(f"the event at place {row['place']} of {row['chain']} is not a pointer")
    return Anchor(
        chain=row["chain"],
        position=row["place"],
        height=row["height"],
        time=row["time"],
        txid=row["txid"],
        outpoint=Outpoint(row["txid"], row["vout"]) if row["vout"] is not None else None,
        locator=row["locator"] or pointer.locator,
        digest=pointer.digest,
        seen_at=row["seen_at"],
        kind=pointer.kind,
        form=pointer.form,
        valid=row["valid"],
        event=EventKind(row["kind"]),
        owner=row["owner"],
    )


def _seen_last_rows(connection: Connection, id_: str, limit: int) -> Iterator[Row]:
    """The anchors of an id that were seen last on each chain, as rows of `history.confirmed`."""
    for chain in _chains(connection):
        event_places = connection.execute(_seen_last(id_, chain, limit)).scalars().all()
        yield from rows_in(connection, history.confirmed(events.c.chain == chain), events.c.place, event_places)


def _chains(connection: Connection) -> list[str]:
    names = connection.execute(select(meta.c.key).where(meta.c.key.startswith(CHAIN))).scalars()
    return sorted(name.removeprefix(CHAIN) for name in names)
