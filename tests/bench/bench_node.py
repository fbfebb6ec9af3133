"""Catching up with a real node beside merely downloading its blocks: `python -m tests.bench.bench_node`.

A litecoind of its own is given blocks of 1 MB and 31,000 outputs, of which one in a hundred holds a pointer. They are
downloaded by REST with as many connections as the indexer uses and thrown away; then a new indexer catches up.
Each is done several times in turn, and the fastest counts. Needs Debian's litecoind.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
import time
from hashlib import scrypt
from itertools import count
from pathlib import Path

import aiohttp

from indexer.chains.node.ahead import REQUESTS
from parsers import block
from parsers.tx import Outpoint, TxInput, TxOutput, serialise, sha256d, varint
from tests.bench.bench_follow import fetch, follow, timed
from tests.chainkit_scripts import pointer_script
from tests.litecoind import Litecoind, binary

BLOCKS, OUTPUTS, EVERY, ROUNDS = 300, 31_000, 100, 4
BITS, VERSION = 0x207FFFFF, 0x20000000
PAID = b"\x00\x14" + bytes(20)


def mined(prev: bytes, height: int, started: int) -> bytes:
    """A regtest block whose only transaction makes many outputs."""
    pushed = height.to_bytes((height.bit_length() + 8) // 8, "little")
    script = (bytes([0x50 + height]) if height < 17 else bytes([len(pushed)]) + pushed) + b"\x00"
    outputs = [TxOutput(1_000, PAID)] * OUTPUTS
    if height % EVERY == 0:
        outputs.append(TxOutput(0, pointer_script("agents.example", bytes(32))))
    coinbase = serialise((TxInput(Outpoint(bytes(32), 0xFFFFFFFF), script, 0xFFFFFFFF),), tuple(outputs))
    body = varint(1) + coinbase
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
    found = []
    for height in range(1, BLOCKS + 1):
        raw = mined(prev, height, started)
        refused = node.rpc("submitblock", raw.hex())
        assert refused is None, refused
        prev = sha256d(raw[:80])
        found.append(prev[::-1].hex())
    return found


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
        sys.exit("litecoind is not installed")
    block.prepare()
    with tempfile.TemporaryDirectory() as folder:
        node = Litecoind(Path(folder) / "node")
        node.start()
        try:
            measure(node, fill(node))
        finally:
            node.kill()


def measure(node: Litecoind, hashes: list[str]) -> None:
    """Download, fetch and follow in turn."""
    base, url = f"http://127.0.0.1:{node.port}", f"{node.url}?chain=ltc"
    rows: list[tuple[float, float, float]] = []
    for _ in range(ROUNDS):
        taken, size = asyncio.run(download(base, hashes))
        rows.append((taken, timed(url, fetch), timed(url, follow)))
    downloading, fetching, following = (min(column) for column in zip(*rows, strict=True))
    print(f"{BLOCKS} blocks, {size / 1e6:,.0f} MB, one in {EVERY} holds anything of ours")
    for title, taken in (("downloaded", downloading), ("fetched", fetching), ("followed", following)):
        print(f"{title:<12}{taken:8.2f} s {size / taken / 1e6:8,.0f} MB/s {taken / downloading:8.2f} x downloading")


if __name__ == "__main__":
    main()
