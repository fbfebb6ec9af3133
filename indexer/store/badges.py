"""Domain badges (law 11): registrations whose host is to be fetched from, and its answers. Times are milliseconds since
1970.

The functions that write work inside a transaction of the writer. The answer of a host is stored for all registrations
that name it at once, however many those are.
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
    Table,
    and_,
    bindparam,
    case,
    delete,
    insert,
    select,
    update,
)

from indexer.retries import Backoff
from indexer.store.queries import Queries, Row, batches, rows_in
from indexer.store.schema import badges, blocks, cursors, events, meta

CURSOR = "fetch candidates"

HOUR = 3_600_000
CHECK_INTERVAL = 24 * HOUR
"""Between two checks of a badge."""

BACKOFF = Backoff(3_600, 7 * 86_400)
"""Between two checks that bring nothing."""

GRACE = 7 * 24 * HOUR
"""A badge is lost when its host could not be reached for so long."""

MAX_ANNOUNCED = 32
"""Registrations of a host without a badge up to which each is announced when the host was checked. Of more, which
strangers may make, only those that have a badge are."""


class BadgeCandidate(NamedTuple):
    """A live inscribed agent: its registration, the host of its url, and the SHA-256 of its card."""

    registration: str
    host: str
    card: bytes


class HostVerdict(NamedTuple):
    """What a host answered: the ids that its cards name and its TXT records name, and the SHA-256 of the cards that
    give a badge by hash. `failed` are the ways (name, dns, hash) that brought no answer, `reason` a code why."""

    host: str
    named: frozenset[str]
    in_dns: frozenset[str]
    served: frozenset[bytes]
    failed: frozenset[str] = frozenset()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainBadge:
    """The badge of a registration: `by` is name, dns, hash or "" for none; `card` the SHA-256 of the card that was
    checked, `checked_at` 0 when the host was not checked yet; `reason` a reason code of fetching."""

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


class BadgeQueries(Queries):
    """Reads of badges and of the hosts to ask."""

    def get(self, registrations: Iterable[str]) -> dict[str, DomainBadge]:
        """The badges of these registrations; those that are no candidates are left out."""
        matches = (row for batch in batches(registrations) for row in self._rows(_badges_of(), registrations=batch))
        return {row["registration"]: DomainBadge(**row) for row in matches}

    def cursor(self, name: str = CURSOR) -> int | None:
        """The sequence number of the outbox up to which a reader, that of candidates, has read; None where that must
        restart."""
        epoch = select(meta.c.value).where(meta.c.key == "epoch").scalar_subquery()
        seq: int | None = self._scalar(select(cursors.c.seq).where(cursors.c.name == name, cursors.c.epoch == epoch))
        return seq

    def due_hosts(self, now_ms: int, limit: int, after: tuple[int, str]) -> list[tuple[int, str]]:
        """At most `limit` hosts to ask, as (due since, host), those due longest first, after such a pair."""
        return self._due_groups(badges.c.next_at, badges.c.host, now_ms, limit, after)


@cache
def _badges_of() -> Select[Any]:
    """The badges of the bound `registrations`. Cached: composing the statement takes as long as the answer."""
    registrations: BindParameter[Any] = bindparam("registrations", expanding=True)
    return select(badges).where(badges.c.registration.in_(registrations))


def update_candidates(
    connection: Connection, candidates: Sequence[BadgeCandidate], registrations: Sequence[str], now_ms: int
) -> list[str]:
    """Make `candidates` the only ones among these `registrations`. A new card or host is due at once; a badge by hash
    is lost with the card, every badge with the host. Returns the registrations that lose one, sorted."""
    before = _by_registration(connection, select(badges), registrations)
    removed = before.keys() - {candidate.registration for candidate in candidates}
    for registration in sorted(removed):
        connection.execute(delete(badges).where(badges.c.registration == registration))
    lost = {registration for registration in removed if before[registration]["by"]}
    new = [_new(candidate, now_ms) for candidate in candidates if candidate.registration not in before]
    if new:
        connection.execute(insert(badges), new)
    for candidate in candidates:
        row = before.get(candidate.registration)
        if row is not None and (row["host"], row["card"]) != (candidate.host, candidate.card):
            stays = row["host"] == candidate.host and row["by"] in ("name", "dns")
            badge = {"by": row["by"], "checked_at": row["checked_at"]} if stays else {}
            same = badges.c.registration == candidate.registration
            connection.execute(update(badges).where(same).values(**(_new(candidate, now_ms) | badge)))
            if row["by"] and not stays:
                lost.add(candidate.registration)
    return sorted(lost)


def _new(candidate: BadgeCandidate, now_ms: int) -> dict[str, Any]:
    return {
        "registration": candidate.registration, "host": candidate.host, "card": candidate.card,
        "by": "", "checked_at": 0, "next_at": now_ms, "tries": 0, "reason": "",
    }  # fmt: skip


def record(connection: Connection, verdict: HostVerdict, now_ms: int) -> list[str]:
    """Store what a host answered. Returns the registrations that may be shown otherwise, sorted: those whose badge
    changed or was confirmed, and, where they are few and the host answered, those that have none."""
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
    # all at once, as any number of strangers may name a host
    checked = {"checked_at": now_ms, "reason": verdict.reason}
    connection.execute(update(badges).where(of_host, badges.c.by == "").values(**checked, **retry(badges, now_ms)))
    has_answered = "name" not in verdict.failed
    changed = set(announced) if has_answered and len(announced) <= MAX_ANNOUNCED else set[str]()
    for registration, by in badge_of.items():
        row = holders.get(registration)
        retained = "" if row is None or by else _retained(verdict, row, now_ms)
        _write(connection, registration, by or retained, now_ms, verdict.reason, confirmed=bool(by))
        if by or row is not None:
            changed.add(registration)
    return sorted(changed)


def _by_registration(connection: Connection, statement: Select[Any], registrations: Iterable[str]) -> dict[str, Row]:
    """The rows about those of these registrations that a statement selects."""
    return {row["registration"]: row for row in rows_in(connection, statement, badges.c.registration, registrations)}


def _named_by(verdict: HostVerdict, registration: str) -> str:
    if registration in verdict.named:
        return "name"
    return "dns" if registration in verdict.in_dns else ""


def _retained(verdict: HostVerdict, row: Row, now_ms: int) -> str:
    """The badge that stays though it was not confirmed: its host did not answer, and did so not long ago."""
    has_answered = row["by"] not in verdict.failed
    return "" if has_answered or now_ms - row["checked_at"] >= GRACE else row["by"]


def _write(connection: Connection, registration: str, by: str, now_ms: int, reason: str, *, confirmed: bool) -> None:
    values: dict[str, Any] = {"by": by, "reason": reason, "tries": 0, "next_at": now_ms + CHECK_INTERVAL}
    if confirmed or not by:
        values["checked_at"] = now_ms
    else:
        values["next_at"] = now_ms + HOUR
    connection.execute(update(badges).where(badges.c.registration == registration).values(**values))


def retry(table: Table, now_ms: int) -> dict[str, Any]:
    """The values of rows whose checks failed once more: each is checked again later than the last time."""
    steps = {tries: now_ms + BACKOFF.pause_ms(tries + 1) for tries in range(9)}
    return {
        "tries": table.c.tries + 1,
        "next_at": case(steps, value=table.c.tries, else_=now_ms + BACKOFF.pause_ms(10)),
    }


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
