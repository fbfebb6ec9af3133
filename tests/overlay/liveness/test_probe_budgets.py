"""The bench of visits on a small scale: unchanged listings write no changes, and visits are within the budgets."""

from __future__ import annotations

from indexer.fetcher.budgets import VisitRates
from tests.bench.bench_probes import broken_rules, budgeted_days, unchanged_day
from tests.indexing import Indexing


def test_a_day_of_visits_to_unchanged_listings_writes_no_changes(database_url: str) -> None:
    with Indexing(database_url) as indexing:
        assert unchanged_day(indexing.store, indexing.writer, 50) == 0


async def test_the_visits_of_two_days_are_within_the_budgets(database_url: str) -> None:
    with Indexing(database_url) as indexing:
        log = await budgeted_days(indexing.store, indexing.writer, 10, 100)
    assert len(log) == 200
    assert broken_rules(log, VisitRates()) == []
    assert broken_rules([*log, log[-1]], VisitRates()), "a visit too many is seen"
