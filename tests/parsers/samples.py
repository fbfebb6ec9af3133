"""Transactions to read: the sample chain's, cut out of its block file, and the real ones among the shared vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from parsers.bitcoin import tx
from parsers.bitcoin.tx import Transaction

MAGIC = bytes.fromhex("fabfb5da")


def sample_transactions(folder: Path) -> dict[str, Transaction]:
    """Every transaction of the sample chain's blocks, stale ones included, by txid."""
    raw = (folder / "blk00000.dat").read_bytes()
    results = {}
    position = 0
    while raw[position : position + 4] == MAGIC:
        size = int.from_bytes(raw[position + 4 : position + 8], "little")
        block = raw[position + 8 : position + 8 + size]
        count, offset = block[80], 81
        assert count < 0xFD
        for _ in range(count):
            one = tx.read(block, offset)
            results[one.hex_id] = one
            offset += one.size
        assert offset == size
        position += 8 + size
    return results


def oracle(folder: Path) -> Any:
    """The records that must be found on the sample chain."""
    return json.loads((folder / "expected.json").read_text())


def real_transactions(shared: Path) -> dict[str, Transaction]:
    """The real mainnet transactions, by the first eight digits of their txid."""
    lines = (shared / "vectors" / "bsv" / "real_transactions.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    results = {record["txid"][:8]: tx.read_exactly(bytes.fromhex(record["hex"])) for record in records}
    assert [one.hex_id for one in results.values()] == [record["txid"] for record in records]
    return results
