"""How fast headers load and are checked, and what memory they take: `python -m tests.bench.bench_headers`.

900,000 headers are kept in SQLite and loaded by a process of its own, beside merely reading the rows and hashing each
header once. Real headers of BSV (where the shared vectors are) are checked as they would be on arrival, beside bitcoinX
itself; scrypt beside `hashlib.scrypt`. `--headers N` and `--database URL` change what is loaded and from where.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bitcoinx

from indexer.headers import header_chain as module
from indexer.headers.header_chain import HeaderChain
from indexer.headers.networks import Checkpoint, network
from indexer.headers.rules import scrypt
from indexer.store import Writer, connect
from indexer.store.source_store import SourceStore
from parsers.bitcoin.tx import sha256d

ROOT = Path(__file__).parents[2]
VECTORS = Path(os.environ.get("A2B_TEST_SHARED", ROOT.parent / "shared")) / "vectors/bsv/blocks"
ROUNDS = 3
REGTEST = network("bsv", "regtest")


def linked(count: int) -> bytes:
    """Headers one on the other, joined; without their work, which is not asked for when they are loaded."""
    joined, prev = bytearray(), bytes(32)
    for number in range(count):
        root = hashlib.sha256(number.to_bytes(4, "little")).digest()
        times = (1_600_000_000 + 600 * number).to_bytes(4, "little") + (0x207FFFFF).to_bytes(4, "little")
        raw = b"\1\0\0\0" + prev + root + times + number.to_bytes(4, "little")
        joined += raw
        prev = sha256d(raw)
    return bytes(joined)


def resident() -> float:
    """Memory of this process in MB (10^6 bytes)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def load(url: str) -> None:
    """The work of a separate process: say the seconds and the megabytes of loading, and of reading and hashing only."""
    engine = connect(url)
    writer = Writer(engine)
    chain = HeaderChain("bench", REGTEST, SourceStore(writer))
    before, began = resident(), time.perf_counter()
    chain.load()
    seconds, grown = time.perf_counter() - began, resident() - before
    tip = chain.tip()
    if tip is None:
        raise SystemExit("nothing was loaded")
    began = time.perf_counter()
    for _, joined in SourceStore(writer).load_headers("bench"):
        for index in range(0, len(joined), 80):
            sha256d(joined[index : index + 80])
    plain = time.perf_counter() - began
    writer.close()
    print(tip.height + 1, seconds, plain, grown)


def loads(url: str) -> None:
    """Load several times, each in a new process, and tell the median."""
    answers = []
    for _ in range(ROUNDS):
        command = [sys.executable, "-m", "tests.bench.bench_headers", "--load", url]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        answers.append([float(word) for word in done.stdout.split()])
    count, seconds, plain, grown = (statistics.median(column) for column in zip(*answers, strict=True))
    print(f"load {count:>11,.0f} headers      {seconds:6.2f} s   {grown:6.1f} MB more resident")
    print(f"only read and hash them        {plain:6.2f} s   loading takes {seconds / plain:.2f} x as long")


def timed(run: Callable[[], Any]) -> float:
    """The median seconds of several runs."""
    results = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        run()
        results.append(time.perf_counter() - began)
    return statistics.median(results)


def checks() -> None:
    """Check real headers of BSV on arrival, beside bitcoinX doing the same."""
    path = VECTORS / "886001_888000_headers.bin"
    if not path.exists():
        print(f"real headers are not at {path}: not checked")
        return
    raw = path.read_bytes()
    answers = [raw[index : index + 80] for index in range(0, len(raw), 80)]
    start, rest = answers[:200], answers[200:]
    module.checkpoints = lambda _network: (Checkpoint(886_200, sha256d(start[-1])),)  # type: ignore[assignment]

    def ours() -> None:
        chain = HeaderChain("bsv", network("bsv", "mainnet"))
        chain.begin(886_001, start)
        chain.add(rest)

    def theirs() -> None:
        rules: Any = bitcoinx.Bitcoin
        chain: Any = bitcoinx.Chain(None, 886_001)
        for item in start:
            chain.append(item)
        for height, item in enumerate(rest, 886_201):
            header = bitcoinx.deserialized_header(item, height)
            if header.bits != rules.required_bits(rules, chain, height, header.timestamp):
                raise SystemExit("bitcoinX refuses a real header")
            if header.hash_value() > header.target():
                raise SystemExit("bitcoinX refuses real work")
            chain.append(item)

    mine, other = timed(ours), timed(theirs)
    print(f"check {len(rest):>10,} real headers {mine:6.2f} s   {len(rest) / mine:10,.0f} a second")
    print(f"bitcoinX checks the same       {other:6.2f} s   ours take {mine / other:.2f} x as long")


def scrypts() -> None:
    """Scrypt of headers, as LTC and DOGE ask for above their checkpoint."""
    raws = [number.to_bytes(80, "little") for number in range(500)]
    seconds = timed(lambda: [scrypt(raw) for raw in raws])
    print(f"scrypt of a header             {1000 * seconds / len(raws):6.2f} ms")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--headers", type=int, default=900_000)
    parser.add_argument("--database")
    parser.add_argument("--load", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.load:
        load(args.load)
        return
    with tempfile.TemporaryDirectory() as folder:
        url = args.database or f"sqlite:///{folder}/headers.db"
        writer = Writer(connect(url))
        SourceStore(writer).save_headers("bench", 0, linked(args.headers))
        writer.close()
        loads(url)
    checks()
    scrypts()


if __name__ == "__main__":
    main()
