"""A tree of raw headers of 80 bytes, and its branches: a block and its ancestors, by height."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from indexer.headers.proof_of_work import work
from indexer.headers.tree import HeaderTree

SIZE = 80
_REST = 48


class RawTree(HeaderTree):
    """A header tree that also holds each header of 80 bytes, without the parent's hash, which the tree has already."""

    def __init__(self, first: int = 0) -> None:
        super().__init__(first)
        self._prev = bytes(32)
        self._rest = bytearray()

    def put(self, digest: bytes, parent: int | None, work: int, raw: bytes) -> int:
        """Add a new block as `add` does, with its header."""
        if parent is None:
            self._prev = raw[4:36]
        self._rest += raw[:4]
        self._rest += raw[36:]
        return self.add(digest, parent, work)

    def join(self, joined: bytes) -> None:
        """Append concatenated headers to the tip. Only their linkage is checked.

        Raises ValueError if they are not linked to the tip and to one another.
        """
        import numpy as np

        parts = [joined[start : start + SIZE] for start in range(0, len(joined), SIZE)]
        digests = [sha256(sha256(part).digest()).digest() for part in parts]
        rows = np.frombuffer(joined, np.uint8).reshape(-1, SIZE)
        tip = self.number_at(self.height)
        before = bytes(rows[0, 4:36]) if tip is None else self.hash(tip)
        if rows[:, 4:36].tobytes() != b"".join([before, *digests[:-1]]):
            raise ValueError(f"headers from {self.height + 1:,} on are not linked")
        if tip is None:
            self._prev = before
        self._rest += np.delete(rows, np.s_[4:36], axis=1).tobytes()
        bits = np.ascontiguousarray(rows[:, 72:76]).view("<u4").ravel().tolist()
        worth = {value: work(value) for value in set(bits)}
        self.extend(b"".join(digests), [worth[value] for value in bits])

    def forget(self, but: Sequence[int] = ()) -> list[int]:
        """Drop blocks like `HeaderTree.forget`, with their headers."""
        remaining = super().forget(but)
        self._rest = bytearray().join(self._rest[_REST * number : _REST * (number + 1)] for number in remaining)
        return remaining

    def raw(self, number: int) -> bytes:
        """A block's header, 80 bytes."""
        rest = self._rest[_REST * number : _REST * (number + 1)]
        parent = self.parent(number)
        return bytes(rest[:4] + (self._prev if parent is None else self.hash(parent)) + rest[4:])

    def time(self, number: int) -> int:
        """The time in a block's header, in seconds since 1970."""
        return int.from_bytes(self._rest[_REST * number + 36 : _REST * number + 40], "little")

    def bits(self, number: int) -> int:
        """A block's target in its compact form."""
        return int.from_bytes(self._rest[_REST * number + 40 : _REST * number + 44], "little")


class Branch:
    """A block and its ancestors, by height, on the best chain or beside it.

    Stays valid while blocks are added to the tree, but not after blocks are dropped.
    """

    def __init__(self, tree: RawTree, number: int | None) -> None:
        self.tree = tree
        self._side: list[int] = []
        self._fork = tree.first - 1
        for ancestor in tree.ancestors(number) if number is not None else ():
            if tree.number_at(tree.height_of(ancestor)) == ancestor:
                self._fork = tree.height_of(ancestor)
                break
            self._side.append(ancestor)
        self._side.reverse()

    @property
    def height(self) -> int:
        """The height of its newest block."""
        return self._fork + len(self._side)

    @property
    def beside(self) -> int:
        """The number of its blocks that were not on the best chain when they were added here."""
        return len(self._side)

    @property
    def side(self) -> tuple[int, ...]:
        """The numbers of the blocks beside the best chain, lowest first."""
        return tuple(self._side)

    def number_at(self, height: int) -> int | None:
        """The number of its block at a height, None outside the branch."""
        if height <= self._fork:
            return self.tree.number_at(height)
        return self._side[height - self._fork - 1] if height <= self.height else None

    def append(self, number: int) -> None:
        """Add a block on top of the newest."""
        if not self._side and self.tree.number_at(self._fork + 1) == number:
            self._fork += 1
        else:
            self._side.append(number)
