"""Checks that the bytes of a block from a stranger are those that its header commits to."""

from __future__ import annotations

from indexer.chains.peers.wire_networks import WireNetwork
from indexer.headers import proof_of_work
from indexer.model import BlockRef
from parsers.bitcoin import block, tx, witness_commitment
from parsers.errors import BlockError


def checked(data: memoryview, ref: BlockRef, wire: WireNetwork) -> memoryview:
    """The block, without merge-mined work, if it has the header of `ref`, its transactions the header's merkle root,
    and their witnesses the root that the coinbase commits to. Raises ParseError."""
    if wire.auxpow:
        data = proof_of_work.strip_auxpow(data)
    if block.header(data) != ref.header[:80]:
        raise BlockError("it has another header")
    offsets = block.tx_offsets(data, segwit=wire.segwit)
    if block.merkle_root(data, segwit=wire.segwit) != ref.header[36:68]:
        raise BlockError("its transactions do not match its merkle root")
    if wire.segwit:
        first = tx.read(bytes(data[offsets[0] : offsets[1]]), segwit=True)
        if witness_commitment.commitment(first) is None:
            if block.has_witness(data, offsets):
                raise BlockError("it holds witnesses, and its coinbase commits to none (BIP 141)")
        else:
            root = block.witness_tree(data, offsets).root
            witness_commitment.check(first, witness_commitment.reserved_value(first), root)
    return data


def txids(data: memoryview, wire: WireNetwork) -> list[bytes]:
    """The txids of a checked block."""
    return list(block.txids(data, segwit=wire.segwit))
