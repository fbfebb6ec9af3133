"""The outpoints being followed, as a hash table in which the block walk looks up every input."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt

from parsers.bitcoin import outpoint_table as table_kernels
from parsers.bitcoin.tx import Outpoint

Buffer = bytes | bytearray | memoryview

MIN_SLOTS = 64
_BATCH = 1 << 16


def address(data: Buffer | npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint8], int]:
    """The bytes as an array, uncopied, and its memory address; the array must outlive every use of the address."""
    array = np.frombuffer(data, np.uint8)
    return array, int(array.__array_interface__["data"][0])


class WatchedOutpoints:
    """A set of 10^6 to 10^8 outpoints, stored as 64-bit fingerprints under a secret key.

    At 10^8 members one lookup in 10^11 is a false positive, which costs the caller one further look-up; without the
    key nobody can provoke one. Memory: 9 bytes a slot, 12 to 24 bytes a member. It must not change while another
    thread walks a block with it.
    """

    __slots__ = ("_bloom", "_deleted", "_key", "_size", "_table")

    def __init__(self, outpoints: Iterable[Outpoint] = (), *, key: int | None = None) -> None:
        self._key = np.uint64(secrets.randbits(64) if key is None else key)
        self._size = self._deleted = 0
        self._table = np.zeros(MIN_SLOTS, np.uint64)
        self._bloom = np.zeros(MIN_SLOTS // 8, np.uint64)
        self.add(outpoints)

    def __len__(self) -> int:
        return self._size

    def __contains__(self, outpoint: Outpoint) -> bool:
        packed, base = address(outpoint.pack())
        is_member = table_kernels.contains(base, self._key, self._table, self._bloom)
        del packed
        return bool(is_member)

    @property
    def arrays(self) -> tuple[np.uint64, npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Key, table and bitmap: the arguments of compiled loops."""
        return self._key, self._table, self._bloom

    def contains(self, fingerprints: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """A boolean for each fingerprint made with the same key (see `block.inputs`): whether it is of a member."""
        is_member = np.zeros(len(fingerprints), np.bool_)
        if self._size:
            table_kernels.contains_all(fingerprints, self._table, self._bloom, is_member)
        return is_member

    def add(self, outpoints: Iterable[Outpoint]) -> None:
        """Add outpoints; one that is a member already stays once."""
        for packed in batches(outpoints):
            self.add_packed(packed)

    def add_packed(self, packed: Buffer) -> None:
        """Add outpoints of 36 bytes each (the format of `Outpoint.pack`), concatenated."""
        count, slots = len(packed) // 36, self._table.size
        while (self._size + count) * 4 > slots * 3:  # beyond three slots in four, lookups of non-members probe too long
            slots *= 2
        if slots != self._table.size:
            self._resize(slots)
        data, base = address(packed)
        self._size += table_kernels.add_all(base, count, self._key, self._table, self._bloom)
        del data

    def discard(self, outpoints: Iterable[Outpoint]) -> None:
        """Remove outpoints; those that are not members are ignored."""
        for packed in batches(outpoints):
            data, base = address(packed)
            removed = table_kernels.remove_all(base, len(packed) // 36, self._key, self._table)
            del data
            self._size -= removed
            self._deleted += removed
        if self._deleted > self._table.size // 4:
            self._resize(self._table.size)

    def _resize(self, size: int) -> None:
        """Move to a table of `size` slots with a bitmap of eight bits a slot, without the bits of removed members."""
        table, bloom = np.zeros(size, np.uint64), np.zeros(size // 8, np.uint64)
        table_kernels.move_all(self._table, table, bloom)
        self._table, self._bloom, self._deleted = table, bloom, 0


def batches(outpoints: Iterable[Outpoint]) -> Iterator[bytes]:
    """Outpoints of 36 bytes each (the format of `Outpoint.pack`), concatenated, at most 65,536 in a batch."""
    remaining = iter(outpoints)
    while packed := b"".join([outpoint.pack() for outpoint in islice(remaining, _BATCH)]):
        yield packed
