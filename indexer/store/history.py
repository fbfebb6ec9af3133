"""Revisions: the events in blocks, and beside them those that are unconfirmed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    CompoundSelect,
    Integer,
    Select,
    String,
    Table,
    bindparam,
    cast,
    false,
    func,
    null,
    or_,
    select,
    union_all,
)

from indexer.model import Event, EventKind
from indexer.store import event_codec
from indexer.store.map_changes import EventQueries
from indexer.store.queries import Row, batches
from indexer.store.schema import blocks, events, pending
from parsers.bitcoin.tx import Outpoint
from parsers.cards import Kind


@dataclass(frozen=True, slots=True)
class Revision:
    """An event and the block it hangs from: height, hash (internal byte order) and time (seconds since 1970)."""

    chain: str
    height: int
    hash: bytes
    time: int
    event: Event


class Unconfirmed(NamedTuple):
    """An event of a chain that is in no block yet."""

    chain: str
    event: Event


@dataclass(frozen=True, slots=True)
class RegistrationHistory:
    """A registration's revisions, oldest first: those in blocks, and those that would follow if mined next."""

    confirmed: list[Revision] = field(default_factory=list)
    pending: list[Unconfirmed] = field(default_factory=list)


def revision(row: Row) -> Revision:
    """The revision of a row of `confirmed`."""
    return Revision(row["chain"], row["height"], row["hash"], row["time"], event_codec.event(row))


def in_transaction(table: Table, txid: bytes, vout: int | None = None) -> ColumnElement[bool]:
    """The condition that an event is of a transaction (txid in internal byte order); with `vout`, in this output or in
    none."""
    of_transaction = table.c.txid == txid
    return of_transaction if vout is None else of_transaction & (table.c.vout.is_(None) | (table.c.vout == vout))


def cards_first(table: Table) -> tuple[ColumnElement[Any], ...]:
    """An order: events that brought a card, or failed to, before the others; by chain and position."""
    return table.c.kind.in_(WITHOUT_CARD), table.c.chain, table.c.place


def confirmed(*conditions: ColumnElement[bool]) -> Select[Any]:
    """The events for which all conditions hold, with the hash and time of their blocks."""
    same_block = (blocks.c.chain == events.c.chain) & (blocks.c.height == events.c.height)
    return select(events, blocks.c.hash, blocks.c.time).join(blocks, same_block).where(*conditions)


