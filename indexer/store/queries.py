"""Helpers of all statements: reading rows, naming many values in batches, inserting what is not stored yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from importlib import import_module
from itertools import chain, repeat
from typing import Any, TypeVar

from sqlalchemy import (
    CTE,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Enum,
    LargeBinary,
    Select,
    Table,
    collate,
    column,
    delete,
    func,
    insert,
    select,
    text,
    tuple_,
)

from indexer.client_networks import ClientNetwork, networks_of

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


def outpoint_values(count: int) -> CTE:
    """So many outpoints, bound by `outpoint_parameters`, as rows of `column1` (txid) and `column2` (vout) to join with:
    of a transaction with any number of outputs, or an account with any number of events, only the rows at these
    outpoints are read."""
    return _outpoint_values(_padded(count))


def _padded(count: int) -> int:
    """The rows for so many outpoints: the others are null. An engine keeps each statement that it has run, 450 rows in
    a megabyte, so there must be few lengths."""
    return min(1 << (count - 1).bit_length(), BATCH)


@cache  # composing one takes milliseconds
def _outpoint_values(count: int) -> CTE:
    names = ", ".join(f"(:txid{number}, :vout{number})" for number in range(count))
    return text(f"VALUES {names}").columns(column("column1", LargeBinary), column("column2", BigInteger)).cte()


def outpoint_parameters(outpoints: Sequence[tuple[bytes, int]]) -> dict[str, bytes | int | None]:
    """The values of `outpoint_values`."""
    padding = repeat((None, None), _padded(len(outpoints)) - len(outpoints))
    values: dict[str, bytes | int | None] = {}
    for number, (txid, vout) in enumerate(chain(outpoints, padding)):
        values[f"txid{number}"], values[f"vout{number}"] = txid, vout
    return values


def rows_at(
    connection: Connection, statement: Select[Any], txid: Any, vout: Any, outpoints: Iterable[tuple[bytes, int]]
) -> Iterator[Row]:
    """The rows of a statement in which two columns are one of these outpoints, however many those are."""
    for batch in batches(outpoints):
        pairs = outpoint_values(len(batch))
        joined = statement.join(pairs, (txid == pairs.c.column1) & (vout == pairs.c.column2))
        yield from connection.execute(joined, outpoint_parameters(batch)).mappings()


def rows_in(connection: Connection, statement: Select[Any], column: Any, values: Iterable[Any]) -> Iterator[Row]:
    """The rows of a statement in which a column has one of these values, however many those are."""
    for batch in batches(values):
        yield from connection.execute(statement.where(column.in_(batch))).mappings()


def count(connection: Connection, table: Table, *where: Any) -> int:
    """The number of rows for which all conditions hold."""
    return int(connection.execute(select(func.count()).select_from(table).where(*where)).scalar_one())


def of_network(connection: Connection, clients: Column[Any], network: ClientNetwork) -> ColumnElement[bool]:
    """Whether the client in a column is of a network. Names are compared byte by byte, so an index finds those with a
    prefix."""
    if not network.prefix:
        return clients == network.name
    names = collate(clients, "C") if connection.dialect.name == "postgresql" else clients
    after = network.prefix[:-1] + chr(ord(network.prefix[-1]) + 1)
    return (clients == network.first) | ((names >= network.prefix) & (names < after))


def full_network(
    connection: Connection, clients: Column[Any], client: str, most: int, *where: Any
) -> ClientNetwork | None:
    """The network of a client with all rows that it may have, where one client may have `most`: `clients` is the column
    that names them, and all conditions hold for the rows that count. None where the client may have one more."""
    for network in networks_of(client):
        if count(connection, clients.table, *where, of_network(connection, clients, network)) >= most * network.factor:
            return network
    return None


def row_of(record: Any) -> dict[str, Any]:
    """The members of a dataclass by name: a row of the table with the same columns."""
    return {name: getattr(record, name) for name in type(record).__dataclass_fields__}


def texts_of(kind: type[StrEnum]) -> Enum:
    """The type of a column with the texts of an enumeration, which is read as its members."""
    return Enum(
        kind, native_enum=False, length=None, values_callable=lambda members: [member.value for member in members]
    )


TRIMMED = 100
"""Expired rows that one addition deletes at most."""


def trim_expired(connection: Connection, table: Table, before: int) -> None:
    """Delete some rows with an `expires_at` before a time: more than are added, to keep the table small."""
    key = tuple_(*table.primary_key.columns)
    expired = select(*table.primary_key.columns).where(table.c.expires_at < before).limit(TRIMMED)
    if connection.dialect.name == "postgresql":
        expired = expired.with_for_update(skip_locked=True)
    keys = [tuple(row) for row in connection.execute(expired)]
    if keys:
        connection.execute(delete(table).where(key.in_(keys)))


def is_storable(text: str) -> bool:
    """Whether every database takes a text: PostgreSQL refuses NUL, and none has lone surrogates."""
    return not any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in text)


def upsert(connection: Connection, table: Table) -> Any:
    """An INSERT of the connection's dialect, which has `on_conflict_do_nothing` and `on_conflict_do_update`."""
    return import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert(table)


def insert_new(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert the rows, of those passed in, whose keys are not stored yet."""
    if rows:
        connection.execute(upsert(connection, table).on_conflict_do_nothing(), rows)


def insert_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows that name every column, in a third of the time that SQLAlchemy takes to look at each value."""
    if not rows:
        return
    compiled = insert(table).compile(dialect=connection.dialect)
    order = compiled.positiontup
    values: Any = [tuple(map(row.__getitem__, order)) for row in rows] if order else list(rows)
    connection.exec_driver_sql(str(compiled), values)


class Queries:
    """Reads on one topic. Each uses a separate connection, so several threads may share the object."""

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
            return self._completed(connection, connection.execute(statement, parameters).mappings().all())

    def _first(self, statement: Select[Any]) -> Row | None:
        """The first row; None for an empty result."""
        with self._engine.connect() as connection:
            return connection.execute(statement).mappings().first()

    def _rows_in(self, statement: Select[Any], column: Any, values: Iterable[Any]) -> list[Row]:
        """All rows in which a column has one of these values, however many those are."""
        with self._engine.connect() as connection:
            return self._completed(connection, rows_in(connection, statement, column, values))

    def _completed(self, _connection: Connection, matches: Iterable[Row]) -> list[Row]:
        """The rows of an answer, with everything that they need of others."""
        return list(matches)

    def _counts(self, statement: Select[Any]) -> dict[str, int]:
        """Rows of a name and a number, as a dict."""
        with self._engine.connect() as connection:
            return dict(connection.execute(statement).all())

    def _count(self, table: Table, *where: Any) -> int:
        """The number of rows for which all conditions hold."""
        with self._engine.connect() as connection:
            return count(connection, table, *where)

    def _stream(self, statement: Select[Any], rows_at_once: int) -> Iterator[Row]:
        """All rows, fetched `rows_at_once` at a time."""
        with (
            self._engine.connect().execution_options(yield_per=rows_at_once) as connection,
            connection.execute(statement) as result,  # closes its cursor, also where the reader has enough
        ):
            for some in result.mappings().partitions():
                yield from self._completed(connection, some)
