"""Domain badges (law 11): registrations with a host to check, and the host's answers. Times are milliseconds since
1970.

The functions that write work inside a transaction of the writer. The answer of a host is stored for all registrations
that name it at once, however many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    Connection,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    select,
    update,
)

from indexer.check_verdict import CheckVerdict, HostVerdict
from indexer.store import checks as queue
from indexer.store import outbox
from indexer.store.checks import GRACE, check_kind
from indexer.store.queries import Queries, Row, batches, rows_in
from indexer.store.schema import badges, blocks, checks, events

POSITION = "hosts and endpoints"

BADGE_CHECK = check_kind("badge", is_rebuilt=True)
"""The check of a registration, at the host of its card's url."""

MAX_ANNOUNCED = 32
"""Registrations of a host without a badge up to which each is announced when the host was checked. Of more, which
strangers may make, only those that have a badge are."""


class BadgeCandidate(NamedTuple):
    """A live inscribed agent: its registration, the host of its url, and the SHA-256 of its card."""

    registration: str
    host: str
    card: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainBadge:
    """The badge of a registration: `by` is name, dns, hash or "" for no badge; `card` is the SHA-256 of the checked
    card. The verdict is on the last check that confirmed the badge or did not find it; its reason is a code of why the
    last check of all, at `tried_at`, or a part of it failed."""

    registration: str
    host: str
    card: bytes
    by: str
    verdict: CheckVerdict
    tried_at: int

    def holds(self, host: str, card: bytes) -> bool:
        """Whether a card (SHA-256) with a url at `host` has the badge: a new revision loses a badge by hash."""
        return self.host == host and (self.by in ("name", "dns") or (self.by == "hash" and self.card == card))


class BadgeQueries(Queries):
    """Reads of badges."""

    def get(self, registrations: Iterable[str]) -> dict[str, DomainBadge]:
        """The badges of these registrations; those that are not candidates are left out."""
        matches = (row for batch in batches(registrations) for row in self._rows(_badges_of(), registrations=batch))
        return {row["registration"]: _badge(row) for row in matches}

    def position(self, name: str = POSITION) -> int | None:
        """The outbox position of a reader, by default that of candidates; None where the reader must
        restart."""
        with self._engine.connect() as connection:
            return outbox.position_of(connection, name)


def _badge(row: Row) -> DomainBadge:
    verdict = CheckVerdict.of(row["by"], row["reason"], row["checked_at"])
    return DomainBadge(
        registration=row["registration"], host=row["host"], card=row["card"], by=row["by"], verdict=verdict,
        tried_at=row["tried_at"],
    )  # fmt: skip


@cache
def _badges_of() -> Select[Any]:
    """The badges of the bound `registrations`. Cached: composing the statement takes as long as the answer."""
    registrations: BindParameter[Any] = bindparam("registrations", expanding=True)
    check = (checks.c.kind == BADGE_CHECK) & (checks.c.name == badges.c.registration)
    tried_at = func.coalesce(checks.c.checked_at, 0)
    checked_at = case((badges.c.by != "", badges.c.verified_at), else_=tried_at).label("checked_at")
    outcome = (checked_at, func.coalesce(checks.c.reason, "").label("reason"), tried_at.label("tried_at"))
    columns = (badges.c.registration, badges.c.host, badges.c.card, badges.c.by, *outcome)
    return select(*columns).outerjoin(checks, check).where(badges.c.registration.in_(registrations))


def update_candidates(
    connection: Connection, candidates: Sequence[BadgeCandidate], registrations: Sequence[str], now_ms: int
) -> list[str]:
    """Make `candidates` the only ones among these `registrations`. A new card or host is due at once; a badge by hash
    is lost with the card, every badge with the host. Returns the registrations that lose one, sorted."""
    before = _by_registration(connection, select(badges), registrations)
    removed = before.keys() - {candidate.registration for candidate in candidates}
    for registration in sorted(removed):
        connection.execute(delete(badges).where(badges.c.registration == registration))
    moved = {entry.registration: entry.host for entry in candidates if _is_other(before.get(entry.registration), entry)}
    queue.forget(connection, BADGE_CHECK, [*removed, *moved])
    queue.enlist(connection, BADGE_CHECK, moved, now_ms)
    lost = {registration for registration in removed if before[registration]["by"]}
    new = [_new(candidate) for candidate in candidates if candidate.registration not in before]
    if new:
        connection.execute(insert(badges), new)
    for candidate in candidates:
        row = before.get(candidate.registration)
        if row is not None and _is_other(row, candidate):
            stays = row["host"] == candidate.host and row["by"] in ("name", "dns")
            badge = {"by": row["by"], "verified_at": row["verified_at"]} if stays else {}
            same = badges.c.registration == candidate.registration
            connection.execute(update(badges).where(same).values(**(_new(candidate) | badge)))
            if row["by"] and not stays:
                lost.add(candidate.registration)
    return sorted(lost)


