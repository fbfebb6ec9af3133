"""Counts of searches by day (UTC, counted from 1970), and of single words that found nothing. Those of several servers
add up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import Engine, Table, delete, func, select

from indexer.store.database import writing
from indexer.store.queries import Queries, Row, upsert
from indexer.store.schema import columns_of, original_table


class DayCounts(NamedTuple):
    """Searches of a day, those of them without results and those with results by their meaning alone, and listings
    that were opened."""

    day: int
    searches: int = 0
    empty: int = 0
    by_meaning: int = 0
    opened: int = 0


class MissedWord(NamedTuple):
    """A word of searches of a day without results by their words, and their number."""

    day: int
    word: str
    searches: int


search_days = original_table("search_days", *columns_of(DayCounts, {"day"}))
missed_words = original_table("missed_words", *columns_of(MissedWord, {"day", "word"}))


class SearchCountQueries(Queries):
    """Reads of these counts."""

    def days(self, since: int) -> list[DayCounts]:
        """The counts of each day from `since` on, the newest first."""
        statement = select(search_days).where(search_days.c.day >= since).order_by(search_days.c.day.desc())
        return [DayCounts(**row) for row in self._rows(statement)]

    def words(self, since: int, limit: int) -> list[tuple[str, int]]:
        """The most frequent words from `since` on, and the searches with each."""
        total = func.sum(missed_words.c.searches)
        statement = (
            select(missed_words.c.word, total.label("searches"))
            .where(missed_words.c.day >= since)
            .group_by(missed_words.c.word)
            .order_by(total.desc(), missed_words.c.word)
            .limit(limit)
        )
        return [(row["word"], int(row["searches"])) for row in self._rows(statement)]

    def oldest(self) -> int | None:
        """The first day that is stored."""
        days: list[int | None] = [self._scalar(select(func.min(table.c.day))) for table in (search_days, missed_words)]
        return min((day for day in days if day is not None), default=None)


def add_counts(engine: Engine, days: Iterable[DayCounts], words: Iterable[MissedWord]) -> None:
    """Add to what is stored, in one transaction. Raises StoreError."""
    with writing(engine) as connection:
        for table, rows in ((search_days, sorted(days)), (missed_words, sorted(words))):
            for row in rows:  # in one order, so that two servers do not wait for each other
                values: Row = row._asdict()
                statement = upsert(connection, table).values(values)
                sums = {name: table.c[name] + statement.excluded[name] for name in _counted(table)}
                connection.execute(statement.on_conflict_do_update(index_elements=_keys(table), set_=sums))


def delete_counts(engine: Engine, before: int) -> None:
    """Delete what is stored of the days before. Raises StoreError."""
    with writing(engine) as connection:
        for table in (search_days, missed_words):
            connection.execute(delete(table).where(table.c.day < before))


def _keys(table: Table) -> list[str]:
    return [column.name for column in table.primary_key]


def _counted(table: Table) -> Mapping[str, object]:
    return {column.name: column for column in table.columns if not column.primary_key}
