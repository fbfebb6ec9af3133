"""All headers seen, as a tree: which chain has most work, and where each block's bytes lie.

Columns of numbers rather than objects: 156 bytes of memory a block with its place, measured at 300,000 blocks.
Not for two threads at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_MASK_64 = (1 << 64) - 1
_WORK_LIMIT = (1 << 128) - 1
_FIRST_SLOTS = 1 << 10
_TYPES = {"i": np.int32, "q": np.int64, "Q": np.uint64}


class Place(NamedTuple):
    """Where a block's bytes lie: number of the file, byte offset of its header, size in bytes."""

    file: int
    offset: int
    size: int


def _picked(column: array[int], numbers: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    return np.frombuffer(column, _TYPES[column.typecode])[numbers]


class _Index:
    """Numbers of 32-byte hashes: an open-addressing table of four bytes a slot over the hashes themselves."""

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
        """Take many hashes, none of which is known, nor twice among them."""
        first, last = len(self), len(self) + len(digests) // 32
        self.hashes += digests
        if 2 * last >= len(self._slots):
            self._grow(last)
        else:
            self._insert(first, last)

    def keep(self, numbers: npt.NDArray[np.int64]) -> None:
        self.hashes = bytearray(np.frombuffer(self.hashes, np.uint8).reshape(-1, 32)[numbers].tobytes())
        self._slots = array("i", [-1]) * _FIRST_SLOTS
        self._grow(len(self))

    def _grow(self, count: int) -> None:
        size = len(self._slots)
        while size <= 2 * count:
            size *= 2
        self._slots = array("i", [-1]) * size
        self._insert(0, len(self))

    def _insert(self, first: int, last: int) -> None:
        """Fill in slots, all at once: of hashes that meet in one, the last stays and the others go on to the next."""
        slots = np.frombuffer(self._slots, np.int32)
        keys = np.frombuffer(self.hashes, np.dtype("<u8"), offset=32 * first)[: 4 * (last - first) : 4]
        mask = len(slots) - 1
        at = (keys & np.uint64(mask)).astype(np.int64)
        numbers = np.arange(first, last, dtype=np.int32)
        while len(numbers):
            free = slots[at] < 0
            slots[at[free]] = numbers[free]
            left = slots[at] != numbers
            numbers, at = numbers[left], (at[left] + 1) & mask


class HeaderTree:
    """Blocks by hash, linked to their parents. A block whose parent is unknown is not taken: keep it until it is.

    Of two chains with the same work, the one seen first is best. Numbers of blocks count from 0 in order of arrival, so
    that a parent's is always smaller. `first` is the height of blocks without a parent: 0 where that is genesis.
    """

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self._index = _Index()
        self._parent, self._height = array("i"), array("i")
        self._work_high, self._work_low = array("Q"), array("Q")
        self._bad = bytearray()
        self._best = array("i")
        self.changed = first
        """The lowest height at which the best chain became another since this was last set."""

    def __len__(self) -> int:
        return len(self._parent)

    @property
    def height(self) -> int:
        """The height of the best chain's tip, one below the first when there is none."""
        return self.first + len(self._best) - 1

    def find(self, digest: bytes) -> int | None:
        """The number of the block with this hash (32 bytes, internal order), None when it is unknown."""
        return self._index.find(digest)

    def hash(self, number: int) -> bytes:
        """A block's hash, internal byte order."""
        return self._index.hash(number)

    def height_of(self, number: int) -> int:
        """A block's height; genesis is 0."""
        return self._height[number]

    def parent(self, number: int) -> int | None:
        """The number of a block's parent, None for genesis and where the tree begins."""
        return self._parent[number] if self._parent[number] >= 0 else None

    def work(self, number: int) -> int:
        """The work of a block and all before it in the tree."""
        return self._work_high[number] << 64 | self._work_low[number]

    def is_bad(self, number: int) -> bool:
        """Whether a block, or one before it, was refused."""
        return bool(self._bad[number])

    def at(self, height: int) -> int | None:
        """The number of the best chain's block at a height, None above the tip and below the first."""
        at = height - self.first
        return self._best[at] if 0 <= at < len(self._best) else None

    def best(self) -> Sequence[int]:
        """The numbers of the best chain's blocks, lowest first."""
        return self._best

    def ancestors(self, number: int) -> Iterator[int]:
        """A block and all before it, down to where the tree begins."""
        at: int | None = number
        while at is not None:
            yield at
            at = self.parent(at)

    def add(self, digest: bytes, parent: int | None, work: int) -> int:
        """Take a block that is not known yet, on a parent that is (None: none), worth `work` by itself."""
        number = self._index.add(digest)
        total = min((self.work(parent) if parent is not None else 0) + work, _WORK_LIMIT)
        self._parent.append(-1 if parent is None else parent)
        self._height.append(self.first if parent is None else self._height[parent] + 1)
        self._work_high.append(total >> 64)
        self._work_low.append(total & _MASK_64)
        self._bad.append(parent is not None and self._bad[parent])
        self._consider(number)
        return number

    def extend(self, digests: bytes, works: Sequence[int]) -> None:
        """Take blocks that are not known yet, each on the one before and the first on the tip, worth `works` each."""
        count, number = len(works), len(self)
        tip = self.at(self.height)
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

    def forget(self, but: Sequence[int] = ()) -> npt.NDArray[np.int64]:
        """Forget all blocks beside the best chain `but` these, which hold each one's parent; the numbers of those that
        are kept, which are numbered anew in this order."""
        kept = np.union1d(np.frombuffer(self._best, np.int32), np.array(but, np.int32)).astype(np.int64)
        renamed = np.full(len(self) + 1, -1, np.int32)
        renamed[kept] = np.arange(len(kept))
        self._parent = array("i", renamed[_picked(self._parent, kept)].tobytes())
        self._best = array("i", renamed[np.frombuffer(self._best, np.int32)].tobytes())
        for name in ("_height", "_work_high", "_work_low"):
            column = getattr(self, name)
            setattr(self, name, array(column.typecode, _picked(column, kept).tobytes()))
        self._bad = bytearray(np.frombuffer(self._bad, np.uint8)[kept].tobytes())
        self._index.keep(kept)
        return kept

    def cut(self, height: int) -> None:
        """End the best chain at a height that it has, and forget all that is not on it."""
        self._choose(self.at(height))
        self.forget()

    def refuse(self, number: int) -> None:
        """Leave out a block and all on top of it."""
        self._spread(number, bad=True)

    def accept(self, number: int) -> None:
        """Take a block that was refused, and all on top of it, unless its parent is refused too."""
        parent = self.parent(number)
        if self._bad[number] and (parent is None or not self._bad[parent]):
            self._spread(number, bad=False)

    def _spread(self, number: int, *, bad: bool) -> None:
        """Mark a block and its descendants, and choose the best chain anew."""
        touched = {number}
        self._bad[number] = bad
        for later in range(number + 1, len(self)):
            if self._parent[later] in touched:
                touched.add(later)
                self._bad[later] = bad
        best = max((n for n in range(len(self)) if not self._bad[n]), key=lambda n: (self.work(n), -n), default=None)
        self._choose(best)

    def _consider(self, number: int) -> None:
        """Make a new block the tip if its chain has more work than the best."""
        if self._bad[number] or (self._best and self.work(number) <= self.work(self._best[-1])):
            return
        self._choose(number)

    def _choose(self, tip: int | None) -> None:
        """Rewrite the best chain so that it ends in `tip`; what it shares with the former stays."""
        if tip is None:
            self.changed = self.first
            del self._best[:]
            return
        branch: list[int] = []
        for number in self.ancestors(tip):
            if self.at(self._height[number]) == number:
                break
            branch.append(number)
        start = self._height[tip] - len(branch) + 1
        self.changed = min(self.changed, start)
        del self._best[start - self.first :]
        self._best.extend(reversed(branch))


class PlacedTree(HeaderTree):
    """Such a tree that knows where each block's bytes lie."""

    def __init__(self, first: int = 0) -> None:
        super().__init__(first)
        self._file, self._offset, self._size = array("i"), array("q"), array("q")

    def place(self, number: int) -> Place:
        """Where a block's bytes lie."""
        return Place(self._file[number], self._offset[number], self._size[number])

    def put(self, digest: bytes, parent: int | None, work: int, place: Place) -> int:
        """Take a block that is not known yet, as `add` does, whose bytes lie there."""
        self._file.append(place.file)
        self._offset.append(place.offset)
        self._size.append(place.size)
        return self.add(digest, parent, work)

    def move(self, number: int, place: Place) -> None:
        """Another copy of a block was found, or the first is gone: this one counts, also if it was refused before."""
        self._file[number], self._offset[number], self._size[number] = place
        self.accept(number)
