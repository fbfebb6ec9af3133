"""A block of which every transaction is ours: time and memory of reading and storing it.

`python -m tests.bench.bench_ours [MB [pointers | registrations | moves]]`. Each size runs in a separate process; the
memory is the peak of anonymous pages (RssAnon) above what the process held before, so the page cache does not count.
"""

from __future__ import annotations

import asyncio
import json
import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread

from indexer.headers.networks import CoinRules
from indexer.model import BlockRef
from indexer.store import Store, Writer, connect
from indexer.sync.catchup import Catchup
from indexer.sync.progress import SyncProgress
from parsers.bitcoin import batch_sha256, block
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, serialise, sha256d, varint
from tests.bench.synthetic import COINBASE, MAP_PREFIX, envelope, push

SIZES = (10, 50, 250)
KINDS = ("pointers", "registrations", "moves")

P2PKH = b"\x76\xa9\x14" + bytes(20) + b"\x88\xac"
UNLOCK = push(bytes(71)) + push(bytes(33))
MAP = b"\x6a" + b"".join(map(push, (MAP_PREFIX, b"SET", b"app", b"bsv-mcp", b"type", b"a2b-mcp")))


def transactions(kind: str) -> Iterator[bytes]:
    """Endless transactions: pointers of a domain each, registrations of a tool each, or one moved on and on."""
    number, last = 0, b""
    while True:
        digest = sha256(b"%d" % number).digest()
        tx_output = TxOutput(0, b"\x00\x6a" + push(b"a2b") + push(b"agent-%d.example.org" % number) + push(digest))
        if kind != "pointers":
            body = json.dumps({"mcpServers": {"tool": {"command": "bunx", "args": [str(number)]}}}).encode()
            tx_output = TxOutput(1, envelope(b"application/json", body) + P2PKH + MAP)
        first = Outpoint(sha256d(last), 0) if kind == "moves" and last else Outpoint(digest, 0)
        if kind == "moves" and last:
            tx_output = TxOutput(1, P2PKH)
        last = serialise((TxInput(first, UNLOCK, 0),), (tx_output, TxOutput(5_000, P2PKH)))
        yield last
        number += 1


def write(path: Path, size: int, kind: str) -> None:
    """A block of about `size` bytes in a file."""
    count, held = 1, len(COINBASE)
    for raw in transactions(kind):
        count, held = count + 1, held + len(raw)
        if held >= size:
            break
    with path.open("w+b") as file:
        file.write(bytes(80) + varint(count) + COINBASE)
        for _, raw in zip(range(count - 1), transactions(kind), strict=False):
            file.write(raw)
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            root = block.merkle_root(data)
        file.seek(36)
        file.write(root)


class OneBlock:
    """A chain of one block in a mapped file."""

    name, caip2, network, first, complete, finality = "demo", "bip122:demo", "regtest", 1, True, None
    rules = CoinRules("bsv", segwit=False, envelope="output")

    def __init__(self, path: Path) -> None:
        self._path = path
        self.reference = BlockRef("demo", 1, bytes(32), bytes(32), 0, path.open("rb").read(80))

    async def blocks(self, _first: int, _last: int) -> AsyncIterator[tuple[BlockRef, memoryview]]:
        """The block."""
        with self._path.open("rb") as file:
            yield self.reference, memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    async def refuse(self, _ref: BlockRef, why: str) -> None:
        """Nothing is wrong with it."""
        raise AssertionError(why)

    async def values(self, _outpoints: object, _before: BlockRef) -> dict[Outpoint, int]:
        """No parents are at hand."""
        return {}


def anonymous() -> int:
    """Bytes of anonymous memory that this process holds."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["RssAnon"].split()[0]) * 1024


def index(path: Path) -> None:
    """Read and store the block, and print what that took."""
    block.prepare()
    batch_sha256.prepare()
    engine = connect(f"sqlite:///{path}.db")
    writer, progress, over = Writer(engine), SyncProgress("demo"), Event()
    peak = before = anonymous()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.01):
            peak = max(peak, anonymous())

    watching = Thread(target=watch)
    watching.start()
    start = time.perf_counter()
    catchup = Catchup(OneBlock(path), Store(engine), writer, progress, lambda: None)  # type: ignore[arg-type]
    asyncio.run(catchup.read(None, 1))
    took = time.perf_counter() - start
    over.set()
    watching.join()
    size = path.stat().st_size
    print(
        f"{size / 1e6:7,.0f} MB {progress.events:>11,} events {took:8.1f} s {size / took / 1e6:8.2f} MB/s "
        f"{took / progress.events * 1e6:6.0f} us an event  +{(peak - before) / 1e6:,.0f} MB"
    )


def main() -> None:
    """Each size and kind in a separate process."""
    sizes = [int(sys.argv[1])] if len(sys.argv) > 1 else SIZES
    for kind in sys.argv[2:] or KINDS:
        print(kind, flush=True)
        for size in sizes:
            # the folder of large blocks: /tmp may be memory
            with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as folder:  # noqa: S108
                path = Path(folder) / "block"
                write(path, size * 10**6, kind)
                code = "import sys; from pathlib import Path; from tests.bench.bench_ours import index; "
                subprocess.run([sys.executable, "-c", code + "index(Path(sys.argv[1]))", str(path)], check=True)


if __name__ == "__main__":
    main()
