"""The exchange rates that were believed, and their history: written by the process that asks the feeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from indexer.store.database import writing
from indexer.store.tables import quotes
from parsers.rates import Rates

KEPT = 5_000
"""Rows of history that are kept of each feed: as many different tables."""

REFUSED = "!refused"
"""What follows the name of a feed in that of the quote which stands in for what is refused of it."""

_KEEPING = 0x61326278
"""PostgreSQL advisory lock under which quotes are written ("a2bx")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A table that was believed, by the name of its feed. It was told unchanged from `since` until `table.at`, in
    seconds since 1970. `rank` is 0 for the preferred feed."""

    feed: str
    rank: int
    since: int
    table: Rates

    @property
    def is_refused(self) -> bool:
        """Whether it holds the currencies of which the feed's answer is refused now, at their last good rates."""
        return self.feed.endswith(REFUSED)


class Quotes:
    """The quotes in one database; safe to use from several threads and processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def keep(self, found: Sequence[Quote], kept: int = KEPT) -> None:
        """Remember what was told now: a feed that tells the same as before has its newest row prolonged. Quotes that
        stand in for what is refused are replaced as a whole. All or nothing. Raises StoreError when the database
        refuses."""
        with writing(self._engine, _KEEPING) as connection:
            connection.execute(delete(quotes).where(quotes.c.feed.endswith(REFUSED)))
            for quote in found:
                _keep(connection, quote)
                _trim(connection, quote.feed, kept)

    def retire(self, feeds: Sequence[str], now: int) -> None:
        """Let quotes of all feeds but these be used no longer; their history stays. Raises StoreError."""
        with writing(self._engine, _KEEPING) as connection:
            gone = (quotes.c.feed.not_in(feeds), quotes.c.until > now)
            connection.execute(update(quotes).where(*gone).values(until=now))

    def newest(self) -> list[Quote]:
        """The newest quote of every feed, the preferred feed first, whether it may still be used or not."""
        last = select(quotes.c.feed, func.max(quotes.c.since).label("since")).group_by(quotes.c.feed).subquery()
        joined = (quotes.c.feed == last.c.feed) & (quotes.c.since == last.c.since)
        statement = select(quotes).join(last, joined).order_by(quotes.c.rank, quotes.c.feed)
        with self._engine.connect() as connection:
            return [_quote(row) for row in connection.execute(statement).mappings()]

    def history(self, feed: str, limit: int) -> list[Quote]:
        """What a feed told, the newest first."""
        statement = select(quotes).where(quotes.c.feed == feed).order_by(quotes.c.since.desc()).limit(limit)
        with self._engine.connect() as connection:
            return [_quote(row) for row in connection.execute(statement).mappings()]


def _keep(connection: Connection, quote: Quote) -> None:
    row = _row(quote)
    mine = quotes.c.feed == quote.feed
    before = connection.execute(select(quotes).where(mine).order_by(quotes.c.since.desc()).limit(1)).mappings().first()
    if before is not None and (before["rates"] == row["rates"] or before["since"] >= quote.since):
        # of two tables of one moment the later told counts
        since = before["since"]
        connection.execute(update(quotes).where(mine, quotes.c.since == since).values({**row, "since": since}))
        return
    connection.execute(insert(quotes), [row])


def _trim(connection: Connection, feed: str, kept: int) -> None:
    mine = quotes.c.feed == feed
    newest = select(quotes.c.since).where(mine).order_by(quotes.c.since.desc())
    first_over = connection.execute(newest.offset(kept).limit(1)).scalar()
    if first_over is not None:
        connection.execute(delete(quotes).where(mine, quotes.c.since <= first_over))


def _row(quote: Quote) -> dict[str, Any]:
    table = quote.table
    rates = {currency: str(rate) for currency, rate in sorted(table.rates.items())}
    return {
        "feed": quote.feed, "since": quote.since, "at": table.at, "until": table.until, "rank": quote.rank,
        "base": table.base, "source": table.source, "rates": json.dumps(rates, separators=(",", ":")),
    }  # fmt: skip


def _quote(row: Mapping[Any, Any]) -> Quote:
    rates = {currency: Decimal(rate) for currency, rate in json.loads(row["rates"]).items()}
    table = Rates(base=row["base"], rates=rates, source=row["source"], at=row["at"], until=row["until"])
    return Quote(feed=row["feed"], rank=row["rank"], since=row["since"], table=table)
