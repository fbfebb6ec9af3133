"""Stored blocks, and the headers of a chain's source: joined 80-byte headers, a page a row, so 900,000 load quickly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select

from indexer.model import BlockRef
from indexer.store import event_codec
from indexer.store.queries import Queries
from indexer.store.schema import blocks, headers

HEADER_BYTES = 80
PAGE = 2016
"""Headers in a full row; a new block rewrites one row of at most 161 kB."""

RECENT = 10_000
"""Blocks among which `BlockQueries.height_at` searches: that takes 5 ms."""

_MEDIAN_WINDOW = 24


class BlockQueries(Queries):
    """Blocks of a chain by height."""

    def newest(self, chain: str, up_to: int | None = None) -> BlockRef | None:
        """The highest stored block of a chain; of sources with a number up to `up_to`, or of all."""
        return self._highest(*_of_sources(chain, up_to))

    def below(self, chain: str, height: int) -> BlockRef | None:
        """The highest stored block of a chain below a height."""
        return self._highest(blocks.c.chain == chain, blocks.c.height < height)

    def get(self, chain: str, height: int) -> BlockRef | None:
        """The stored block of a chain at a height."""
        return self._highest(blocks.c.chain == chain, blocks.c.height == height)

    def _highest(self, *conditions: ColumnElement[bool]) -> BlockRef | None:
        row = self._first(select(blocks).where(*conditions).order_by(blocks.c.height.desc()).limit(1))
        return event_codec.block(row) if row else None

    def lowest_height(self, chain: str, above: int = -1, up_to: int | None = None) -> int | None:
        """The height of the first stored block of a chain above a height, None without one; of sources with a number up
        to `up_to`, or of all."""
        where = *_of_sources(chain, up_to), blocks.c.height > above
        height: int | None = self._scalar(select(func.min(blocks.c.height)).where(*where))
        return height

    def height_at(self, chain: str, time_ms: int) -> int | None:
        """The height of the newest stored block of a chain that is not later than a moment (milliseconds since 1970);
        None where that is not among the newest `RECENT`."""
        newest = select(blocks.c.height, blocks.c.time).where(blocks.c.chain == chain)
        recent = newest.order_by(blocks.c.height.desc()).limit(RECENT).subquery()
        height: int | None = self._scalar(select(func.max(recent.c.height)).where(recent.c.time <= time_ms // 1000))
        return height

    def monotonic_times(self, chain: str, heights: Iterable[int]) -> dict[int, int]:
        """For each of these heights the latest time (seconds since 1970) of its block and of the 24 before it. Block
        times may go back by up to two hours from one block to the next; these do not."""
        earlier = blocks.alias()
        statement = select(blocks.c.height, func.max(earlier.c.time).label("latest")).where(
            blocks.c.chain == chain,
            earlier.c.chain == chain,
            earlier.c.height.between(blocks.c.height - _MEDIAN_WINDOW, blocks.c.height),
        )
        matches = self._rows_in(statement.group_by(blocks.c.height), blocks.c.height, sorted(set(heights)))
        return {row["height"]: row["latest"] for row in matches}


def _of_sources(chain: str, up_to: int | None) -> list[ColumnElement[bool]]:
    return [blocks.c.chain == chain, *([blocks.c.source <= up_to] if up_to is not None else [])]


class HeaderQueries(Queries):
    """Headers of the best chain of each source."""

    def load(self, chain: str) -> Iterator[tuple[int, bytes]]:
        """The stored headers of a chain, lowest first, as (height of the first, headers of 80 bytes joined)."""
        statement = select(headers.c.first, headers.c.raw).where(headers.c.chain == chain).order_by(headers.c.first)
        with self._engine.connect().execution_options(yield_per=16) as connection:
            for row in connection.execute(statement):
                yield row[0], row[1]

    def run(self, chain: str, first: int, count: int) -> list[bytes]:
        """At most `count` consecutive headers (80 bytes each) of a chain from height `first` on: those of its source,
        else those of the stored blocks; empty when neither has height `first`."""
        with self._engine.connect() as connection:
            return list(_from_pages(connection, chain, first, count)) or list(
                _from_blocks(connection, chain, first, count)
            )


def _from_pages(connection: Connection, chain: str, first: int, count: int) -> Iterator[bytes]:
    statement = select(headers.c.first, headers.c.raw).where(
        headers.c.chain == chain, headers.c.first > first - PAGE, headers.c.first < first + count
    )
    height = first
    for start, raw in connection.execute(statement.order_by(headers.c.first)):
        if start > height:
            return
        for offset in range(HEADER_BYTES * (height - start), len(raw), HEADER_BYTES):
            if height == first + count:
                return
            yield raw[offset : offset + HEADER_BYTES]
            height += 1


def _from_blocks(connection: Connection, chain: str, first: int, count: int) -> Iterator[bytes]:
    statement = select(blocks.c.height, blocks.c.header).where(
        blocks.c.chain == chain, blocks.c.height >= first, blocks.c.height < first + count
    )
    for expected, (height, header) in enumerate(connection.execute(statement.order_by(blocks.c.height)), first):
        if height != expected:
            return
        yield header[:HEADER_BYTES]


def save_headers(connection: Connection, chain: str, first: int, raw: bytes) -> None:
    """Replace a chain's headers from height `first` on by these (80 bytes each, joined).

    Raises ValueError when they do not continue the headers stored below `first`.
    """
    if len(raw) % HEADER_BYTES:
        raise ValueError(f"{len(raw):,} bytes are not headers of {HEADER_BYTES} bytes each")
    of_chain = headers.c.chain == chain
    last = select(headers.c.first, headers.c.raw).where(of_chain, headers.c.first < first)
    row = connection.execute(last.order_by(headers.c.first.desc()).limit(1)).first()
    start, lower = (row[0], row[1][: HEADER_BYTES * (first - row[0])]) if row else (first, b"")
    if len(lower) != HEADER_BYTES * (first - start):
        raise ValueError(f"{chain}: headers from {first:,} on do not continue the stored ones, which end below")
    connection.execute(delete(headers).where(of_chain, headers.c.first >= start))
    joined, page = lower + raw, HEADER_BYTES * PAGE
    pages = [
        {"chain": chain, "first": start + offset // HEADER_BYTES, "raw": joined[offset : offset + page]}
        for offset in range(0, len(joined), page)
    ]
    if pages:
        connection.execute(insert(headers), pages)
