"""Anchors of a topic (BRC-136): per block a merkle root over the transactions that the topic admitted, and a hash
chained over all blocks from the topic's first on.

Hashes have 32 bytes in internal byte order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from parsers.bitcoin.tx import sha256d
from parsers.errors import BlockError

NO_HASH = bytes(32)
"""The root of a block without admitted transactions, and the anchor before the first block's."""


@dataclass(frozen=True, slots=True)
class TopicAnchor:
    """The anchor of a block: the merkle root over its `admitted` transactions, and the chained hash `tac`."""

    height: int
    block_hash: bytes
    root: bytes
    admitted: int
    tac: bytes


class AdmittedTransaction(NamedTuple):
    """An admitted transaction and its number in the block, the coinbase's being 0."""

    txid: bytes
    number: int


def root(txids: Sequence[bytes]) -> bytes:
    """The merkle root over the admitted transactions of a block, in block order: that of a block of just these.

    Raises BlockError when a transaction is repeated so that the root would be another list's, too (CVE-2012-2459)."""
    nodes = list(txids) or [NO_HASH]
    while len(nodes) > 1:
        if any(left == right for left, right in zip(nodes[::2], nodes[1::2], strict=False)):
            raise BlockError("admitted transactions are repeated so that the root stays the same (CVE-2012-2459)")
        nodes += nodes[-1:] if len(nodes) % 2 else []
        nodes = [sha256d(left + right) for left, right in zip(nodes[::2], nodes[1::2], strict=True)]
    return nodes[0]


def chained(previous: bytes, block_hash: bytes, anchor_root: bytes) -> bytes:
    """The topic anchor chain (TAC) after a block, from that after the block before."""
    return sha256d(previous + block_hash + anchor_root)
