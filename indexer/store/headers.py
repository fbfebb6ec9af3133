"""Headers in the database: joined 80 byte headers, a page a row, so that 900,000 load in a moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, delete, insert, select

from indexer.store.tables import headers

SIZE = 80
PAGE = 2016
"""Headers in a full row; a new block rewrites one row of at most 161 kB."""


def load(engine: Engine, chain: str) -> Iterator[tuple[int, bytes]]:
    """Pieces of a chain's headers, lowest first: the height of the first, and the headers joined."""
    statement = select(headers.c.first, headers.c.raw).where(headers.c.chain == chain).order_by(headers.c.first)
    with engine.connect().execution_options(yield_per=16) as connection, _read_once(connection):
        for row in connection.execute(statement):
            yield row[0], row[1]


@contextmanager
def _read_once(connection: Connection) -> Iterator[None]:
    """Have SQLite keep little of what is read meanwhile: else 33 MB of headers stay in its cache, that nobody asks for
    again."""
    if connection.dialect.name != "sqlite":
        yield
        return
    usual = connection.exec_driver_sql("PRAGMA cache_size").scalar_one()
    connection.exec_driver_sql("PRAGMA cache_size=-2048")
    try:
        yield
    finally:
        connection.exec_driver_sql(f"PRAGMA cache_size={int(usual)}")


def save(connection: Connection, chain: str, first: int, raw: bytes) -> None:
    """Replace a chain's headers from height `first` on. Raises ValueError when they would not join what is kept."""
    if len(raw) % SIZE:
        raise ValueError(f"{len(raw):,} bytes are no headers of {SIZE} bytes each")
    ours = headers.c.chain == chain
    last = select(headers.c.first, headers.c.raw).where(ours, headers.c.first < first)
    row = connection.execute(last.order_by(headers.c.first.desc()).limit(1)).first()
    start, kept = (row[0], row[1][: SIZE * (first - row[0])]) if row else (first, b"")
    if len(kept) != SIZE * (first - start):
        raise ValueError(f"{chain}: headers from {first:,} on do not join those kept, which end before")
    connection.execute(delete(headers).where(ours, headers.c.first >= start))
    joined, page = kept + raw, SIZE * PAGE
    rows = [
        {"chain": chain, "first": start + at // SIZE, "raw": joined[at : at + page]}
        for at in range(0, len(joined), page)
    ]
    if rows:
        connection.execute(insert(headers), rows)
