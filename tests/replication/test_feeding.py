"""Overlays on several machines: one feeds the index that they share, and all are ready and tell the same."""

from __future__ import annotations

import asyncio
import re
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from indexer.store import connect
from indexer.store.rates import Quote, Quotes
from overlay.engines import open_engine
from parsers.rates import Rates
from tests.conftest import ROOT
from tests.databases import Cluster
from tests.replication.living import Town, house, running, settings, shown, until
from tests.replication.servers import PATIENCE


@pytest.fixture
def town() -> Town:
    """A registry in which listings have something in common: everybody there is a router."""
    made = Town()
    made.mine(12)
    return made


async def test_who_does_not_feed_a_shared_index_is_ready_and_says_how_far_it_reaches(
    postgresql: Cluster, tmp_path: Path, town: Town
) -> None:
    url = postgresql.new()
    feeder = house(settings(tmp_path / "a", url, "postgres:"), town.chain)
    serving = house(settings(tmp_path / "b", url, "postgres:"))
    other = serving.engine
    assert other is not None
    async with running(feeder) as first:
        await until(lambda: first.standing.ready() is None)
        async with running(serving) as second:
            await until(lambda: second.standing.ready() is None)
            for _ in range(3):
                town.mine()
                await until(lambda: shown(other) == town.names)
                tip = {"live": len(town.chain.best) - 1}
                await until(lambda tip=tip: first.standing.heights() == second.standing.heights() == tip)


async def test_exchange_rates_are_kept_while_an_index_is_made_anew_beside_them(postgresql: Cluster) -> None:
    url = postgresql.new()
    database = connect(url)
    table = Rates(base="BSV", rates={"BSV": Decimal(1), "USD": Decimal(50)}, source="https://a", at=1, until=2)
    with closing(open_engine(f"postgres:{url}")) as engine, engine.renewing():
        kept = asyncio.to_thread(Quotes(database).keep, [Quote(feed="a", rank=0, since=1, table=table)])
        await asyncio.wait_for(kept, PATIENCE)
    assert [quote.table.rates["USD"] for quote in Quotes(database).newest()] == [50]
    database.dispose()


def test_no_two_locks_of_a_database_are_the_same() -> None:
    """All of one database share their numbers, whoever takes them and for what."""
    texts = [path.read_text() for room in ("indexer", "overlay") for path in (ROOT / room).rglob("*.py")]
    found = [number for text in texts for number in re.findall(r"\b0x6132[0-9A-Fa-f]+", text)]
    assert len(found) >= 7
    assert len({int(number, 16) for number in found}) == len(found)
