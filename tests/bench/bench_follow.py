"""How fast a chain is caught up with, beside merely fetching the same blocks and hashing their transactions.

`python -m tests.bench.bench_follow [--large]`. Blocks of 1.1 MB and 3,000 transactions, of which one in a hundred or
every one holds a registration, from `blk*.dat` and from a stand-in for a node in a separate process. "Fetching" is
the same source read to the end and nothing done with it; "hashlib" a loop of hashlib over all transactions. `--large`
follows two blocks of 1 GB too and tells the memory it takes.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path

import numpy as np

from indexer.chains import Chain, create
from indexer.store import Store, Writer, connect
from indexer.sync.follower import Follower
from parsers.bitcoin import block, bump
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, serialise, sha256d, varint
from tests.bench.synthetic import Maker
from tests.bench.synthetic import block as synthetic_block
from tests.chainkit import ChainKit
from tests.chainkit_blocks import frame
from tests.parsers.writers import from_branch

BLOCKS, PAYMENTS = 200, 3_000
ROUNDS = 3
BITS = 0x207FFFFF


def mined(prev: bytes, height: int, messages: list[bytes]) -> bytes:
    """A regtest block of these transactions."""
    script = b"\x03" + height.to_bytes(3, "little")
    coinbase = serialise((TxInput(Outpoint(bytes(32), 0xFFFFFFFF), script, 0),), (TxOutput(50, b"\x51"),))
    body = varint(len(messages) + 1) + coinbase + b"".join(messages)
    start = (0x20000000).to_bytes(4, "little") + prev + block.merkle_root(bytes(80) + body)
    start += (1_700_000_000 + 600 * height).to_bytes(4, "little") + BITS.to_bytes(4, "little")
    for nonce in itertools.count():
        header = start + nonce.to_bytes(4, "little")
        if sha256d(header)[31] < 0x7F:
            return header + body
    raise AssertionError


def chain_of(every: int, blocks: int = BLOCKS, payments: int = PAYMENTS) -> list[bytes]:
    """A chain whose every `every`th block holds a registration."""
    maker = Maker(every)
    paid = [maker.payment() for _ in range(payments)]
    results = [ChainKit().blocks[0].raw]
    for height in range(1, blocks + 1):
        prev = sha256d(results[-1][:80])
        results.append(mined(prev, height, [*paid, maker.registration()] if height % every == 0 else paid))
    return results


def write(folder: Path, raws: list[bytes]) -> None:
    """The chain as block files."""
    (folder / "blk00000.dat").write_bytes(b"".join(frame(raw, magic=bytes.fromhex("fabfb5da")) for raw in raws))
    (folder / "tip.json").write_text(json.dumps({"chain": "bsv-regtest"}))


def timed(url: str, work: Callable[[Chain, Path], Awaitable[float]]) -> float:
    """The seconds that some work with a new source and a folder for a database tells."""

    async def run(folder: Path) -> float:
        chain = create("bsv", url)
        taken = await work(chain, folder)
        await chain.close()
        return taken

    with tempfile.TemporaryDirectory() as name:
        return asyncio.run(run(Path(name)))


async def follow(chain: Chain, folder: Path) -> float:
    """Seconds to catch up, from an empty database to the tip."""
    engine = connect(f"sqlite:///{folder}/a2b.db")
    writer = Writer(engine)
    follower = Follower(chain, Store(engine), writer)
    await follower.open()
    start = time.perf_counter()
    await follower.catch_up()
    taken = time.perf_counter() - start
    writer.close()
    engine.dispose()
    return taken


async def fetch(chain: Chain, _folder: Path) -> float:
    """Seconds to read all blocks, one after the other."""
    await chain.open()
    start = time.perf_counter()
    tip = await chain.tip()
    assert tip is not None
    async for _ in chain.blocks(chain.first, tip.height):
        pass
    return time.perf_counter() - start


def hashed(raws: list[bytes]) -> float:
    """Seconds that a loop of hashlib takes for the txids of these blocks."""
    taken = 0.0
    for raw in raws:
        view, offsets = memoryview(raw), block.tx_offsets(raw).tolist()
        start = time.perf_counter()
        for one, other in itertools.pairwise(offsets):
            sha256(sha256(view[one:other]).digest()).digest()
        taken += time.perf_counter() - start
    return taken


def row(title: str, raws: list[bytes], url: str) -> None:
    """Print what one source of one chain takes; each number the fastest of some runs, taken in turn."""
    runs = [(timed(url, fetch), timed(url, follow), hashed(raws)) for _ in range(ROUNDS)]
    fetching, following, hashing = (min(column) for column in zip(*runs, strict=True))
    size = sum(map(len, raws))
    print(
        f"{title:<34}{size / following / 1e6:>9,.0f}{len(raws) / following:>10,.0f}{size / fetching / 1e6:>12,.0f}"
        f"{following / fetching:>12.2f}x{size / hashing / 1e6:>14,.0f}{hashing / following:>12.2f}x"
    )


def table() -> None:
    """Print all rows."""
    print(
        f"{'':<34}{'MB/s':>9}{'blocks/s':>10}{'fetch MB/s':>12}{'to fetching':>13}{'hashlib MB/s':>14}"
        f"{'of hashlib':>13}"
    )
    for every, message in ((100, "one in 100 blocks holds"), (1, "every block holds")):
        raws = chain_of(every)
        with tempfile.TemporaryDirectory() as name:
            write(Path(name), raws)
            row(f"{message} ours, blk*.dat", raws, f"files:{name}")
            with Served(name) as url:
                row(f"{message} ours, HTTP", raws, f"{url}?chain=bsv")


class Served:
    """The stand-in for a node, in a separate process."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __enter__(self) -> str:
        command = [sys.executable, "-m", "tests.bench.bench_follow", "--serve", self._folder]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


