"""Checks of a transaction and of its block by an answer: merkle path, BEEF, witness, and the work of the header."""

from __future__ import annotations

from indexer.headers.networks import SCRYPT, Network
from indexer.headers.proof_of_work import is_met
from indexer.headers.rules import scrypt
from overlay.verify import header_chain
from overlay.verify.server_answer import HEADER, MinedBlock, MinedTransaction, NotProvedError
from parsers.bitcoin import beef, bump, witness_commitment
from parsers.bitcoin.tx import Transaction, sha256d

MERGE_MINED = 0x100
"""Version bit of a merge-mined header: its work is on another chain's header."""


def check_bytes(mined: MinedTransaction) -> None:
    """Check that the bytes hash to the txid in the answer. Raises NotProvedError."""
    if mined.tx.hex_id != mined.txid:
        raise NotProvedError(f"the bytes served are transaction {mined.tx.hex_id}, and another is named")
    if len(mined.bare) == beef.NODE_PAIR:
        raise NotProvedError(f"it has {beef.NODE_PAIR} bytes, as two nodes of a merkle tree have")


def check_path(tx: Transaction, mined: MinedBlock) -> None:
    """Check that the merkle path ends at the root in the header of the block. Raises NotProvedError, ParseError."""
    path = bump.read(mined.path)
    if path.height != mined.height:
        raise NotProvedError(f"the merkle path is for height {path.height:,}, and the answer for {mined.height:,}")
    if len(mined.header) < HEADER or sha256d(mined.header[:HEADER]) != mined.hash:
        raise NotProvedError("the header served is not that of the block named")
    if len(mined.header) > HEADER and not _is_merge_mined(mined.header):
        raise NotProvedError(f"the header served has {len(mined.header):,} bytes, and {HEADER} are one")
    if path.root(tx.txid) != mined.header[36:68]:
        raise NotProvedError("the merkle path ends at another root than the header's")


def check_beef(tx: Transaction, mined: MinedBlock, served: bytes) -> None:
    """Check that the BEEF holds the transaction and ends at the same root. Raises NotProvedError, ParseError."""
    bundle, root = beef.read(served), mined.header[36:68]
    if bundle.newest.txid != tx.txid:
        raise NotProvedError(f"the BEEF served is of transaction {bundle.newest.txid[::-1].hex()}")
    if beef.verify(bundle, lambda height, leads: (height, leads) == (mined.height, root)):
        raise NotProvedError("the BEEF served does not lead from the transaction to the root of its block")


def check_witness(mined: MinedBlock, *, is_needed: bool) -> None:
    """Check that the served witness was mined (BIP 141); its txid does not cover it. Raises NotProvedError, also when
    the proof of the witness is missing and `is_needed`, and ParseError."""
    if mined.witness is not None:
        served = mined.witness
        witness_commitment.verify(served.raw, bump.read(mined.path), served.coinbase, served.branch)
    elif is_needed:
        raise NotProvedError(
            "its witness is not proved: a txid does not cover it, and the answer lacks what the block's coinbase "
            "commits to (BIP 141); a server that read the block before it stored that must index the chain again"
        )


def check_work(mined: MinedBlock, network: Network) -> str:
    """Check that the header meets its own target; returns the expected number of hashes, in words. Raises
    NotProvedError."""
    header = mined.header[:HEADER]
    bits = int.from_bytes(header[72:76], "little")
    if network.coin == "doge" and _is_merge_mined(header):
        raise NotProvedError("its work is on another chain's header, which the answer does not hold")
    if not is_met(scrypt(header) if network.coin in SCRYPT else sha256d(header), bits):
        raise NotProvedError(f"the header does not meet its own target (bits {bits:08x})")
    return header_chain.difficulty(bits)


def _is_merge_mined(header: bytes) -> bool:
    return bool(int.from_bytes(header[:4], "little") & MERGE_MINED)