def _is_other(row: Row | None, candidate: BadgeCandidate) -> bool:
    """Whether nothing is stored of a candidate, or of another host or card."""
    return row is None or (row["host"], row["card"]) != (candidate.host, candidate.card)


def _new(candidate: BadgeCandidate) -> dict[str, Any]:
    return {**candidate._asdict(), "by": "", "verified_at": 0}


def record(connection: Connection, verdict: HostVerdict, now_ms: int) -> list[str]:
    """Store the answer of a host, or why there is none. Returns the registrations that may have changed, sorted: those
    that have or lose a badge, and, where they are few, those without one."""
    of_host = badges.c.host == verdict.host
    having = connection.execute(select(badges).where(of_host, badges.c.by != "")).mappings()
    holders = {row["registration"]: row for row in having}
    named = _by_registration(connection, select(badges).where(of_host), sorted(verdict.named | verdict.in_dns))
    badge_of = {id_: _named_by(verdict, id_) for id_ in (*holders, *named)}
    for digest in verdict.served:
        oldest = _oldest(connection, verdict.host, digest)
        if oldest is not None and not badge_of.get(oldest):
            badge_of[oldest] = "hash"
    without = select(badges.c.registration).where(of_host, badges.c.by == "").limit(MAX_ANNOUNCED + 1)
    announced = connection.execute(without).scalars().all()
    queue.fail_all(connection, BADGE_CHECK, verdict.host, verdict.reason, now_ms)
    confirmed = [registration for registration, by in badge_of.items() if by]
    queue.record(connection, BADGE_CHECK, confirmed, now_ms, verdict.reason)
    changed = set(announced) if len(announced) <= MAX_ANNOUNCED else set[str]()
    for registration, by in badge_of.items():
        row = holders.get(registration)
        retained = "" if row is None or by else _retained(verdict, row, now_ms)
        verified = {"verified_at": now_ms} if by else {}
        same = badges.c.registration == registration
        connection.execute(update(badges).where(same).values(by=by or retained, **verified))
        if row is not None and retained:
            queue.hold(connection, BADGE_CHECK, {registration: row["verified_at"]})
        if by or row is not None:
            changed.add(registration)
    return sorted(changed)


def _by_registration(connection: Connection, statement: Select[Any], registrations: Iterable[str]) -> dict[str, Row]:
    """The selected rows about these registrations."""
    return {row["registration"]: row for row in rows_in(connection, statement, badges.c.registration, registrations)}


def _named_by(verdict: HostVerdict, registration: str) -> str:
    if registration in verdict.named:
        return "name"
    return "dns" if registration in verdict.in_dns else ""


def _retained(verdict: HostVerdict, row: Row, now_ms: int) -> str:
    """The badge that stays though it was not confirmed: its host did not answer, and did so not long ago."""
    has_answered = row["by"] not in verdict.failed
    return "" if has_answered or now_ms - row["verified_at"] >= GRACE else row["by"]


def _oldest(connection: Connection, host: str, digest: bytes) -> str | None:
    """The live registration that has had these bytes for longest, by the time of the block that first brought them."""
    same_card = and_(events.c.registration == badges.c.registration, events.c.card == digest, events.c.valid)
    same_block = and_(blocks.c.chain == events.c.chain, blocks.c.height == events.c.height)
    statement = (
        select(badges.c.registration)
        .join(events, same_card)
        .join(blocks, same_block)
        .where(badges.c.host == host, badges.c.card == digest)
        .order_by(blocks.c.time, events.c.chain, events.c.place)
        .limit(1)
    )
    return connection.execute(statement).scalar()
