"""Revisions in blocks and beside them what is unconfirmed, each asked for in one statement.

In one, because a database answers each from one moment: whoever asked twice could find neither, when a block takes in
between what was unconfirmed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, ColumnElement, Select, bindparam, func, null, select, union_all

from indexer.facts import Event, Status
from indexer.store import rows
from indexer.store.tables import blocks, cards, events, pending, pending_cards


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
class Story:
    """A registration's revisions, oldest first: those in blocks, and those that would follow if mined next."""

    confirmed: list[Revision] = field(default_factory=list)
    pending: list[Unconfirmed] = field(default_factory=list)

    def add(self, row: rows.Row) -> None:
        """Add the revision that a row of `whole` holds."""
        if row["hash"] is None:
            self.pending.append(Unconfirmed(row["chain"], rows.event(row)))
        else:
            self.confirmed.append(revision(row))


def revision(row: rows.Row) -> Revision:
    """The revision that a row of `confirmed` holds."""
    return Revision(row["chain"], row["height"], row["hash"], row["time"], rows.event(row))


def confirmed(*conditions: ColumnElement[bool]) -> Select[Any]:
    """The events for which all conditions hold, with the hash and time of their blocks."""
    of_block = (blocks.c.chain == events.c.chain) & (blocks.c.height == events.c.height)
    return select(events, blocks.c.hash, blocks.c.time).join(blocks, of_block).where(*conditions)


def is_newest(chain: str) -> ColumnElement[bool]:
    """That an event is the newest of its registration on a chain."""
    later = events.alias()
    superseded = (
        select(later.c.place)
        .where(later.c.registration == events.c.registration, later.c.chain == chain)
        .where(later.c.place > events.c.place)
    )
    return ~superseded.exists()


@cache
def whole() -> Select[Any]:
    """All revisions of the `registrations` given to it, those in no block last and without hash and time. Made once:
    putting it together takes longer than most answers."""
    asked: BindParameter[Any] = bindparam("registrations", expanding=True)
    waiting = select(pending, null(), null()).where(pending.c.registration.in_(asked))
    both = union_all(confirmed(events.c.registration.in_(asked)), waiting).subquery()
    return select(both).order_by(both.c.chain, both.c.place)


@cache
def bodies() -> Select[Any]:
    """Card bytes by the SHA-256 `digests` given to it, those of unconfirmed cards too; one may come twice."""
    asked: BindParameter[Any] = bindparam("digests", expanding=True)
    waiting = select(pending_cards.c.sha256, pending_cards.c.body).where(pending_cards.c.sha256.in_(asked))
    both = union_all(select(cards).where(cards.c.sha256.in_(asked)), waiting).subquery()
    return select(both)


def unconfirmed(*conditions: ColumnElement[bool]) -> Select[Any]:
    """The unconfirmed events for which all conditions hold, as they would follow one another."""
    return select(pending).where(*conditions).order_by(pending.c.chain, pending.c.place)


def newcomer_ids() -> Select[Any]:
    """The registrations that are in no block of any chain, sorted."""
    known = select(events.c.registration).where(events.c.registration == pending.c.registration).exists()
    statement = select(pending.c.registration).where(pending.c.registration.is_not(None), ~known).distinct()
    return statement.order_by(pending.c.registration)


def newcomers(chain: str) -> Select[Any]:
    """How many registrations of a chain are live, and not in a block yet."""
    last = select(func.max(pending.c.place)).where(pending.c.chain == chain, pending.c.registration.is_not(None))
    newest = (pending.c.place.in_(last.group_by(pending.c.registration)), pending.c.status == Status.LIVE.value)
    known = select(events.c.registration).where(
        events.c.registration == pending.c.registration, events.c.chain == pending.c.chain
    )
    return select(func.count()).where(pending.c.chain == chain, *newest, ~known.exists()).select_from(pending)
