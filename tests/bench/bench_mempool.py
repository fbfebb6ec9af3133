"""How long the mempool keeps the indexer busy, and how soon a newcomer is found: `python -m tests.bench.bench_mempool`.

100,000 transactions of the kinds that real blocks are made of, one in 833 a registration, first seen; then looks at
which 1,000 are new, and looks at which nothing is. Beside them, in the same run, hashing the same bytes with `hashlib`.
Last, how long a registration takes from being announced to being found, with the whole service in one process.
"""

from __future__ import annotations

import asyncio
import logging
import statistics
import tempfile
import time
from contextlib import suppress
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from indexer.settings import Settings
from indexer.store import Store, Writer, connect
from indexer.sync.follower import Follower
from overlay.app.composition import AppContext
from overlay.app.runner import Runner
from overlay.app.storage import open_index, open_store
from overlay.search.query import Query
from parsers.bitcoin import block
from parsers.bitcoin.tx import sha256d
from tests.bench.synthetic import block as synthetic
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain

FIRST, NEW, LOOKS, ANNOUNCED = 100_000, 1_000, 9, 60


def transactions(count: int, seed: int) -> dict[bytes, bytes]:
    """Mixed transactions by txid."""
    data = synthetic(count + 1, seed)
    starts = block.tx_offsets(data).tolist()[1:]
    raws = [data[start:stop] for start, stop in pairwise(starts)]
    return {sha256d(raw): raw for raw in raws}


async def looks(folder: Path) -> None:
    """First look, looks with news, looks without."""
    chain = MemoryChain(*ChainKit().blocks)
    engine = connect(f"sqlite:///{folder}/a2b.db")
    writer = Writer(engine)
    follower = Follower(chain, Store(engine), writer)
    await follower.open()
    await follower.catch_up()
    block.prepare()
    chain.unconfirmed = transactions(FIRST, 1)
    size = sum(map(len, chain.unconfirmed.values()))
    began = time.perf_counter()
    for raw in chain.unconfirmed.values():
        sha256(sha256(raw).digest()).digest()
    hashed = time.perf_counter() - began
    first = await _until_read(follower)
    message = len(Store(engine).pending.events(chain.name))
    print(f"{FIRST:,} transactions, {size / 1e6:.0f} MB, {message} events: first seen in {1000 * first:,.0f} ms")
    print(f"  hashing them with hashlib: {1000 * hashed:,.0f} ms")
    news, silent = [], []
    for number in range(LOOKS):
        chain.unconfirmed |= transactions(NEW, 2 + number)
        news.append(await _until_read(follower))
        silent.append(await _until_read(follower))
    print(f"  a look at which {NEW:,} are new: {1000 * statistics.median(news):,.0f} ms (median of {LOOKS})")
    print(f"  a look at which nothing is new: {1000 * statistics.median(silent):,.0f} ms (median of {LOOKS})")
    writer.close()
    engine.dispose()


async def _until_read(follower: Follower) -> float:
    """Seconds of the looks that it takes to have looked at everything."""
    took = 0.0
    while not took or follower.mempool.unread:
        began = time.perf_counter()
        await follower.refresh_mempool()
        took += time.perf_counter() - began
    return took


async def searchable(folder: Path) -> None:
    """Announced to searchable, once a look was due anyway and at any moment."""
    settings = Settings.load({"data": str(folder / "data"), "port": 0, "chains": "live=files:/nowhere"})
    kit = ChainKit(funds=ANNOUNCED + 1)
    chain = MemoryChain(*kit.blocks, name="live")
    store = open_store(settings, create=True)
    context = AppContext(
        settings=settings, store=store, chains=(chain,), writer=Writer(store.engine),
        engine=open_index(settings, create=True),
    )  # fmt: skip
    runner = Runner(context)
    task = asyncio.create_task(runner.run())
    engine = runner.context.services().engine
    while runner.status.ready() is not None:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.01)
    waits = []
    for number in range(ANNOUNCED):
        await asyncio.sleep(0.037 * (number % 14))
        tx = kit.inscribe(agent(f"Announced{number}"))
        chain.unconfirmed[tx.txid] = kit.raw(tx)
        chain.arrive()  # the source says that there is news
        began = time.perf_counter()
        while not engine.search(Query(text=f"announced{number}")).total:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.002)
        waits.append(1000 * (time.perf_counter() - began))
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    context.close()
    waits.sort()
    half, most = waits[len(waits) // 2], waits[-1]
    print(f"announced to searchable, {ANNOUNCED} registrations: p50 {half:,.0f} ms, the slowest {most:,.0f} ms")


def main() -> None:
    """Print what was measured."""
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(looks(Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(searchable(Path(folder)))


if __name__ == "__main__":
    main()
