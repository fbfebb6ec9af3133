"""Walk a block's bytes and select the transactions worth parsing; the others are skipped without building records.

A block is its 80-byte header, a varint, and that many transactions. All functions take the whole block as bytes or any
contiguous buffer (a memory map of gigabytes is read once and not copied) and raise BlockError naming the byte where
the walk stopped. On chains with `segwit`, bytes may follow the last transaction (Litecoin's MWEB part).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from parsers import interpretation
from parsers.bitcoin import block_loop as loop
from parsers.bitcoin import tx
from parsers.bitcoin.batch_sha256 import Hashes, digests, hash_ranges, strip_witnesses
from parsers.bitcoin.candidates import ROWS, SpenderIndex, TxCandidate, TxCandidates
from parsers.bitcoin.merkle_tree import MerkleTree, merkle
from parsers.bitcoin.tx import Outpoint
from parsers.bitcoin.watched_outpoints import MIN_SLOTS, Buffer, WatchedOutpoints, address
from parsers.errors import BlockError

__all__ = [
    "BlockScan", "Buffer", "SpenderIndex", "TxCandidate", "TxCandidates", "WatchedOutpoints", "has_witness", "header",
    "inputs", "is_prepared", "merkle_root", "prepare",
    "scan", "spenders", "tx_offsets", "txids", "witness_tree", "worth_reading",
]  # fmt: skip

HEADER = 80
_SMALLEST_TX = 10

_ERRORS = {
    loop.TRUNCATED: "a transaction is cut short",
    loop.INPUT_COUNT: "the number of inputs does not fit in the block",
    loop.INPUT_SCRIPT: "an unlocking script runs past the end",
    loop.OUTPUT_COUNT: "the number of outputs does not fit in the block",
    loop.OUTPUT_SCRIPT: "a locking script runs past the end",
    loop.WITNESS: "a witness runs past the end",
    loop.MWEB: "a MWEB transaction body is not part of a block",
}


def header(data: Buffer) -> bytes:
    """The header: the first 80 bytes of a block. Raises BlockError when there are fewer."""
    if len(data) < HEADER:
        raise BlockError(f"a block of {len(data)} bytes has no header of 80", len(data))
    return bytes(data[:HEADER])


def first_transaction(data: Buffer) -> tuple[int, int]:
    """The number of transactions that the block states, and the byte offset of the first one. Raises BlockError when
    that many cannot fit in it."""
    first = bytes(data[HEADER : HEADER + 9])
    header(data)
    size = 1 if first[:1] < b"\xfd" else 1 << (first[0] - 0xFC)
    count = int.from_bytes(first[:1] if size == 1 else first[1 : 1 + size], "little")
    start = HEADER + (1 if size == 1 else 1 + size)
    if len(data) < start:
        raise BlockError("the number of transactions is cut short", HEADER)
    if not count:
        raise BlockError("a block without transactions", HEADER)
    if count * _SMALLEST_TX > len(data) - start:
        raise BlockError(f"{count:,} transactions do not fit in {len(data) - start:,} bytes", HEADER)
    return count, start


def prepare() -> None:
    """Compile every loop, or load it from the cache of an earlier process, by walking a block of one coinbase with a
    table that has grown."""
    coinbase = b"\1\0\0\0\1" + bytes(36) + bytes(5) + b"\1" + bytes(8) + b"\1\x51" + bytes(4)
    outpoints = [Outpoint(bytes(32), number) for number in range(MIN_SLOTS)]
    data, watched = bytes(HEADER) + b"\1" + coinbase, WatchedOutpoints(outpoints)
    watched.discard(outpoint for outpoint in outpoints[1:] if outpoint in watched)
    offsets = scan(data, watched).offsets
    spenders(data, offsets, watched).spending([Outpoint(bytes(32), 1)])
    merkle_root(data, offsets)
    watched.contains(inputs(data, offsets, watched)[0])


def is_prepared() -> bool:
    """Whether the loop over a block's bytes is compiled or loaded."""
    return interpretation.is_prepared(loop.scan)


class BlockScan(NamedTuple):
    """The result of one walk over a block's bytes: the transactions worth parsing, the byte offsets of all n
    transactions and of the end of the last one (n + 1), and, on chains with segwit, those of their witnesses (n; 0
    without one)."""

    candidates: TxCandidates
    offsets: npt.NDArray[np.int64]
    witnesses: npt.NDArray[np.int64]


def scan(data: Buffer, watched: WatchedOutpoints, *, segwit: bool = False, witness: bool = False) -> BlockScan:
    """Walk a block once. Its candidates, in block order, spend a watched outpoint or may hold a record of the registry.

    The latter have an output script (with `witness`, also a witness item) with a pushed element that begins with `a2b`,
    an ord envelope that mentions json in a field, or the word `bsv-mcp`. No record is missed; some candidates turn out
    to hold none.
    """
    return _scan(data, watched, segwit, loop.SEARCH | loop.SEARCH_WITNESS * witness)


def worth_reading(
    data: Buffer, watched: WatchedOutpoints, *, segwit: bool = False, witness: bool = False
) -> TxCandidates:
    """The candidates of `scan`."""
    return scan(data, watched, segwit=segwit, witness=witness).candidates


def spenders(
    data: Buffer, offsets: npt.NDArray[np.int64], new_outpoints: WatchedOutpoints, *, segwit: bool = False
) -> SpenderIndex:
    """An index of the transactions that spend these outpoints, to follow their outputs within the block (law 3b).
    `offsets` are those of a scan."""
    array, base = address(data)
    index = SpenderIndex(base, array.size, offsets, loop.SEGWIT * segwit, new_outpoints)
    del array
    return index


