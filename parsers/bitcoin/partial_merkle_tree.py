"""A block header with the part of its merkle tree that proves one transaction: the answer of a node's `gettxoutproof`
(the message `merkleblock` of BIP 37). All hashes are in internal byte order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from parsers.bitcoin.tx import sha256d
from parsers.byte_reader import ByteReader
from parsers.errors import ParseError

HEADER = 80


class ProvedLeaf(NamedTuple):
    """A transaction of a block: the block's header, its number in the block, and the siblings from the leaf up to the
    root; None for one that is a copy of the node itself."""

    header: bytes
    number: int
    siblings: list[bytes | None]


def read(data: bytes, txid: bytes) -> ProvedLeaf:
    """The proof of one transaction, whose root is that of the header. Raises ParseError."""
    reader = ByteReader(data)
    header = reader.take(HEADER, "a header")
    count = int.from_bytes(reader.take(4, "the number of transactions"), "little")
    hashes = iter([reader.take(32, "a hash") for _ in range(reader.count("hashes", 32))])
    flags = reader.take(reader.count("bytes of flags", 1), "flags")
    reader.finish("the proof of a transaction")
    if not count:
        raise ParseError("a merkle block without transactions")
    tree = _Tree(count, hashes, (byte >> bit & 1 for byte in flags for bit in range(8)), txid)
    root = tree.walk(max(0, (count - 1).bit_length()), 0)
    if root != header[36:68] or tree.number is None:
        raise ParseError("the part of a merkle tree does not lead from the transaction to the root of its header")
    return ProvedLeaf(header, tree.number, tree.siblings)


class _Tree:
    """A walk over a tree whose flags mark the path to one leaf."""

    def __init__(self, count: int, hashes: Iterator[bytes], flags: Iterator[int], txid: bytes) -> None:
        self._count, self._hashes, self._flags, self._txid = count, hashes, flags, txid
        self.number: int | None = None
        self.siblings: list[bytes | None] = []

    def walk(self, level: int, position: int) -> bytes:
        """The hash of a node, `level` above the leaves. Raises ParseError."""
        is_path = next(self._flags, None)
        if is_path is None:
            raise ParseError("a merkle block has too few flags")
        if level == 0 or not is_path:
            node = next(self._hashes, b"")
            if is_path and node == self._txid and self.number is None:
                self.number = position
            return node
        before, below = self.number, level - 1
        left, right = self.walk(below, 2 * position), None
        is_left = self.number != before
        if 2 * position + 1 << below < self._count:
            right = self.walk(below, 2 * position + 1)
            if right == left:
                raise ParseError("a merkle block repeats a node (CVE-2012-2459)")
        if self.number != before:
            self.siblings.append(right if is_left else left)
        return sha256d(left + (left if right is None else right))
