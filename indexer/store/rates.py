"""The accepted exchange rates, and their history: written by the process that fetches the feeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select, update

from indexer.store.database import writing
from indexer.store.locks import advisory_lock
from indexer.store.queries import Queries, Row
from indexer.store.schema import quotes, rate_feeds
from parsers.cards.rate_table import RateTable

QUOTES_LOCK = advisory_lock("x")
"""While exchange rates are written."""

MAX_HISTORY = 5_000
"""Quotes stored of each feed: as many different tables."""

LAST_RANK = 1_000
"""The number added to the rank of a feed without an accepted current rate."""

REFUSED = "!refused"
"""Suffix of a feed's name in that of the quote which replaces the currencies that are refused of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """An accepted table of rates, by the name of its feed. The feed gave it unchanged from `since` until `table.at`, in
    seconds since 1970. `rank` is 0 for the preferred feed. `reasons` are the codes of the currencies that are refused
    of the feed now, where the quote replaces these."""

    feed: str
    rank: int
    since: int
    table: RateTable
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_refused(self) -> bool:
        """Whether the quote holds refused currencies at their last good rates, while the feed's answer for them is
        refused."""
        return self.feed.endswith(REFUSED)

    @property
    def feed_name(self) -> str:
        """The name of its feed, also of a quote that replaces refused currencies."""
        return self.feed.removesuffix(REFUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedState:
    """The state of a feed beside its quotes: when it last answered (seconds since 1970), the currencies in which it has
    a vote, and a reason code for each currency whose last rate was refused."""

    answered_at: int = 0
    voting: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)


class Quotes(Queries):
    """The quotes in one database; several threads and processes may use it at once."""

    def store(
        self,
        current: Sequence[Quote],
        states: Mapping[str, FeedState] | None = None,
        outranked: Sequence[str] = (),
        limit: int = MAX_HISTORY,
    ) -> None:
        """Store current quotes, `limit` of each feed: the newest row of a feed with unchanged rates is prolonged.
        Quotes that replace refused currencies, and the states of feeds, are rewritten as a whole; earlier quotes of
        `outranked` feeds come after the quotes of all other feeds. All or nothing. Raises StoreError when the database
        refuses."""
        with writing(self._engine, QUOTES_LOCK) as connection:
            connection.execute(delete(quotes).where(quotes.c.feed.endswith(REFUSED)))
            for quote in current:
                _store(connection, quote)
                _trim(connection, quote.feed, limit)
            is_outranked = (quotes.c.feed.in_(outranked), quotes.c.rank < LAST_RANK)
            connection.execute(update(quotes).where(*is_outranked).values(rank=quotes.c.rank + LAST_RANK))
            if states:
                connection.execute(delete(rate_feeds))
                rows = [
                    {
                        "feed": name, "answered_at": state.answered_at, "voting": json.dumps(sorted(state.voting)),
                        "refused": json.dumps(dict(state.refused)),
                    }
                    for name, state in states.items()
                ]  # fmt: skip
                connection.execute(insert(rate_feeds), rows)

    def retire(self, feeds: Sequence[str], now: int) -> None:
        """End the quotes of all feeds except these at `now`; their history remains. Raises StoreError."""
        with writing(self._engine, QUOTES_LOCK) as connection:
            others = (quotes.c.feed.not_in(feeds), quotes.c.until > now)
            connection.execute(update(quotes).where(*others).values(until=now))

    def newest(self) -> list[Quote]:
        """The newest quote of every feed, the preferred feed first, whether it may still be used or not."""
        newest = [_quote(row) for row in self._rows(_newest())]
        if not any(quote.is_refused for quote in newest):
            return newest
        reasons = {name + REFUSED: state.refused for name, state in self.states().items()}
        return [replace(quote, reasons=reasons.get(quote.feed, {})) for quote in newest]

    def in_use(self, first: int, last: int) -> list[RateTable]:
        """The newest tables of feeds that could be used at some time from `first` to `last`, the preferred first."""
        usable = (quotes.c.until > first, ~quotes.c.feed.endswith(REFUSED))
        return [_quote(row).table for row in self._rows(_newest(last).where(*usable))]

    def states(self) -> dict[str, FeedState]:
        """The states of feeds by their names."""
        return {
            row["feed"]: FeedState(
                answered_at=row["answered_at"],
                voting=frozenset(json.loads(row["voting"])),
                refused=json.loads(row["refused"]),
            )
            for row in self._rows(select(rate_feeds))
        }

    def history(self, feed: str, limit: int) -> list[Quote]:
        """At most `limit` quotes of a feed, the newest first."""
        statement = select(quotes).where(quotes.c.feed == feed).order_by(quotes.c.since.desc()).limit(limit)
        return [_quote(row) for row in self._rows(statement)]


def _newest(until: int | None = None) -> Select[Any]:
    """The newest quote of every feed, from before or at a time where one is passed, in the order of rank."""
    last = select(quotes.c.feed, func.max(quotes.c.since).label("since")).group_by(quotes.c.feed)
    newest = (last if until is None else last.where(quotes.c.since <= until)).subquery()
    joined = (quotes.c.feed == newest.c.feed) & (quotes.c.since == newest.c.since)
    return select(quotes).join(newest, joined).order_by(quotes.c.rank, quotes.c.feed)


def _store(connection: Connection, quote: Quote) -> None:
    table = quote.table
    rates = {currency: str(rate) for currency, rate in sorted(table.rates.items())}
    row = {
        "feed": quote.feed, "since": quote.since, "quoted_at": table.quoted_at, "until": table.until,
        "rank": quote.rank, "base": table.base, "source": table.source,
        "rates": json.dumps(rates, separators=(",", ":")),
    }  # fmt: skip
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


def _quote(row: Row) -> Quote:
    rates = {currency: Decimal(rate) for currency, rate in json.loads(row["rates"]).items()}
    members = {name: row[name] for name in ("base", "source", "quoted_at", "until")}
    table = RateTable(rates=rates, **members)
    return Quote(feed=row["feed"], rank=row["rank"], since=row["since"], table=table)
