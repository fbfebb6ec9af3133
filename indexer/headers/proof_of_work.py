"""Proof of work: targets, work, and merge-mined proofs (AuxPoW)."""

from __future__ import annotations

from typing import NamedTuple

from parsers.bitcoin import tx
from parsers.bitcoin.tx import Transaction, sha256d
from parsers.errors import BlockError

HEADER_BYTES = 80
DOGECOIN_CHAIN_ID = 0x62

_WORK_LIMIT = (1 << 128) - 1
_AUXPOW_BIT = 0x100
_BRANCH_LIMIT = 30
_MARK = bytes.fromhex("fabe6d6d")
_UNMARKED_WITHIN = 20


def target(bits: int) -> int:
    """The target that a block's hash must not exceed, from the compact form in its header; 0 for invalid bits.

    The compact form is a float of base 256: an exponent byte and a signed mantissa of 23 bits. Negative targets
    and those above 256 bits are invalid.
    """
    exponent, mantissa = bits >> 24, bits & 0x7FFFFF
    if bits & 0x800000 or not mantissa:
        return 0
    value = mantissa << 8 * (exponent - 3) if exponent > 3 else mantissa >> 8 * (3 - exponent)
    return value if value < 1 << 256 else 0


def work(bits: int) -> int:
    """The expected number of hashes to meet these bits; at most 2^128 - 1, 0 for invalid bits."""
    limit = target(bits)
    return min((1 << 256) // (limit + 1), _WORK_LIMIT) if limit else 0


def is_met(digest: bytes, bits: int) -> bool:
    """Whether a hash (32 bytes, internal byte order) meets the target of these bits."""
    return 0 < int.from_bytes(digest, "little") <= target(bits)


def compact(value: int) -> int:
    """The bits of a target (0 < value < 2^256), rounded down to what bits can represent."""
    size = (value.bit_length() + 7) // 8
    mantissa = value << 8 * (3 - size) if size <= 3 else value >> 8 * (size - 3)
    if mantissa & 0x800000:
        mantissa, size = mantissa >> 8, size + 1
    return size << 24 | mantissa


def is_merge_mined(header: bytes) -> bool:
    """Whether the version of a header (80 bytes) signals merge mining: an AuxPoW follows it."""
    return bool(int.from_bytes(header[:4], "little") & _AUXPOW_BIT)


def header_end(raw: bytes, offset: int = 0) -> int:
    """The end of the header at byte `offset`: after its 80 bytes, and after its AuxPoW if it has one.

    An AuxPoW is a coinbase, a hash, two merkle branches and a header of 80 bytes. Raises ParseError.
    """
    end = offset + HEADER_BYTES
    if end > len(raw):
        raise BlockError("a header runs past the end", len(raw))
    return _auxpow(raw, end)[1] if is_merge_mined(raw[offset : offset + 4]) else end


def strip_auxpow(data: memoryview) -> memoryview:
    """A block without its AuxPoW: the header is moved in front of the transactions, in place if `data` is writable,
    else in a copy. Raises ParseError."""
    if not is_merge_mined(bytes(data[:4])):
        return data
    end = header_end(bytes(data))
    if data.readonly:
        data = memoryview(bytearray(data))
    data[end - HEADER_BYTES : end] = bytes(data[:HEADER_BYTES])
    return data[end - HEADER_BYTES :]


class AuxPow(NamedTuple):
    """The proof after a merge-mined header: the parent chain's coinbase, its merkle branch and index, the merkle branch
    and index of this chain among the merge-mined ones, and the parent chain's header of 80 bytes."""

    coinbase: Transaction
    branch: tuple[bytes, ...]
    coinbase_index: int
    chains: tuple[bytes, ...]
    chain_index: int
    parent: bytes


def read_auxpow(data: bytes) -> AuxPow:
    """Parse the AuxPoW that follows a merge-mined header. Raises ParseError."""
    work, end = _auxpow(data, 0)
    if end < len(data):
        raise BlockError(f"{len(data) - end:,} bytes follow the other chain's proof of work", end)
    return work


def _auxpow(data: bytes, offset: int) -> tuple[AuxPow, int]:
    """The AuxPoW at byte `offset`, and the offset after it."""
    coinbase = tx.read(data, offset)
    branch, index, offset = _branch(data, offset + coinbase.size + 32)
    chains, chain_index, offset = _branch(data, offset)
    end = offset + HEADER_BYTES
    if end > len(data):
        raise BlockError("the other chain's header runs past the end", offset)
    return AuxPow(coinbase, branch, index, chains, chain_index, data[offset:end]), end


def _branch(data: bytes, offset: int) -> tuple[tuple[bytes, ...], int, int]:
    """A merkle branch at byte `offset`: its hashes, the index of its leaf, and the offset after it."""
    count = data[offset] if offset < len(data) else _BRANCH_LIMIT + 1
    start, end = offset + 1, offset + 1 + 32 * count
    if count > _BRANCH_LIMIT or end + 4 > len(data):
        raise BlockError(f"a merkle branch is longer than {_BRANCH_LIMIT} hashes, or runs past the end", offset)
    hashes = tuple(data[position : position + 32] for position in range(start, end, 32))
    return hashes, int.from_bytes(data[end : end + 4], "little"), end + 4


def auxpow_fault(header: bytes, work: AuxPow, *, strict: bool = True) -> str | None:
    """Why the work on `work.parent` does not commit to this header, or None if it does.

    Does not check that the work is enough. `strict`: versions must contain chain ids, as on all networks except
    Dogecoin's testnet.
    """
    chain = int.from_bytes(header[2:4], "little")
    if strict and chain != DOGECOIN_CHAIN_ID:
        return f"its version names chain {chain:#x} where {DOGECOIN_CHAIN_ID:#x} is expected"
    if strict and int.from_bytes(work.parent[2:4], "little") == chain:
        return "it was mined together with its own chain"
    if work.coinbase_index != 0 or not work.coinbase.inputs:
        return "the transaction that names it is not a coinbase"
    if _climb(work.coinbase.txid, work.branch, 0) != work.parent[36:68]:
        return "the coinbase that names it is not in the other chain's block"
    return _commitment_fault(work, _climb(sha256d(header), work.chains, work.chain_index)[::-1], chain)


def _climb(digest: bytes, branch: tuple[bytes, ...], index: int) -> bytes:
    for other in branch:
        digest = sha256d(other + digest if index & 1 else digest + other)
        index >>= 1
    return digest


def _commitment_fault(work: AuxPow, root: bytes, chain: int) -> str | None:
    """Why the coinbase does not commit to `root` (display order) correctly, or None if it does."""
    script = work.coinbase.inputs[0].script
    offset = script.find(root)
    if offset < 0:
        return "the other chain's coinbase does not name it"
    marks = script.count(_MARK)
    if marks > 1 or (marks and script.find(_MARK) + len(_MARK) != offset) or (not marks and offset > _UNMARKED_WITHIN):
        return "the other chain's coinbase does not name it where it must"
    size = int.from_bytes(script[offset + 32 : offset + 36], "little")
    nonce = int.from_bytes(script[offset + 36 : offset + 40], "little")
    if len(script) < offset + 40 or size != 1 << len(work.chains):
        return "the other chain's coinbase has another number of chains than its merkle branch"
    if work.chain_index != auxpow_chain_index(nonce, len(work.chains), chain):
        return "its index among the merge-mined chains is wrong"
    return None


def auxpow_chain_index(nonce: int, height: int, chain: int = DOGECOIN_CHAIN_ID) -> int:
    """The index of a chain among 2^height: pseudo-random, so that one work cannot count twice for the same chain."""
    value = (nonce * 1103515245 + 12345) & 0xFFFFFFFF
    value = ((value + chain) * 1103515245 + 12345) & 0xFFFFFFFF
    return value % (1 << height)
