"""Writers of what no product code writes: witness envelopes, output scripts, split pointers, paths of branches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from parsers.bitcoin.bump import MerklePath, PathLeaf
from parsers.bitcoin.script import OP_CODESEPARATOR, OP_ENDIF, OP_FALSE, OP_IF, OP_RETURN, push, pushes
from parsers.inscriptions.envelope import Field

OPENING = bytes((OP_FALSE, OP_IF)) + push(b"ord")


def build_witness(content_type: str, body: bytes, fields: Iterable[Field] = (), *, chunk: int = 520) -> bytes:
    """An envelope for a tapscript, its body in pushes of at most `chunk` bytes (520 is the consensus limit).

    The content type's tag is a pushed byte, as ord writes it.
    """
    pairs = b"".join(pushes(name, value) for name, value in fields)
    head = [OPENING, pairs, b"\x01\x01", push(content_type.encode()), bytes((OP_FALSE,))]
    cuts = [*range(0, len(body), chunk), len(body)]
    return b"".join([*head, *(push(body[start:end]) for start, end in pairwise(cuts)), bytes((OP_ENDIF,))])


def build_output(
    lock: bytes, envelope: bytes, tail: bytes = b"", *, envelope_first: bool = True, separator: bool = False
) -> bytes:
    """An output script: envelope and lock in either order, OP_CODESEPARATOR between if wanted, then `tail` (MAP)."""
    between = bytes((OP_CODESEPARATOR,)) if separator else b""
    return (envelope + between + lock if envelope_first else lock + between + envelope) + tail


def build_split(domain: str, digest: bytes, size: int = 66) -> list[bytes]:
    """The output scripts of a split pointer, each part of at most `size` bytes (66 fits 80-byte OP_RETURN outputs)."""
    whole = domain.encode() + b" " + digest
    parts = [whole[start : start + size] for start in range(0, len(whole), size)]
    head = bytes((OP_RETURN,)) + push(b"a2b")
    return [head + pushes(f"{number}/{len(parts)}".encode(), part) for number, part in enumerate(parts, 1)]


def from_branch(height: int, index: int, txid: bytes, siblings: Sequence[bytes | None]) -> MerklePath:
    """The path of one transaction: its `index` in the block (0 is the coinbase), and the siblings up to the root.

    Hashes are in internal byte order; a sibling that is a copy of the node itself is None, and a block of one
    transaction has no siblings. Raises ParseError when they do not lead to a root.
    """
    target = PathLeaf(index, txid, True)
    if not siblings:
        return MerklePath(height, ((target,),))
    siblings_up = [PathLeaf(index >> level ^ 1, node) for level, node in enumerate(siblings)]
    lowest = tuple(sorted((target, siblings_up[0]), key=lambda leaf: leaf.offset))
    return MerklePath(height, (lowest, *((leaf,) for leaf in siblings_up[1:])))