INTERPRETED_BYTES = 1 << 18
"""Bytes of a block that is walked while kernels are interpreted, in a quarter of a second; larger ones wait."""


def _scan(data: Buffer, watched: WatchedOutpoints, segwit: bool, options: int = 0) -> BlockScan:
    if len(data) > INTERPRETED_BYTES:
        interpretation.wait_while_interpreted(loop.scan)
    count, pos = first_transaction(data)
    array, base = address(data)
    batches: list[npt.NDArray[np.int64]] = []
    starts, witnesses = np.zeros(count + 1, np.int64), np.zeros(count if segwit else 0, np.int64)
    options |= loop.SEGWIT * segwit | loop.PROBE * bool(watched)
    index = 0
    while index < count:
        rows = np.empty((ROWS if not batches else 16 * ROWS, 3), np.int64)
        pos, index, used, outcome = loop.scan(
            base, pos, array.size, index, options, watched.arrays, rows, starts, witnesses
        )
        if outcome < loop.PLAIN:
            raise BlockError(_ERRORS[outcome], pos)
        batches.append(rows[:used])
    if pos < array.size and not segwit:
        raise BlockError(f"{array.size - pos:,} bytes follow the last transaction", pos)
    candidates = TxCandidates(batches[0].copy() if len(batches) == 1 else np.concatenate(batches))
    return BlockScan(candidates, starts, witnesses)


def inputs(
    data: Buffer, offsets: npt.NDArray[np.int64], watched: WatchedOutpoints, *, segwit: bool = False
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """The outpoints that a block's transactions spend: their fingerprints for `watched.contains`, and the numbers of
    the spending transactions, in the same order. `offsets` are those of `tx_offsets`."""
    array, base = address(data)
    bound = array.size // 41 + 1
    fingerprints, numbers = np.empty(bound, np.uint64), np.empty(bound, np.int64)
    used = loop.inputs(base, offsets, loop.SEGWIT * segwit, watched.arrays[0], fingerprints, numbers)
    del array
    return fingerprints[:used].copy(), numbers[:used].copy()


def tx_offsets(data: Buffer, *, segwit: bool = False) -> npt.NDArray[np.int64]:
    """The byte offsets of the block's n transactions and of the end of the last one: n + 1 numbers. Raises BlockError
    when the block is truncated, or a count or length in it cannot be right."""
    return _scan(data, WatchedOutpoints(key=0), segwit).offsets


def txids(data: Buffer, offsets: npt.NDArray[np.int64] | None = None, *, segwit: bool = False) -> Iterator[bytes]:
    """The txids of a block's transactions (32 bytes, internal byte order), in order; over the form without witness."""
    return digests(_hashes(data, offsets, None, segwit=segwit))


def _hashes(
    data: Buffer,
    offsets: npt.NDArray[np.int64] | None,
    witnesses: npt.NDArray[np.int64] | None,
    *,
    segwit: bool,
) -> Hashes:
    if not segwit:
        offsets = tx_offsets(data) if offsets is None else offsets
        return hash_ranges(data, offsets[:-1], offsets[1:])
    if offsets is None or witnesses is None:
        _, offsets, witnesses = _scan(data, WatchedOutpoints(key=0), segwit=True)
    if witnesses.any():
        stripped, targets = strip_witnesses(data, offsets, witnesses)
        return hash_ranges(stripped, targets[:-1], targets[1:])
    return hash_ranges(data, offsets[:-1], offsets[1:])


def merkle_root(data: Buffer, offsets: npt.NDArray[np.int64] | None = None, *, segwit: bool = False) -> bytes:
    """The root of the transactions' merkle tree (32 bytes, internal byte order), to compare with header bytes 36 to 68.

    Raises BlockError for two equal sibling hashes, which let a block of other transactions have the same root
    (CVE-2012-2459).
    """
    return merkle(_hashes(data, offsets, None, segwit=segwit)).root


def merkle_tree(
    data: Buffer,
    offsets: npt.NDArray[np.int64],
    witnesses: npt.NDArray[np.int64] | None = None,
    *,
    segwit: bool = False,
) -> MerkleTree:
    """The merkle tree of the txids, for branches of single transactions; `offsets` and `witnesses` are those of a scan.
    Raises BlockError as `merkle_root` does."""
    return MerkleTree(_hashes(data, offsets, witnesses, segwit=segwit))


def witness_tree(data: Buffer, offsets: npt.NDArray[np.int64]) -> MerkleTree:
    """The merkle tree of the wtxids, that of the coinbase being 32 zero bytes (BIP 141). Raises BlockError."""
    wtxids = hash_ranges(data, offsets[:-1], offsets[1:])
    for number in np.flatnonzero(np.isin(_flags(data, offsets), (8, 9))).tolist():
        raw = bytes(data[offsets[number] : offsets[number + 1]])
        wtxids[number] = np.frombuffer(tx.wtxid(raw), np.uint32)
    wtxids[0] = 0
    return MerkleTree(wtxids)


def has_witness(data: Buffer, offsets: npt.NDArray[np.int64]) -> bool:
    """Whether any transaction of a block, on a chain with segwit, has a witness."""
    return bool(np.isin(_flags(data, offsets), (1, 9)).any())


def _flags(data: Buffer, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """The flag of each transaction (BIP 144: 1 for a witness; Litecoin: 8 for MWEB), 0 for one without a marker."""
    octets = np.frombuffer(data, np.uint8)
    return np.where(octets[offsets[:-1] + 4] == 0, octets[offsets[:-1] + 5], np.uint8(0))
