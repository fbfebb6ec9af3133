"""The counts of a chain as of its newest block, stored once for all processes: counting scans an index."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlalchemy import BigInteger, Connection, LargeBinary, Text, delete, func, insert, select

from indexer.store.queries import Queries
from indexer.store.schema import BYTEWISE, blocks, changes, keys, rebuilt_table, required
from indexer.store.writer import Writer

chain_counts = rebuilt_table(
    "chain_counts", *keys(chain=BYTEWISE), *required(tip=LargeBinary, seq=BigInteger, counts=Text)
)
"""`counts` is JSON, of `RegistrationQueries.counts`, as long as the chain has the same newest block and change."""


class ChainCountQueries(Queries):
    """Reads of counts."""

    def mark(self, chain: str) -> tuple[bytes, int]:
        """The hash of the newest block of a chain (empty without one), and the number of its newest change."""
        with self._engine.connect() as connection:
            return _mark(connection, chain)

    def get(self, chain: str) -> dict[str, int] | None:
        """The stored counts, None where they are not those of now."""
        with self._engine.connect() as connection:
            row = connection.execute(select(chain_counts).where(chain_counts.c.chain == chain)).first()
            is_current = row is not None and (row.tip, row.seq) == _mark(connection, chain)
            return json.loads(row.counts) if row is not None and is_current else None


def _mark(connection: Connection, chain: str) -> tuple[bytes, int]:
    newest = select(blocks.c.hash).where(blocks.c.chain == chain).order_by(blocks.c.height.desc()).limit(1)
    last = select(func.max(changes.c.seq)).where(changes.c.chain == chain)
    return connection.execute(newest).scalar() or b"", connection.execute(last).scalar() or 0


def store_counts(writer: Writer, chain: str, mark: tuple[bytes, int], counts: Mapping[str, int]) -> None:
    """Store counts that were made after a mark was read."""
    row = {"chain": chain, "tip": mark[0], "seq": mark[1], "counts": json.dumps(counts)}
    with writer.transaction() as connection:
        connection.execute(delete(chain_counts).where(chain_counts.c.chain == chain))
        connection.execute(insert(chain_counts).values(**row))
