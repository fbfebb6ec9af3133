"""BUMP (BRC-74): merkle paths, which prove that transactions are in a block.

A path holds, level by level from the txids up, the nodes that cannot be computed from those below. Parsing verifies
that every leaf leads to the same root, with no node missing, superfluous or in conflict. A path cannot show that its
lowest level consists of transactions: a verifier must refuse transactions of 64 bytes, which could be two nodes of
the tree (CVE-2017-12842).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from parsers.bitcoin.tx import sha256d, varint
from parsers.byte_reader import ByteReader
from parsers.errors import ParseError

MAX_LEVELS = 64
"""Levels of a path, enough for a block of 2**64 transactions."""

MAX_HEIGHT = 0xFFFFFFFF

_HASH, _DUPLICATE, _TXID = 0, 1, 2


class PathLeaf(NamedTuple):
    """A node of the tree. `offset` is its position in the level, from the left; `hash` has 32 bytes in internal byte
    order, or is None for a copy of the left sibling; `txid` marks a transaction that the path proves."""

    offset: int
    hash: bytes | None
    txid: bool = False


@dataclass(frozen=True, slots=True)
class MerklePath:
    """The merkle path of one or more transactions of the block at `height`; `levels` from the txids up.

    `merkle_root` has 32 bytes in internal byte order. The constructor raises ParseError for nodes that do not lead to
    one root.
    """

    height: int
    levels: tuple[tuple[PathLeaf, ...], ...]
    merkle_root: bytes = field(init=False, compare=False)
    _leaf_hashes: frozenset[bytes] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.height <= MAX_HEIGHT:
            raise ParseError(f"a merkle path names block height {self.height:,}, which no chain has")
        object.__setattr__(self, "merkle_root", _branch_root(self.levels) or _tree(self.levels)[-1][0])
        object.__setattr__(self, "_leaf_hashes", frozenset(leaf.hash for leaf in self.levels[0] if leaf.hash))

    def txids(self) -> tuple[bytes, ...]:
        """The transactions that the path is marked to prove (internal byte order)."""
        return tuple(leaf.hash for leaf in self.levels[0] if leaf.txid and leaf.hash is not None)

    def root(self, txid: bytes) -> bytes:
        """The merkle root of a transaction by this path (32 bytes each, internal byte order), also of an unmarked one.

        Raises ParseError when the path does not contain the transaction.
        """
        if txid not in self._leaf_hashes:
            raise ParseError(f"the merkle path does not hold transaction {txid[::-1].hex()}")
        return self.merkle_root

    def to_bytes(self) -> bytes:
        """The binary form of BRC-74."""
        parts = [varint(self.height), bytes((len(self.levels),))]
        for leaves in self.levels:
            parts.append(varint(len(leaves)))
            parts += [_leaf_bytes(leaf) for leaf in leaves]
        return b"".join(parts)


def _leaf_bytes(leaf: PathLeaf) -> bytes:
    if leaf.hash is None:
        return varint(leaf.offset) + bytes((_DUPLICATE,))
    return varint(leaf.offset) + bytes((_TXID if leaf.txid else _HASH,)) + leaf.hash


def read(data: bytes) -> MerklePath:
    """Parse the merkle path that fills `data`. Raises ParseError naming the byte offset or the inconsistency."""
    reader = ByteReader(data)
    path = read_from(reader)
    reader.finish("the merkle path")
    return path


def read_from(reader: ByteReader) -> MerklePath:
    """Parse a merkle path from the reader, which is after it then. Raises ParseError."""
    height = reader.varint("a block height")
    count = reader.byte("the number of levels")
    levels = tuple(
        tuple(_read_leaf(reader) for _ in range(reader.count("nodes of a merkle path", 2))) for _ in range(count)
    )
    return MerklePath(height, levels)


def _read_leaf(reader: ByteReader) -> PathLeaf:
    offset, flags = reader.varint("an offset"), reader.byte("flags")
    if flags == _DUPLICATE:
        return PathLeaf(offset, None)
    if flags not in (_HASH, _TXID):
        raise ParseError(f"a node of a merkle path has flags {flags}: 0, 1 and 2 are supported", reader.offset - 1)
    return PathLeaf(offset, reader.take(32, "a hash"), flags == _TXID)


def branch_bytes(height: int, index: int, txid: bytes, siblings: Sequence[bytes | None]) -> bytes:
    """The bytes of the path of one transaction: its `index` in the block (0 is the coinbase), and the siblings up to
    the root of a tree that is already verified: nothing is hashed again.

    Hashes are in internal byte order; a sibling that is a copy of the node itself is None, and a block of one
    transaction has no siblings.
    """
    target = _leaf_bytes(PathLeaf(index, txid, True))
    if not siblings:
        return varint(height) + b"\1\1" + target
    leaves = [
        varint(index >> level ^ 1) + (b"\1" if node is None else b"\0" + node) for level, node in enumerate(siblings)
    ]
    lowest = leaves[0] + target if index & 1 else target + leaves[0]
    return b"".join((varint(height), bytes((len(leaves),)), b"\2", b"\1".join((lowest, *leaves[1:]))))


def extract(path: MerklePath, txids: Iterable[bytes]) -> MerklePath:
    """The path of a subset of a path's transactions (txids in internal byte order).

    Raises ValueError for an empty subset, ParseError when the path does not contain one of them."""
    chosen = set(txids)
    if not chosen:
        raise ValueError("a merkle path has at least one transaction: name one to extract")
    tree = _tree(path.levels)
    offsets = {offset for offset, digest in tree[0].items() if digest in chosen}
    for txid in chosen:
        path.root(txid)
    return _trimmed(path.height, tree, offsets)


def combine(paths: Sequence[MerklePath]) -> MerklePath:
    """Merge paths of one block into one path of all their marked transactions.

    Raises ParseError when they are of different blocks or contradict each other.
    """
    trees = [_tree(path.levels) for path in paths]
    if len({(path.height, path.merkle_root, len(tree)) for path, tree in zip(paths, trees, strict=True)}) != 1:
        raise ParseError("merkle paths of different blocks cannot be combined")
    joined = [dict(chain.from_iterable(nodes.items() for nodes in level)) for level in zip(*trees, strict=True)]
    marked = {leaf.offset for path in paths for leaf in path.levels[0] if leaf.txid}
    return _trimmed(paths[0].height, joined, marked)


def _trimmed(height: int, tree: Sequence[Mapping[int, bytes]], offsets: set[int]) -> MerklePath:
    """The path of the transactions at these offsets of a tree, without nodes that can be computed."""
    lowest = [PathLeaf(offset, tree[0][offset], True) for offset in offsets]
    levels, on_path = [], offsets
    for nodes in tree[:-1]:
        siblings = [PathLeaf(offset ^ 1, nodes.get(offset ^ 1)) for offset in on_path if offset ^ 1 not in on_path]
        levels.append(tuple(sorted(lowest + siblings, key=lambda leaf: leaf.offset)))
        lowest, on_path = [], {offset >> 1 for offset in on_path}
    return MerklePath(height, tuple(levels or [tuple(lowest)]))


def _branch_root(levels: Sequence[Sequence[PathLeaf]]) -> bytes | None:
    """The root of a path of one transaction, twice as fast as `_tree`; None for a path of another shape, or one that
    may be wrong."""
    if not 2 <= len(levels) <= MAX_LEVELS or len(levels[0]) != 2 or any(len(leaves) != 1 for leaves in levels[1:]):
        return None
    lower, upper = sorted(levels[0], key=lambda leaf: leaf.offset)
    offset, node = lower.offset, lower.hash
    if offset & 1 or node is None or len(node) != 32:
        return None
    for leaf in (upper, *(leaves[0] for leaves in levels[1:])):
        sibling = leaf.hash
        if leaf.offset != offset ^ 1 or sibling == node or (sibling is None and offset & 1):
            return None
        if sibling is not None and len(sibling) != 32:
            return None
        node = sha256d((sibling or node) + node if offset & 1 else node + (sibling or node))
        offset >>= 1
    return None if offset else node


def _tree(levels: Sequence[Sequence[PathLeaf]]) -> list[dict[int, bytes]]:
    """All nodes by offset, level by level up to the root, stated or computed; in time linear in their number.

    Raises ParseError for a missing or superfluous node, and for one that contradicts those below it.
    """
    if not levels or not levels[0]:
        raise ParseError("a merkle path without a leaf")
    if len(levels) > MAX_LEVELS:
        raise ParseError(f"a merkle path of {len(levels):,} levels: no block has more than {MAX_LEVELS}")
    # a path of one level contains every transaction of the block, and needs no other node
    whole = len(levels) == 1
    depth = (len(levels[0]) - 1).bit_length() if whole else len(levels)
    tree: list[dict[int, bytes]] = []
    parents: dict[int, bytes] = {}
    for level in range(max(depth, 1)):
        nodes, copy = _level(parents, levels[level] if level < len(levels) else (), level)
        tree.append(nodes)
        parents = _parents(nodes, copy, level, whole=whole) if depth else nodes
    if list(parents) != [0]:
        raise ParseError(f"a merkle path of {depth} levels does not end in a root")
    return [*tree, parents] if depth else tree


def _level(below: dict[int, bytes], leaves: Sequence[PathLeaf], level: int) -> tuple[dict[int, bytes], int | None]:
    """All nodes of a level, computed from below or stated, and the offset of the copy at the level's end."""
    nodes, stated = dict(below), set()
    for offset, digest, _ in leaves:
        if offset in stated:
            raise ParseError(f"a merkle path states offset {offset:,} at level {level} twice")
        stated.add(offset)
        if level and offset ^ 1 not in below:
            raise ParseError(f"a merkle path states offset {offset:,} at level {level}, which none of its leaves needs")
        if digest is not None and len(digest) != 32:
            raise ParseError(f"a merkle path holds a hash of {len(digest)} bytes at level {level}")
        if digest is not None and nodes.setdefault(offset, digest) != digest:
            raise ParseError(
                f"a merkle path leads to two roots: offset {offset:,} at level {level} is not the stated one"
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


def _is_copy(leaf: PathLeaf, nodes: Mapping[int, bytes], below: Mapping[int, bytes]) -> bool:
    """Whether a stated node is a copy of its left sibling: by its flag, or by its hash, as some writers state it.

    A node above a transaction of the path is not a copy: no block has the same transaction twice (CVE-2012-2459)."""
    if leaf.hash is None:
        return True
    mirrors = bool(leaf.offset & 1) and nodes.get(leaf.offset - 1) == leaf.hash
    return mirrors and not leaf.txid and leaf.offset not in below


def _parents(nodes: dict[int, bytes], copy: int | None, level: int, *, whole: bool) -> dict[int, bytes]:
    """The nodes above a level. `whole`: the level is complete, so that a last node without a sibling is paired with a
    copy of itself."""
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
