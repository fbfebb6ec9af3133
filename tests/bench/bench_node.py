"""Catching up with a real node beside merely downloading its blocks: `python -m tests.bench.bench_node`.

A litecoind of its own is given blocks of 1 MB and 31,000 outputs, of which one in a hundred holds a transaction with a
pointer. They are downloaded by REST with as many connections as the indexer uses and thrown away; then they are fetched
by the indexer and thrown away; then a new indexer catches up: by RPC, as a peer of the node, and from its block files.
Each is done several times in turn, and the fastest counts: by the clock, which other work on the machine and the node
itself (two cores share all of it) lengthen, and in seconds of this process on a core, which they do not. Needs Debian's
litecoind.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import Callable
from hashlib import scrypt
from itertools import count
from pathlib import Path
from statistics import median
from typing import NamedTuple

import aiohttp

from indexer.chains.prefetch import REQUESTS
from parsers.bitcoin import block
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, serialise, sha256d, varint
from tests.bench.bench_follow import fetch, follow, timed
from tests.chainkit_scripts import pointer_script
from tests.litecoind import Litecoind, binary
from tests.ports import free_port

BLOCKS, OUTPUTS, EVERY, ROUNDS = 301, 31_000, 100, 6
MATURITY = 100
"""Blocks after which what a coinbase made may be spent."""
BITS, VERSION = 0x207FFFFF, 0x20000000
PAID, ANYONE = b"\x00\x14" + bytes(20), b"\x51"


def coinbase(height: int) -> bytes:
    """A transaction that makes many outputs, the first of which anyone may spend."""
    pushed = height.to_bytes((height.bit_length() + 8) // 8, "little")
    script = (bytes([0x50 + height]) if height < 17 else bytes([len(pushed)]) + pushed) + b"\x00"
    outputs = (TxOutput(1_000, ANYONE), *[TxOutput(1_000, PAID)] * OUTPUTS)
    return serialise((TxInput(Outpoint(bytes(32), 0xFFFFFFFF), script, 0xFFFFFFFF),), outputs)


def pointer_transaction(height: int) -> bytes:
    """A transaction with a pointer, which spends what an old coinbase made."""
    spent = TxInput(Outpoint(sha256d(coinbase(height - MATURITY)), 0), b"", 0xFFFFFFFF)
    return serialise((spent,), (TxOutput(0, pointer_script("agents.example", bytes(32))),))


def mined(prev: bytes, height: int, started: int) -> bytes:
    """A regtest block; in every hundredth something of ours stands beside the coinbase."""
    message = [pointer_transaction(height)] if height > MATURITY and height % EVERY == 1 else []
    body = varint(1 + len(message)) + b"".join([coinbase(height), *message])
    start = VERSION.to_bytes(4, "little") + prev + block.merkle_root(bytes(80) + body)
    start += (started + height).to_bytes(4, "little") + BITS.to_bytes(4, "little")
    for nonce in count():
        header = start + nonce.to_bytes(4, "little")
        if scrypt(header, salt=header, n=1024, r=1, p=1, dklen=32)[31] < 0x7F:
            return header + body
    raise AssertionError


def fill(node: Litecoind) -> list[str]:
    """Give the node its blocks; their hashes as it names them."""
    prev, started = bytes.fromhex(node.rpc("getbestblockhash"))[::-1], int(time.time()) - 86_400
    results = []
    for height in range(1, BLOCKS + 1):
        raw = mined(prev, height, started)
        refused = node.rpc("submitblock", raw.hex())
        assert refused is None, refused
        prev = sha256d(raw[:80])
        results.append(prev[::-1].hex())
    return results


async def download(base: str, hashes: list[str]) -> tuple[float, int]:
    """Seconds and bytes of downloading blocks and throwing them away."""
    left, size = iter(hashes), 0

    async def one(session: aiohttp.ClientSession) -> None:
        nonlocal size
        for digest in left:
            async with session.get(f"{base}/rest/block/{digest}.bin") as answer:
                async for piece in answer.content.iter_any():
                    size += len(piece)

    start = time.perf_counter()
    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(one(session) for _ in range(REQUESTS)))
    return time.perf_counter() - start, size


def main() -> None:
    """Print the table."""
    logging.disable(logging.CRITICAL)
    if binary() is None:
        print("litecoind is not installed: nothing is measured")
        return
    block.prepare()
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        # without the last switch, a node whose newest block is a day old sends peers no headers
        accepting = ["-listen=1", f"-port={port}", "-bind=127.0.0.1", "-whitelist=127.0.0.1"]
        node = Litecoind(Path(folder) / "node", more=accepting)
        node.start()
        try:
            measure(node, fill(node), f"peers:?chain=ltc&network=regtest&connect=127.0.0.1:{port}")
        finally:
            node.kill()


def measure(node: Litecoind, hashes: list[str], peers: str) -> None:
    """Download, fetch and follow in turn, and follow the node as a peer, and its block files."""
    base, url = f"http://127.0.0.1:{node.port}", f"{node.url}?chain=ltc"
    files = f"files:{node.folder}/regtest/blocks?chain=ltc&network=regtest"
    works: dict[str, Callable[[], float]] = {
        "downloaded": lambda: asyncio.run(download(base, hashes))[0],
        "fetched": lambda: timed(url, fetch),
        "followed": lambda: timed(url, follow),
        "by peers": lambda: timed(peers, follow),
        "files": lambda: timed(files, follow),
    }
    rows = [[taken(work) for work in works.values()] for _ in range(ROUNDS)]
    size = asyncio.run(download(base, hashes))[1]
    print(f"{BLOCKS} blocks, {size / 1e6:,.0f} MB, one in {EVERY} holds anything of ours")
    print(f"{'':<12}{'clock':>8}{'':>22}{'median':>10}{'on a core':>12}")
    best = [Taken(*map(min, zip(*column, strict=True))) for column in zip(*rows, strict=True)]
    middle = [median(entry.clock for entry in column) for column in zip(*rows, strict=True)]
    for title, item, usual in zip(works, best, middle, strict=True):
        print(
            f"{title:<12}{item.clock:6.2f} s {size / item.clock / 1e6:8,.0f} MB/s {item.clock / best[0].clock:6.2f} x"
            f"{usual / middle[0]:8.2f} x{item.core:10.2f} s"
        )
    checking = scrypt_seconds(node, hashes)
    print(
        f"scrypt{'':<6}{checking:6.2f} s of that by RPC: the work of the headers, which no chain but LTC and DOGE has; "
        f"without it {(best[2].clock - checking) / best[0].clock:.2f} x, "
        f"median {(middle[2] - checking) / middle[0]:.2f} x"
    )


def scrypt_seconds(node: Litecoind, hashes: list[str]) -> float:
    """Seconds that the proof of work of these blocks takes to be checked, the fastest of some times."""
    headers = [bytes.fromhex(node.rpc("getblockheader", digest, False)) for digest in hashes]

    def once() -> float:
        start = time.perf_counter()
        for header in headers:
            scrypt(header, salt=header, n=1024, r=1, p=1, dklen=32)
        return time.perf_counter() - start

    return min(once() for _ in range(ROUNDS))


class Taken(NamedTuple):
    """Seconds that work took by the clock, and on a core."""

    clock: float
    core: float


def taken(work: Callable[[], float]) -> Taken:
    """Do some work that tells how long it took, without what prepares it."""
    before = time.process_time()
    clock = work()
    return Taken(clock, time.process_time() - before)


if __name__ == "__main__":
    main()
