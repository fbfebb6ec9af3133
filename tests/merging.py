"""Dogecoin blocks mined together with another chain, by real work on the other one's header at regtest difficulty."""

from __future__ import annotations

from collections.abc import Sequence

from indexer.headers.proof_of_work import is_met
from indexer.headers.rules import scrypt
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, serialise, sha256d, varint
from tests.chainkit_blocks import Block

VERSION = 0x00620104


def climb(digest: bytes, siblings: Sequence[bytes], index: int) -> bytes:
    """The root of a merkle branch."""
    for bit, sibling in enumerate(siblings):
        digest = sha256d(sibling + digest if index >> bit & 1 else digest + sibling)
    return digest


def merged_work(
    header: bytes, *, siblings: Sequence[bytes] = (bytes(32),) * 2, chains: Sequence[bytes] = (), index: int = 0,
    nonce: int = 0, script: bytes | None = None, bits: int = 0x207FFFFF, parent_version: int = 1, branch_index: int = 0,
) -> bytes:  # fmt: skip
    """The proof of merge-mined work that follows a header: the other chain's coinbase, two branches, and its header,
    mined."""
    root = climb(sha256d(header), chains, index)[::-1]
    numbers = (1 << len(chains)).to_bytes(4, "little") + nonce.to_bytes(4, "little")
    named = b"\xfa\xbemm" + root + numbers if script is None else script.replace(b"ROOT", root + numbers)
    coinbase = serialise((TxInput(Outpoint(bytes(32), 0xFFFFFFFF), named, 0),), (TxOutput(1, b"\x51"),))
    top = parent_version.to_bytes(4, "little") + bytes(32) + climb(sha256d(coinbase), siblings, 0) + bytes(8)
    parent = next(raw for n in range(1 << 20) if is_met(scrypt(raw := top + n.to_bytes(4, "little")), bits))
    branches = [
        varint(len(hashes)) + b"".join(hashes) + position.to_bytes(4, "little")
        for hashes, position in ((siblings, branch_index), (chains, index))
    ]
    return coinbase + bytes(32) + b"".join(branches) + parent


def merge_mined(block: Block) -> bytes:
    """A Dogecoin block whose work was done by another chain."""
    header = VERSION.to_bytes(4, "little") + block.raw[4:80]
    return header + merged_work(header) + block.raw[80:]
