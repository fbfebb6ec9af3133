"""Questions to the store. "Newest wins" is a query here: the newest event of a registration carries its state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from sqlalchemy import ColumnElement, Engine, Select, func, select

from indexer.facts import BlockRef, Event, EventKind, State
from indexer.store import badges, entries, fetched, found, outbox, queue, rows, stories
from indexer.store.badges import Badge
from indexer.store.batches import batches
from indexer.store.fetched import Due, Known
from indexer.store.outbox import Change, Lag, Outbox
from indexer.store.queue import Waiting
from indexer.store.stamps import Stamps
from indexer.store.stories import Revision, Story, Unconfirmed
from indexer.store.tables import blocks, events, meta, outputs, parents, pending
from parsers.tx import Outpoint

_Found = TypeVar("_Found")

_SETTLED = 24

RECENT = 10_000
"""Blocks in which a moment is looked for: looking through them takes 5 ms."""


class Store:
    """Reads of one database; safe to use from several threads at once. Where that is a replica, `home` is the database
    itself, which is written to and asked where the replica may be behind; else the same."""

    def __init__(self, engine: Engine, home: Engine | None = None) -> None:
        self.engine, self.home = engine, home or engine
        self._stamps = Stamps(engine)
        self._known: dict[str, tuple[int, Any]] = {}

    def close(self) -> None:
        """Give up all connections."""
        self._stamps.close()
        self.engine.dispose()
        self.home.dispose()

    def at_home(self) -> Store:
        """The same reads of the database itself."""
        return Store(self.home)

    def stamp(self) -> int:
        """The same number as before if nobody wrote since; another one if somebody did, or may have. Waits for nothing,
        so that an event loop can ask."""
        return self._stamps.now()

    @property
    def epoch(self) -> str:
        """What sequence numbers are of: another one after another server took over."""
        return self.outbox().epoch

    def outbox(self) -> Outbox:
        """Where the outbox stands."""
        return outbox.of(self.engine)

    def page(self, since: int, limit: int) -> tuple[Outbox, list[Change]]:
        """Where the outbox stands, and its lines after `since`, in order, at most `limit`: all of one moment."""
        return outbox.page(self.engine, since, limit)

    def changes(self, since: int, limit: int) -> list[Change]:
        """The outbox after sequence number `since`, in order, at most `limit` lines."""
        return outbox.after(self.engine, since, limit)

    def newest_seq(self) -> int:
        """The last sequence number of the outbox, 0 when it is empty."""
        return outbox.newest_seq(self.engine)

    def lag(self) -> Lag:
        """How far a replica is behind the database itself."""
        return outbox.lag(self.engine, self.home)

    def _one(self, statement: Select[Any]) -> Any:
        with self.engine.connect() as connection:
            return connection.execute(statement).scalar()

    def _rows(self, statement: Select[Any], **asked: Any) -> list[Any]:
        with self.engine.connect() as connection:
            return list(connection.execute(statement, asked).mappings())

    def chains(self) -> dict[str, str]:
        """CAIP-2 ids by the configured names of the chains this database holds."""
        return dict(self._unless_written("chains", self._chains))

    def _chains(self) -> dict[str, str]:
        found = self._rows(select(meta).where(meta.c.key.startswith("chain:")))
        return {row["key"].removeprefix("chain:"): row["value"] for row in found}

    def _unless_written(self, name: str, look: Callable[[], _Found]) -> _Found:
        """What seldom changes and is looked for with every listing: as found last, unless somebody wrote since."""
        stamp = self.stamp()  # before looking
        known = self._known.get(name)
        if known is None or known[0] != stamp:
            known = self._known[name] = stamp, look()
        return cast("_Found", known[1])

    def newest(self, chain: str) -> BlockRef | None:
        """The newest block stored of a chain."""
        statement = select(blocks).where(blocks.c.chain == chain).order_by(blocks.c.height.desc()).limit(1)
        found = self._rows(statement)
        return rows.block(found[0]) if found else None

    def height_at(self, chain: str, at: int) -> int | None:
        """The newest stored block of a chain that is not later than a moment (milliseconds since 1970); None where that
        is not among the newest `RECENT`."""
        newest = select(blocks.c.height, blocks.c.time).where(blocks.c.chain == chain)
        recent = newest.order_by(blocks.c.height.desc()).limit(RECENT).subquery()
        height: int | None = self._one(select(func.max(recent.c.height)).where(recent.c.time <= at // 1000))
        return height

    def settled_times(self, chain: str, heights: Iterable[int]) -> dict[int, int]:
        """The latest time (seconds since 1970) of each of these blocks and the 24 stored before it. Block times may go
        back by up to two hours from one block to the next; these do not."""
        earlier, found = blocks.alias(), dict[int, int]()
        for part in batches(sorted(set(heights))):
            statement = select(blocks.c.height, func.max(earlier.c.time).label("latest")).where(
                blocks.c.chain == chain,
                blocks.c.height.in_(part),
                earlier.c.chain == chain,
                earlier.c.height.between(blocks.c.height - _SETTLED, blocks.c.height),
            )
            found |= {row.height: row.latest for row in self._rows(statement.group_by(blocks.c.height))}
        return found

    def first(self, chain: str) -> int | None:
        """The height at which a chain's stored blocks begin, None when there are none."""
        height: int | None = self._one(select(func.min(blocks.c.height)).where(blocks.c.chain == chain))
        return height

    def block(self, chain: str, height: int) -> BlockRef | None:
        """The stored block of a chain at a height."""
        found = self._rows(select(blocks).where(blocks.c.chain == chain, blocks.c.height == height))
        return rows.block(found[0]) if found else None

    def below(self, chain: str, height: int) -> BlockRef | None:
        """The highest stored block of a chain below a height."""
        lower = select(blocks).where(blocks.c.chain == chain, blocks.c.height < height)
        found = self._rows(lower.order_by(blocks.c.height.desc()).limit(1))
        return rows.block(found[0]) if found else None

    def seats(self, chain: str) -> Iterator[Outpoint]:
        """The outpoints where live registrations of a chain are now."""
        seated = (events.c.chain == chain, events.c.at_txid.is_not(None), stories.is_newest(chain))
        statement = select(events.c.at_txid, events.c.at_vout).where(*seated)
        with self.engine.connect().execution_options(yield_per=10_000) as connection:
            for txid, vout in connection.execute(statement):
                yield Outpoint(txid, vout)

    def due(self, chain: str, before: int, limit: int) -> list[Outpoint]:
        """Where live registrations are whose outpoints were last asked for before that time (seconds since 1970): first
        those never asked for, the newest first, then those of longest ago."""
        return [Outpoint(*row.values()) for row in self._rows(found.due(chain, before, limit))]

    def checked(self, chain: str, outpoints: Iterable[Outpoint]) -> dict[Outpoint, int]:
        """When outpoints were last seen unspent, in seconds since 1970; those never checked are left out."""
        return found.checked(self.engine, chain, outpoints)

    def is_partial(self, chain: str) -> bool:
        """Whether blocks of a chain were read from excerpts, so that nobody knows whether anything is missing."""
        return self._is_marked(found.PARTIAL, chain)

    def is_unproved(self, chain: str) -> bool:
        """Whether headers of a chain were taken without their proof of work."""
        return self._is_marked(found.UNPROVED, chain)

    def _is_marked(self, kind: str, chain: str) -> bool:
        return self._unless_written(kind + chain, partial(found.is_marked, self.engine, kind, chain))

    def spent_above(self, chain: str, height: int) -> list[Outpoint]:
        """The outpoints that registrations left in the blocks above a height: where they would be without those."""
        statement = select(events.c.spent_txid, events.c.spent_vout).where(
            events.c.chain == chain, events.c.height > height, events.c.spent_txid.is_not(None)
        )
        return [Outpoint(row["spent_txid"], row["spent_vout"]) for row in self._rows(statement)]

    def at(self, chain: str, outpoints: Iterable[Outpoint]) -> dict[Outpoint, list[State]]:
        """The registrations of a chain that are at these outpoints now."""
        wanted = set(outpoints)
        sitting: list[Any] = []
        for txids in batches({outpoint.txid for outpoint in wanted}):
            statement = select(events).where(events.c.at_txid.in_(txids), events.c.chain == chain)
            sitting += [row for row in self._rows(statement) if (row["at_txid"], row["at_vout"]) in wanted]
        newest = self._newest_places(chain, {row["registration"] for row in sitting})
        found: dict[Outpoint, list[State]] = defaultdict(list)
        for row in sitting:
            if row["place"] == newest[row["registration"]]:
                state = rows.state(row)
                assert state is not None  # noqa: S101 - a row with a seat is about a registration
                found[Outpoint(row["at_txid"], row["at_vout"])].append(state)
        return dict(found)

    def left(self, chain: str, outpoints: Iterable[Outpoint]) -> set[Outpoint]:
        """Those of these outpoints at which registrations were, and are no longer."""
        wanted, sitting = set(outpoints), set[Outpoint]()
        for txids in batches({outpoint.txid for outpoint in wanted}):
            statement = select(events.c.at_txid, events.c.at_vout).where(
                events.c.at_txid.in_(txids), events.c.chain == chain
            )
            sitting |= {Outpoint(row["at_txid"], row["at_vout"]) for row in self._rows(statement)} & wanted
        return sitting - self.at(chain, sitting).keys()

    def mined(self, chain: str, txids: Iterable[bytes]) -> set[bytes]:
        """Those of these transactions (internal byte order) that said something in a block."""
        said: set[bytes] = set()
        for batch in batches(txids):
            statement = select(events.c.txid).where(events.c.txid.in_(batch), events.c.chain == chain)
            said |= {row["txid"] for row in self._rows(statement)}
        return said

    def _newest_places(self, chain: str, ids: Iterable[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for batch in batches(ids):
            statement = (
                select(events.c.registration, func.max(events.c.place))
                .where(events.c.registration.in_(batch), events.c.chain == chain)
                .group_by(events.c.registration)
            )
            with self.engine.connect() as connection:
                found |= dict(connection.execute(statement).all())
        return found

    def values(self, outpoints: Iterable[Outpoint]) -> dict[Outpoint, int]:
        """Satoshis of outputs that were looked up before."""
        wanted = set(outpoints)
        found: dict[Outpoint, int] = {}
        for txids in batches({outpoint.txid for outpoint in wanted}):
            for row in self._rows(select(outputs).where(outputs.c.txid.in_(txids))):
                outpoint = Outpoint(row["txid"], row["vout"])
                if outpoint in wanted:
                    found[outpoint] = row["satoshis"]
        return found

    def parents(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Raw transactions (txids in internal byte order) that made outputs whose values were looked up."""
        found: dict[bytes, bytes] = {}
        for batch in batches(set(txids)):
            found |= {row["txid"]: row["raw"] for row in self._rows(select(parents).where(parents.c.txid.in_(batch)))}
        return found

    def _revisions(self, *conditions: ColumnElement[bool]) -> list[Revision]:
        statement = stories.confirmed(*conditions).order_by(events.c.chain, events.c.place)
        return [stories.revision(row) for row in self._rows(statement)]

    def history(self, registration: str) -> list[Revision]:
        """All revisions of a registration, oldest first; empty when there is none by that id."""
        return self._revisions(events.c.registration == registration)

    def histories(self, registrations: Iterable[str]) -> dict[str, list[Revision]]:
        """All revisions of several registrations, oldest first."""
        found: dict[str, list[Revision]] = defaultdict(list)
        for batch in batches(registrations):
            for revision in self._revisions(events.c.registration.in_(batch)):
                assert revision.event.state is not None  # noqa: S101 - asked for by registration
                found[revision.event.state.id].append(revision)
        return dict(found)

    def stories(self, registrations: Iterable[str]) -> dict[str, Story]:
        """All revisions of several registrations, those that are unconfirmed too; each answer is of one moment."""
        found: dict[str, Story] = defaultdict(Story)
        for batch in batches(registrations):
            for row in self._rows(stories.whole(), registrations=batch):
                found[row["registration"]].add(row)
        return dict(found)

    def pending(self, chain: str) -> list[Event]:
        """What is unconfirmed of a chain, as its events would follow one another."""
        found = map(rows.event, self._rows(stories.unconfirmed(pending.c.chain == chain)))
        return [replace(event, position=number) for number, event in enumerate(found)]

    def pending_by(self, txid: bytes) -> list[Unconfirmed]:
        """The unconfirmed events of one transaction (txid in internal byte order)."""
        found = self._rows(stories.unconfirmed(pending.c.txid == txid))
        return [Unconfirmed(row["chain"], rows.event(row)) for row in found]

    def pending_ids(self) -> list[str]:
        """The registrations of which something is unconfirmed, sorted."""
        statement = select(pending.c.registration).where(pending.c.registration.is_not(None)).distinct()
        with self.engine.connect() as connection:
            return list(connection.execute(statement.order_by(pending.c.registration)).scalars())

    def newcomer_ids(self) -> list[str]:
        """The registrations that are unconfirmed altogether, sorted."""
        with self.engine.connect() as connection:
            return list(connection.execute(stories.newcomer_ids()).scalars())

    def newcomers(self, chain: str) -> int:
        """How many live registrations of a chain are unconfirmed altogether."""
        return int(self._one(stories.newcomers(chain)))

    def said_by(self, txid: bytes) -> list[Revision]:
        """Every event of one transaction (txid in internal byte order), in block order."""
        return self._revisions(events.c.txid == txid)

    def spends_of(self, outpoint: Outpoint) -> list[Revision]:
        """The events that moved a registration away from an outpoint."""
        sitting = self._rows(
            select(events.c.registration).where(events.c.at_txid == outpoint.txid, events.c.at_vout == outpoint.vout)
        )
        ids = {row["registration"] for row in sitting}
        return [
            revision
            for history in self.histories(ids).values()
            for revision in history
            if revision.event.spent == outpoint
        ]

    def seated(self, outpoint: Outpoint) -> list[Revision]:
        """The events that put a registration at an outpoint, whether or not it is still there."""
        return self._revisions(events.c.at_txid == outpoint.txid, events.c.at_vout == outpoint.vout)

    def anchors(self, pointer: str) -> list[Revision]:
        """The pointers on chain for a pointer id (law 10), oldest first."""
        return self._revisions(events.c.anchor == pointer)

    def due_locators(self, now_ms: int, limit: int, after: Due | None = None) -> list[Due]:
        """What should be fetched at `now_ms` (milliseconds since 1970): what was never fetched first, then what waited
        longest. `after` is the last one of a page before."""
        return fetched.due(self.engine, now_ms, limit, after)

    def waiting(self, now_ms: int, limit: int, after: tuple[int, str]) -> list[Waiting]:
        """What is due at `now_ms`, longest first, behind the place (`next_at`, locator) `after`."""
        return queue.waiting(self.engine, now_ms, limit, after)

    def due_locator(self, locator: str) -> Due | None:
        """A locator as it is due, None when nothing is due of it."""
        return fetched.due_now(self.engine, locator)

    def is_wanted(self, locator: str, digest: bytes) -> bool:
        """Whether some pointer to a locator names this SHA-256."""
        return fetched.is_wanted(self.engine, locator, digest)

    def known_locators(self, locators: Iterable[str]) -> dict[str, Known]:
        """How fetching these stands; those that no pointer ever named are left out."""
        return fetched.known(self.engine, locators)

    def fetch_counts(self) -> dict[str, int]:
        """How many locators are in each state of fetching."""
        return fetched.counts(self.engine)

    def badges(self, registrations: Iterable[str]) -> dict[str, Badge]:
        """What hosts said of these registrations; those whose host was never to be asked are left out."""
        return badges.of(self.engine, registrations)

    def badge_cursor(self) -> int | None:
        """The sequence number up to which registrations were enlisted for badges, None when that must begin anew."""
        return badges.cursor(self.engine)

    def due_hosts(self, now_ms: int, limit: int, after: tuple[int, str] | None = None) -> list[tuple[int, str]]:
        """Hosts to be asked for badges, with since when, longest first; `after` is the last one of a page before."""
        return badges.due(self.engine, now_ms, limit, after)

    def newest_of(self, chain: str, ids: Iterable[str]) -> dict[str, Event]:
        """The newest event about each of these ids, of its registration or of an anchor; others are left out."""
        return entries.newest(self.engine, chain, ids)

    def undecided(
        self, chain: str, upto: int | None = None, *, after: Revision | None = None, limit: int | None = None
    ) -> list[Revision]:
        """Undecided events (law 3), oldest first, at most `limit`: up to the height `upto`, and later than `after`."""
        conditions = [events.c.chain == chain, events.c.kind == EventKind.UNDECIDED.value]
        if upto is not None:
            conditions.append(events.c.height <= upto)
        if after is not None:
            conditions.append(events.c.place > rows.place(after.height, after.event.position))
        statement = stories.confirmed(*conditions).order_by(events.c.place).limit(limit)
        return [stories.revision(row) for row in self._rows(statement)]

    def cards(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """Card bytes by SHA-256, those of unconfirmed cards too; those never stored are left out."""
        found: dict[bytes, bytes] = {}
        for batch in batches(set(digests)):
            for row in self._rows(stories.bodies(), digests=batch):
                found[row["sha256"]] = row["body"]
        return found

    def states(self, chain: str, height: int) -> Iterator[State]:
        """Every registration of a chain as it stood after the block at `height`, sorted by id as bytes."""
        newest = (
            select(events.c.registration.label("id"), func.max(events.c.place).label("place"))
            .where(events.c.chain == chain, events.c.registration.is_not(None))
            .where(events.c.place < rows.place(height + 1))
            .group_by(events.c.registration)
            .subquery()
        )
        statement = (
            select(events)
            .join(newest, (events.c.place == newest.c.place) & (events.c.registration == newest.c.id))
            .where(events.c.chain == chain)
            .order_by(events.c.registration)
        )
        with self.engine.connect().execution_options(yield_per=5_000) as connection:
            for row in connection.execute(statement):
                state = rows.state(row._mapping)  # noqa: SLF001 - SQLAlchemy's documented name
                if state is not None:
                    yield state

    def ids(self, after: tuple[str, str] | None, limit: int) -> Sequence[tuple[str, str]]:
        """Registrations as (chain, id), sorted, after a given one: for walking through all of them in batches."""
        statement = select(events.c.chain, events.c.registration).where(events.c.registration.is_not(None)).distinct()
        if after:
            chain, last = after
            later = (events.c.chain > chain) | ((events.c.chain == chain) & (events.c.registration > last))
            statement = statement.where(later)
        with self.engine.connect() as connection:
            ordered = statement.order_by(events.c.chain, events.c.registration).limit(limit)
            return [(chain, id_) for chain, id_ in connection.execute(ordered)]

    def counts(self, chain: str) -> dict[str, int]:
        """How many registrations of a chain are live, burned and undecided, and how many near misses are kept."""
        newest = (
            select(func.max(events.c.place).label("place"))
            .where(events.c.chain == chain, events.c.registration.is_not(None))
            .group_by(events.c.registration)
            .subquery()
        )
        by_status = (
            select(events.c.status, func.count())
            .join(newest, events.c.place == newest.c.place)
            .where(events.c.chain == chain)
            .group_by(events.c.status)
        )
        loose = (events.c.chain == chain, events.c.registration.is_(None))
        by_kind = select(events.c.kind, func.count()).where(*loose).group_by(events.c.kind)
        with self.engine.connect() as connection:
            listed: dict[str, int] = dict(connection.execute(by_status).all())
            kinds: dict[str, int] = dict(connection.execute(by_kind).all())
        return {
            "live": listed.get("live", 0),
            "burned": listed.get("burned", 0),
            "undecided": listed.get("undecided", 0),
            "rejected": kinds.get("rejected", 0),
            "pointers": kinds.get("pointed", 0),
        }
