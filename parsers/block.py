"""Walk a block's bytes and pick the transactions worth reading; everything else is skipped unbuilt.

A block is its 80-byte header, a varint, and that many transactions. All functions take the whole block as bytes or any
contiguous buffer (a memory map of gigabytes is read through once and not copied) and raise BlockError naming the byte
where reading stopped. On chains with `segwit`, bytes may follow the last transaction (Litecoin's MWEB part).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from parsers import block_loop as loop
from parsers import hashing, tx
from parsers.block_candidates import ROWS, Candidate, Candidates
from parsers.block_spenders import Spenders
from parsers.errors import BlockError
from parsers.tx import Outpoint
from parsers.watched import Buffer, Watched, address

__all__ = [
    "Buffer", "Candidate", "Candidates", "Spenders", "Watched", "check", "has_witness", "header", "inputs",
    "merkle_root", "prepare", "spenders", "tx_count", "tx_offsets", "txids", "witness_tree", "worth_reading",
]  # fmt: skip

HEADER = 80
_SMALLEST_TX = 10

_SENTENCES = {
    loop.TRUNCATED: "a transaction is cut short",
    loop.INPUT_COUNT: "the number of inputs does not fit in the block",
    loop.INPUT_SCRIPT: "an unlocking script runs past the end",
    loop.OUTPUT_COUNT: "the number of outputs does not fit in the block",
    loop.OUTPUT_SCRIPT: "a locking script runs past the end",
    loop.WITNESS: "a witness runs past the end",
    loop.MWEB: "a MWEB transaction body is not part of a block",
}


def header(data: Buffer) -> bytes:
    """The first 80 bytes of a block. Raises BlockError when there are fewer."""
    if len(data) < HEADER:
        raise BlockError(f"a block of {len(data)} bytes has no header of 80", len(data))
    return bytes(data[:HEADER])


def tx_count(data: Buffer) -> int:
    """The number of transactions that the block claims. Raises BlockError when that many cannot fit in it."""
    return _start(data)[0]


def _start(data: Buffer) -> tuple[int, int]:
    """The number of transactions and where the first begins."""
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
    """Compile every loop, or load it as an earlier process compiled it, by walking a block of one coinbase."""
    coinbase = b"\1\0\0\0\1" + bytes(36) + bytes(5) + b"\1" + bytes(8) + b"\1\x51" + bytes(4)
    tiny, somebody = bytes(HEADER) + b"\1" + coinbase, Watched([Outpoint(bytes(32), 1)])
    worth_reading(tiny, somebody)
    spenders(tiny, somebody).of([Outpoint(bytes(32), 1)])
    merkle_root(tiny)
    somebody.holding(inputs(tiny, tx_offsets(tiny), somebody)[0])


def worth_reading(data: Buffer, watched: Watched, *, segwit: bool = False, witness: bool = False) -> Candidates:
    """The transactions that spend a watched outpoint or may say something for us, in block order.

    The latter: an output script (with `witness`, also a witness item) with a pushed element that begins with `a2b`, an
    ord envelope that mentions json in a field, or the word `bsv-mcp`. Never misses one; some turn out to be nothing.
    """
    return _scan(data, watched, segwit, loop.SEARCH | loop.SEARCH_WITNESS * witness)


def spenders(data: Buffer, born: Watched, *, segwit: bool = False) -> Spenders:
    """Which transactions spend these outpoints, and an index to follow what those make within the block (law 3b)."""
    count, at = _start(data)
    held, base = address(data)
    index = Spenders(count, held.size, born)
    at, state = index.fill(base, at, held.size, loop.SEGWIT * segwit | loop.PROBE, born)
    _refuse(state, at)
    _trailing(at, held.size, segwit=segwit)
    return index


def _scan(data: Buffer, watched: Watched, segwit: bool, wants: int = 0) -> Candidates:
    count, at = _start(data)
    held, base = address(data)
    found: list[npt.NDArray[np.int64]] = []
    wants |= loop.SEGWIT * segwit | loop.PROBE * bool(watched)
    index = 0
    while index < count:
        rows = np.empty((ROWS if not found else 16 * ROWS, 3), np.int64)
        at, index, used, state = loop.scan(base, at, held.size, index, count, wants, watched.arrays, rows)
        _refuse(state, at)
        found.append(rows[:used])
    _trailing(at, held.size, segwit=segwit)
    return Candidates(found[0].copy() if len(found) == 1 else np.concatenate(found))


def _refuse(state: int, at: int) -> None:
    if state < loop.PLAIN:
        raise BlockError(_SENTENCES[state], at)


def _trailing(at: int, end: int, *, segwit: bool) -> None:
    if at < end and not segwit:
        raise BlockError(f"{end - at:,} bytes follow the last transaction", at)


def inputs(
    data: Buffer, offsets: npt.NDArray[np.int64], watched: Watched, *, segwit: bool = False
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """The outpoints that a block's transactions spend, as fingerprints that `watched.holding` can be asked about, and
    beside each the number of the transaction that spends it; `offsets` are those of `tx_offsets`."""
    held, base = address(data)
    most = held.size // 41 + 1
    marks, owners = np.empty(most, np.uint64), np.empty(most, np.int64)
    used = loop.inputs(base, offsets, loop.SEGWIT * segwit, watched.arrays[0], marks, owners)
    del held
    return marks[:used].copy(), owners[:used].copy()


def tx_offsets(data: Buffer, *, segwit: bool = False) -> npt.NDArray[np.int64]:
    """Where each of the block's n transactions begins and the last one ends: n + 1 byte offsets."""
    return _offsets(data, segwit=segwit)[0]


