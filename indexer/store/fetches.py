"""Fetching by locator: due fetches, the bytes that were served, and the outcomes (laws 9 and 10). Times are
milliseconds since 1970. Functions that take a connection work inside a transaction of the writer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, delete, exists, func, insert, select, tuple_, update

from indexer.store.pointer_queries import SAME_POINTER
from indexer.store.queries import Queries, Row, insert_new
from indexer.store.schema import cards, events, fetches, locators, servings, sightings

MAX_FACTS = 16
"""Facts stored of a locator: those that an anchor names, then the latest."""

MAX_SERVINGS = 64
"""The largest number of stored changes of the bytes that a locator serves."""

MAX_UNNAMED_BODIES = 2
"""The largest number of stored bodies whose hash no anchor names."""

MAX_WANTED = 16
"""Hashes of anchors that `DueLocator.digests` lists."""

MAX_DETAIL = 500

NEVER_FETCHED = -1
"""A time that is smaller than that of any fetch."""


class FetchState(StrEnum):
    """The outcome of fetching a locator: the same words in tables, in the API and in the tests."""

    NEW = "new"
    """The locator was not fetched yet."""
    MET = "met"
    """The locator served bytes whose hash an anchor names, or that its CID names."""
    UNHASHED = "unhashed"
    """The locator served a card, and no anchor has a hash to verify it by."""
    MISMATCH = "mismatch"
    """The served bytes do not have the hash that the locator's anchors name."""
    FAILED = "failed"
    """No card was served; the reason gives the cause."""
    GIVEN_UP = "given-up"
    """Failed for so long that it is fetched again only on request."""


class ServedBody(NamedTuple):
    """The body that a URL served: its SHA-256 (32 bytes), and the raw bytes where they were accepted and are not stored
    already. `by_cid`: the CID of the locator names these bytes."""

    url: str
    sha256: bytes
    body: bytes | None = None
    by_cid: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOutcome:
    """The end of one fetch of a locator.

    `begun_ms` is when its first request began, as law 9 requires. `served` is everything that it served, the accepted
    body first; an unmodified file is in it without its body. `reason` is a reason code of fetching, "" for none, and
    `detail` its subject. `next_at` is when to fetch again, None for never; an anchor seen since `begun_ms` makes it due
    at once nevertheless. `validators` are the values by URL that make the next fetch conditional: JSON, bounded by the
    caller; None keeps the stored ones.
    """

    state: FetchState
    begun_ms: int
    next_at: int | None
    served: tuple[ServedBody, ...] = ()
    reason: str = ""
    detail: str = ""
    validators: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DueLocator:
    """A locator that should be fetched now.

    `tries` counts the failed fetches in a row, `added_at` is when an anchor last named it, `last_at` when the last
    fetch was begun. `fresh`: an anchor was seen since then, so the fetch must not be conditional. `digests` are SHA-256
    that anchors name, the one seen last first, at most 16: `FetchQueries.is_named` answers for all. `hashless`: some
    anchor names none, so any card will do. `validators` are those of the last outcome.
    """

    locator: str
    state: FetchState
    tries: int
    added_at: int
    last_at: int | None
    next_at: int
    fresh: bool
    digests: tuple[bytes, ...]
    hashless: bool
    validators: Mapping[str, Any] = field(default_factory=dict)


class QueuedLocator(NamedTuple):
    """A locator that is due since `next_at`: as little of it as a schedule needs; members as of `DueLocator`."""

    next_at: int
    locator: str
    state: FetchState
    tries: int
    last_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatorStatus:
    """The outcome of fetching a locator: see `FetchOutcome` and `DueLocator`. `serving` is the SHA-256 of the bytes
    that it served last, unchanged since `serving_since`."""

    locator: str
    state: FetchState
    reason: str
    detail: str
    tries: int
    added_at: int
    last_at: int | None
    next_at: int | None
    serving: bytes | None
    serving_since: int | None


