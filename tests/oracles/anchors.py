"""Anchors of the topic by the book (BRC-136): from a chain's raw blocks and what the oracle of the registry found."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

from tests.oracles.merkle import root
from tests.oracles.registry import Registry

ZERO = "00" * 32


class Anchor(NamedTuple):
    """A block's anchor, hashes as displayed."""

    height: int
    block_hash: str
    root: str
    count: int
    tac: str


def twice(data: bytes) -> bytes:
    return sha256(sha256(data).digest()).digest()


def turned(text: str) -> bytes:
    return bytes.fromhex(text)[::-1]


def admitted(registry: Registry, height: int) -> list[str]:
    """The txids of a block that changed a registration or hold a valid pointer, as the miner ordered them."""
    revisions = [revision for registration in registry.registrations for revision in registration["revisions"]]
    pointers = [pointer for pointer in registry.pointers if pointer["valid"]]
    here = {
        (revision["txIndex"], revision["txid"]) for revision in (*revisions, *pointers) if revision["height"] == height
    }
    return [txid for _, txid in sorted(here)]


def anchors(registry: Registry, raws: Iterable[bytes], first: int = 1) -> list[Anchor]:
    """The anchors of the blocks from height `first` on; `raws` begin with the genesis block."""
    results, tac = [], ZERO
    for height, raw in enumerate(raws):
        if height < first:
            continue
        txids = admitted(registry, height)
        block = twice(raw[:80])[::-1].hex()
        top = root([turned(txid) for txid in txids])[::-1].hex() if txids else ZERO
        tac = twice(turned(tac) + turned(block) + turned(top))[::-1].hex()
        results.append(Anchor(height, block, top, len(txids), tac))
    return results
