"""How fast blocks are read and appended to SQLite, beside plain `sqlite3` writing rows of the same size, in one run.

`python -m tests.bench.bench_append [--profile]`. Two chains as block files: 2,000 small blocks of five payments and one
registration each, and 20 blocks of 1,000 registrations. The whole path is files, walker, parsers, follower and store.
"""

from __future__ import annotations

import asyncio
import cProfile
import logging
import pstats
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import insert
from sqlalchemy.dialects import sqlite

from indexer.chains.files import create
from indexer.model import BlockFacts
from indexer.store import Store, Writer, block_writer, connect
from indexer.store.block_writer import block_changes, block_row
from indexer.store.event_codec import event_row
from indexer.store.proofs import proof_rows
from indexer.store.schema import blocks, cards, changes, events, proofs
from indexer.sync.follower import Follower
from tests.chainkit import ChainKit, agent
from tests.chainkit_scripts import body_of, inscription, p2pkh

FIELDS = {"app": "bench", "type": "a2b-agent"}
SMALL_BLOCKS, PAYMENTS = 2_000, 5
FULL_BLOCKS, REGISTRATIONS = 20, 1_000
ROUNDS = 3
OWNERS = 500
TABLES = (blocks, cards, events, proofs, changes)


class Run(NamedTuple):
    """The seconds of one run: of the whole path, of `block_writer.append`, and of plain sqlite3 with these rows."""

    whole: float
    append: float
    plain: float


def card(number: int) -> bytes:
    """An agent card of about 600 bytes."""
    skills = [{"id": f"skill-{n}", "name": f"Skill {n}", "description": "Does one thing well. " * 3} for n in range(4)]
    return body_of(agent(f"Agent {number}", description="Benchmarked. " * 8, skills=skills))


def small_blocks(folder: Path) -> None:
    """A chain of many blocks with little in each."""
    kit = ChainKit(funds=1)
    coin = kit.fund()
    for number in range(SMALL_BLOCKS):
        txs = []
        for _ in range(PAYMENTS):
            paid = kit.spend([coin], [(kit.satoshis(coin) - 20, p2pkh("a")), (10, p2pkh("b"))])
            coin = paid.outpoint(0)
            txs.append(paid)
        tx = kit.spend([coin], [(1, inscription(card(number), FIELDS, "alice")), (kit.satoshis(coin) - 20, p2pkh("a"))])
        coin = tx.outpoint(1)
        kit.mine(*txs, tx)
    kit.write(folder)


def full_blocks(folder: Path) -> None:
    """A chain of few blocks with many registrations in each."""
    kit = ChainKit(funds=FULL_BLOCKS)
    for number in range(FULL_BLOCKS):
        coin, txs = kit.fund(), []
        for position in range(REGISTRATIONS):
            script = inscription(card(number * REGISTRATIONS + position), FIELDS, f"owner {position % OWNERS}")
            tx = kit.spend([coin], [(1, script), (kit.satoshis(coin) - 20, p2pkh("a"))])
            coin = tx.outpoint(1)
            txs.append(tx)
        kit.mine(*txs)
    kit.write(folder)


class Keeping(Writer):
    """A writer that keeps what it was given, and row by row too, when it has lists to keep it in."""

    batches: list[Sequence[BlockFacts]] | None = None
    rows: list[list[list[tuple[Any, ...]]]] | None = None

    def append(self, chain: str, readings: Sequence[BlockFacts], *, sparse: bool = False) -> None:
        """Append, and keep."""
        super().append(chain, readings, sparse=sparse)
        if self.batches is not None and self.rows is not None:
            self.batches.append(readings)
            self.rows.append([_tuples(table, rows) for table, rows in zip(TABLES, _rows(readings), strict=True)])


def index(folder: Path, path: Path, *, keep: bool = False) -> tuple[float, Keeping]:
    """Index a folder into a new database: seconds from the first look to the tip, and the writer."""
    engine = connect(f"sqlite:///{path}")
    writer = Keeping(engine)
    writer.batches, writer.rows = ([], []) if keep else (None, None)
    follower = Follower(create("bench", f"files:{folder}"), Store(engine), writer)

    async def follow() -> float:
        await follower.open()
        start = time.perf_counter()
        await follower.catch_up()
        return time.perf_counter() - start

    took = asyncio.run(follow())
    writer.close()
    engine.dispose()
    return took, writer


