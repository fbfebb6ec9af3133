"""Law 26 for feeds of exchange rates: after one that stumbled or lied, the rates in use are those of an honest one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from indexer.rates.feed_client import FeedClient
from indexer.rates.feed_urls import rate_feeds
from indexer.rates.rates_fetcher import RatesFetcher
from indexer.store import connect
from indexer.store.rates import Quotes
from tests.clocks import Clock
from tests.liars.proxy import ALTERATIONS, Proxy
from tests.rate_server import RateServer

NOW, MINUTE = 1_800_000_000, 60
LIARS = [*ALTERATIONS, *(f"random {seed}" for seed in range(3))]


@pytest.mark.parametrize("lie", LIARS)
async def test_an_altered_table_of_rates_leaves_nothing_behind(lie: str, tmp_path: Path) -> None:
    chance, clock = random.Random(lie), Clock(NOW)
    engine, client = connect(f"sqlite:///{tmp_path}/rates.db"), FeedClient()
    quotes = Quotes(engine)
    async with RateServer() as server, Proxy(server.port) as proxy:
        feeds = rate_feeds(f"BSV=http://127.0.0.1:{proxy.port}/timed BSV=http://127.0.0.1:{proxy.port}/untimed")
        fetcher = RatesFetcher(feeds, quotes, max_age=3_600, client=client, clock=clock)
        fetcher.begin()
        for answers in (0, 1, 2, 5, 0):
            proxy.lie(lie if lie in ALTERATIONS else chance.choice([*ALTERATIONS]), answers)
            for _ in range(3):
                clock.now += MINUTE
                dollars = chance.randrange(50, 55)
                server.tell("/timed", {"USD": dollars}, timestamp=clock.now)
                server.tell("/untimed", {"USD": dollars})
                await fetcher.round()
            if answers and chance.random() < 0.3:
                fetcher = RatesFetcher(feeds, quotes, max_age=3_600, client=client, clock=clock)
                fetcher.begin()
        assert proxy.altered
        assert [(status.code, status.refused) for status in fetcher.statuses] == [("", {}), ("", {})]
        newest = [quote.table for quote in quotes.newest() if clock.now < quote.table.until]
        assert [table.rates["USD"] for table in newest[:2]] == [dollars, dollars]
    await client.close()
    engine.dispose()
