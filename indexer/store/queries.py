"""What all statements share: reading rows, naming many values in batches, inserting what is not stored yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Select, Table
from sqlalchemy.dialects import postgresql, sqlite

BATCH = 450
"""Values named in one statement: twice as many are below SQLite's oldest limit of 999 parameters."""

Row = Mapping[Any, Any]
"""A row by its column names."""

_T = TypeVar("_T")


def batches(items: Iterable[_T]) -> Iterator[list[_T]]:
    """All items in order, in lists of at most `BATCH`."""
    values = list(items)
    for start in range(0, len(values), BATCH):
        yield values[start : start + BATCH]


def is_storable(text: str) -> bool:
    """Whether every database takes a text: PostgreSQL refuses NUL, and none has lone surrogates."""
    return not any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in text)


def upsert(connection: Connection, table: Table) -> Any:
    """An INSERT of the connection's dialect, which has `on_conflict_do_nothing` and `on_conflict_do_update`."""
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


def insert_new(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert those of these rows whose keys are not stored yet."""
    if rows:
        connection.execute(upsert(connection, table).on_conflict_do_nothing(), rows)


class Queries:
    """Reads on one topic. Each uses a connection of its own, so several threads may share the object."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def _scalar(self, statement: Select[Any]) -> Any:
        """The first column of the first row, None when there is no row."""
        with self._engine.connect() as connection:
            return connection.execute(statement).scalar()

    def _scalars(self, statement: Select[Any]) -> list[Any]:
        """The first column of all rows."""
        with self._engine.connect() as connection:
            return list(connection.execute(statement).scalars())

    def _rows(self, statement: Select[Any], **parameters: Any) -> list[Row]:
        """All rows, in memory."""
        with self._engine.connect() as connection:
            return list(connection.execute(statement, parameters).mappings())

    def _counts(self, statement: Select[Any]) -> dict[str, int]:
        """Rows of a name and a number, as a dict."""
        with self._engine.connect() as connection:
            return dict(connection.execute(statement).all())

    def _stream(self, statement: Select[Any], rows_at_once: int) -> Iterator[Row]:
        """All rows, fetched `rows_at_once` at a time."""
        with self._engine.connect().execution_options(yield_per=rows_at_once) as connection:
            yield from connection.execute(statement).mappings()
