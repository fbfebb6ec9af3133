"""BUMP (BRC-74): merkle paths that prove transactions to be in a block.

A path holds, level by level from the txids up, the nodes that cannot be computed from those below. All of it is
checked when it is read: that every leaf leads to one and the same root, with no node missing, to spare or in conflict.
What it cannot show is that its lowest level is that of transactions: whoever relies on it has to refuse transactions of
64 bytes, as those could be two nodes of the tree (CVE-2017-12842).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from parsers.cursor import Cursor
from parsers.errors import ParseError
from parsers.tx import sha256d, varint

MAX_LEVELS = 64
"""Levels of a path: a block of 2**64 transactions has as many."""

MAX_HEIGHT = 0xFFFFFFFF

_HASH, _DUPLICATE, _TXID = 0, 1, 2


class Leaf(NamedTuple):
    """A node of the tree. `offset` counts from the left of its level; `hash` is in internal byte order, None where the
    node is a copy of its left neighbour; `txid` marks a transaction that the path is meant to prove."""

    offset: int
    hash: bytes | None
    txid: bool = False


@dataclass(frozen=True, slots=True)
class MerklePath:
    """A merkle path of one or several transactions of the block at `height`; `levels` from the txids up.

    `merkle_root` (32 bytes, internal order) is what all of it leads to. Making one that leads nowhere, or to more than
    one root, raises ParseError.
    """

    height: int
    levels: tuple[tuple[Leaf, ...], ...]
    merkle_root: bytes = field(init=False, compare=False)
    _proved: frozenset[bytes] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.height <= MAX_HEIGHT:
            raise ParseError(f"a merkle path names block height {self.height:,}, which no chain has")
        object.__setattr__(self, "merkle_root", _branch_root(self.levels) or _tree(self.levels)[-1][0])
        object.__setattr__(self, "_proved", frozenset(leaf.hash for leaf in self.levels[0] if leaf.hash))

    def txids(self) -> tuple[bytes, ...]:
        """The transactions that the path is meant to prove (internal byte order)."""
        return tuple(leaf.hash for leaf in self.levels[0] if leaf.txid and leaf.hash is not None)

    def root(self, txid: bytes) -> bytes:
        """The merkle root that a transaction leads to (both 32 bytes, internal order), whether marked or not.

        Raises ParseError when the path does not hold it.
        """
        if txid not in self._proved:
            raise ParseError(f"the merkle path does not hold transaction {txid[::-1].hex()}")
        return self.merkle_root

    def to_bytes(self) -> bytes:
        """The binary form of BRC-74."""
        parts = [varint(self.height), bytes((len(self.levels),))]
        for leaves in self.levels:
            parts.append(varint(len(leaves)))
            parts += [_leaf_bytes(leaf) for leaf in leaves]
        return b"".join(parts)


def _leaf_bytes(leaf: Leaf) -> bytes:
    if leaf.hash is None:
        return varint(leaf.offset) + bytes((_DUPLICATE,))
    return varint(leaf.offset) + bytes((_TXID if leaf.txid else _HASH,)) + leaf.hash


def read(data: bytes) -> MerklePath:
    """The merkle path that fills `data`. Raises ParseError naming the byte, or what does not fit together."""
    cursor = Cursor(data)
    path = read_from(cursor)
    cursor.finish("the merkle path")
    return path


def read_from(cursor: Cursor) -> MerklePath:
    """A merkle path at the cursor, which is left behind it. Raises ParseError."""
    height = cursor.varint("a block height")
    count = cursor.byte("the number of levels")
    levels = tuple(
        tuple(_read_leaf(cursor) for _ in range(cursor.count("nodes of a merkle path", 2))) for _ in range(count)
    )
    return MerklePath(height, levels)


def _read_leaf(cursor: Cursor) -> Leaf:
    offset, flags = cursor.varint("an offset"), cursor.byte("flags")
    if flags == _DUPLICATE:
        return Leaf(offset, None)
    if flags not in (_HASH, _TXID):
        raise ParseError(f"a node of a merkle path has flags {flags}: 0, 1 and 2 are known", cursor.at - 1)
    return Leaf(offset, cursor.take(32, "a hash"), flags == _TXID)


def from_branch(height: int, index: int, txid: bytes, siblings: Sequence[bytes | None]) -> MerklePath:
    """The path of one transaction: its `index` in the block (the coinbase's is 0), and the nodes beside its way up.

    All hashes are in internal byte order; a sibling that is a copy of the node itself is None, and a block of one
    transaction has no siblings. Raises ParseError when they do not lead to a root.
    """
    target = Leaf(index, txid, True)
    if not siblings:
        return MerklePath(height, ((target,),))
    beside = [Leaf(index >> level ^ 1, node) for level, node in enumerate(siblings)]
    lowest = tuple(sorted((target, beside[0]), key=lambda leaf: leaf.offset))
    return MerklePath(height, (lowest, *((leaf,) for leaf in beside[1:])))


def branch_bytes(height: int, index: int, txid: bytes, siblings: Sequence[bytes | None]) -> bytes:
    """What `from_branch(…).to_bytes()` gives, for a branch of a tree whose root is known to be right: nothing is
    hashed again."""
    target = _leaf_bytes(Leaf(index, txid, True))
    if not siblings:
        return varint(height) + b"\1\1" + target
    leaves = [
        varint(index >> level ^ 1) + (b"\1" if node is None else b"\0" + node) for level, node in enumerate(siblings)
    ]
    lowest = leaves[0] + target if index & 1 else target + leaves[0]
    return b"".join((varint(height), bytes((len(leaves),)), b"\2", b"\1".join((lowest, *leaves[1:]))))


def extract(path: MerklePath, txids: Iterable[bytes]) -> MerklePath:
    """The path of only these transactions (internal byte order) out of one that holds them: at least one, else
    ValueError. Raises ParseError when the path does not hold one of them."""
    wanted = set(txids)
    if not wanted:
        raise ValueError("a merkle path is of one transaction at least: name one to extract")
    tree = _tree(path.levels)
    offsets = {offset for offset, digest in tree[0].items() if digest in wanted}
    for txid in wanted:
        path.root(txid)
    return _trimmed(path.height, tree, offsets)


def combine(paths: Sequence[MerklePath]) -> MerklePath:
    """One path of all that these paths, of one block, are meant to prove.

    Raises ParseError when they are of different blocks, or disagree.
    """
    trees = [_tree(path.levels) for path in paths]
    if len({(path.height, path.merkle_root, len(tree)) for path, tree in zip(paths, trees, strict=True)}) != 1:
        raise ParseError("merkle paths of different blocks cannot be combined")
    joined = [dict(chain.from_iterable(nodes.items() for nodes in level)) for level in zip(*trees, strict=True)]
    marked = {leaf.offset for path in paths for leaf in path.levels[0] if leaf.txid}
    return _trimmed(paths[0].height, joined, marked)


def _trimmed(height: int, tree: Sequence[Mapping[int, bytes]], offsets: set[int]) -> MerklePath:
    """The path of the transactions at these offsets of a tree, without a node that can be computed."""
    lowest = [Leaf(offset, tree[0][offset], True) for offset in offsets]
    levels, known = [], offsets
    for nodes in tree[:-1]:
        beside = [Leaf(offset ^ 1, nodes.get(offset ^ 1)) for offset in known if offset ^ 1 not in known]
        levels.append(tuple(sorted(lowest + beside, key=lambda leaf: leaf.offset)))
        lowest, known = [], {offset >> 1 for offset in known}
    return MerklePath(height, tuple(levels or [tuple(lowest)]))


def _branch_root(levels: Sequence[Sequence[Leaf]]) -> bytes | None:
    """The root of a path of one transaction, as `_tree` finds it and twice as fast; None where the path is of
    another shape, or may be wrong."""
    if not 2 <= len(levels) <= MAX_LEVELS or len(levels[0]) != 2 or any(len(leaves) != 1 for leaves in levels[1:]):
        return None
    lower, upper = sorted(levels[0], key=lambda leaf: leaf.offset)
    offset, node = lower.offset, lower.hash
    if offset & 1 or node is None or len(node) != 32:
        return None
    for leaf in (upper, *(leaves[0] for leaves in levels[1:])):
        beside = leaf.hash
        if leaf.offset != offset ^ 1 or beside == node or (beside is None and offset & 1):
            return None
        if beside is not None and len(beside) != 32:
            return None
        node = sha256d((beside or node) + node if offset & 1 else node + (beside or node))
        offset >>= 1
    return None if offset else node


def _tree(levels: Sequence[Sequence[Leaf]]) -> list[dict[int, bytes]]:
    """All nodes known or computed, by offset, level by level up to the root, in time linear in their number.

    Raises ParseError when one is missing, is to spare, or says otherwise than those below it.
    """
    if not levels or not levels[0]:
        raise ParseError("a merkle path without a leaf")
    if len(levels) > MAX_LEVELS:
        raise ParseError(f"a merkle path of {len(levels):,} levels: no block has more than {MAX_LEVELS}")
    # one level alone holds every transaction of the block, and no other node is needed
    whole = len(levels) == 1
    depth = (len(levels[0]) - 1).bit_length() if whole else len(levels)
    tree: list[dict[int, bytes]] = []
    above: dict[int, bytes] = {}
    for level in range(max(depth, 1)):
        nodes, copy = _level(above, levels[level] if level < len(levels) else (), level)
        tree.append(nodes)
        above = _parents(nodes, copy, level, whole=whole) if depth else nodes
    if list(above) != [0]:
        raise ParseError(f"a merkle path of {depth} levels does not end in a root")
    return [*tree, above] if depth else tree


def _level(below: dict[int, bytes], leaves: Sequence[Leaf], level: int) -> tuple[dict[int, bytes], int | None]:
    """All nodes of a level, those computed from below and those given, and the offset of the copy at its end."""
    nodes, given = dict(below), set()
    for offset, digest, _ in leaves:
        if offset in given:
            raise ParseError(f"a merkle path gives offset {offset:,} at level {level} twice")
        given.add(offset)
        if level and offset ^ 1 not in below:
            raise ParseError(f"a merkle path gives offset {offset:,} at level {level}, which none of its leaves needs")
        if digest is not None and len(digest) != 32:
            raise ParseError(f"a merkle path holds a hash of {len(digest)} bytes at level {level}")
        if digest is not None and nodes.setdefault(offset, digest) != digest:
            raise ParseError(
                f"a merkle path leads to two roots: offset {offset:,} at level {level} is not what is given"
            )
    copies = [leaf.offset for leaf in leaves if _is_copy(leaf, nodes, below)]
    for offset in copies:
        nodes.pop(offset, None)
    for offset in copies:
        if offset in below or not offset & 1 or offset - 1 != max(nodes, default=-1):
            raise ParseError(
                f"a merkle path has a copy at offset {offset:,} of level {level}, which is not the level's end"
            )
    return nodes, copies[0] if copies else None


def _is_copy(leaf: Leaf, nodes: Mapping[int, bytes], below: Mapping[int, bytes]) -> bool:
    """Whether a given node is a copy of its left neighbour: by its flag, or because it says so in full, as some
    writers do. What has a transaction below it is none, since no two of a block are the same (CVE-2012-2459)."""
    if leaf.hash is None:
        return True
    mirrors = bool(leaf.offset & 1) and nodes.get(leaf.offset - 1) == leaf.hash
    return mirrors and not leaf.txid and leaf.offset not in below


def _parents(nodes: dict[int, bytes], copy: int | None, level: int, *, whole: bool) -> dict[int, bytes]:
    """The nodes above a level. `whole`: no node of the block is left out, so that a last one without a neighbour has
    a copy of itself beside it."""
    last = max(nodes, default=0)
    above = {}
    for offset, digest in nodes.items():
        if offset & 1:
            if offset ^ 1 not in nodes:
                raise _missing(offset ^ 1, level)
            continue
        right = nodes.get(offset + 1)
        if right is None:
            if copy != offset + 1 and not (whole and offset == last):
                raise _missing(offset + 1, level)
            right = digest
        elif right == digest:
            raise ParseError(f"a merkle path has the same hash twice, at offset {offset:,} of level {level}")
        above[offset >> 1] = sha256d(digest + right)
    return above


def _missing(offset: int, level: int) -> ParseError:
    return ParseError(f"a merkle path lacks the hash at offset {offset:,} of level {level}")
