"""Raw headers of 80 bytes as a tree, and branches of it: a block and all before it, by height."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from indexer.chainwork import work
from indexer.headertree import HeaderTree

SIZE = 80
_REST = 48


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

    def join(self, joined: bytes) -> None:
        """Take headers that follow the tip, joined; what they say is believed, but not how they are linked.

        Raises ValueError when they are not linked to the tip and to one another.
        """
        parts = [joined[at : at + SIZE] for at in range(0, len(joined), SIZE)]
        digests = [sha256(sha256(part).digest()).digest() for part in parts]
        rows = np.frombuffer(joined, np.uint8).reshape(-1, SIZE)
        tip = self.at(self.height)
        before = bytes(rows[0, 4:36]) if tip is None else self.hash(tip)
        if rows[:, 4:36].tobytes() != b"".join([before, *digests[:-1]]):
            raise ValueError(f"headers from {self.height + 1:,} on are not linked")
        if tip is None:
            self._prev = before
        self._rest += np.delete(rows, np.s_[4:36], axis=1).tobytes()
        bits = np.ascontiguousarray(rows[:, 72:76]).view("<u4").ravel().tolist()
        worth = {each: work(each) for each in set(bits)}
        self.extend(b"".join(digests), [worth[each] for each in bits])

    def forget(self, but: Sequence[int] = ()) -> npt.NDArray[np.int64]:
        """Forget blocks and their headers, as the tree does."""
        kept = super().forget(but)
        self._rest = bytearray(np.frombuffer(self._rest, np.uint8).reshape(-1, _REST)[kept].tobytes())
        return kept

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
    def beside(self) -> int:
        """How many of its blocks the best chain did not hold when they were met."""
        return len(self._side)

    @property
    def side(self) -> tuple[int, ...]:
        """The numbers of those blocks, lowest first."""
        return tuple(self._side)

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
