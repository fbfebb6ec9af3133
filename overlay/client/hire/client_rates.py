"""Exchange rates of a client: its own feeds, named as those of a server (`A2B_RATES`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from decimal import Decimal

from indexer.rates.feed_client import FeedClient, RatesRefusedError
from indexer.rates.feed_urls import RateFeed
from overlay.client.hire.call_price import agree
from parsers.cards.rate_table import RateTable

MAX_AGE = 3_600
"""Seconds after which a quote is too old, and of the future that its time may be."""


class ClientRates:
    """The rates of feeds, each fetched once. `clock` gives seconds since 1970; `tell` takes a sentence about a feed
    that is not used."""

    def __init__(
        self,
        feeds: Sequence[RateFeed],
        clock: Callable[[], float] = time.time,
        tell: Callable[[str], None] = lambda _sentence: None,
    ) -> None:
        self._feeds, self._clock, self._tell = feeds, clock, tell
        self._tables: list[tuple[RateFeed, RateTable]] | None = None

    async def rate(self, currency: str, into: str) -> Decimal | None:
        """Units of a currency for one of another: of a file, a signed feed or one on this machine, else of two hosts
        that agree; None without."""
        if self._tables is None:
            self._tables = await self._fetched()
        quoted = [(feed, rate) for feed, table in self._tables if (rate := table.rate(currency, into)) is not None]
        alone = next((rate for feed, rate in quoted if feed.pays_alone), None)
        if alone is not None:
            return alone
        by_host = {feed.service or feed.source: rate for feed, rate in reversed(quoted)}
        return quoted[0][1] if agree(by_host.values(), 2) else None

    async def _fetched(self) -> list[tuple[RateFeed, RateTable]]:
        client = FeedClient()
        try:
            tables = await asyncio.gather(*(self._table(client, feed) for feed in self._feeds))
        finally:
            await client.close()
        return [(feed, table) for feed, table in zip(self._feeds, tables, strict=True) if table is not None]

    async def _table(self, client: FeedClient, feed: RateFeed) -> RateTable | None:
        now = int(self._clock())
        try:
            table = await client.ask(feed)
        except RatesRefusedError as error:
            self._tell(f"{feed.shown} {error}")
            return None
        quoted_at = now if table.quoted_at is None else table.quoted_at
        if abs(now - quoted_at) > MAX_AGE:
            self._tell(f"{feed.shown} has quotes that are not of the last hour")
            return None
        return RateTable(feed.base, table.rates, feed.source, quoted_at, quoted_at + MAX_AGE)
