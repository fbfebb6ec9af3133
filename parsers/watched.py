"""The outpoints being followed, as a hash table that the block walker asks about every input."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt

from parsers import block_loop as loop
from parsers.tx import Outpoint

Buffer = bytes | bytearray | memoryview

_SMALLEST = 64
_BATCH = 1 << 16


def address(data: Buffer | npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint8], int]:
    """The bytes as an array, to be kept alive while its address (the second) is in use. No byte is copied."""
    array = np.frombuffer(data, np.uint8)
    return array, int(array.__array_interface__["data"][0])


class Watched:
    """A set of outpoints kept as 64-bit fingerprints under a secret key, for 10^6 to 10^8 of them.

    A stranger is taken for a member once in 10^11 questions at 10^8 members, and nobody can make that happen without
    the key; it costs the caller one look-up. Memory: 9 bytes a slot, 12 to 24 bytes a member. Not to be changed while
    another thread walks a block with it.
    """

    __slots__ = ("_bloom", "_gone", "_key", "_size", "_table")

    def __init__(self, outpoints: Iterable[Outpoint] = (), *, key: int | None = None) -> None:
        self._key = np.uint64(secrets.randbits(64) if key is None else key)
        self._size = self._gone = 0
        self._table = np.zeros(_SMALLEST, np.uint64)
        self._bloom = np.zeros(_SMALLEST // 8, np.uint64)
        self.add(outpoints)

    def __len__(self) -> int:
        return self._size

    def __contains__(self, outpoint: Outpoint) -> bool:
        packed, base = address(outpoint.pack())
        found = loop.known(base, self._key, self._table, self._bloom)
        del packed
        return bool(found)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the table and its bitmap take."""
        return self._table.nbytes + self._bloom.nbytes

    @property
    def arrays(self) -> tuple[np.uint64, npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Key, table and bitmap, as the compiled loop takes them."""
        return self._key, self._table, self._bloom

    def holding(self, marks: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Of fingerprints under the same key (see `block.inputs`), whether each is of a member."""
        found = np.zeros(len(marks), np.bool_)
        if self._size:
            loop.which(marks, self._table, self._bloom, found)
        return found

    def add(self, outpoints: Iterable[Outpoint]) -> None:
        """Watch these too; one that is watched already stays once."""
        for packed in batches(outpoints):
            self.add_packed(packed)

    def add_packed(self, packed: Buffer) -> None:
        """Watch outpoints given as 36 bytes each (as `Outpoint.pack` writes them), one after the other."""
        count = len(packed) // 36
        self._reserve(self._size + count)
        data, base = address(packed)
        self._size += loop.add_all(base, count, self._key, self._table, self._bloom)
        del data

    def discard(self, outpoints: Iterable[Outpoint]) -> None:
        """Watch these no longer; those that were not watched do not matter."""
        for packed in batches(outpoints):
            data, base = address(packed)
            gone = loop.take_all(base, len(packed) // 36, self._key, self._table)
            del data
            self._size -= gone
            self._gone += gone
        if self._gone > self._table.size // 4:
            self._resize(self._table.size)

    def _reserve(self, members: int) -> None:
        """Grow so that at most three slots in four are taken: beyond that, misses probe too long."""
        size = self._table.size
        while members * 4 > size * 3:
            size *= 2
        if size != self._table.size:
            self._resize(size)

    def _resize(self, size: int) -> None:
        """Move to a table of `size` slots with a fresh bitmap of eight bits a slot, forgetting what was discarded."""
        table, bloom = np.zeros(size, np.uint64), np.zeros(size // 8, np.uint64)
        loop.move_all(self._table, table, bloom)
        self._table, self._bloom, self._gone = table, bloom, 0


def batches(outpoints: Iterable[Outpoint]) -> Iterator[bytes]:
    """Outpoints as 36 bytes each (as `Outpoint.pack` writes them), joined, at most 65,536 at once."""
    rest = iter(outpoints)
    while packed := b"".join([outpoint.pack() for outpoint in islice(rest, _BATCH)]):
        yield packed
