"""All headers seen, as a tree: which chain has most work, and where each block's bytes lie.

Columns of numbers rather than objects: 156 bytes of memory a block, measured at 300,000 blocks.
Not for two threads at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

_MASK_64 = (1 << 64) - 1
_FIRST_SLOTS = 1 << 10


class Place(NamedTuple):
    """Where a block's bytes lie: number of the file, byte offset of its header, size in bytes."""

    file: int
    offset: int
    size: int


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
            self._slots = array("i", [-1]) * (2 * len(self._slots))
            for known in range(number):
                self._slots[self._slot(self.hash(known))] = known
        self._slots[self._slot(digest)] = number
        self.hashes += digest
        return number


class HeaderTree:
    """Blocks by hash, linked to their parents. A block whose parent is unknown is not taken: keep it until it is.

    Of two chains with the same work, the one seen first is best. Numbers of blocks count from 0 in order of arrival, so
    that a parent's is always smaller.
    """

    def __init__(self) -> None:
        self._index = _Index()
        self._parent, self._height, self._file = array("i"), array("i"), array("i")
        self._offset, self._size = array("q"), array("q")
        self._work_high, self._work_low = array("Q"), array("Q")
        self._bad = bytearray()
        self._best = array("i")

    def __len__(self) -> int:
        return len(self._parent)

    @property
    def height(self) -> int:
        """The height of the best chain's tip, -1 when there is none."""
        return len(self._best) - 1

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
        """The number of a block's parent, None for genesis."""
        return self._parent[number] if self._parent[number] >= 0 else None

    def place(self, number: int) -> Place:
        """Where a block's bytes lie."""
        return Place(self._file[number], self._offset[number], self._size[number])

    def work(self, number: int) -> int:
        """The work of a block and all before it."""
        return self._work_high[number] << 64 | self._work_low[number]

    def is_bad(self, number: int) -> bool:
        """Whether a block, or one before it, was refused."""
        return bool(self._bad[number])

    def at(self, height: int) -> int | None:
        """The number of the best chain's block at a height, None above the tip and below genesis."""
        return self._best[height] if 0 <= height < len(self._best) else None

    def ancestors(self, number: int) -> Iterator[int]:
        """A block and all before it, down to genesis."""
        at: int | None = number
        while at is not None:
            yield at
            at = self.parent(at)

    def add(self, digest: bytes, parent: int | None, work: int, place: Place) -> int:
        """Take a block that is not known yet, on a parent that is (None: genesis), worth `work` by itself."""
        number = self._index.add(digest)
        total = min((self.work(parent) if parent is not None else 0) + work, (1 << 128) - 1)
        self._parent.append(-1 if parent is None else parent)
        self._height.append(0 if parent is None else self._height[parent] + 1)
        self._work_high.append(total >> 64)
        self._work_low.append(total & _MASK_64)
        self._file.append(place.file)
        self._offset.append(place.offset)
        self._size.append(place.size)
        self._bad.append(parent is not None and self._bad[parent])
        self._consider(number)
        return number

    def move(self, number: int, place: Place) -> None:
        """Another copy of a block was found, or the first is gone: this one counts, also if it was refused before."""
        self._file[number], self._offset[number], self._size[number] = place
        parent = self.parent(number)
        if self._bad[number] and (parent is None or not self._bad[parent]):
            self._spread(number, bad=False)

    def refuse(self, number: int) -> None:
        """Leave out a block and all on top of it."""
        self._spread(number, bad=True)

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
            del self._best[:]
            return
        branch: list[int] = []
        for number in self.ancestors(tip):
            if self.at(self._height[number]) == number:
                break
            branch.append(number)
        del self._best[self._height[tip] - len(branch) + 1 :]
        self._best.extend(reversed(branch))
