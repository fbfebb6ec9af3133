"""Kernels of the hash table of watched outpoints: its fingerprints, and the bitmap that is tested first.

`base` is the memory address of outpoints of 36 bytes each, `pos` a byte offset from it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from parsers.bitcoin.intrinsics import load32, load64
from parsers.jit import compiled, kernel

Words = npt.NDArray[np.uint64]
Watched = tuple[np.uint64, Words, Words]  # the secret key, the table, and the bitmap

_NO_BITS, _ONE = np.uint64(0), np.uint64(1)
_MIX_1, _MIX_2, _MIX_3 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93), np.uint64(0xA0761D6478BD642F)
_S28, _S29, _S32, _S34, _S40 = (np.uint64(n) for n in (28, 29, 32, 34, 40))
_SIX_BITS = np.uint64(63)


@compiled
def fingerprint(base: int, pos: int, key: np.uint64) -> np.uint64:
    """64 bits of the outpoint at `pos` (36 bytes): half the txid and the output number, mixed under a secret key.

    An attacker can search for txids. Sixteen bytes of the txid enter, because a collision on eight bytes would cost
    only 2^38 hashes against 10^8 targets. Never 0, which marks an empty slot.
    """
    mixed = load64(base + pos) ^ key
    mixed = (mixed ^ (mixed >> _S32)) * _MIX_1
    mixed += load64(base + pos + 8) + np.uint64(load32(base + pos + 32)) * _MIX_2
    mixed = (mixed ^ (mixed >> _S32)) * _MIX_3
    mixed ^= mixed >> _S29
    return mixed if mixed != _NO_BITS else _ONE


@compiled
def bloom_bits(mark: np.uint64) -> np.uint64:
    """The two bits that a fingerprint sets in its word of the bitmap."""
    return (_ONE << ((mark >> _S28) & _SIX_BITS)) | (_ONE << ((mark >> _S34) & _SIX_BITS))


@compiled
def holds(mark: np.uint64, table: Words, bloom: Words) -> bool:
    """Whether a fingerprint is in the table; the bitmap, which fits in the cache, rejects most that are not."""
    bits = bloom_bits(mark)
    if bloom[(mark >> _S40) & np.uint64(bloom.size - 1)] & bits != bits:
        return False
    mask = np.uint64(table.size - 1)
    slot = mark & mask
    while table[slot] != _NO_BITS:
        if table[slot] == mark:
            return True
        slot = (slot + _ONE) & mask
    return False


@compiled
def put(mark: np.uint64, table: Words, bloom: Words) -> int:
    """Add a fingerprint to a table that has a free slot; 1 when it is new, 0 when it is a member already."""
    mask = np.uint64(table.size - 1)
    slot = mark & mask
    while table[slot] != _NO_BITS:
        if table[slot] == mark:
            return 0
        slot = (slot + _ONE) & mask
    table[slot] = mark
    bloom[(mark >> _S40) & np.uint64(bloom.size - 1)] |= bloom_bits(mark)
    return 1


@kernel("table", "bloom")
def add_all(base: int, count: int, key: np.uint64, table: Words, bloom: Words) -> int:
    """Add `count` outpoints of 36 bytes each; returns how many are new."""
    new = 0
    for number in range(count):
        new += put(fingerprint(base, number * 36, key), table, bloom)
    return new


@kernel("table", "bloom")
def move_all(old: Words, table: Words, bloom: Words) -> None:
    """Add every fingerprint of one table to another."""
    for mark in old:
        if mark != _NO_BITS:
            put(mark, table, bloom)


@compiled
def remove(mark: np.uint64, table: Words) -> int:
    """Remove a fingerprint and close the gap; 1 when it was a member. Its bits in the bitmap stay set."""
    mask = np.uint64(table.size - 1)
    slot = mark & mask
    while table[slot] != mark:
        if table[slot] == _NO_BITS:
            return 0
        slot = (slot + _ONE) & mask
    gap = slot
    while True:
        slot = (slot + _ONE) & mask
        if table[slot] == _NO_BITS:
            break
        if ((slot - (table[slot] & mask)) & mask) >= ((slot - gap) & mask):
            table[gap] = table[slot]
            gap = slot
    table[gap] = _NO_BITS
    return 1


@kernel("table")
def remove_all(base: int, count: int, key: np.uint64, table: Words) -> int:
    """Remove `count` outpoints of 36 bytes each; returns how many were members."""
    removed = 0
    for number in range(count):
        removed += remove(fingerprint(base, number * 36, key), table)
    return removed


@kernel()
def contains(base: int, key: np.uint64, table: Words, bloom: Words) -> bool:
    """Whether the outpoint at `base` (36 bytes) is in the table."""
    return holds(fingerprint(base, 0, key), table, bloom)


@kernel("fingerprints")
def fingerprint_all(base: int, key: np.uint64, fingerprints: Words) -> None:
    """Fill `fingerprints` with the fingerprints of outpoints of 36 bytes each."""
    for number in range(len(fingerprints)):
        fingerprints[number] = fingerprint(base, number * 36, key)


@kernel("is_member")
def contains_all(fingerprints: Words, table: Words, bloom: Words, is_member: npt.NDArray[np.bool_]) -> None:
    """Set `is_member` to whether the fingerprints are in the table."""
    for number in range(len(fingerprints)):
        is_member[number] = holds(fingerprints[number], table, bloom)
