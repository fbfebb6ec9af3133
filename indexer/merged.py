"""The proof of work of Dogecoin's merge-mined blocks: work on another chain's header whose coinbase names the block."""

from __future__ import annotations

from typing import NamedTuple

from parsers import tx
from parsers.errors import BlockError
from parsers.tx import Transaction, sha256d

CHAIN_ID = 0x62
SIZE = 80

_MARK = bytes.fromhex("fabe6d6d")
_BRANCH_LIMIT = 30
_UNMARKED_WITHIN = 20


class MergedWork(NamedTuple):
    """What follows the 80 bytes of a merge-mined header: the other chain's coinbase, its merkle branch and place, the
    merkle branch and index of the block among the chains mined together, and the other chain's header of 80 bytes."""

    coinbase: Transaction
    branch: tuple[bytes, ...]
    place: int
    chains: tuple[bytes, ...]
    chain_index: int
    parent: bytes


def read(data: bytes) -> MergedWork:
    """Read what follows a merge-mined header. Raises ParseError."""
    coinbase = tx.read(data)
    branch, index, at = _branch(data, coinbase.size + 32)
    chains, chain_index, at = _branch(data, at)
    if len(data) != at + SIZE:
        raise BlockError(f"{len(data) - at:,} bytes stand where the other chain's header of {SIZE} is expected", at)
    return MergedWork(coinbase, branch, index, chains, chain_index, data[at:])


def _branch(data: bytes, at: int) -> tuple[tuple[bytes, ...], int, int]:
    """A merkle branch at byte `at`: its hashes, the index it leads from, and where it ends."""
    count = data[at] if at < len(data) else _BRANCH_LIMIT + 1
    start, end = at + 1, at + 1 + 32 * count
    if count > _BRANCH_LIMIT or end + 4 > len(data):
        raise BlockError(f"a merkle branch is longer than {_BRANCH_LIMIT} hashes, or runs past the end", at)
    hashes = tuple(data[place : place + 32] for place in range(start, end, 32))
    return hashes, int.from_bytes(data[end : end + 4], "little"), end + 4


def fault(header: bytes, work: MergedWork, *, strict: bool = True) -> str | None:
    """What is wrong with the proof that work on `work.parent` was work on this header; None when it holds.

    Whether that work is enough is not asked here. `strict`: versions must name their chains, as everywhere but on
    Dogecoin's testnet.
    """
    chain = int.from_bytes(header[2:4], "little")
    if strict and chain != CHAIN_ID:
        return f"its version names chain {chain:#x} where {CHAIN_ID:#x} is expected"
    if strict and int.from_bytes(work.parent[2:4], "little") == chain:
        return "it was mined together with its own chain"
    if work.place != 0 or not work.coinbase.inputs:
        return "the transaction that names it is no coinbase"
    if _climb(work.coinbase.txid, work.branch, 0) != work.parent[36:68]:
        return "the coinbase that names it is not in the other chain's block"
    return _commitment_fault(work, _climb(sha256d(header), work.chains, work.chain_index)[::-1], chain)


def _climb(digest: bytes, branch: tuple[bytes, ...], index: int) -> bytes:
    for other in branch:
        digest = sha256d(other + digest if index & 1 else digest + other)
        index >>= 1
    return digest


def _commitment_fault(work: MergedWork, root: bytes, chain: int) -> str | None:
    """What is wrong with how the coinbase names `root` (display order), None when it does so as it must."""
    script = work.coinbase.inputs[0].script
    at = script.find(root)
    if at < 0:
        return "the other chain's coinbase does not name it"
    marks = script.count(_MARK)
    if marks > 1 or (marks and script.find(_MARK) + len(_MARK) != at) or (not marks and at > _UNMARKED_WITHIN):
        return "the other chain's coinbase does not name it where it must"
    size = int.from_bytes(script[at + 32 : at + 36], "little")
    nonce = int.from_bytes(script[at + 36 : at + 40], "little")
    if len(script) < at + 40 or size != 1 << len(work.chains):
        return "the other chain's coinbase tells another number of chains than its merkle branch"
    if work.chain_index != index_of(nonce, len(work.chains), chain):
        return "it does not stand in its place among the chains mined together"
    return None


def index_of(nonce: int, height: int, chain: int = CHAIN_ID) -> int:
    """The index of a chain among 2^height: a pseudo-random one, so that it cannot be mined twice with one work."""
    value = (nonce * 1103515245 + 12345) & 0xFFFFFFFF
    value = ((value + chain) * 1103515245 + 12345) & 0xFFFFFFFF
    return value % (1 << height)