class HistoryQueries(EventQueries):
    """Revisions by registration, transaction and outpoint; all lists are in order of chain and position."""

    def select(self, *conditions: ColumnElement[bool]) -> list[Revision]:
        """The confirmed revisions for which all conditions on columns hold."""
        statement = confirmed(*conditions).order_by(events.c.chain, events.c.place)
        return [revision(row) for row in self._rows(statement)]

    def has_events(self, chain: str, above: int, last: int, up_to: int | None = None) -> bool:
        """Whether blocks of a chain above the height `above`, up to `last`, hold events; blocks of sources with a
        number up to `up_to`, or of all."""
        statement = select(events.c.place).where(
            events.c.chain == chain, events.c.height > above, events.c.height <= last
        )
        if up_to is not None:
            is_same = (blocks.c.chain == events.c.chain) & (blocks.c.height == events.c.height)
            statement = statement.join(blocks, is_same).where(blocks.c.source <= up_to)
        return self._scalar(statement.limit(1)) is not None

    def of(self, registration: str) -> list[Revision]:
        """The confirmed revisions of a registration, oldest first; empty for an unknown id."""
        return [revision(row) for row in self._rows(_of(), registration=registration)]

    def with_pending(self, registrations: Iterable[str]) -> dict[str, RegistrationHistory]:
        """The revisions of several registrations by id, with the unconfirmed ones. Each is read in one statement: an
        event that a block confirms meanwhile is not missed.

        Of a registration with more than `MOST_REVISIONS` on a chain, these are the newest, the first, that by which it
        was created, and the last before the newest with a card.
        """
        ids = list(registrations)
        if len(ids) == 1:
            matches = self._rows(_first_with_pending(), registrations=ids, most=MOST_REVISIONS + 1)
            if len(matches) <= MOST_REVISIONS:
                return _by_registration(matches)
        return {id_: history for _, some in self.portions(ids) for id_, history in some.items()}

    def portions(self, registrations: Iterable[str]) -> Iterator[tuple[list[str], dict[str, RegistrationHistory]]]:
        """These registrations in order, in portions of about `REVISIONS_AT_ONCE` revisions, each with its result of
        `with_pending`."""
        ids: list[str] = []
        long: dict[str, list[str]] = {}
        revisions = 0
        for batch in batches(registrations):
            counted: dict[str, dict[str, int]] = defaultdict(dict)
            for row in self._rows(_revision_counts(), registrations=batch):
                counted[row["registration"]][row["chain"]] = row["count"]
            for id_ in batch:
                counts = counted.get(id_, {})
                revisions += sum(min(count, MOST_REVISIONS) for count in counts.values())
                ids.append(id_)
                if max(counts.values(), default=0) > MOST_REVISIONS:
                    long[id_] = list(counts)
                if revisions >= REVISIONS_AT_ONCE:
                    yield ids, self._histories(ids, long)
                    ids, long, revisions = [], {}, 0
        if ids:
            yield ids, self._histories(ids, long)

    def _histories(self, ids: list[str], long: Mapping[str, list[str]]) -> dict[str, RegistrationHistory]:
        """The revisions of these registrations; for a registration in `long`, with its chains, only as many as are
        needed."""
        short = batches(id_ for id_ in ids if id_ not in long)
        in_batches = (self._rows(_with_pending(), registrations=batch) for batch in short)
        one_by_one = (self._rows(_newest_with_pending(id_, chains)) for id_, chains in long.items())
        return _by_registration(chain.from_iterable(chain(in_batches, one_by_one)))

    def with_prefixes(self, prefixes: Iterable[str], kind: Kind, limit: int) -> dict[str, list[str]]:
        """The registrations of a kind in a block by the hex digits that their ids begin with, for each prefix the
        oldest first and at most `limit`."""
        remaining, matches = list(dict.fromkeys(prefixes)), dict[str, list[str]]()
        for number in range(0, len(remaining), PREFIXES):
            some = remaining[number : number + PREFIXES]
            bound = {f"p{index}": prefix for index, prefix in enumerate(some)}
            for row in self._rows(_with_prefixes(len(some)), kind=kind.value, limit=limit, **bound):
                matches.setdefault(row["prefix"], []).append(row["registration"])
        return matches

    def burned(self, kind: Kind, since: int, from_places: Mapping[str, int], limit: int) -> list[Revision]:
        """The revisions by which registrations of a kind were burned at or after a time (seconds since 1970), chain by
        chain, on each from a place on."""
        later = [(events.c.chain == chain) & (events.c.place >= first) for chain, first in from_places.items()]
        conditions = (
            or_(false(), *later),
            events.c.kind == EventKind.BURNED.value,
            events.c.type == kind.value,
            blocks.c.time >= since,
        )
        statement = confirmed(*conditions).order_by(events.c.chain, events.c.place).limit(limit)
        return [revision(row) for row in self._rows(statement)]

    def of_transaction(self, txid: bytes, vout: int | None = None, limit: int | None = None) -> list[Revision]:
        """At most `limit` events of a transaction (txid in internal byte order), as `in_transaction` selects them:
        events with a card, valid or not, come before events that merely moved or ended a registration."""
        statement = confirmed(in_transaction(events, txid, vout)).order_by(*cards_first(events))
        return [revision(row) for row in self._rows(statement.limit(limit))]

    def count_of_transaction(self, txid: bytes, vout: int | None = None) -> int:
        """How many events `of_transaction` selects without a limit."""
        return self._count(events, in_transaction(events, txid, vout))

    def ids_of_transaction(self, txid: bytes, vout: int | None = None, limit: int | None = None) -> list[str]:
        """At most `limit` ids of registrations and pointers with events of a transaction (txid in internal byte order),
        with `vout` only of those in this output; those in blocks first, then unconfirmed ones."""
        ids: dict[str, None] = {}
        for table in (events, pending):
            id_ = func.coalesce(table.c.registration, table.c.anchor)
            named = [table.c.txid == txid, id_.is_not(None), *([] if vout is None else [table.c.vout == vout])]
            first = (func.min(table.c.chain), func.min(table.c.place))
            statement = select(id_).where(*named).group_by(id_).order_by(*first).limit(limit)
            ids |= dict.fromkeys(self._scalars(statement))
        return list(ids)[:limit]

    def in_blocks(self, chain: str, txids: Iterable[bytes]) -> set[bytes]:
        """The txids (internal byte order), of those passed in, that have an event in a block of a chain."""
        of_chain = select(events.c.txid).where(events.c.chain == chain)
        return {row["txid"] for row in self._rows_in(of_chain, events.c.txid, txids)}

    def arrivals(self, outpoint: Outpoint) -> list[Revision]:
        """The events that moved a registration to an outpoint, whether or not it is still there."""
        return self.select(events.c.at_txid == outpoint.txid, events.c.at_vout == outpoint.vout)

    def departures(self, outpoint: Outpoint) -> list[Revision]:
        """The events by which registrations left an outpoint: of each the first after its arrival, as anybody may
        update a registration any number of times."""
        left = (events.c.spent_txid == outpoint.txid, events.c.spent_vout == outpoint.vout)
        departed: list[Revision] = []
        for past in self.arrivals(outpoint):
            position = event_codec.event_position(past.height, past.event.position)
            same = (events.c.registration == (past.event.state and past.event.state.id), events.c.chain == past.chain)
            next_one = confirmed(*same, events.c.place > position, *left).order_by(events.c.place).limit(1)
            departed += map(revision, self._rows(next_one))
        return departed

    def undecided(
        self, chain: str, up_to: int | None = None, *, after: Revision | None = None, limit: int | None = None
    ) -> list[Revision]:
        """Undecided events of a chain (law 3), oldest first, at most `limit`: up to the height `up_to`, and later than
        `after`."""
        conditions = [events.c.chain == chain, events.c.kind == EventKind.UNDECIDED.value]
        if up_to is not None:
            # not by height, for which SQLite prefers an index of all events
            conditions.append(events.c.place < event_codec.event_position(up_to + 1))
        if after is not None:
            conditions.append(events.c.place > event_codec.event_position(after.height, after.event.position))
        statement = confirmed(*conditions).order_by(events.c.place).limit(limit)
        return [revision(row) for row in self._rows(statement)]


