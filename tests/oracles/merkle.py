"""Merkle trees by the book: a block's root and branches, and a slow judge of BUMPs. Nothing of the program is used."""

from __future__ import annotations

from hashlib import sha256
from io import BytesIO

Paths = list[dict[int, tuple[int, bytes]]]


def pair(left: bytes, right: bytes) -> bytes:
    """The node above two others."""
    return sha256(sha256(left + right).digest()).digest()


def rows(txids: list[bytes]) -> list[list[bytes]]:
    """Every level of a block's tree, the txids first and the root last; the last of an odd row pairs with itself."""
    results = [txids]
    while len(results[-1]) > 1:
        row = results[-1] + results[-1][-1:] * (len(results[-1]) % 2)
        results.append([pair(row[index], row[index + 1]) for index in range(0, len(row), 2)])
    return results


def root(txids: list[bytes]) -> bytes:
    """A block's merkle root."""
    return rows(txids)[-1][0]


def branch(txids: list[bytes], index: int) -> list[bytes | None]:
    """The nodes beside the way up from a transaction; None for a copy of the node itself."""
    results: list[bytes | None] = []
    for row in rows(txids)[:-1]:
        beside = index ^ 1
        results.append(row[beside] if beside < len(row) else None)
        index //= 2
    return results


def judge(data: bytes) -> bytes | None:
    """The root that a BUMP's bytes prove every one of their leaves to be under, None when they prove nothing."""
    try:
        stream = BytesIO(data)
        height, levels = _number(stream), _levels(stream)
    except (EOFError, ValueError):
        return None
    if stream.read(1) or height >= 2**32 or not levels or len(levels) > 64 or not levels[0]:
        return None
    _name_copies(levels)
    if len(levels) == 1 and len(levels[0]) != 2:
        return _whole(levels[0])
    try:
        roots = {_walk(levels, offset) for offset in levels[0]}
        fits = all(_fits(levels, level, offset) for level, supplied in enumerate(levels) for offset in supplied)
    except LookupError:
        return None
    return roots.pop() if len(roots) == 1 and fits else None


def _number(stream: BytesIO) -> int:
    first = _exactly(stream, 1)[0]
    return first if first < 253 else int.from_bytes(_exactly(stream, {253: 2, 254: 4, 255: 8}[first]), "little")


def _exactly(stream: BytesIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _levels(stream: BytesIO) -> Paths:
    results: Paths = []
    for _ in range(_exactly(stream, 1)[0]):
        level: dict[int, tuple[int, bytes]] = {}
        for _ in range(_number(stream)):
            offset, flags = _number(stream), _exactly(stream, 1)[0]
            if flags > 2 or offset in level:
                raise ValueError
            level[offset] = (flags, b"" if flags == 1 else _exactly(stream, 32))
        results.append(level)
    return results


def _name_copies(levels: Paths) -> None:
    """Flag what is written in full and yet only a copy of its left neighbour, with no transaction of its own."""
    for level, nodes in enumerate(levels):
        for offset, (flags, digest) in sorted(nodes.items()):
            if flags or not offset % 2 or (level and _under(levels, level, offset)):
                continue
            try:
                left = _node(levels, level, offset - 1)
            except LookupError:
                continue
            if left == digest:
                nodes[offset] = (1, b"")


def _whole(level: dict[int, tuple[int, bytes]]) -> bytes | None:
    """One level alone is a whole block; its last transaction may be written as a copy of the one before."""
    txids = [level[index][1] if level[index][0] != 1 else None for index in range(len(level)) if index in level]
    if len(txids) != len(level):
        return None
    if txids[-1] is None and len(txids) % 2 == 0:
        txids.pop()
    hashes = [txid for txid in txids if txid is not None]
    if len(hashes) != len(txids) or _twins(hashes):
        return None
    return root(hashes)


def _twins(txids: list[bytes]) -> bool:
    return any(row[index] == row[index + 1] for row in rows(txids) for index in range(0, len(row) - 1, 2))


def _under(levels: Paths, level: int, offset: int) -> list[int]:
    """The given leaves of the lowest level that stand below a node."""
    return [leaf for leaf in levels[0] if leaf >> level == offset]


def _node(levels: Paths, level: int, offset: int) -> bytes:
    """A node's hash, computed from below where that can be, else as given. LookupError where it is neither."""
    if level and _under(levels, level, offset):
        left = _node(levels, level - 1, 2 * offset)
        if levels[level - 1].get(2 * offset + 1, (0, b""))[0] == 1:
            return pair(left, left)
        right = _node(levels, level - 1, 2 * offset + 1)
        if left == right:
            raise LookupError
        return pair(left, right)
    flags, digest = levels[level][offset]
    if flags == 1:
        raise LookupError
    return digest


def _walk(levels: Paths, leaf: int) -> bytes:
    """The root above a leaf, asking for every node on the way."""
    for level in range(len(levels)):
        _node(levels, level + 1, leaf >> level + 1)
    if leaf >> len(levels):
        raise LookupError
    return _node(levels, len(levels), 0)


def _fits(levels: Paths, level: int, offset: int) -> bool:
    """Whether a given node is needed or at least right, and a copy is the last node of its level."""
    flags, digest = levels[level][offset]
    existing = {leaf >> level for leaf in levels[0] if level or levels[0][leaf][0] != 1}
    if level and offset ^ 1 not in existing:
        return False
    if flags == 1:
        others = existing | {other for other in levels[level] if other != offset}
        return offset % 2 == 1 and offset not in existing and offset - 1 == max(others)
    return offset not in existing or _node(levels, level, offset) == digest


def merkle_block(header: bytes, txids: list[bytes], index: int) -> bytes:
    """The message `merkleblock` of BIP 37 for the transaction with this index: nodes in the order of a walk down to the
    left first, with a flag for each."""
    levels = rows(txids)
    hashes, flags = list[bytes](), list[int]()

    def visit(height: int, position: int) -> None:
        is_above = index >> height == position
        flags.append(is_above)
        if height == 0 or not is_above:
            hashes.append(levels[height][position])
            return
        for child in (2 * position, 2 * position + 1):
            if child < len(levels[height - 1]):
                visit(height - 1, child)

    visit(len(levels) - 1, 0)
    packed = bytes(
        sum(flag << bit for bit, flag in enumerate(flags[start : start + 8])) for start in range(0, len(flags), 8)
    )
    parts = [header, len(txids).to_bytes(4, "little"), bytes((len(hashes),)), *hashes, bytes((len(packed),)), packed]
    return b"".join(parts)
