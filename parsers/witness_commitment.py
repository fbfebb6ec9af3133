"""The commitment of a block to its witnesses (BIP 141): made in the coinbase, checked for a block or one transaction.

A txid does not cover the witness. The wtxids of a block's transactions (the coinbase's is 32 zero bytes) have a merkle
tree of their own; the coinbase commits to its root in an output, together with a reserved value in its own witness.
All hashes are in internal byte order.
"""

from __future__ import annotations

from typing import NamedTuple

from parsers import bump, tx
from parsers.bump import MerklePath
from parsers.errors import ParseError, ProofError
from parsers.tx import Transaction, sha256d

PREFIX = bytes.fromhex("6a24aa21a9ed")
"""What the script of a commitment begins with: OP_RETURN, a push of 36 bytes, and four fixed bytes."""

_NODES = 64
"""Bytes of two nodes of a merkle tree, which are no transaction (CVE-2017-12842)."""


class Coinbase(NamedTuple):
    """What proves the commitment of a block: `raw` is its coinbase transaction without the witness, `reserved` the
    32 bytes in that witness (empty where it holds none), `bump` the coinbase's merkle path (BRC-74)."""

    raw: bytes
    reserved: bytes
    bump: bytes


def committed(coinbase: Transaction) -> bytes | None:
    """The hash (32 bytes) that a coinbase commits to: that of its last commitment output; None without one."""
    scripts = (output.script for output in reversed(coinbase.outputs))
    return next((script[6:38] for script in scripts if len(script) >= 38 and script.startswith(PREFIX)), None)


def reserved_value(coinbase: Transaction) -> bytes:
    """The 32 bytes that are all of a coinbase's witness; empty where its witness is anything else."""
    stack = coinbase.inputs[0].witness if len(coinbase.inputs) == 1 else ()
    return stack[0] if len(stack) == 1 and len(stack[0]) == 32 else b""


def check(coinbase: Transaction, reserved: bytes, root: bytes) -> None:
    """Raise ProofError unless the coinbase commits to this root of the wtxids' merkle tree."""
    if len(reserved) != 32:
        raise ProofError("the coinbase commits to witnesses, and holds no reserved value of 32 bytes for that")
    if sha256d(root + reserved) != committed(coinbase):
        raise ProofError("its witnesses are not those that its coinbase commits to (BIP 141)")


def verify(raw: bytes, path: MerklePath, coinbase: Coinbase, branch: bytes | None) -> None:
    """Raise ParseError unless the witness of a transaction is the one that was mined.

    `raw` is the transaction with its witness, `path` its merkle path, which leads to the header of its block, `branch`
    the merkle path of its wtxid in the form of BRC-74. Of a block whose coinbase commits to no witness no transaction
    has one, and `branch` may be None.
    """
    beside = bump.read(coinbase.bump)
    first = _coinbase(coinbase.raw, beside)
    if beside.merkle_root != path.merkle_root or len(beside.levels) != len(path.levels):
        raise ProofError("the coinbase that commits to the witnesses is of another block")
    if committed(first) is None:
        if any(spent.witness for spent in tx.read_exactly(raw, segwit=True).inputs):
            raise ProofError("it has a witness, and the coinbase of its block commits to none")
        return
    if branch is None:
        raise ProofError("there is no merkle path for its wtxid")
    leads = bump.read(branch)
    if len(leads.levels) != len(path.levels):
        raise ProofError("the merkle paths of its wtxid and its txid are not of the same length")
    wtxid = tx.wtxid(raw)
    try:
        root = leads.root(wtxid)
    except ParseError:
        named = wtxid[::-1].hex()
        raise ProofError(f"its witness is not the one that was mined: the merkle path lacks wtxid {named}") from None
    check(first, coinbase.reserved, root)


def _coinbase(raw: bytes, path: MerklePath) -> Transaction:
    """The first transaction of a block, which is a coinbase. Raises ParseError."""
    coinbase = tx.read_exactly(raw)
    is_first = any(leaf.offset == 0 and leaf.hash == coinbase.txid for leaf in path.levels[0])
    if not coinbase.is_coinbase or len(raw) == _NODES or not is_first:
        raise ProofError("the transaction that should commit to the witnesses is not the coinbase of a block")
    return coinbase
