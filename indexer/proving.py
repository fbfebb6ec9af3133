"""Proofs that transactions are in a block, made from all of its bytes while they are at hand."""

from __future__ import annotations

from collections.abc import Iterable

from indexer.chains import Rules
from indexer.facts import BlockRef, Event, Proof
from parsers import block, bump
from parsers.errors import BlockError

MAX_RAW = 16 << 20
"""Bytes of a transaction that a proof is kept of: a card is at most 1 MiB, and a stranger's transaction any size."""


def proofs(ref: BlockRef, data: memoryview | bytes, rules: Rules, events: Iterable[Event]) -> dict[bytes, Proof]:
    """Proofs of the transactions that say these events, by txid; none of one larger than MAX_RAW.

    Raises BlockError when the block's transactions are not those of its header (law 16).
    """
    said = {event.tx_index: event.txid for event in events}
    offsets = block.tx_offsets(data, segwit=rules.segwit)
    tree = block.merkle_tree(data, offsets, list(said), segwit=rules.segwit)
    if tree.root != ref.header[36:68]:
        raise BlockError(
            f"block {ref.height:,} ({ref.hash[::-1].hex()}): its transactions do not match its merkle root"
        )
    made = {}
    for (index, txid), siblings in zip(said.items(), tree.branches, strict=True):
        start, end = int(offsets[index]), int(offsets[index + 1])
        if end - start <= MAX_RAW:
            made[txid] = Proof(bytes(data[start:end]), bump.branch_bytes(ref.height, index, txid, siblings))
    return made