def _by_registration(revisions: Iterable[Row]) -> dict[str, RegistrationHistory]:
    """The revisions of rows of `_with_pending`, by registration."""
    histories: dict[str, RegistrationHistory] = defaultdict(RegistrationHistory)
    for row in revisions:
        history = histories[row["registration"]]
        if row["hash"] is None:
            history.pending.append(Unconfirmed(row["chain"], event_codec.event(row)))
        else:
            history.confirmed.append(revision(row))
    return dict(histories)


PREFIXES = 16
"""Prefixes of one statement."""

MOST_REVISIONS = 2_048
"""Newest revisions of a registration on a chain that are read for its listing: each update reads them again."""

REVISIONS_AT_ONCE = 16_384
"""Revisions of several registrations that are in memory at once, besides those of the last one: 1 kB each."""

WITHOUT_CARD = (EventKind.MOVED.value, EventKind.MAP_ONLY.value, EventKind.BURNED.value)
"""Kinds of events that merely move or end a registration."""

_WITH_CARD = (EventKind.INSCRIBED.value, EventKind.REINSCRIBED.value)


@cache
def _with_prefixes(count: int) -> Select[Any]:
    """The ids with each of so many bound prefixes, `p0` and so on. Cached, as `_with_pending` is."""
    first = func.min(blocks.c.time)
    kind: BindParameter[str] = bindparam("kind", type_=String)
    limit: BindParameter[int] = bindparam("limit", type_=Integer)
    parts = []
    for number in range(count):
        prefix: BindParameter[str] = bindparam(f"p{number}", type_=String)
        statement = (
            select(prefix.label("prefix"), events.c.registration, first.label("first"))
            .join(blocks, (blocks.c.chain == events.c.chain) & (blocks.c.height == events.c.height))
            .where(events.c.registration >= prefix, events.c.registration < prefix + "g", events.c.type == kind)
            .group_by(events.c.registration)
            .order_by(first, events.c.registration)
            .limit(limit)
        )
        parts.append(select(statement.subquery()))
    every = union_all(*parts).subquery()
    return select(every).order_by(every.c.first, every.c.registration)


