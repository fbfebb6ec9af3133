"""What waits to be fetched, as little of each as a schedule needs. Times are milliseconds since 1970."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Engine, select, tuple_

from indexer.store.fetched import FetchState
from indexer.store.tables import locators


class Waiting(NamedTuple):
    """A locator that is due since `next_at`; the rest is as `Due` says."""

    next_at: int
    locator: str
    state: FetchState
    tries: int
    last_at: int | None


def waiting(engine: Engine, now: int, limit: int, after: tuple[int, str]) -> list[Waiting]:
    """What is due at `now`, longest first, at most `limit` of it, behind the place (`next_at`, locator) `after`."""
    place = (locators.c.next_at, locators.c.locator)
    statement = (
        select(*place, locators.c.state, locators.c.tries, locators.c.last_at)
        .where(locators.c.next_at <= now, locators.c.next_at >= after[0], tuple_(*place) > after)
        .order_by(*place)
        .limit(limit)
    )
    with engine.connect() as connection:
        return [
            Waiting(at, locator, FetchState(state), tries, last)
            for at, locator, state, tries, last in connection.execute(statement)
        ]
