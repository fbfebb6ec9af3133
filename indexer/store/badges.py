"""Domain badges (law 11): registrations whose host is to be asked, and what it said. Times are milliseconds since 1970.

Each function that writes works inside a transaction of the writer. What a host said is written down for all that name
it at once, however many those are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    Connection,
    Engine,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    select,
    tuple_,
    update,
)

from indexer.store.batches import batches
from indexer.store.tables import badges, blocks, cursors, events, meta

CURSOR = "badges"

HOUR = 3_600_000
AGAIN = 24 * HOUR
"""Between two checks of a badge."""

LONGEST = 7 * 24 * HOUR
"""Between two checks where there is none: an hour at first, then doubled."""

KEPT_UNHEARD = 7 * 24 * HOUR
"""A badge is lost when its host could not be asked for so long."""

TOLD = 32
"""Registrations of a host without a badge up to which each is told to have been asked about. Of more, which strangers
may make, only those that have one are."""


class Enlisted(NamedTuple):
    """A live inscribed agent: its registration, the host of its url, and the SHA-256 of its card."""

    registration: str
    host: str
    card: bytes


class Verdict(NamedTuple):
    """What a host said: the ids that its cards name and its TXT records name, and the SHA-256 of the cards that give a
    badge by hash. `unheard` are the ways (name, dns, hash) of which nothing could be learnt, `reason` a code why."""

    host: str
    named: frozenset[str]
    in_dns: frozenset[str]
    served: frozenset[bytes]
    unheard: frozenset[str] = frozenset()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """What was said of a registration: `by` is name, dns, hash or "" for no badge; `card` the SHA-256 of the card that
    it is about, `checked_at` 0 when the host was not asked yet; `reason` a code of `indexer.fetching.reasons`."""

    registration: str
    host: str
    card: bytes
    by: str
    checked_at: int
    next_at: int | None
    tries: int
    reason: str

    def holds(self, host: str, card: bytes) -> bool:
        """Whether a card (SHA-256) whose url is at `host` has the badge: a new revision loses one by hash."""
        return self.host == host and (self.by in ("name", "dns") or (self.by == "hash" and self.card == card))


def of(engine: Engine, registrations: Iterable[str]) -> dict[str, Badge]:
    """What was said of these registrations; those whose host was never to be asked are left out."""
    found: dict[str, Badge] = {}
    with engine.connect() as connection:
        for batch in batches(registrations):
            rows = connection.execute(_named_so(), {"registrations": batch}).mappings()
            found |= {row["registration"]: Badge(**row) for row in rows}
    return found


@cache
def _named_so() -> Select[Any]:
    """The badges of the `registrations` given to it. Made once: that takes as long as the answer."""
    asked: BindParameter[Any] = bindparam("registrations", expanding=True)
    return select(badges).where(badges.c.registration.in_(asked))


def cursor(engine: Engine) -> int | None:
    """The sequence number of the outbox up to which registrations were enlisted; None when that must begin anew."""
    with engine.connect() as connection:
        row = connection.execute(select(cursors).where(cursors.c.name == CURSOR)).mappings().first()
        epoch = connection.execute(select(meta.c.value).where(meta.c.key == "epoch")).scalar()
        return row["seq"] if row and row["epoch"] == epoch else None


def due(engine: Engine, now: int, limit: int, after: tuple[int, str] | None = None) -> list[tuple[int, str]]:
    """Hosts that should be asked, with since when, longest first; `after` is the last one of a page before."""
    since = func.min(badges.c.next_at)
    ready = select(since, badges.c.host).where(badges.c.next_at <= now).group_by(badges.c.host)
    if after is not None:
        ready = ready.having(tuple_(since, badges.c.host) > after)
    with engine.connect() as connection:
        return [(at, host) for at, host in connection.execute(ready.order_by(since, badges.c.host).limit(limit))]


def enlist(connection: Connection, found: Sequence[Enlisted], looked_at: Sequence[str], now: int) -> list[str]:
    """Let the registrations in `looked_at` be enlisted as `found` says, and no others of them. A new card or host is
    due at once; a badge by hash goes with the card, every badge with the host. Returned are those that lose one by
    it, sorted: they are to be shown otherwise."""
    before: dict[str, Any] = {}
    for batch in batches(looked_at):
        rows = select(badges).where(badges.c.registration.in_(batch))
        before |= {row["registration"]: row for row in connection.execute(rows).mappings()}
    gone = before.keys() - {each.registration for each in found}
    for registration in sorted(gone):
        connection.execute(delete(badges).where(badges.c.registration == registration))
    lost = {registration for registration in gone if before[registration]["by"]}
    new = [_new(each, now) for each in found if each.registration not in before]
    if new:
        connection.execute(insert(badges), new)
    for each in found:
        known = before.get(each.registration)
        if known is not None and (known["host"], known["card"]) != (each.host, each.card):
            kept = known["host"] == each.host and known["by"] in ("name", "dns")
            row = _new(each, now) | ({"by": known["by"], "checked_at": known["checked_at"]} if kept else {})
            connection.execute(update(badges).where(badges.c.registration == each.registration).values(**row))
            if known["by"] and not kept:
                lost.add(each.registration)
    return sorted(lost)


def _new(each: Enlisted, now: int) -> dict[str, Any]:
    return {
        "registration": each.registration, "host": each.host, "card": each.card,
        "by": "", "checked_at": 0, "next_at": now, "tries": 0, "reason": "",
    }  # fmt: skip


def move_cursor(connection: Connection, seq: int) -> None:
    """Remember how far the outbox was read."""
    epoch = connection.execute(select(meta.c.value).where(meta.c.key == "epoch")).scalar_one()
    connection.execute(delete(cursors).where(cursors.c.name == CURSOR))
    connection.execute(insert(cursors).values(name=CURSOR, epoch=epoch, seq=seq))


def note(connection: Connection, verdict: Verdict, now: int) -> list[str]:
    """Write down what a host said; the registrations that may be shown otherwise, sorted: those whose badge is another
    one than before or was confirmed, and, where they are few and the host was heard, those that have none."""
    here = badges.c.host == verdict.host
    holders = _by(connection, here & (badges.c.by != ""))
    named = _named(connection, verdict, here)
    rows = {**holders, **named}
    given = {registration: _given(verdict, row) for registration, row in rows.items()}
    for digest in verdict.served:
        oldest = _oldest(connection, verdict.host, digest)
        if oldest is not None and not given.get(oldest):
            given[oldest] = "hash"
    heard_at = {"checked_at": now, "reason": verdict.reason}
    bare = select(badges.c.registration).where(here, badges.c.by == "").limit(TOLD + 1)
    without = connection.execute(bare).scalars().all()
    # all at once, as any number of strangers may name a host
    connection.execute(update(badges).where(here, badges.c.by == "").values(**heard_at, **_later(now)))
    is_heard = "name" not in verdict.unheard
    changed = set(without) if is_heard and len(without) <= TOLD else set[str]()
    for registration, by in given.items():
        row = holders.get(registration)
        kept = "" if row is None or by else _kept(verdict, row, now)
        _write(connection, registration, by or kept, now, verdict.reason, confirmed=bool(by))
        if by or row is not None:
            changed.add(registration)
    return sorted(changed)


def _by(connection: Connection, condition: Any) -> dict[str, Any]:
    found = connection.execute(select(badges).where(condition)).mappings()
    return {row["registration"]: row for row in found}


def _named(connection: Connection, verdict: Verdict, here: Any) -> dict[str, Any]:
    """Rows of the registrations that the host names and that name it."""
    found: dict[str, Any] = {}
    for batch in batches(sorted(verdict.named | verdict.in_dns)):
        found |= _by(connection, here & badges.c.registration.in_(batch))
    return found


def _given(verdict: Verdict, row: Mapping[str, Any]) -> str:
    if row["registration"] in verdict.named:
        return "name"
    return "dns" if row["registration"] in verdict.in_dns else ""


def _kept(verdict: Verdict, row: Mapping[str, Any], now: int) -> str:
    """The badge that stays though it was not confirmed: its host could not be heard, and was not long ago."""
    heard = row["by"] not in verdict.unheard
    return "" if heard or now - row["checked_at"] >= KEPT_UNHEARD else row["by"]


def _write(connection: Connection, registration: str, by: str, now: int, reason: str, *, confirmed: bool) -> None:
    values: dict[str, Any] = {"by": by, "reason": reason, "tries": 0, "next_at": now + AGAIN}
    if confirmed or not by:
        values["checked_at"] = now
    else:
        values["next_at"] = now + HOUR
    connection.execute(update(badges).where(badges.c.registration == registration).values(**values))


def _later(now: int) -> dict[str, Any]:
    """When those without a badge are looked at again: later each time."""
    steps = {tries: now + min(HOUR << tries, LONGEST) for tries in range(9)}
    return {"tries": badges.c.tries + 1, "next_at": case(steps, value=badges.c.tries, else_=now + LONGEST)}


def _oldest(connection: Connection, host: str, digest: bytes) -> str | None:
    """The live registration that has said these bytes for longest, by the time of the block that first did."""
    said = and_(events.c.registration == badges.c.registration, events.c.card == digest, events.c.valid)
    of_block = and_(blocks.c.chain == events.c.chain, blocks.c.height == events.c.height)
    statement = (
        select(badges.c.registration)
        .join(events, said)
        .join(blocks, of_block)
        .where(badges.c.host == host, badges.c.card == digest)
        .order_by(blocks.c.time, events.c.chain, events.c.place)
        .limit(1)
    )
    return connection.execute(statement).scalar()


def ask_again(connection: Connection, registration: str, now: int) -> bool:
    """Have a registration's host asked at once; False when it names none."""
    known = badges.c.registration == registration
    later = badges.c.next_at.is_(None) | (badges.c.next_at > now)
    connection.execute(update(badges).where(known, later).values(next_at=now))
    return connection.execute(select(badges.c.host).where(known)).first() is not None