class FetchQueries(Queries):
    """Reads of locators: the queue of fetches, and their outcomes."""

    def queued(self, now_ms: int, limit: int, after: tuple[int, str]) -> list[QueuedLocator]:
        """At most `limit` locators that are due at `now_ms`, those due longest first, after the pair (`next_at`,
        locator) `after`."""
        order = (locators.c.next_at, locators.c.locator)
        statement = (
            select(*order, locators.c.state, locators.c.tries, locators.c.last_at)
            .where(locators.c.next_at <= now_ms, locators.c.next_at >= after[0], tuple_(*order) > after)
            .order_by(*order)
            .limit(limit)
        )
        return [QueuedLocator(**{**row, "state": FetchState(row["state"])}) for row in self._rows(statement)]

    def get_due(self, locator: str) -> DueLocator | None:
        """A due locator; None when it is unknown or never due."""
        with self._engine.connect() as connection:
            statement = select(locators).where(locators.c.locator == locator, locators.c.next_at.is_not(None))
            row = connection.execute(statement).mappings().first()
            return None if row is None else _due(connection, row)

    def is_named(self, locator: str, digest: bytes) -> bool:
        """Whether some anchor of a locator names this SHA-256."""
        named = (sightings.c.locator == locator, sightings.c.digest == digest)
        return self._first(select(sightings.c.digest).where(*named).limit(1)) is not None

    def statuses(self, names: Iterable[str]) -> dict[str, LocatorStatus]:
        """The outcomes of fetching these locators; those that no pointer ever named are left out."""
        columns = [locators.c[name] for name in LocatorStatus.__dataclass_fields__]
        return {
            row["locator"]: LocatorStatus(**{**row, "state": FetchState(row["state"])})
            for row in self._rows_in(select(*columns), locators.c.locator, names)
        }

    def counts(self) -> dict[str, int]:
        """How many locators are in each state."""
        numbers = self._counts(select(locators.c.state, func.count()).group_by(locators.c.state))
        return {state.value: numbers.get(state.value, 0) for state in FetchState}


def _due(connection: Connection, row: Row) -> DueLocator:
    of_locator = sightings.c.locator == row["locator"]
    last = row["last_at"] if row["last_at"] is not None else NEVER_FETCHED
    newest = (
        select(sightings.c.digest).where(of_locator, sightings.c.digest != b"").order_by(sightings.c.seen_at.desc())
    )
    return DueLocator(
        locator=row["locator"],
        state=FetchState(row["state"]),
        tries=row["tries"],
        added_at=row["added_at"],
        last_at=row["last_at"],
        next_at=row["next_at"],
        fresh=_exists(connection, select(sightings.c.seen_at).where(of_locator, sightings.c.seen_at >= last)),
        digests=tuple(dict.fromkeys(connection.execute(newest.limit(4 * MAX_WANTED)).scalars()))[:MAX_WANTED],
        hashless=_exists(connection, select(sightings.c.digest).where(of_locator, sightings.c.digest == b"")),
        validators=json.loads(row["validators"]),
    )


def _exists(connection: Connection, statement: Select[Any]) -> bool:
    return connection.execute(statement.limit(1)).first() is not None


def record(connection: Connection, locator: str, outcome: FetchOutcome) -> list[str]:
    """Store how a fetch ended, unless no pointer ever named the locator. Returns the ids of listings that may have
    changed. Raises ValueError for a body that has another hash."""
    row = connection.execute(select(locators).where(locators.c.locator == locator)).mappings().first()
    if row is None:
        return []
    facts_before = _facts(connection, locator)
    for served in outcome.served:
        _store_fact(connection, locator, served, outcome.begun_ms)
    _trim(connection, locator)
    after = _updated(row, outcome)
    connection.execute(update(locators).where(locators.c.locator == locator).values(**after))
    if after["serving"] != row["serving"]:
        _store_serving(connection, locator, after["serving"], outcome.begun_ms)
    is_changed = any(row[name] != after[name] for name in ("state", "reason", "detail", "serving"))
    if is_changed or _changes_listing(connection, locator, facts_before, _facts(connection, locator)):
        return ids_of(connection, locator)
    return []


def _updated(row: Row, outcome: FetchOutcome) -> dict[str, Any]:
    """The row of a locator after an outcome."""
    good = outcome.state in (FetchState.MET, FetchState.UNHASHED)
    next_at = outcome.next_at
    if row["next_at"] is not None and row["next_at"] > outcome.begun_ms:
        # it was made due again during the fetch
        next_at = row["next_at"] if next_at is None else min(next_at, row["next_at"])
    after: dict[str, Any] = {
        "state": outcome.state.value,
        "reason": outcome.reason,
        "detail": outcome.detail.replace("\0", "")[:MAX_DETAIL],
        "tries": 0 if good else row["tries"] + 1,
        "last_at": outcome.begun_ms,
        "next_at": next_at,
        "serving": row["serving"],
        "serving_since": row["serving_since"],
    }
    if outcome.served and outcome.served[0].sha256 != row["serving"]:
        after |= {"serving": outcome.served[0].sha256, "serving_since": outcome.begun_ms}
    if outcome.validators is not None:
        after["validators"] = json.dumps(outcome.validators, separators=(",", ":"))
    return after


