"""From `store.append` to a search that finds it: `python -m tests.bench.bench_visible [--offers N]`.

The whole service runs in one process, as `a2b up` does, over an index of N offers. Blocks of one registration arrive in
memory, so that neither a node nor a folder has to be polled; the clock starts when the block is handed to the store.
Beside it, in the same run: the part of that time in which the store commits.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from statistics import quantiles
from string import ascii_lowercase

from indexer.model import BlockFacts
from indexer.settings import Settings
from indexer.store import Writer
from overlay.app.composition import AppContext
from overlay.app.runner import Runner
from overlay.app.storage import open_duplicates, open_index, open_store
from overlay.search.query import Query
from tests.bench.bench_up import OUTPUTS, mine
from tests.bench.listings import listings, offers_of
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain

SHARED = Path(os.environ.get("A2B_TEST_SHARED", Path(__file__).parents[3] / "shared")) / "data"
TIMES = 100


class Timed(Writer):
    """The writer, which notes when the last append began and ended."""

    began = ended = 0.0

    def append(self, chain: str, readings: Sequence[BlockFacts], *, sparse: bool = False) -> None:
        """As the writer's."""
        Timed.began = time.perf_counter()
        super().append(chain, readings, sparse=sparse)
        Timed.ended = time.perf_counter()


def filled(offers: int) -> ChainKit:
    """A chain on which so many offers are inscribed."""
    documents = offers_of(listings(data=SHARED if SHARED.is_dir() else None), offers)
    kit = ChainKit(funds=len(documents) // OUTPUTS + TIMES + 100)
    mine(kit, documents)
    return kit


async def measure(folder: Path, kit: ChainKit) -> None:
    """Print the table."""
    loaded = Settings.load({"data": str(folder), "port": 0, "chains": "live=files:/nowhere"})
    store, chain = open_store(loaded, create=True), MemoryChain(*kit.blocks, name="live")
    context = AppContext(
        settings=loaded,
        store=store,
        chains=(chain,),
        writer=Timed(store.engine),
        engine=open_index(loaded, create=True),
        duplicates=open_duplicates(loaded),
    )
    runner = Runner(context)
    task = asyncio.create_task(runner.run())
    while runner.status.ready() is not None:  # noqa: ASYNC110 - readiness has no event of its own
        await asyncio.sleep(0.1)
    committed, results = [], []
    random = Random(6)
    for _ in range(TIMES):
        name = "".join(random.choices(ascii_lowercase, k=16))  # no misspelling of another
        kit.mine(kit.inscribe(agent(name)))
        chain.arrive(*kit.blocks[-1:])
        await _until_found(context, name)
        results.append(1000 * (time.perf_counter() - Timed.began))
        committed.append(1000 * (Timed.ended - Timed.began))
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    context.close()
    for title, taken in (("committed", committed), ("found", results)):
        cuts = quantiles(taken, n=100)
        print(f"{title:<12}{cuts[49]:8.1f} ms p50 {cuts[98]:8.1f} ms p99")


async def _until_found(context: AppContext, text: str) -> None:
    assert context.engine
    while not context.engine.search(Query(text=text, limit=1)).total:  # noqa: ASYNC110 - being found has no event
        await asyncio.sleep(0.002)


def main() -> None:
    """Fill, follow, measure."""
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--offers", type=int, default=100_000)
    kit = filled(parser.parse_args().offers)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder), kit))


if __name__ == "__main__":
    main()
