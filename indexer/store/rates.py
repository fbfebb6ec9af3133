"""The accepted exchange rates, and their history: written by the process that fetches the feeds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from indexer.store.database import writing
from indexer.store.locks import AdvisoryLock
from indexer.store.queries import Queries, Row
from indexer.store.schema import quotes
from parsers.cards.rate_table import RateTable

MAX_HISTORY = 5_000
"""Quotes stored of each feed: as many different tables."""

REFUSED = "!refused"
"""Suffix of a feed's name in that of the quote which replaces the currencies that are refused of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """An accepted table of rates, by the name of its feed. The feed gave it unchanged from `since` until `table.at`, in
    seconds since 1970. `rank` is 0 for the preferred feed."""

    feed: str
    rank: int
    since: int
    table: RateTable

    @property
    def is_refused(self) -> bool:
        """Whether it holds the currencies of which the feed's answer is refused now, at their last good rates."""
        return self.feed.endswith(REFUSED)


class Quotes(Queries):
    """The quotes in one database; several threads and processes may use it at once."""

    def store(self, current: Sequence[Quote], limit: int = MAX_HISTORY) -> None:
        """Store current quotes, `limit` of each feed: the newest row of a feed with unchanged rates is prolonged.
        Quotes that replace refused currencies are rewritten as a whole. All or nothing. Raises StoreError when the
        database refuses."""
        with writing(self._engine, AdvisoryLock.QUOTES) as connection:
            connection.execute(delete(quotes).where(quotes.c.feed.endswith(REFUSED)))
            for quote in current:
                _store(connection, quote)
                _trim(connection, quote.feed, limit)

    def retire(self, feeds: Sequence[str], now: int) -> None:
        """End the quotes of all feeds except these at `now`; their history remains. Raises StoreError."""
        with writing(self._engine, AdvisoryLock.QUOTES) as connection:
            others = (quotes.c.feed.not_in(feeds), quotes.c.until > now)
            connection.execute(update(quotes).where(*others).values(until=now))

    def newest(self) -> list[Quote]:
        """The newest quote of every feed, the preferred feed first, whether it may still be used or not."""
        last = select(quotes.c.feed, func.max(quotes.c.since).label("since")).group_by(quotes.c.feed).subquery()
        joined = (quotes.c.feed == last.c.feed) & (quotes.c.since == last.c.since)
        statement = select(quotes).join(last, joined).order_by(quotes.c.rank, quotes.c.feed)
        return [_quote(row) for row in self._rows(statement)]

    def history(self, feed: str, limit: int) -> list[Quote]:
        """At most `limit` quotes of a feed, the newest first."""
        statement = select(quotes).where(quotes.c.feed == feed).order_by(quotes.c.since.desc()).limit(limit)
        return [_quote(row) for row in self._rows(statement)]


def _store(connection: Connection, quote: Quote) -> None:
    row = _row(quote)
    of_feed = quotes.c.feed == quote.feed
    before = (
        connection.execute(select(quotes).where(of_feed).order_by(quotes.c.since.desc()).limit(1)).mappings().first()
    )
    if before is not None and (before["rates"] == row["rates"] or before["since"] >= quote.since):
        # of two tables of one moment the later stored counts
        since = before["since"]
        connection.execute(update(quotes).where(of_feed, quotes.c.since == since).values({**row, "since": since}))
        return
    connection.execute(insert(quotes), [row])


def _trim(connection: Connection, feed: str, limit: int) -> None:
    of_feed = quotes.c.feed == feed
    newest = select(quotes.c.since).where(of_feed).order_by(quotes.c.since.desc())
    first_over = connection.execute(newest.offset(limit).limit(1)).scalar()
    if first_over is not None:
        connection.execute(delete(quotes).where(of_feed, quotes.c.since <= first_over))


def _row(quote: Quote) -> dict[str, Any]:
    table = quote.table
    rates = {currency: str(rate) for currency, rate in sorted(table.rates.items())}
    return {
        "feed": quote.feed, "since": quote.since, "quoted_at": table.quoted_at, "until": table.until,
        "rank": quote.rank, "base": table.base, "source": table.source,
        "rates": json.dumps(rates, separators=(",", ":")),
    }  # fmt: skip


def _quote(row: Row) -> Quote:
    rates = {currency: Decimal(rate) for currency, rate in json.loads(row["rates"]).items()}
    members = {name: row[name] for name in ("base", "source", "quoted_at", "until")}
    table = RateTable(rates=rates, **members)
    return Quote(feed=row["feed"], rank=row["rank"], since=row["since"], table=table)
