"""Which blocks of a chain of logs were read twice: up to a height in `meta`; and above it, the logs of the first
reading of each stored block, to be compared with the second."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select, update

from indexer.model import BlockLogs
from indexer.store.queries import Queries
from indexer.store.schema import READ_TWICE, block_logs, blocks, meta
from indexer.store.writer import Writer


class FirstReading(NamedTuple):
    """A stored block by its hash, and the logs of its first reading: None where an earlier version read it."""

    hash: bytes
    logs: BlockLogs | None


class SecondReadingQueries(Queries):
    """The results of the first reading of blocks."""

    def first_readings(self, chain: str, first: int, last: int) -> dict[int, FirstReading]:
        """The stored blocks of a chain from height `first` to `last`."""
        same = (block_logs.c.chain == blocks.c.chain) & (block_logs.c.height == blocks.c.height)
        columns = select(blocks.c.height, blocks.c.hash, block_logs.c.total, block_logs.c.digest)
        of_range = (blocks.c.chain == chain, blocks.c.height.between(first, last))
        return {
            row["height"]: FirstReading(
                row["hash"], BlockLogs(row["total"], row["digest"]) if row["digest"] is not None else None
            )
            for row in self._rows(columns.outerjoin(block_logs, same).where(*of_range))
        }


def height_of(connection: Connection, chain: str) -> int | None:
    """The height up to which all blocks of a chain were read twice, -1 for none; None for a chain that is read once."""
    value = connection.execute(select(meta.c.value).where(meta.c.key == READ_TWICE + chain)).scalar()
    return None if value is None else int(value)


def begin(writer: Writer, chain: str) -> int:
    """Store that a chain is read twice, and return the height up to which it was, -1 for none."""
    with writer.transaction() as connection:
        height = height_of(connection, chain)
        if height is None:
            connection.execute(insert(meta).values(key=READ_TWICE + chain, value="-1"))
        return -1 if height is None else height


def advance(writer: Writer, chain: str, height: int) -> None:
    """Store that the blocks of a chain up to a height were read twice: a later reading compares them no more."""
    with writer.transaction() as connection:
        _set(connection, chain, height)
        connection.execute(delete(block_logs).where(block_logs.c.chain == chain, block_logs.c.height <= height))


def roll_back(connection: Connection, chain: str, above: int) -> None:
    """Note that blocks above a height were deleted."""
    height = height_of(connection, chain)
    if height is not None and height > above:
        _set(connection, chain, above)


def _set(connection: Connection, chain: str, height: int) -> None:
    connection.execute(update(meta).where(meta.c.key == READ_TWICE + chain).values(value=str(height)))
