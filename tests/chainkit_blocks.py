"""Blocks of the mint: what a mined block is called, how it is counted, hashed and framed on a disk."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from parsers.bitcoin.tx import sha256d
from tests.chainkit_coins import MAGIC


@dataclass(frozen=True, slots=True)
class Block:
    """A mined block. `label` is its height and the letter of its fork: `4`, `4a`; hashes are in internal byte order."""

    label: str
    height: int
    hash: bytes
    prev: bytes
    time: int
    raw: bytes = field(repr=False)
    txids: tuple[bytes, ...] = field(repr=False)

    def __repr__(self) -> str:
        return f"<block {self.label}>"

    @property
    def header(self) -> bytes:
        """The 80 bytes that are hashed."""
        return self.raw[:80]

    @property
    def hex(self) -> str:
        """The hash in display byte order."""
        return self.hash[::-1].hex()


def frame(raw: bytes, *, magic: bytes = MAGIC, long: bool = False) -> bytes:
    """A block as it stands in a block file: magic and size before it (`long`: the form for blocks over 4 GB)."""
    size = b"\xff\xff\xff\xff" + len(raw).to_bytes(8, "little") if long else len(raw).to_bytes(4, "little")
    return magic + size + raw


def merkle_root(txids: Sequence[bytes]) -> bytes:
    """The merkle root of transaction ids in internal byte order."""
    level = list(txids)
    while len(level) > 1:
        if len(level) % 2:
            level.append(level[-1])
        level = [sha256d(left + right) for left, right in zip(level[::2], level[1::2], strict=True)]
    return level[0]


def fork_letters() -> Iterable[str]:
    yield from string.ascii_lowercase
    for first in string.ascii_lowercase:
        yield from (first + second for second in string.ascii_lowercase)


def count_bytes(number: int) -> bytes:
    return bytes((number,)) if number < 0xFD else b"\xfd" + number.to_bytes(2, "little")


def read_count(raw: bytes, position: int) -> tuple[int, int]:
    return (
        (raw[position], position + 1)
        if raw[position] < 0xFD
        else (int.from_bytes(raw[position + 1 : position + 3], "little"), position + 3)
    )
