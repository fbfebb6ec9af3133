"""Proofs that transactions and their witnesses are in a block, made from all of its bytes while they are at hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from indexer.chains import Rules
from indexer.facts import BlockRef, Event, Proof
from parsers import block, bump, tx, witness_commitment
from parsers.errors import BlockError, ProofError
from parsers.hashing import Numbers
from parsers.witness_commitment import Coinbase

MAX_RAW = 16 << 20
"""Bytes of a transaction that a proof is kept of: a card is at most 1 MiB, and a stranger's transaction any size."""


class BlockProofs(NamedTuple):
    """The proofs of transactions of a block by txid, and what proves their witnesses, where these carry envelopes."""

    transactions: dict[bytes, Proof]
    coinbase: Coinbase | None = None


def proofs(ref: BlockRef, data: memoryview | bytes, rules: Rules, events: Iterable[Event]) -> BlockProofs:
    """Proofs of the transactions that say these events; none of one larger than MAX_RAW.

    Raises BlockError when the block's transactions are not those of its header or, where witnesses carry envelopes, its
    witnesses are not those that its coinbase commits to (law 16).
    """
    said = {event.tx_index: event.txid for event in events}
    offsets = block.tx_offsets(data, segwit=rules.segwit)
    tree = block.merkle_tree(data, offsets, [0, *said], segwit=rules.segwit)
    if tree.root != ref.header[36:68]:
        raise _refused(ref, "its transactions do not match its merkle root")
    coinbase, witnesses = None, dict[int, bytes]()
    if rules.envelope == "witness":
        coinbase, witnesses = _witnesses(ref, data, offsets, tree.branches[0], list(said))
    made = {}
    for (index, txid), siblings in zip(said.items(), tree.branches[1:], strict=True):
        raw = data[offsets[index] : offsets[index + 1]]
        if len(raw) <= MAX_RAW:
            path = bump.branch_bytes(ref.height, index, txid, siblings)
            made[txid] = Proof(bytes(raw), path, witnesses.get(index))
    return BlockProofs(made, coinbase)


def _witnesses(
    ref: BlockRef, data: memoryview | bytes, offsets: Numbers, branch: list[bytes | None], numbers: list[int]
) -> tuple[Coinbase, dict[int, bytes]]:
    """What proves the witnesses of a block: its coinbase, whose merkle branch is given, and the merkle paths of the
    wtxids of the transactions of these numbers, none where the coinbase commits to no witness. Raises BlockError."""
    first = tx.read(bytes(data[offsets[0] : offsets[1]]), segwit=True)
    bare = tx.serialise(first.inputs, first.outputs, first.version, first.locktime)
    reserved = witness_commitment.reserved_value(first)
    coinbase = Coinbase(bare, reserved, bump.branch_bytes(ref.height, 0, first.txid, branch))
    if witness_commitment.committed(first) is None:
        if block.has_witness(data, offsets):
            raise _refused(ref, "it holds witnesses, and its coinbase commits to none (BIP 141)")
        return coinbase, {}
    tree = block.witness_tree(data, offsets, numbers)
    try:
        witness_commitment.check(first, reserved, tree.root)
    except ProofError as error:
        raise _refused(ref, str(error)) from None
    wtxids = [tx.wtxid(bytes(data[offsets[number] : offsets[number + 1]])) for number in numbers]
    pairs = zip(numbers, wtxids, tree.branches, strict=True)
    return coinbase, {number: bump.branch_bytes(ref.height, number, wtxid, way) for number, wtxid, way in pairs}


def _refused(ref: BlockRef, why: str) -> BlockError:
    return BlockError(f"block {ref.height:,} ({ref.hash[::-1].hex()}): {why}")
