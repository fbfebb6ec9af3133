"""Registrations: "newest wins" is a query here, as the newest event of a registration carries its state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from struct import Struct
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Select,
    and_,
    bindparam,
    func,
    literal,
    select,
    tuple_,
    union_all,
)

from indexer.model import Event, RegistrationState
from indexer.store import event_codec
from indexer.store.map_changes import EventQueries
from indexer.store.queries import Row, batches, rows_at
from indexer.store.schema import IS_NOT_LIVE, events
from parsers.bitcoin.tx import Outpoint
from parsers.cards import Kind

_STATES_AT_ONCE, _EVENTS_AT_ONCE, _OUTPOINTS_AT_ONCE = 5_000, 5_000, 10_000
_U32 = Struct("<I")


@cache  # an alias is made of hundreds of objects in cycles, and a block needs one for each batch of outpoints
def is_newest(chain: str) -> ColumnElement[bool]:
    """The condition that an event is the newest of its registration on a chain."""
    later = events.alias()
    superseded = (
        select(later.c.place)
        .where(later.c.registration == events.c.registration, later.c.chain == chain)
        .where(later.c.place > events.c.place)
    )
    return ~superseded.exists()


def _is_of(chain: str) -> ColumnElement[bool]:
    """The condition that an event is on a chain, where all registrations are read. With the bare column, SQLite prefers
    an index of blocks, and sorts all ids: ten times as slow."""
    return events.c.chain.concat("") == chain


def is_live(chain: str, dialect: str) -> ColumnElement[bool]:
    """The condition that an event has the outpoint at which a live registration of a chain is, where all are read. Few
    have several events, and on SQLite a statement looks for a later one only of these: a third of the time of looking
    for each, 1.5 s for a million. PostgreSQL joins all events with the later ones, in half the time of that."""
    is_last = is_newest(chain)
    if dialect == "sqlite":
        updated = select(events.c.registration).where(_is_of(chain), events.c.registration.is_not(None))
        updated = updated.group_by(events.c.registration).having(func.count() > 1)
        is_last = events.c.registration.not_in(updated) | is_last
    return and_(events.c.chain == chain, events.c.at_txid.is_not(None), is_last)


def _by_status(chain: str) -> Select[Any]:
    """All registrations of a chain, and those that are burned or undecided, as (`status`, `count`) of one snapshot."""
    registered = (_is_of(chain), events.c.registration.is_not(None))
    every = select(events.c.registration).where(*registered).distinct().subquery()
    # the bound of the place makes it prefer the index of what is not live
    newest = (events.c.chain == chain, events.c.place >= 0, IS_NOT_LIVE, is_newest(chain))
    ended = select(events.c.status, func.count().label("count")).where(*newest).group_by(events.c.status)
    total = select(literal("all").label("status"), func.count().label("count")).select_from(every)
    return select(union_all(total, ended).subquery())


def newest_events(chain: str, *conditions: ColumnElement[bool]) -> Select[Any]:
    """The newest event of each registration of a chain for which all conditions hold, sorted by id as bytes."""
    newest_place = func.max(events.c.place).label("place")
    statement = select(events.c.registration.label("id"), newest_place).where(events.c.chain == chain, *conditions)
    newest = statement.where(events.c.registration.is_not(None)).group_by(events.c.registration).subquery()
    same = (events.c.place == newest.c.place) & (events.c.registration == newest.c.id)
    return select(events).join(newest, same).where(events.c.chain == chain).order_by(events.c.registration)


@cache
def _newest_of() -> Select[Any]:
    """The newest state of the registrations with the bound `ids` on each chain, by chain. Cached: composing the
    statement takes as long as the answer."""
    ids: BindParameter[Any] = bindparam("ids", expanding=True)
    key = (events.c.registration, events.c.chain)
    newest = select(*key, func.max(events.c.place).label("place")).where(key[0].in_(ids)).group_by(*key).subquery()
    same = (events.c.chain == newest.c.chain) & (events.c.place == newest.c.place)
    columns = (events.c.registration, events.c.type, events.c.at_txid, events.c.winner_card)
    return select(*columns).join(newest, same).order_by(events.c.chain)


class RegistrationQueries(EventQueries):
    """The outpoints and states of registrations."""

    def outpoints(self, chain: str) -> Iterator[bytes]:
        """The outpoints at which registrations of a chain are or were, several thousand at a time in the format of
        `Outpoint.pack`. Leaving out those where they were took three quarters of the time."""
        statement = select(events.c.at_txid, events.c.at_vout).where(
            events.c.chain == chain, events.c.at_txid.is_not(None)
        )
        with self._engine.connect().execution_options(yield_per=_OUTPOINTS_AT_ONCE) as connection:
            for some in connection.execute(statement).partitions():
                yield b"".join([part for txid, vout in some for part in (txid, _U32.pack(vout))])

    def spent_above(self, chain: str, height: int) -> list[Outpoint]:
        """The outpoints that registrations left in the blocks above a height: where they would be without those."""
        statement = select(events.c.spent_txid, events.c.spent_vout).where(
            events.c.chain == chain, events.c.height > height, events.c.spent_txid.is_not(None)
        )
        return [Outpoint(row["spent_txid"], row["spent_vout"]) for row in self._rows(statement)]

    def at_outpoints(self, chain: str, outpoints: Iterable[Outpoint]) -> dict[Outpoint, list[RegistrationState]]:
        """The states of the registrations of a chain that are at these outpoints now."""
        states: dict[Outpoint, list[RegistrationState]] = defaultdict(list)
        for row in self._arrivals(select(events).where(is_newest(chain)), chain, set(outpoints)):
            if (state := event_codec.state(row)) is not None:
                states[Outpoint(row["at_txid"], row["at_vout"])].append(state)
        return dict(states)

    def live_cards(self, ids: Iterable[str]) -> dict[Kind, dict[str, bytes]]:
        """The cards (SHA-256) of the live registrations, of those passed in, by kind."""
        matches = (row for batch in batches(ids) for row in self._rows(_newest_of(), ids=batch))
        newest = {row["registration"]: row for row in matches}
        live = {id_: row for id_, row in newest.items() if row["at_txid"] is not None}
        return {
            kind: {id_: row["winner_card"] for id_, row in live.items() if row["type"] == kind.value} for kind in Kind
        }

    def departed(self, chain: str, outpoints: Iterable[Outpoint]) -> set[Outpoint]:
        """The outpoints, of those passed in, at which registrations of a chain were and are no longer."""
        arrivals = self._arrivals(select(events.c.at_txid, events.c.at_vout), chain, set(outpoints))
        occupied_once = {Outpoint(row["at_txid"], row["at_vout"]) for row in arrivals}
        return occupied_once - self.at_outpoints(chain, occupied_once).keys()

    def _arrivals(self, statement: Select[Any], chain: str, outpoints: set[Outpoint]) -> Iterator[Row]:
        """The rows of a statement that are of events of a chain which moved registrations to these outpoints."""
        of_chain = statement.where(events.c.chain == chain)
        with self._engine.connect() as connection:
            matches = rows_at(connection, of_chain, events.c.at_txid, events.c.at_vout, outpoints)
            yield from self._completed(connection, matches)

    def newest_events(self, chain: str, ids: Iterable[str]) -> dict[str, Event]:
        """The newest event about each of these ids, of its registration or of an anchor; unknown ids are left out."""
        newest: dict[str, Event] = {}
        for batch in batches(sorted(ids)):
            event_places = {*self._last_places(chain, events.c.registration, batch)}
            event_places |= {*self._last_places(chain, events.c.anchor, batch)}
            ordered = select(events).where(events.c.chain == chain).order_by(events.c.place)
            for row in self._rows_in(ordered, events.c.place, sorted(event_places)):
                newest[row["anchor"] if row["registration"] is None else row["registration"]] = event_codec.event(row)
        return newest

    def _last_places(self, chain: str, column: Any, ids: list[str]) -> list[int]:
        last = select(func.max(events.c.place)).where(column.in_(ids), events.c.chain == chain)
        return self._scalars(last.group_by(column))

    def newest_account_events(self, chain: str) -> Iterator[Event]:
        """The newest event of each account (its address is the txid) of a chain that is read in snapshots; reads the
        whole chain."""
        newest_place = func.max(events.c.place).label("place")
        newest = select(newest_place).where(events.c.chain == chain).group_by(events.c.txid).subquery()
        statement = select(events).join(newest, events.c.place == newest.c.place).where(events.c.chain == chain)
        return map(event_codec.event, self._stream(statement, _EVENTS_AT_ONCE))

    def states(self, chain: str, height: int) -> Iterator[RegistrationState]:
        """The state of every registration of a chain after the block at `height`, sorted by id as bytes."""
        up_to_height = events.c.place < event_codec.event_position(height + 1)
        for row in self._stream(newest_events(chain, up_to_height), _STATES_AT_ONCE):
            state = event_codec.state(row)
            if state is not None:
                yield state

    def ids(self, after: tuple[str, str] | None, limit: int) -> list[tuple[str, str]]:
        """At most `limit` registrations as (chain, id), sorted, after the pair `after`: to page through all of them."""
        statement = select(events.c.chain, events.c.registration).where(events.c.registration.is_not(None)).distinct()
        if after:
            chain, last = after
            later = (events.c.chain > chain) | ((events.c.chain == chain) & (events.c.registration > last))
            statement = statement.where(later)
        page = self._rows(statement.order_by(events.c.chain, events.c.registration).limit(limit))
        return [(row["chain"], row["registration"]) for row in page]

    def by_age(self, after: tuple[str, int] | None, limit: int) -> list[tuple[str, int, str]]:
        """At most `limit` registrations as (chain, position of the first event, id), each once: sorted by chain and by
        age, the oldest first, after the pair `after`."""
        earlier, position = events.alias(), tuple_(events.c.chain, events.c.place)
        of_same = select(earlier.c.place).where(earlier.c.registration == events.c.registration)
        is_first = ~of_same.where(tuple_(earlier.c.chain, earlier.c.place) < position).exists()
        statement = select(events.c.chain, events.c.place, events.c.registration).where(
            events.c.registration.is_not(None), is_first, *([position > after] if after else [])
        )
        page = self._rows(statement.order_by(events.c.chain, events.c.place).limit(limit))
        return [(row["chain"], row["place"], row["registration"]) for row in page]

    def count(self) -> int:
        """How many registrations were ever in a stored block, on all chains."""
        ids = select(events.c.chain, events.c.registration).where(events.c.registration.is_not(None)).distinct()
        return int(self._scalar(select(func.count()).select_from(ids.subquery())))

    def counts(self, chain: str) -> dict[str, int]:
        """Counts of live, burned and undecided registrations of a chain, and of stored near misses and pointers."""
        unregistered = (events.c.chain == chain, events.c.registration.is_(None))
        by_kind = select(events.c.kind, func.count().label("count")).where(*unregistered).group_by(events.c.kind)
        statuses, kinds = self._counts(_by_status(chain)), self._counts(by_kind)
        return {
            "live": statuses["all"] - statuses.get("burned", 0) - statuses.get("undecided", 0),
            "burned": statuses.get("burned", 0),
            "undecided": statuses.get("undecided", 0),
            "rejected": kinds.get("rejected", 0),
            "pointers": kinds.get("pointed", 0),
        }
