"""The cost of heights in which a JungleBus stream delivers nothing, beside plain `sqlite3` writing the same rows, in
one run.

`python -m tests.bench.bench_excerpts`. A start at height 783,968 passes some 160,000 of them before the first second of
following; each becomes a row, as a block does on every other chain.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

from indexer.chains import PartialBlock
from indexer.model import BlockRef
from indexer.sync.catchup import BATCH_BLOCKS
from tests.fakes import MemoryChain
from tests.indexing import Indexing

HEIGHTS = 20_000
ROUNDS = 3


class Silent(MemoryChain):
    """A chain whose blocks hold no registration."""

    def __init__(self) -> None:
        super().__init__()
        self.complete = False
        prev = bytes(32)
        for height in range(HEIGHTS):
            digest = hashlib.sha256(prev).digest()
            self._best.append(BlockRef(self.name, height, digest, prev, 600 * height, (digest + prev + digest)[:80]))
            prev = digest

    async def blocks(self, first: int, last: int) -> AsyncIterator[tuple[BlockRef, PartialBlock]]:  # type: ignore[override]
        for ref in self._best[first : last + 1]:
            yield ref, PartialBlock()


def followed(folder: Path, chain: Silent) -> tuple[float, float]:
    """Seconds of following it from nothing to its tip, and bytes of the database for each height."""
    with Indexing(f"sqlite:///{folder}/followed.db", chain) as indexing:
        began = time.perf_counter()
        asyncio.run(_catch_up(indexing))
        took = time.perf_counter() - began
    return took, sum(path.stat().st_size for path in folder.glob("followed.db*")) / HEIGHTS


async def _catch_up(indexing: Indexing) -> None:
    await indexing.catch_up()


def plain(folder: Path, chain: Silent) -> float:
    """Seconds of writing the same rows, as durably and as many at a time, with nothing else around."""
    began = time.perf_counter()
    with closing(sqlite3.connect(folder / "plain.db")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE b (chain, height, hash, prev, time, header, PRIMARY KEY (chain, height))")
        connection.execute("CREATE INDEX by_hash ON b (hash)")
        rows = [(ref.chain, ref.height, ref.hash, ref.prev, ref.time, ref.header) for ref in chain.best]
        for index in range(0, len(rows), BATCH_BLOCKS):
            with connection:
                connection.executemany("INSERT INTO b VALUES (?, ?, ?, ?, ?, ?)", rows[index : index + BATCH_BLOCKS])
    return time.perf_counter() - began


def main() -> None:
    """Print the best of a few rounds."""
    runs = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            chain = Silent()
            runs.append((*followed(Path(folder), chain), plain(Path(folder), chain)))
    whole, size, bare = (min(column) for column in zip(*runs, strict=True))
    print(f"heights without a match: {HEIGHTS / whole:,.0f} a second, {size:,.0f} bytes each")
    print(f"plain sqlite3, the same rows: {HEIGHTS / bare:,.0f} a second, {whole / bare:.1f} times as fast")


if __name__ == "__main__":
    main()
