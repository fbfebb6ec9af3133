"""Statistics for the query planner of SQLite, which are the same in every database.

Without statistics, SQLite takes the first column of any index for as selective as that of any other: where a statement
has a chain and ids of transactions, it may read all rows of the chain. Real statistics would change plans while a
database grows, and an empty one has none. So an estimate for the indexes that begin with the chain is written where a
table has no statistics: a proof among a million took 290 ms of a core without them, and takes 1 ms.
"""

from __future__ import annotations

from sqlalchemy import Connection, Table, text

from indexer.store.schema import metadata

_ROWS, _OF_CHAIN, _OF_MORE = 1_048_576, 20_000, 100
"""The estimates: rows of a table, rows with one chain, rows with one chain and further columns of an index that are not
all of a key. The second is far more than the rows with one value of another column (10, SQLite's default), and still
few enough for ranges of heights."""

_STORED = text("SELECT tbl FROM sqlite_stat1")
_PUT = text("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (:table, :index, :estimate)")


def missing(connection: Connection) -> list[Table]:
    """The tables that need statistics and have none; none on other databases than SQLite."""
    if connection.dialect.name != "sqlite":
        return []
    has_any = connection.exec_driver_sql("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_stat1'").first()
    stored = set(connection.execute(_STORED).scalars()) if has_any else set()
    return [table for table in metadata.sorted_tables if table.name not in stored and _needs_statistics(table)]


def _needs_statistics(table: Table) -> bool:
    keys = [list(table.primary_key.columns), *(list(index.columns) for index in table.indexes)]
    return any(len(columns) > 1 and columns[0].name == "chain" for columns in keys)


def write_missing(connection: Connection) -> None:
    """Write the statistics that are missing; connections that are opened later use them."""
    if not (tables := missing(connection)):
        return
    connection.exec_driver_sql("ANALYZE sqlite_schema")  # creates the table of statistics, and reads no other
    for table in tables:
        is_clustered = table.dialect_options["sqlite"]["with_rowid"] is False
        for _, index, is_unique, origin, is_partial in connection.exec_driver_sql(f"PRAGMA index_list({table.name})"):
            columns = [row[2] for row in connection.exec_driver_sql(f"PRAGMA index_info({index})")]
            if len(columns) > 1 and columns[0] == "chain" and not is_partial:
                numbers = [_ROWS, _OF_CHAIN, *[_OF_MORE] * (len(columns) - 2), 1 if is_unique else _OF_MORE]
                name = table.name if is_clustered and origin == "pk" else index
                row = {"table": table.name, "index": name, "estimate": " ".join(map(str, numbers))}
                connection.execute(_PUT, row)
    connection.exec_driver_sql("ANALYZE sqlite_schema")  # makes this connection read them
