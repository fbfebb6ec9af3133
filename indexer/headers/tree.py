"""A tree of headers: the chain with the most work, and the location of each block's bytes.

Columns of numbers instead of objects: 156 bytes of memory for a block with its location, measured at 300,000 blocks.
Not thread-safe.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import accumulate
from typing import NamedTuple

_MASK_64 = (1 << 64) - 1
_WORK_LIMIT = (1 << 128) - 1
_FIRST_SLOTS = 1 << 10
_BULK = 1 << 14
"""Hashes from which on numpy, where it is installed, fills in slots: it takes a tenth of the time of a loop."""


class BlockLocation(NamedTuple):
    """The location of a block: number of the file, byte offset of its header, size in bytes."""

    file: int
    offset: int
    size: int


def _picked(column: array[int], numbers: Sequence[int]) -> array[int]:
    return array(column.typecode, map(column.__getitem__, numbers))


class _Index:
    """Maps 32-byte hashes to numbers: an open-addressing table with slots of four bytes over the hashes."""

    def __init__(self) -> None:
        self.hashes = bytearray()
        self._slots = array("i", [-1]) * _FIRST_SLOTS

    def __len__(self) -> int:
        return len(self.hashes) // 32

    def _slot(self, digest: bytes) -> int:
        mask = len(self._slots) - 1
        slot = int.from_bytes(digest[:8], "little") & mask
        while (number := self._slots[slot]) >= 0 and self.hash(number) != digest:
            slot = (slot + 1) & mask
        return slot

    def hash(self, number: int) -> bytes:
        return bytes(self.hashes[32 * number : 32 * number + 32])

    def find(self, digest: bytes) -> int | None:
        number = self._slots[self._slot(digest)]
        return number if number >= 0 else None

    def add(self, digest: bytes) -> int:
        number = len(self)
        if 2 * number >= len(self._slots):
            self._grow(number + 1)
        self._slots[self._slot(digest)] = number
        self.hashes += digest
        return number

    def extend(self, digests: bytes) -> None:
        """Add many hashes, all new and distinct."""
        first, last = len(self), len(self) + len(digests) // 32
        self.hashes += digests
        if 2 * last >= len(self._slots):
            self._grow(last)
        else:
            self._insert(first, last)

    def keep(self, numbers: Sequence[int]) -> None:
        self.hashes = bytearray().join(map(self.hash, numbers))
        self._slots = array("i", [-1]) * _FIRST_SLOTS
        self._grow(len(self))

    def _grow(self, count: int) -> None:
        size = len(self._slots)
        while size <= 2 * count:
            size *= 2
        self._slots = array("i", [-1]) * size
        self._insert(0, len(self))

    def _insert(self, first: int, last: int) -> None:
        if last - first >= _BULK and find_spec("numpy"):
            self._insert_in_bulk(first, last)
            return
        for number in range(first, last):
            self._slots[self._slot(self.hash(number))] = number

    def _insert_in_bulk(self, first: int, last: int) -> None:
        """Fill in slots at once: of hashes that collide, the last one stays and the others probe the next slot."""
        import numpy as np

        slots = np.frombuffer(self._slots, np.int32)
        keys = np.frombuffer(self.hashes, np.dtype("<u8"), offset=32 * first)[: 4 * (last - first) : 4]
        mask = len(slots) - 1
        positions = (keys & np.uint64(mask)).astype(np.int64)
        numbers = np.arange(first, last, dtype=np.int32)
        while len(numbers):
            free = slots[positions] < 0
            slots[positions[free]] = numbers[free]
            left = slots[positions] != numbers
            numbers, positions = numbers[left], (positions[left] + 1) & mask


class HeaderTree:
    """Blocks by hash, linked to their parents. The caller holds back blocks with an unknown parent.

    Of two chains with the same work, the one seen first is best. Blocks are numbered from 0 in order of arrival: a
    parent has a smaller number. `first` is the height of blocks without a parent: 0 for genesis.
    """

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self._index = _Index()
        self._parent, self._height = array("i"), array("i")
        self._work_high, self._work_low = array("Q"), array("Q")
        self._bad = bytearray()
        self._best = array("i")
        self.changed = first
        """The lowest height at which the best chain has changed since this was last set."""

    def __len__(self) -> int:
        return len(self._parent)

    @property
    def height(self) -> int:
        """The height of the best chain's tip; `first` - 1 without blocks."""
        return self.first + len(self._best) - 1

    def find(self, digest: bytes) -> int | None:
        """The number of the block with this hash (32 bytes, internal order), None if it is unknown."""
        return self._index.find(digest)

    def hash(self, number: int) -> bytes:
        """A block's hash, internal byte order."""
        return self._index.hash(number)

    def height_of(self, number: int) -> int:
        """A block's height; genesis is 0."""
        return self._height[number]

    def parent(self, number: int) -> int | None:
        """The number of a block's parent, None for genesis and the first block of the tree."""
        return self._parent[number] if self._parent[number] >= 0 else None

    def work(self, number: int) -> int:
        """The cumulative work of a block and its ancestors in the tree."""
        return self._work_high[number] << 64 | self._work_low[number]

    def is_bad(self, number: int) -> bool:
        """Whether a block or one of its ancestors was refused."""
        return bool(self._bad[number])

    def number_at(self, height: int) -> int | None:
        """The number of the best chain's block at a height, None above the tip and below the first."""
        index = height - self.first
        return self._best[index] if 0 <= index < len(self._best) else None

    def best(self) -> Sequence[int]:
        """The numbers of the best chain's blocks, lowest first."""
        return self._best

    def ancestors(self, number: int) -> Iterator[int]:
        """A block and its ancestors, down to the first block of the tree."""
        current: int | None = number
        while current is not None:
            yield current
            current = self.parent(current)

    def add(self, digest: bytes, parent: int | None, work: int) -> int:
        """Add a new block with its `work` on a parent in the tree (None: no parent)."""
        number = self._index.add(digest)
        total = min((self.work(parent) if parent is not None else 0) + work, _WORK_LIMIT)
        self._parent.append(-1 if parent is None else parent)
        self._height.append(self.first if parent is None else self._height[parent] + 1)
        self._work_high.append(total >> 64)
        self._work_low.append(total & _MASK_64)
        self._bad.append(parent is not None and self._bad[parent])
        if not self._bad[number] and (not self._best or self.work(number) > self.work(self._best[-1])):
            self._choose(number)  # its chain has more work than the best chain
        return number

    def extend(self, digests: bytes, works: Sequence[int]) -> None:
        """Add new blocks, the first on the tip and each on the one before, with `works` of their own."""
        count, number = len(works), len(self)
        tip = self.number_at(self.height)
        self._index.extend(digests)
        self._parent.extend([-1 if tip is None else tip, *range(number, number + count - 1)])
        self._height.extend(range(self.height + 1, self.height + 1 + count))
        totals = list(accumulate(works, initial=0 if tip is None else self.work(tip)))[1:]
        if totals and totals[-1] > _WORK_LIMIT:
            totals = [min(total, _WORK_LIMIT) for total in totals]
        self._work_high.extend([total >> 64 for total in totals])
        self._work_low.extend([total & _MASK_64 for total in totals])
        self._bad += bytes(count)
        self.changed = min(self.changed, self.height + 1)
        self._best.extend(range(number, number + count))

    def forget(self, but: Sequence[int] = ()) -> list[int]:
        """Drop all blocks that are not on the best chain, except `but`, which include their parents. Returns the old
        numbers of the remaining blocks, which are renumbered in this order."""
        remaining = sorted({*self._best, *but})
        renamed = {number: position for position, number in enumerate(remaining)}
        parents = _picked(self._parent, remaining)
        self._parent = array("i", (renamed.get(parent, -1) for parent in parents))
        self._best = array("i", map(renamed.__getitem__, self._best))
        for name in ("_height", "_work_high", "_work_low"):
            setattr(self, name, _picked(getattr(self, name), remaining))
        self._bad = bytearray(map(self._bad.__getitem__, remaining))
        self._index.keep(remaining)
        return remaining

    def cut(self, height: int) -> None:
        """Truncate the best chain to a height, and drop all other blocks."""
        self._choose(self.number_at(height))
        self.forget()

    def refuse(self, number: int) -> None:
        """Exclude a block and its descendants."""
        self._spread(number, bad=True)

    def accept(self, number: int) -> None:
        """Include a refused block and its descendants again, unless its parent is refused."""
        parent = self.parent(number)
        if self._bad[number] and (parent is None or not self._bad[parent]):
            self._spread(number, bad=False)

    def best_refused(self) -> int | None:
        """The refused block with the most work, if that is more than the best chain has: the chain ends too early."""
        refused = (match.start() for match in re.finditer(b"\x01", self._bad))
        best = max(refused, key=self.work, default=None)
        most = self.work(self._best[-1]) if self._best else -1
        return best if best is not None and self.work(best) > most else None

    def _spread(self, number: int, *, bad: bool) -> None:
        """Mark a block and its descendants, and select the best chain."""
        touched = {number}
        self._bad[number] = bad
        for later in range(number + 1, len(self)):
            if self._parent[later] in touched:
                touched.add(later)
                self._bad[later] = bad
        best = max((n for n in range(len(self)) if not self._bad[n]), key=lambda n: (self.work(n), -n), default=None)
        self._choose(best)

    def _choose(self, tip: int | None) -> None:
        """Make `tip` the end of the best chain. Blocks below the fork stay."""
        if tip is None:
            self.changed = self.first
            del self._best[:]
            return
        branch: list[int] = []
        for number in self.ancestors(tip):
            if self.number_at(self._height[number]) == number:
                break
            branch.append(number)
        start = self._height[tip] - len(branch) + 1
        self.changed = min(self.changed, start)
        del self._best[start - self.first :]
        self._best.extend(reversed(branch))


class LocatedTree(HeaderTree):
    """A header tree with the location of each block's bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._file, self._offset, self._size = array("i"), array("q"), array("q")

    def location(self, number: int) -> BlockLocation:
        """The location of a block's bytes."""
        return BlockLocation(self._file[number], self._offset[number], self._size[number])

    def put(self, digest: bytes, parent: int | None, work: int, location: BlockLocation) -> int:
        """Add a new block as `add` does, with its location."""
        self._file.append(location.file)
        self._offset.append(location.offset)
        self._size.append(location.size)
        return self.add(digest, parent, work)

    def move(self, number: int, location: BlockLocation) -> None:
        """Use another copy of a block, and include the block again if it was refused."""
        self._file[number], self._offset[number], self._size[number] = location
        self.accept(number)