async def serve(folder: str) -> None:
    """Serve a folder's blocks until killed."""
    from tests.fakes import MemoryChain
    from tests.nodes import Node
    from tests.oracles.wire import frames

    async with Node(MemoryChain(*frames((Path(folder) / "blk00000.dat").read_bytes()))) as node:
        print(node.url, flush=True)
        await asyncio.Event().wait()


def paths() -> None:
    """Print how many merkle paths are made a second, beside making them one by one with objects."""
    data = synthetic_block(60_000)
    chosen = np.arange(0, 60_000, 6)
    offsets = block.tx_offsets(data)
    start = time.perf_counter()
    branches = list(block.merkle_tree(data, offsets).branches(chosen))
    hashing = time.perf_counter() - start
    start = time.perf_counter()
    for index, txid, siblings in branches:
        bump.branch_bytes(800_000, index, txid, siblings)
    written = time.perf_counter() - start
    start = time.perf_counter()
    for index, txid, siblings in branches[:2_000]:
        from_branch(800_000, index, txid, siblings).to_bytes()
    checked = (time.perf_counter() - start) * len(chosen) / 2_000
    print(
        f"\n{len(chosen):,} merkle paths of a block of 60,000 transactions: hashed in {hashing * 1e3:,.0f} ms, "
        f"written in {written * 1e3:,.0f} ms; {len(chosen) / (hashing + written):,.0f} a second\n"
        f"each checked while it is made: {len(chosen) / checked:,.0f} a second"
    )


LARGE = """
import sys, threading, time
from tests.bench import bench_follow as bench
def held():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) / 1024
bench.block.prepare()
before, most, done = held(), [0.0], threading.Event()
def watch():
    while not done.wait(0.02):
        most[0] = max(most[0], held())
threading.Thread(target=watch).start()
try:
    taken = bench.timed(f"files:{sys.argv[1]}", bench.follow)
finally:
    done.set()
print(f"{taken:.1f} s, {int(sys.argv[2]) / taken / 1e6:,.0f} MB/s; "
    f"own memory {before:,.0f} MB before, at most {most[0]:,.0f} MB")
"""


def large() -> None:
    """Follow two blocks of 1 GB, one registration in each, in a separate process."""
    maker = Maker(1)
    paid = [maker.transaction(b"\x00\x6a\x4d\x00\x40" + maker.random.randbytes(0x4000)) for _ in range(2_000)]
    many = [*paid * 30]
    unique = [raw[:-4] + number.to_bytes(4, "little") for number, raw in enumerate(many)]
    with tempfile.TemporaryDirectory() as name:
        raws = [ChainKit().blocks[0].raw]
        for height in (1, 2):
            raws.append(mined(sha256d(raws[-1][:80]), height, [*unique, maker.registration()]))
        size = sum(map(len, raws))
        write(Path(name), raws)
        del raws, unique, many
        command = [sys.executable, "-c", LARGE, name, str(size)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        print(f"\ntwo blocks of {size / 2e9:.2f} GB, 60,000 transactions each: {answer}")


def main() -> None:
    """Print the table, and what else is asked for."""
    logging.disable(logging.CRITICAL)
    block.prepare()
    table()
    paths()
    if "--large" in sys.argv:
        large()


if __name__ == "__main__":
    if "--serve" in sys.argv:
        asyncio.run(serve(sys.argv[-1]))
    else:
        main()
