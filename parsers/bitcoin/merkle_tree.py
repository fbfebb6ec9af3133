"""The merkle tree of a block's transactions: its root, and the branches of single transactions.

All hashes are in internal byte order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from parsers.bitcoin.batch_sha256 import Hashes, IntArray, digests, fold_level, from_digests
from parsers.bitcoin.tx import sha256d
from parsers.errors import BlockError

Branch = list[bytes | None]
"""The siblings of a leaf and of its ancestors, lowest first (32 bytes each); None for a copy of the node itself."""

SUBTREE_LEAVES = 4096
"""Leaves of a subtree, a power of two. The branches of a subtree are computed together, two megabytes of them."""

FEW_HASHES = 64
"""Nodes of a level up to which hashlib is faster than filling the lanes."""

_REPEATED = "the block repeats transactions so that its merkle root stays the same (CVE-2012-2459)"


class RootAndBranches(NamedTuple):
    """A merkle root (32 bytes), and the branches of the requested leaves, in their order."""

    root: bytes
    branches: list[Branch]


def merkle(hashes: Hashes, chosen: Sequence[int] = ()) -> RootAndBranches:
    """The merkle root over the txids of a block, and the branches of the leaves with these numbers, in one pass.

    `hashes` is overwritten. Raises BlockError for two equal sibling hashes, which let a block of other transactions
    have the same root (CVE-2012-2459).
    """
    count, numbers = len(hashes), np.array(chosen, np.int64)
    levels: list[Branch] = []
    while count > FEW_HASHES:
        levels.append(_siblings(hashes[:count], numbers ^ 1))
        if not fold_level(hashes, count):
            raise BlockError(_REPEATED)
        count, numbers = (count + 1) // 2, numbers >> 1
    nodes, indices = list(digests(hashes[:count])), numbers.tolist()
    while len(nodes) > 1:
        levels.append([nodes[index ^ 1] if index ^ 1 < len(nodes) else None for index in indices])
        if any(left == right for left, right in zip(nodes[::2], nodes[1::2], strict=False)):
            raise BlockError(_REPEATED)
        if len(nodes) % 2:
            nodes.append(nodes[-1])
        nodes = [sha256d(left + right) for left, right in zip(nodes[::2], nodes[1::2], strict=True)]
        indices = [index >> 1 for index in indices]
    return RootAndBranches(nodes[0], [list(branch) for branch in zip(*levels, strict=True)] or [[] for _ in chosen])


class MerkleTree:
    """The merkle tree over the txids of a block, which computes branches one subtree at a time.

    `root` (32 bytes) is that of `merkle`, which also says when BlockError is raised. Memory: the hashes, unchanged.
    """

    def __init__(self, hashes: Hashes) -> None:
        self._hashes, self._count = hashes, -(-len(hashes) // SUBTREE_LEAVES)  # of subtrees
        roots = [self._subtree(number, ()).root for number in range(self._count)]
        self._top = merkle(from_digests(roots), range(self._count))
        self.root = self._top.root

    def branches(self, chosen: IntArray) -> Iterator[tuple[int, bytes, Branch]]:
        """The number, the txid and the branch of each leaf with one of these numbers (ascending)."""
        bounds = np.searchsorted(chosen, np.arange(self._count + 1) * SUBTREE_LEAVES)
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            numbers = chosen[bounds[number] : bounds[number + 1]]
            txids = digests(self._hashes[numbers])
            branches = self._subtree(number, (numbers - number * SUBTREE_LEAVES).tolist()).branches
            for index, txid, branch in zip(numbers.tolist(), txids, branches, strict=True):
                yield index, txid, branch + self._top.branches[number]

    def _subtree(self, number: int, chosen: Sequence[int]) -> RootAndBranches:
        """The root of one subtree, and the branches of these leaves, numbered from the first leaf of the subtree."""
        leaves = self._hashes[number * SUBTREE_LEAVES : (number + 1) * SUBTREE_LEAVES]
        root, branches = merkle(leaves.copy(), chosen)
        # the last subtree may be lower than the others: the missing levels pair its root with a copy of itself
        missing = (SUBTREE_LEAVES - 1).bit_length() - (len(leaves) - 1).bit_length() if self._count > 1 else 0
        for _ in range(missing):
            root = sha256d(root + root)
        return RootAndBranches(root, [[*branch, *[None] * missing] for branch in branches])


def _siblings(level: Hashes, numbers: IntArray) -> Branch:
    """The nodes with these numbers; None for one past the end, which is a copy of the node before it."""
    raw = level[np.minimum(numbers, len(level) - 1)].tobytes()
    return [raw[32 * n : 32 * n + 32] if exists else None for n, exists in enumerate((numbers < len(level)).tolist())]