def check(data: Buffer, *, segwit: bool = False) -> None:
    """Raise BlockError when the block is cut short, or a count or length in it cannot be right."""
    _scan(data, Watched(key=0), segwit)


def _offsets(data: Buffer, *, segwit: bool) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    count, at = _start(data)
    held, base = address(data)
    starts, witnesses = np.zeros(count + 1, np.int64), np.zeros(count if segwit else 0, np.int64)
    at, state = loop.offsets(base, at, held.size, loop.SEGWIT * segwit, starts, witnesses)
    _refuse(state, at)
    _trailing(at, held.size, segwit=segwit)
    return starts, witnesses


def txids(data: Buffer, offsets: npt.NDArray[np.int64] | None = None, *, segwit: bool = False) -> Iterator[bytes]:
    """The txids of a block's transactions (32 bytes, internal order), in order; over the form without witness."""
    return hashing.each(_hashes(data, offsets, segwit=segwit))


def _hashes(data: Buffer, offsets: npt.NDArray[np.int64] | None, *, segwit: bool) -> hashing.Words:
    if not segwit:
        places = tx_offsets(data) if offsets is None else offsets
        return hashing.hash_all(data, places[:-1], places[1:])
    places, witnesses = _offsets(data, segwit=True)
    if witnesses.any():
        bare, places = hashing.without_witness(data, places, witnesses)
        return hashing.hash_all(bare, places[:-1], places[1:])
    return hashing.hash_all(data, places[:-1], places[1:])


def merkle_root(data: Buffer, offsets: npt.NDArray[np.int64] | None = None, *, segwit: bool = False) -> bytes:
    """The root of the transactions' merkle tree (32 bytes, internal order), to be compared with header bytes 36 to 68.

    Raises BlockError for two equal hashes side by side, with which a block of other transactions has the same root
    (CVE-2012-2459).
    """
    return hashing.merkle(_hashes(data, offsets, segwit=segwit)).root


def merkle_tree(data: Buffer, offsets: npt.NDArray[np.int64], *, segwit: bool = False) -> hashing.MerkleTree:
    """As `merkle_root`, with the branches of whatever transactions are wanted. Raises BlockError."""
    return hashing.MerkleTree(_hashes(data, offsets, segwit=segwit))


def witness_tree(data: Buffer, offsets: npt.NDArray[np.int64]) -> hashing.MerkleTree:
    """As `merkle_tree` on chains with segwit, but over the wtxids, the coinbase's being 32 zero bytes (BIP 141)."""
    wtxids = hashing.hash_all(data, offsets[:-1], offsets[1:])
    for number in np.flatnonzero(np.isin(_flags(data, offsets), (8, 9))).tolist():
        raw = bytes(data[offsets[number] : offsets[number + 1]])
        wtxids[number] = np.frombuffer(tx.wtxid(raw), np.uint32)
    wtxids[0] = 0
    return hashing.MerkleTree(wtxids)


def has_witness(data: Buffer, offsets: npt.NDArray[np.int64]) -> bool:
    """Whether a transaction of a block on a chain with segwit carries a witness."""
    return bool(np.isin(_flags(data, offsets), (1, 9)).any())


def _flags(data: Buffer, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """The flag of each transaction (BIP 144: 1 for a witness; Litecoin: 8 for MWEB), 0 for one without a marker."""
    held = np.frombuffer(data, np.uint8)
    return np.where(held[offsets[:-1] + 4] == 0, held[offsets[:-1] + 5], np.uint8(0))
