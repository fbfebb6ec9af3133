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
    found = {}
    at = 0
    while raw[at : at + 4] == MAGIC:
        size = int.from_bytes(raw[at + 4 : at + 8], "little")
        block = raw[at + 8 : at + 8 + size]
        count, place = block[80], 81
        assert count < 0xFD
        for _ in range(count):
            one = tx.read(block, place)
            found[one.hex_id] = one
            place += one.size
        assert place == size
        at += 8 + size
    return found


def oracle(folder: Path) -> Any:
    """What must be found on the sample chain."""
    return json.loads((folder / "expected.json").read_text())


def real_transactions(shared: Path) -> dict[str, Transaction]:
    """The real mainnet transactions, by the first eight digits of their txid."""
    lines = (shared / "vectors" / "bsv" / "real_transactions.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    found = {record["txid"][:8]: tx.read_exactly(bytes.fromhex(record["hex"])) for record in records}
    assert [one.hex_id for one in found.values()] == [record["txid"] for record in records]
    return found
