"""Proofs that transactions and their witnesses are in a block, made from all of its bytes while they are at hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from indexer.headers.networks import CoinRules
from indexer.model import BlockRef, Proof, Proofs
from indexer.spill import SpilledPairs
from parsers.bitcoin import block, bump, tx, witness_commitment
from parsers.bitcoin.batch_sha256 import IntArray
from parsers.bitcoin.merkle_tree import MerkleTree
from parsers.bitcoin.witness_commitment import CoinbaseProof
from parsers.errors import BlockError, ProofError

MAX_RAW = 16 << 20
"""Bytes of a transaction with a stored proof, at most: a card has up to 1 MiB, a transaction any size."""


class BlockProofs(NamedTuple):
    """The proofs of transactions of a block by txid, and the proofs of their witnesses, where these carry envelopes."""

    transactions: Proofs
    coinbase: CoinbaseProof | None = None


def proofs(
    ref: BlockRef, data: memoryview | bytes, scan: block.BlockScan, rules: CoinRules, tx_indexes: Iterable[int]
) -> BlockProofs:
    """Proofs of the transactions of these numbers in a scanned block; those larger than MAX_RAW are left out.

    Raises BlockError when the block's transactions do not match its header or, with envelopes in witnesses, its
    witnesses do not match the commitment in its coinbase (law 16).
    """
    numbers = np.unique(np.fromiter(tx_indexes, np.int64))
    offsets = scan.offsets
    tree = block.merkle_tree(data, offsets, scan.witnesses, segwit=rules.segwit)
    if tree.root != ref.header[36:68]:
        raise _refused(ref, "its transactions do not match its merkle root")
    coinbase, witnesses = None, None
    if rules.envelope == "witness":
        coinbase, witnesses = _witnesses(ref, data, offsets, tree)
    witness_paths = _paths(ref, witnesses, numbers) if witnesses is not None else None
    proofs_by_txid: SpilledPairs[bytes, Proof] = SpilledPairs()
    for index, txid, path in _paths(ref, tree, numbers):
        witness = next(witness_paths)[2] if witness_paths is not None else None
        raw = data[offsets[index] : offsets[index + 1]]
        if len(raw) <= MAX_RAW:
            proofs_by_txid.append((txid, Proof(bytes(raw), path, witness)), len(raw) + len(path))
    return BlockProofs(proofs_by_txid.settled(), coinbase)


def _paths(ref: BlockRef, tree: MerkleTree, numbers: IntArray) -> Iterator[tuple[int, bytes, bytes]]:
    """The number, the hash in this tree, and the merkle path (BRC-74) of each transaction with one of these numbers."""
    for index, digest, siblings in tree.branches(numbers):
        yield index, digest, bump.branch_bytes(ref.height, index, digest, siblings)


def _witnesses(
    ref: BlockRef, data: memoryview | bytes, offsets: IntArray, tree: MerkleTree
) -> tuple[CoinbaseProof, MerkleTree | None]:
    """The proof of the witnesses of a block with the txids in `tree`: its coinbase, and the tree of its wtxids, None
    where the coinbase commits to no witness. Raises BlockError."""
    first = tx.read(bytes(data[offsets[0] : offsets[1]]), segwit=True)
    bare = tx.serialise(first.inputs, first.outputs, first.version, first.locktime)
    reserved = witness_commitment.reserved_value(first)
    [(_, _, path)] = _paths(ref, tree, np.zeros(1, np.int64))
    coinbase = CoinbaseProof(bare, reserved, path)
    if witness_commitment.commitment(first) is None:
        if block.has_witness(data, offsets):
            raise _refused(ref, "it holds witnesses, and its coinbase commits to none (BIP 141)")
        return coinbase, None
    witnesses = block.witness_tree(data, offsets)
    try:
        witness_commitment.check(first, reserved, witnesses.root)
    except ProofError as error:
        raise _refused(ref, str(error)) from None
    return coinbase, witnesses


def _refused(ref: BlockRef, why: str) -> BlockError:
    return BlockError(f"block {ref.height:,} ({ref.hash[::-1].hex()}): {why}")