@cache
def _with_pending() -> Select[Any]:
    """All revisions of the bound `registrations`, the unconfirmed ones last, without hash and time. Cached: composing
    the statement takes longer than most answers."""
    registrations: BindParameter[Any] = bindparam("registrations", expanding=True)
    is_wanted = pending.c.registration.in_(registrations)
    return _with_unconfirmed(confirmed(events.c.registration.in_(registrations)), is_wanted)


@cache
def _first_with_pending() -> Select[Any]:
    """The first of these revisions, one more than are read of a registration that has many."""
    most: BindParameter[int] = bindparam("most", type_=Integer)
    return _with_pending().limit(most)


@cache
def _of() -> Select[Any]:
    """The confirmed revisions of the bound `registration`."""
    registration: BindParameter[str] = bindparam("registration", type_=String)
    return confirmed(events.c.registration == registration).order_by(events.c.chain, events.c.place)


def _with_unconfirmed(in_blocks: Select[Any], is_wanted: ColumnElement[bool]) -> Select[Any]:
    """Revisions and, on request, the unconfirmed ones, in order."""
    both = union_all(in_blocks, select(pending, null(), null()).where(is_wanted)).subquery()
    return select(both).order_by(both.c.chain, both.c.place)


@cache
def _revision_counts() -> Select[Any]:
    """How many revisions the bound `registrations` have on each chain."""
    registrations: BindParameter[Any] = bindparam("registrations", expanding=True)
    key = (events.c.registration, events.c.chain)
    return select(*key, func.count().label("count")).where(key[0].in_(registrations)).group_by(*key)


def _newest_with_pending(registration: str, chains: Iterable[str]) -> Select[Any]:
    """The revisions of a registration with many that `with_pending` reads."""
    on_chains = [
        (events.c.chain == chain) & events.c.place.in_(_read_positions(registration, chain)) for chain in chains
    ]
    in_blocks = confirmed(events.c.registration == registration, or_(false(), *on_chains))
    return _with_unconfirmed(in_blocks, pending.c.registration == registration)


def _read_positions(registration: str, chain: str) -> CompoundSelect[Any]:
    """The places on a chain of the revisions that are read of a registration."""
    event = events.alias()
    of_registration = (event.c.registration == registration, event.c.chain == chain)
    newest = select(event.c.place).where(*of_registration).order_by(event.c.place.desc())
    recent = newest.limit(MOST_REVISIONS).subquery()
    oldest = select(func.min(recent.c.place)).scalar_subquery()
    created = newest.with_only_columns(event.c.created_height).limit(1).scalar_subquery()
    first = select(func.min(event.c.place)).where(*of_registration)
    # PostgreSQL multiplies integers of 32 bits in 32 bits
    since_created = first.where(event.c.place >= cast(created, BigInteger) * event_codec.event_position(1))
    with_card = select(func.max(event.c.place)).where(
        *of_registration, event.c.place < oldest, event.c.kind.in_(_WITH_CARD)
    )
    return union_all(select(recent.c.place), first, since_created, with_card)
