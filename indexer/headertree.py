"""All headers seen, as a tree: which chain has most work, and where each block's bytes lie.

Columns of numbers rather than objects: 156 bytes of memory a block with its place, measured at 300,000 blocks.
Not for two threads at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

_MASK_64 = (1 << 64) - 1
_FIRST_SLOTS = 1 << 10
_REST = 48


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

    def ancestors(self, number: int) -> Iterator[int]:
        """A block and all before it, down to where the tree begins."""
        at: int | None = number
        while at is not None:
            yield at
            at = self.parent(at)

    def add(self, digest: bytes, parent: int | None, work: int) -> int:
        """Take a block that is not known yet, on a parent that is (None: none), worth `work` by itself."""
        number = self._index.add(digest)
        total = min((self.work(parent) if parent is not None else 0) + work, (1 << 128) - 1)
        self._parent.append(-1 if parent is None else parent)
        self._height.append(self.first if parent is None else self._height[parent] + 1)
        self._work_high.append(total >> 64)
        self._work_low.append(total & _MASK_64)
        self._bad.append(parent is not None and self._bad[parent])
        self._consider(number)
        return number

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


class RawTree(HeaderTree):
    """Such a tree that holds each block's header of 80 bytes: all but the parent's hash, which is the parent's."""

    def __init__(self, first: int = 0) -> None:
        super().__init__(first)
        self._prev = bytes(32)
        self._rest = bytearray()

    def put(self, digest: bytes, parent: int | None, work: int, raw: bytes) -> int:
        """Take a block that is not known yet, as `add` does, with its header."""
        if parent is None:
            self._prev = raw[4:36]
        self._rest += raw[:4]
        self._rest += raw[36:]
        return self.add(digest, parent, work)

    def raw(self, number: int) -> bytes:
        """A block's header, 80 bytes."""
        rest = self._rest[_REST * number : _REST * (number + 1)]
        parent = self.parent(number)
        return bytes(rest[:4] + (self._prev if parent is None else self.hash(parent)) + rest[4:])

    def time(self, number: int) -> int:
        """When a block says it was made, in seconds since 1970."""
        return int.from_bytes(self._rest[_REST * number + 36 : _REST * number + 40], "little")

    def bits(self, number: int) -> int:
        """A block's target in its compact form."""
        return int.from_bytes(self._rest[_REST * number + 40 : _REST * number + 44], "little")


class Branch:
    """A block and all before it, by height, whether or not the best chain holds them.

    Stays right while the tree grows, but not when blocks are dropped from it.
    """

    def __init__(self, tree: RawTree, number: int | None) -> None:
        self.tree = tree
        self._side: list[int] = []
        self._fork = tree.first - 1
        for at in tree.ancestors(number) if number is not None else ():
            if tree.at(tree.height_of(at)) == at:
                self._fork = tree.height_of(at)
                break
            self._side.append(at)
        self._side.reverse()

    @property
    def height(self) -> int:
        """The height of its newest block."""
        return self._fork + len(self._side)

    @property
    def fork(self) -> int:
        """The height of the newest block that it shared with the best chain when it was made."""
        return self._fork

    def at(self, height: int) -> int | None:
        """The number of its block at a height, None where it has none."""
        if height <= self._fork:
            return self.tree.at(height)
        return self._side[height - self._fork - 1] if height <= self.height else None

    def append(self, number: int) -> None:
        """Go on with a block on top of the newest."""
        if not self._side and self.tree.at(self._fork + 1) == number:
            self._fork += 1
        else:
            self._side.append(number)