def append(path: Path, batches: Sequence[Sequence[BlockFacts]]) -> float:
    """Seconds that `block_writer.append` takes for these batches, with nothing else going on."""
    engine = connect(f"sqlite:///{path}")
    writer = Writer(engine)
    start = time.perf_counter()
    for readings in batches:
        block_writer.append(writer, "bench", readings)
    taken = time.perf_counter() - start
    writer.close()
    engine.dispose()
    return taken


def plain(path: Path, batches: Sequence[list[list[tuple[Any, ...]]]]) -> float:
    """Seconds that sqlite3's executemany takes for the same rows into the same tables, a transaction a batch."""
    connect(f"sqlite:///{path}").dispose()
    statements = [str(insert(table).compile(dialect=sqlite.dialect())) for table in TABLES]
    with closing(sqlite3.connect(path)) as connection:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-32768"):
            connection.execute(f"PRAGMA {pragma}")
        start = time.perf_counter()
        for batch in batches:
            for statement, rows in zip(statements, batch, strict=True):
                connection.executemany(statement, rows)
            connection.commit()
        return time.perf_counter() - start


_seq = iter(range(1, 1 << 62))


def _rows(batch: Sequence[BlockFacts]) -> tuple[list[dict[str, Any]], ...]:
    return (
        [block_row(reading) for reading in batch],
        [{"sha256": digest, "body": body} for reading in batch for digest, body in reading.cards.items()],
        [event_row(reading.ref, event) for reading in batch for event in reading.events],
        [row for reading in batch for row in proof_rows(reading)],
        [{**change, "seq": next(_seq)} for reading in batch for change in block_changes(reading)],
    )


def _tuples(table: Any, rows: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row.get(column.name) for column in table.columns) for row in rows]


def best(folder: Path, scratch: Path) -> Run:
    """The fastest of several runs, each number by itself."""
    stored = index(folder, scratch / "rows.db", keep=True)[1]
    assert stored.rows is not None
    assert stored.batches is not None
    plains = [plain(scratch / f"plain{number}.db", stored.rows) for number in range(ROUNDS)]
    stored.rows.clear()  # a large heap makes the garbage collector slow
    appends = [append(scratch / f"append{number}.db", stored.batches) for number in range(ROUNDS)]
    stored.batches.clear()
    runs = [index(folder, scratch / f"{number}.db")[0] for number in range(ROUNDS)]
    return Run(min(runs), min(appends), min(plains))


def main() -> None:
    """Print the table."""
    logging.disable(logging.CRITICAL)
    print(f"{'chain':<34}{'whole path':>16}{'append alone':>16}{'plain sqlite3':>16}{'append/plain':>14}")
    for title, build, count, unit in (
        (f"{SMALL_BLOCKS:,} small blocks", small_blocks, SMALL_BLOCKS, "blocks/s"),
        (
            f"{FULL_BLOCKS} blocks of {REGISTRATIONS:,} registrations",
            full_blocks,
            FULL_BLOCKS * REGISTRATIONS,
            "regs/s",
        ),
    ):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as scratch:
            build(Path(folder))
            if "--profile" in sys.argv:
                profile(Path(folder), Path(scratch))
                continue
            took = best(Path(folder), Path(scratch))
            rates = [f"{count / seconds:,.0f} {unit}" for seconds in took]
            print(f"{title:<34}{rates[0]:>16}{rates[1]:>16}{rates[2]:>16}{took.append / took.plain:>13.1f}x")


def profile(folder: Path, scratch: Path) -> None:
    """Where the time goes, in one thread."""
    index(folder, scratch / "0.db")

    async def here(function: Any, *arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    asyncio.to_thread = here
    profiler = cProfile.Profile()
    profiler.runcall(index, folder, scratch / "1.db")
    pstats.Stats(profiler).sort_stats("tottime").print_stats(35)


if __name__ == "__main__":
    main()
