"""Asked for by serving processes: fetch what a listing hangs from again, sooner than it is due. In milliseconds."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, and_, select, update

from indexer.store.database import writing
from indexer.store.tables import badges, events, locators, sightings

PAUSE = 60_000
"""What was fetched so lately is fetched again only then, whoever asks."""

MOST = 16
"""Locators of one listing that are fetched again at once."""


class Checked(NamedTuple):
    """What is fetched again: `what` is pointer or domain, `name` its locator or host, `state` and `reason` what came of
    it last, `next_at` when it is due now."""

    what: str
    name: str
    state: str
    reason: str
    detail: str
    last_at: int | None
    next_at: int


class Rechecks:
    """Writes nothing but when something is due; safe to use from several threads and processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def ask(self, id_: str, now: int) -> list[Checked]:
        """Have all that is fetched for a listing fetched at `now`, or a minute after it last was; asking again changes
        nothing. Empty where nothing is. Stored when this returns. Raises StoreError when the database refuses."""
        with writing(self._engine) as connection:
            found = [_pointer(connection, locator, now) for locator in _locators(connection, id_)]
            badge = connection.execute(select(badges).where(badges.c.registration == id_)).mappings().first()
            return [*found, *([_domain(connection, badge, now)] if badge is not None else [])]


def _locators(connection: Connection, id_: str) -> list[str]:
    """What is fetched for the pointers on chain that name a listing."""
    same = and_(
        events.c.chain == sightings.c.chain, events.c.txid == sightings.c.txid, events.c.vout == sightings.c.vout
    )
    named = select(sightings.c.locator).join(events, same).where(events.c.anchor == id_).distinct()
    return list(connection.execute(named.order_by(sightings.c.locator).limit(MOST)).scalars())


def _pointer(connection: Connection, locator: str, now: int) -> Checked:
    here = locators.c.locator == locator
    row = connection.execute(select(locators).where(here)).mappings().one()
    due = _due(row, row["last_at"], now)
    connection.execute(update(locators).where(here).values(next_at=due))
    return Checked("pointer", locator, row["state"], row["reason"], row["detail"], row["last_at"], due)


def _domain(connection: Connection, row: Any, now: int) -> Checked:
    due = _due(row, row["checked_at"] or None, now)
    connection.execute(update(badges).where(badges.c.registration == row["registration"]).values(next_at=due))
    state = f"verified by {row['by']}" if row["by"] else "not verified"
    return Checked("domain", row["host"], state, row["reason"], "", row["checked_at"] or None, due)


def _due(row: Any, last: int | None, now: int) -> int:
    wanted = now if last is None else max(now, last + PAUSE)
    return int(wanted if row["next_at"] is None else min(row["next_at"], wanted))
