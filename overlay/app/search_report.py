"""Counts of searches: how servers store them, and what the command and the page of operators show of the last days."""

from __future__ import annotations

import time
from asyncio import to_thread
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from indexer.store.search_counts import DayCounts, SearchCountQueries, delete_counts
from overlay.api.search_statistics import FLUSH_SECONDS, SearchStatistics
from overlay.api.shared_tables import DAY_SECONDS, KEPT_DAYS
from overlay.jobs import PeriodicJob, Role
from overlay.text.timestamps import timestamp

if TYPE_CHECKING:
    from indexer.store import Store

FORGET_SECONDS = 3_600.0

MOST_WORDS = 100
"""Words that a report has, at most."""


def search_report(queries: SearchCountQueries, days: int = KEPT_DAYS) -> dict[str, Any]:
    """The counts of the last `days` days, today included, and the words that found nothing most often. Raises
    StoreError."""
    since = _first_day(days)
    words = queries.words(since, MOST_WORDS)
    return {
        "days": [_members(counts) for counts in queries.days(since)],
        "words": [{"word": word, "searches": searches} for word, searches in words],
    }


def forget_searches(store: Store) -> None:
    """Delete the counts of days before the last `KEPT_DAYS`; nothing is written where there are none. Raises
    StoreError."""
    first, oldest = _first_day(KEPT_DAYS), SearchCountQueries(store.primary).oldest()
    if oldest is not None and oldest < first:
        delete_counts(store.primary, first)


def search_jobs(statistics: SearchStatistics | None, store: Store) -> Iterator[PeriodicJob]:
    """The jobs of a server: to store what it counts, if anything, and to delete what is old, however it was counted."""
    if statistics is not None:
        store_counts = statistics.store
        yield PeriodicJob(
            name="searches", run=store_counts, every=FLUSH_SECONDS, role=Role.SERVER, close=store_counts
        )  # fmt: skip
    forget = partial(to_thread, forget_searches, store)
    yield PeriodicJob(name="old-searches", run=forget, every=FORGET_SECONDS, role=Role.SINGLE_SERVER)


def _first_day(days: int) -> int:
    return int(time.time()) // DAY_SECONDS - min(days, KEPT_DAYS) + 1


def _members(counts: DayCounts) -> dict[str, Any]:
    return {
        "day": timestamp(counts.day * DAY_SECONDS)[:10],
        "searches": counts.searches,
        "nothing": counts.empty,
        "byMeaning": counts.by_meaning,
        "opened": counts.opened,
    }
