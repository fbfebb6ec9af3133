"""The witness commitment of a block (BIP 141), verified for a whole block or for one transaction.

A txid does not cover the witness. The wtxids of a block's transactions (that of the coinbase counts as 32 zero bytes)
form a second merkle tree; an output of the coinbase commits to its root and to a reserved value in the coinbase's
witness. All hashes are in internal byte order.
"""

from __future__ import annotations

from typing import NamedTuple

from parsers.bitcoin import bump, tx
from parsers.bitcoin.beef import NODE_PAIR
from parsers.bitcoin.bump import MerklePath
from parsers.bitcoin.tx import Transaction, sha256d
from parsers.errors import ParseError, ProofError

PREFIX = bytes.fromhex("6a24aa21a9ed")
"""The beginning of a commitment script: OP_RETURN, a push of 36 bytes, and four fixed bytes."""


class CoinbaseProof(NamedTuple):
    """The proof of a block's commitment: `raw` is the coinbase transaction without its witness, `reserved` the 32 bytes
    of that witness (empty without one), `bump` the coinbase's merkle path (BRC-74)."""

    raw: bytes
    reserved: bytes
    bump: bytes


def commitment(coinbase: Transaction) -> bytes | None:
    """The hash (32 bytes) in the last commitment output of a coinbase; None without one."""
    scripts = (output.script for output in reversed(coinbase.outputs))
    return next((script[6:38] for script in scripts if len(script) >= 38 and script.startswith(PREFIX)), None)


def reserved_value(coinbase: Transaction) -> bytes:
    """The reserved value: the single item of 32 bytes in a coinbase's witness; empty for any other witness."""
    stack = coinbase.inputs[0].witness if len(coinbase.inputs) == 1 else ()
    return stack[0] if len(stack) == 1 and len(stack[0]) == 32 else b""


def check(coinbase: Transaction, reserved: bytes, root: bytes) -> None:
    """Raise ProofError unless the coinbase commits to this root (32 bytes) of the wtxids' merkle tree."""
    if len(reserved) != 32:
        raise ProofError("the coinbase commits to witnesses, but has no reserved value of 32 bytes")
    if sha256d(root + reserved) != commitment(coinbase):
        raise ProofError("its witnesses are not those that its coinbase commits to (BIP 141)")


def verify(raw: bytes, path: MerklePath, coinbase: CoinbaseProof, branch: bytes | None) -> None:
    """Raise ParseError unless the witness of a transaction is the one that was mined.

    `raw` is the transaction with its witness, `path` its merkle path to the root in the block's header, and
    `branch` the merkle path of its wtxid in the format of BRC-74. None is valid only for a block without a commitment,
    in which no transaction has a witness.
    """
    coinbase_path = bump.read(coinbase.bump)
    first = _coinbase(coinbase.raw, coinbase_path)
    if coinbase_path.merkle_root != path.merkle_root or len(coinbase_path.levels) != len(path.levels):
        raise ProofError("the coinbase that commits to the witnesses is of another block")
    if commitment(first) is None:
        if any(tx_input.witness for tx_input in tx.read_exactly(raw, segwit=True).inputs):
            raise ProofError("it has a witness, and the coinbase of its block commits to none")
        return
    if branch is None:
        raise ProofError("there is no merkle path for its wtxid")
    witness_path = bump.read(branch)
    if len(witness_path.levels) != len(path.levels):
        raise ProofError("the merkle paths of its wtxid and its txid are not of the same length")
    wtxid = tx.wtxid(raw)
    try:
        root = witness_path.root(wtxid)
    except ParseError:
        shown = wtxid[::-1].hex()
        raise ProofError(f"its witness is not the one that was mined: the merkle path lacks wtxid {shown}") from None
    check(first, coinbase.reserved, root)


def _coinbase(raw: bytes, path: MerklePath) -> Transaction:
    """Parse the coinbase and verify that it is the first transaction of its block. Raises ParseError."""
    coinbase = tx.read_exactly(raw)
    is_first = any(leaf.offset == 0 and leaf.hash == coinbase.txid for leaf in path.levels[0])
    if not coinbase.is_coinbase or len(raw) == NODE_PAIR or not is_first:
        raise ProofError("the transaction that should commit to the witnesses is not the coinbase of a block")
    return coinbase