def _store_fact(connection: Connection, locator: str, served: ServedBody, begun_ms: int) -> None:
    """Store the fact that these bytes were served, and the bytes where they are accepted."""
    if served.body is not None:
        if sha256(served.body).digest() != served.sha256:
            raise ValueError(f"{served.url} served bytes that do not have the SHA-256 {served.sha256.hex()}")
        insert_new(connection, cards, [{"sha256": served.sha256, "body": served.body}])
    same = (fetches.c.locator == locator, fetches.c.sha256 == served.sha256)
    before = connection.execute(select(fetches).where(*same)).mappings().first()
    if before is None:
        row = {"locator": locator, "sha256": served.sha256, "url": served.url, "by_cid": served.by_cid}
        connection.execute(insert(fetches), [row | {"first_at": begun_ms, "last_at": begun_ms}])
    elif begun_ms >= before["last_at"]:
        after = {"url": served.url, "by_cid": served.by_cid or before["by_cid"], "last_at": begun_ms}
        connection.execute(update(fetches).where(*same).values(**after))


def _store_serving(connection: Connection, locator: str, digest: bytes, begun_ms: int) -> None:
    """Store that a locator serves other bytes since a fetch than before."""
    insert_new(connection, servings, [{"locator": locator, "since": begun_ms, "sha256": digest}])
    of_locator = servings.c.locator == locator
    newest = select(servings.c.since).where(of_locator).order_by(servings.c.since.desc())
    oldest_dropped = connection.execute(newest.offset(MAX_SERVINGS).limit(1)).scalar()
    if oldest_dropped is not None:
        connection.execute(delete(servings).where(of_locator, servings.c.since <= oldest_dropped))


def _facts(connection: Connection, locator: str) -> dict[bytes, int]:
    """When the last fetch began that served each of a locator's hashes."""
    last = select(fetches.c.sha256, fetches.c.last_at).where(fetches.c.locator == locator)
    return {row.sha256: row.last_at for row in connection.execute(last)}


def _trim(connection: Connection, locator: str) -> None:
    """Delete the facts beyond `MAX_FACTS`, and bodies that nothing refers to any more."""
    named = exists().where(sightings.c.locator == locator, sightings.c.digest == fetches.c.sha256)
    facts = select(fetches.c.sha256, (named | fetches.c.by_cid).label("named")).where(fetches.c.locator == locator)
    latest_first = connection.execute(facts.order_by(fetches.c.last_at.desc(), fetches.c.sha256)).all()
    retained = sorted(latest_first, key=lambda row: not row.named)[:MAX_FACTS]
    dropped = [row.sha256 for row in latest_first if row not in retained]
    if dropped:
        connection.execute(delete(fetches).where(fetches.c.locator == locator, fetches.c.sha256.in_(dropped)))
    without_body = dropped + [row.sha256 for row in retained if not row.named][MAX_UNNAMED_BODIES:]
    if without_body:
        elsewhere = exists().where(fetches.c.sha256 == cards.c.sha256, fetches.c.locator != locator)
        on_chain = exists().where(events.c.card == cards.c.sha256)
        connection.execute(delete(cards).where(cards.c.sha256.in_(without_body), ~elsewhere, ~on_chain))


def _changes_listing(
    connection: Connection, locator: str, before: Mapping[bytes, int], after: Mapping[bytes, int]
) -> bool:
    """Whether facts differ in a way that another anchor is met, or the bytes served last have changed."""
    if before.keys() != after.keys():
        return True
    served_again = {digest: last_at for digest, last_at in after.items() if before[digest] != last_at}
    if served_again and _latest(before) != _latest(after):
        return True
    seen_at = sightings.c.seen_at
    seen = select(seen_at).where(sightings.c.locator == locator)
    return any(
        _exists(connection, seen.where(seen_at >= before[digest], seen_at < last_at))
        for digest, last_at in served_again.items()
    )


def _latest(facts: Mapping[bytes, int]) -> set[bytes]:
    newest = max(facts.values(), default=NEVER_FETCHED)
    return {digest for digest, last_at in facts.items() if last_at == newest}


def ids_of(connection: Connection, locator: str) -> list[str]:
    """The ids with a pointer on chain that names this locator, sorted."""
    of_anchor = _exists(connection, select(events.c.anchor).where(events.c.anchor == locator))
    # ids that are not an address are those of registries, whose entries name no hash
    of_entries = (
        select(events.c.anchor)
        .join(sightings, SAME_POINTER)
        .where(sightings.c.locator == locator, sightings.c.digest == b"", events.c.anchor != locator)
    )
    return sorted([*([locator] if of_anchor else []), *connection.execute(of_entries.distinct()).scalars()])
