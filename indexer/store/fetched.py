"""What fetching came to: facts about locators, and what is due (laws 9 and 10). Times are milliseconds since 1970.

Each function that writes works inside a transaction of the writer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Select, and_, delete, exists, func, insert, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from indexer.store.batches import batches
from indexer.store.tables import cards, events, fetches, locators, servings, sightings

KEPT = 16
"""Facts that are kept of a locator: those that an anchor names, then the latest."""

KEPT_SERVINGS = 64
"""Changes of what a locator serves that are kept."""

KEPT_BODIES = 2
"""Bodies that are kept of those that no anchor names by their hash."""

WANTED = 16
"""Hashes of anchors that are told with what is due."""

MAX_DETAIL = 500

NEVER_FETCHED = -1
"""As `Due.last_at` would compare, of what was never fetched."""


class FetchState(StrEnum):
    """How fetching a locator stands. The same words stand in tables, in the API and in the tests."""

    NEW = "new"
    """It was not fetched yet."""
    MET = "met"
    """It served a hash that an anchor names, or what its CID names."""
    UNHASHED = "unhashed"
    """It served a card, and no anchor has a hash to hold it to."""
    MISMATCH = "mismatch"
    """What it serves is something else than its anchors name."""
    FAILED = "failed"
    """Nothing came of it; the reason says why."""
    GIVEN_UP = "given-up"
    """So for so long that it is fetched again only when somebody asks."""


class Served(NamedTuple):
    """What a URL served: the SHA-256 (32 bytes) of its raw body, and that body where it was accepted and is not known
    already. `by_cid`: the CID of the locator names these bytes."""

    url: str
    sha256: bytes
    body: bytes | None = None
    by_cid: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one fetch of a locator ended.

    `begun_ms` is when its first request was begun, which is what law 9 asks for. `served` is all it served, what was
    accepted first; a file that was not modified stands there without its body. `reason` is a code of
    `indexer.fetching.reasons`, "" for none, and `detail` what it is about. `next_at` is when to fetch again, None for
    never; an anchor seen since `begun_ms` has it fetched at once all the same. `validators` are by URL what makes the
    next fetch conditional: JSON, bounded by whoever gives it; None keeps those there are.
    """

    state: FetchState
    begun_ms: int
    next_at: int | None
    served: tuple[Served, ...] = ()
    reason: str = ""
    detail: str = ""
    validators: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A locator that should be fetched now.

    `tries` counts the fetches in a row that came to nothing, `added_at` is when an anchor last named it, `last_at` when
    the last fetch was begun. `fresh`: an anchor was seen since then, so the fetch must not be conditional. `wanted` are
    SHA-256 that anchors name, the one seen last first, at most 16: whether others are, `Store.is_wanted` says.
    `hashless`: some anchor names none, so any card will do. `validators` are those of the last outcome.
    """

    locator: str
    state: FetchState
    tries: int
    added_at: int
    last_at: int | None
    next_at: int
    fresh: bool
    wanted: tuple[bytes, ...]
    hashless: bool
    validators: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """How fetching a locator stands: see `Outcome` and `Due`. `serving` is the SHA-256 of what it served last, and has
    since `serving_since`."""

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


def note(connection: Connection, locator: str, outcome: Outcome) -> list[str]:
    """Write down how a fetch ended. Answers with the ids of which something may be shown otherwise than before; nothing
    is written about a locator that no pointer ever named. Raises ValueError for a body that has another hash."""
    row = connection.execute(select(locators).where(locators.c.locator == locator)).mappings().first()
    if row is None:
        return []
    before = (row["state"], row["reason"], row["detail"], row["serving"])
    kept = _facts(connection, locator)
    for served in outcome.served:
        _keep(connection, locator, served, outcome.begun_ms)
    _trim(connection, locator)
    now = _state(row, outcome)
    connection.execute(update(locators).where(locators.c.locator == locator).values(**now))
    if now["serving"] != row["serving"]:
        _note_serving(connection, locator, now["serving"], outcome.begun_ms)
    is_news = before != tuple(now[name] for name in ("state", "reason", "detail", "serving"))
    if not is_news and not _says_more(connection, locator, kept, _facts(connection, locator)):
        return []
    return _named_by(connection, locator)


def _state(row: Mapping[Any, Any], outcome: Outcome) -> dict[str, Any]:
    """The row of a locator after an outcome."""
    good = outcome.state in (FetchState.MET, FetchState.UNHASHED)
    next_at = outcome.next_at
    if row["next_at"] is not None and row["next_at"] > outcome.begun_ms:
        # it was asked for again while the fetch was under way
        next_at = row["next_at"] if next_at is None else min(next_at, row["next_at"])
    now: dict[str, Any] = {
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
        now |= {"serving": outcome.served[0].sha256, "serving_since": outcome.begun_ms}
    if outcome.validators is not None:
        now["validators"] = json.dumps(outcome.validators, separators=(",", ":"))
    return now


def _keep(connection: Connection, locator: str, served: Served, begun: int) -> None:
    """Add the fact that these bytes were served, and the bytes where they are accepted."""
    if served.body is not None:
        if sha256(served.body).digest() != served.sha256:
            raise ValueError(f"{served.url} served bytes that do not have the SHA-256 {served.sha256.hex()}")
        body = {"sha256": served.sha256, "body": served.body}
        connection.execute(_insert(connection, cards).on_conflict_do_nothing(), [body])
    known = (fetches.c.locator == locator, fetches.c.sha256 == served.sha256)
    found = connection.execute(select(fetches).where(*known)).mappings().first()
    if found is None:
        row = {"locator": locator, "sha256": served.sha256, "url": served.url, "by_cid": served.by_cid}
        connection.execute(insert(fetches), [row | {"first_at": begun, "last_at": begun}])
    elif begun >= found["last_at"]:
        news = {"url": served.url, "by_cid": served.by_cid or found["by_cid"], "last_at": begun}
        connection.execute(update(fetches).where(*known).values(**news))


def _note_serving(connection: Connection, locator: str, sha256: bytes, begun: int) -> None:
    """Write down that a locator serves other bytes now than before."""
    row = {"locator": locator, "since": begun, "sha256": sha256}
    connection.execute(_insert(connection, servings).on_conflict_do_nothing(), [row])
    ours = servings.c.locator == locator
    newest = select(servings.c.since).where(ours).order_by(servings.c.since.desc())
    over = connection.execute(newest.offset(KEPT_SERVINGS).limit(1)).scalar()
    if over is not None:
        connection.execute(delete(servings).where(ours, servings.c.since <= over))


def _insert(connection: Connection, table: Any) -> Any:
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table)


def _facts(connection: Connection, locator: str) -> dict[bytes, int]:
    """When each of the hashes a locator served was last served."""
    last = select(fetches.c.sha256, fetches.c.last_at).where(fetches.c.locator == locator)
    return {row.sha256: row.last_at for row in connection.execute(last)}


def _trim(connection: Connection, locator: str) -> None:
    """Forget what is too much: facts beyond those kept, and bodies that nobody can ask for any more."""
    named = exists().where(sightings.c.locator == locator, sightings.c.digest == fetches.c.sha256)
    ranked = select(fetches.c.sha256, (named | fetches.c.by_cid).label("named")).where(fetches.c.locator == locator)
    rows = connection.execute(ranked.order_by(fetches.c.last_at.desc(), fetches.c.sha256)).all()
    kept = sorted(rows, key=lambda row: not row.named)[:KEPT]
    over = [row.sha256 for row in rows if row not in kept]
    if over:
        connection.execute(delete(fetches).where(fetches.c.locator == locator, fetches.c.sha256.in_(over)))
    unnamed = [row.sha256 for row in kept if not row.named]
    bare = over + unnamed[KEPT_BODIES:]
    if bare:
        elsewhere = exists().where(fetches.c.sha256 == cards.c.sha256, fetches.c.locator != locator)
        on_chain = exists().where(events.c.card == cards.c.sha256)
        connection.execute(delete(cards).where(cards.c.sha256.in_(bare), ~elsewhere, ~on_chain))


def _says_more(connection: Connection, locator: str, before: Mapping[bytes, int], after: Mapping[bytes, int]) -> bool:
    """Whether facts differ so that an anchor is met, or something else is what was served last."""
    if before.keys() != after.keys():
        return True
    moved = {digest: at for digest, at in after.items() if before[digest] != at}
    if moved and _latest(before) != _latest(after):
        return True
    seen = select(sightings.c.seen_at).where(sightings.c.locator == locator)
    return any(
        connection.execute(
            seen.where(sightings.c.seen_at >= before[digest], sightings.c.seen_at < at).limit(1)
        ).first() is not None
        for digest, at in moved.items()
    )  # fmt: skip


def _latest(facts: Mapping[bytes, int]) -> set[bytes]:
    newest = max(facts.values(), default=NEVER_FETCHED)
    return {digest for digest, at in facts.items() if at == newest}


def _named_by(connection: Connection, locator: str) -> list[str]:
    """The ids of which some pointer on chain has this locator fetched, sorted."""
    own = _is_there(connection, select(events.c.anchor).where(events.c.anchor == locator))
    same = and_(
        events.c.chain == sightings.c.chain, events.c.txid == sightings.c.txid, events.c.vout == sightings.c.vout
    )
    # ids that are no address are those of registries, whose entries name no hash
    of_entries = (
        select(events.c.anchor)
        .join(sightings, same)
        .where(sightings.c.locator == locator, sightings.c.digest == b"", events.c.anchor != locator)
    )
    return sorted([*([locator] if own else []), *connection.execute(of_entries.distinct()).scalars()])


def ask_again(connection: Connection, locator: str, now: int) -> bool:
    """Have a locator fetched at once; False when no pointer on chain names it."""
    if not _named_by(connection, locator):
        return False
    later = locators.c.next_at.is_(None) | (locators.c.next_at > now)
    connection.execute(update(locators).where(locators.c.locator == locator, later).values(next_at=now))
    return True


def due(engine: Engine, now: int, limit: int, after: Due | None = None) -> list[Due]:
    """What should be fetched at `now`, at most `limit` of it: what was never fetched first, then what waited longest.
    `after` is the last one of a page before."""
    is_old = locators.c.state != FetchState.NEW.value
    place = (is_old, locators.c.next_at, locators.c.locator)
    ready = select(locators).where(locators.c.next_at <= now)
    if after is not None:
        ready = ready.where(tuple_(*place) > (after.state is not FetchState.NEW, after.next_at, after.locator))
    with engine.connect() as connection:
        rows = connection.execute(ready.order_by(*place).limit(limit)).mappings().all()
        return [_due(connection, row) for row in rows]


def due_now(engine: Engine, locator: str) -> Due | None:
    """A locator as it is due, None when nothing is due of it or nobody named it."""
    with engine.connect() as connection:
        wanted = select(locators).where(locators.c.locator == locator, locators.c.next_at.is_not(None))
        row = connection.execute(wanted).mappings().first()
        return None if row is None else _due(connection, row)


def _due(connection: Connection, row: Mapping[Any, Any]) -> Due:
    ours = sightings.c.locator == row["locator"]
    last = row["last_at"] if row["last_at"] is not None else NEVER_FETCHED
    newest = select(sightings.c.digest).where(ours, sightings.c.digest != b"").order_by(sightings.c.seen_at.desc())
    return Due(
        locator=row["locator"],
        state=FetchState(row["state"]),
        tries=row["tries"],
        added_at=row["added_at"],
        last_at=row["last_at"],
        next_at=row["next_at"],
        fresh=_is_there(connection, select(sightings.c.seen_at).where(ours, sightings.c.seen_at >= last)),
        wanted=tuple(dict.fromkeys(connection.execute(newest.limit(4 * WANTED)).scalars()))[:WANTED],
        hashless=_is_there(connection, select(sightings.c.digest).where(ours, sightings.c.digest == b"")),
        validators=json.loads(row["validators"]),
    )


def _is_there(connection: Connection, statement: Select[Any]) -> bool:
    return connection.execute(statement.limit(1)).first() is not None


def is_wanted(engine: Engine, locator: str, digest: bytes) -> bool:
    """Whether some anchor of a locator names this SHA-256."""
    with engine.connect() as connection:
        named = (sightings.c.locator == locator, sightings.c.digest == digest)
        return _is_there(connection, select(sightings.c.digest).where(*named))


def known(engine: Engine, wanted: Iterable[str]) -> dict[str, Known]:
    """How fetching these locators stands; those that no pointer ever named are left out."""
    names = list(Known.__dataclass_fields__)
    found: dict[str, Known] = {}
    with engine.connect() as connection:
        for batch in batches(wanted):
            rows = select(*(locators.c[name] for name in names)).where(locators.c.locator.in_(batch))
            for row in connection.execute(rows).mappings():
                found[row["locator"]] = Known(**{**row, "state": FetchState(row["state"])})
    return found


def counts(engine: Engine) -> dict[str, int]:
    """How many locators are in each state."""
    statement = select(locators.c.state, func.count()).group_by(locators.c.state)
    with engine.connect() as connection:
        found: dict[str, int] = dict(connection.execute(statement).all())
    return {state.value: found.get(state.value, 0) for state in FetchState}
