"""How fast blocks are scanned, beside a memcpy of the same bytes and beside bitcoinx, in one run.

`python -m tests.bench.bench_scan [--large]`; `--large` scans a block of 2 GB too and tells the memory it takes.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np

from parsers.bitcoin import block
from parsers.bitcoin.tx import Outpoint, read, varint
from tests.bench.synthetic import block as synthetic_block

ROOT = Path(__file__).parents[2]
ROUNDS = 40

FIRST_SCAN = """
import time; start = time.perf_counter()
from parsers.bitcoin import block
from parsers.bitcoin.tx import Outpoint
coinbase = bytes.fromhex("01000000 01") + bytes(36) + bytes(5) + b"\\1" + bytes(8) + b"\\1\\x51" + bytes(4)
block.worth_reading(bytes(80) + b"\\1" + coinbase, block.WatchedOutpoints([Outpoint(bytes(32), 0)]))
print(time.perf_counter() - start)
"""

LARGE_SCAN = """
import mmap, sys, time
from parsers.bitcoin import block
def held():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines["RssAnon"].split()[0]) / 1024
with open(sys.argv[1], "rb") as file:
    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    start = time.perf_counter()
    found = block.worth_reading(data, block.WatchedOutpoints())
    taken = time.perf_counter() - start
    print(f"{len(data) / 1e9:.2f} GB, {block.first_transaction(data)[0]:,} transactions, {len(found):,} worth reading:")
    print(f"{taken:.2f} s, {len(data) / taken / 1e6:,.0f} MB/s from the page cache, {held():.0f} MB of own memory")
"""


def best(action: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The fastest time in seconds: what the machine can do when nobody else is using it."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def bitcoinx_reading(data: bytes, count: int, start: int) -> None:
    """Read every transaction as an object with bitcoinx."""
    from bitcoinx import Tx

    stream = BytesIO(data)
    stream.seek(start)
    for _ in range(count):
        Tx.read(stream.read)


def own_reading(data: bytes, offsets: list[int]) -> None:
    """Read every transaction as a record with our own parser, as is done with those worth it."""
    for offset in offsets[:-1]:
        read(data, offset)


def contestants(data: bytes) -> dict[str, tuple[Callable[[], object], int]]:
    """The measured functions, and how many times each runs."""
    source = np.frombuffer(data, np.uint8)
    target = np.empty_like(source)
    nobody, million = block.WatchedOutpoints(), block.WatchedOutpoints()
    million.add_packed(secrets.token_bytes(36 * 10**6))
    offsets, someone = block.tx_offsets(data), [Outpoint(bytes(32), 0)]
    return {
        "memcpy": (partial(np.copyto, target, source), ROUNDS),
        "worth_reading, nothing watched": (lambda: block.worth_reading(data, nobody), ROUNDS),
        "worth_reading, 10^6 watched": (lambda: block.worth_reading(data, million), ROUNDS),
        "spenders, 10^6 outpoints": (lambda: block.spenders(data, offsets, million), ROUNDS),
        "spenders, sorted by the first use": (lambda: block.spenders(data, offsets, million).spending(someone), ROUNDS),
        "tx_offsets": (lambda: block.tx_offsets(data), ROUNDS),
        "merkle_root": (lambda: block.merkle_root(data, offsets), 3),
        "parsers.bitcoin.tx.read of all": (partial(own_reading, data, offsets.tolist()), 3),
        "bitcoinx.Tx of all": (partial(bitcoinx_reading, data, len(offsets) - 1, int(offsets[0])), 3),
    }


def table(data: bytes) -> None:
    """Print what each takes, and how it stands to memcpy and to bitcoinx."""
    taken = {name: best(action, rounds) for name, (action, rounds) in contestants(data).items()}
    result = len(block.worth_reading(data, block.WatchedOutpoints()))
    print(f"{len(data) / 2**20:.1f} MiB, {block.first_transaction(data)[0]:,} transactions, {result} worth reading\n")
    print(f"{'':32} {'ms':>9} {'MB/s':>8} {'x memcpy':>9} {'x bitcoinx':>10}")
    for name, seconds in taken.items():
        copy, objects = taken["memcpy"] / seconds, taken["bitcoinx.Tx of all"] / seconds
        print(f"{name:32} {seconds * 1e3:9.2f} {len(data) / seconds / 1e6:8,.0f} {copy:9.3f} {objects:10.1f}")


def child(code: str, *arguments: str, cache: str) -> str:
    """The text that a fresh process prints."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def starts() -> None:
    """Print the seconds from `import` to the first answer, with the compiler's cache empty and filled."""
    with tempfile.TemporaryDirectory() as cache:
        cold, *warm = (float(child(FIRST_SCAN, cache=cache)) for _ in range(4))
    print(f"\nfirst scan of a process: {cold:.2f} s with an empty cache, {min(warm):.2f} s with a filled one")


def large(data: bytes) -> None:
    """Scan 2 GB through a memory map in a separate process and print the memory it takes."""
    first = int(block.tx_offsets(data)[0])
    times = 2 * 10**9 // len(data) + 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "block"
        with path.open("wb") as file:
            file.write(data[:80] + varint(block.first_transaction(data)[0] * times))
            for _ in range(times):
                file.write(memoryview(data)[first:])
        child(LARGE_SCAN, str(path), cache=folder)
        print("\n" + child(LARGE_SCAN, str(path), cache=folder))


if __name__ == "__main__":
    created = synthetic_block()
    table(created)
    starts()
    if "--large" in sys.argv:
        large(created)
