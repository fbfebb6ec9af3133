"""Blocks and transactions read the slow and obvious way, sharing no code with the parsers."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple


def sha256d(data: bytes) -> bytes:
    """Double SHA-256 (32 bytes, internal order)."""
    return sha256(sha256(data).digest()).digest()


class Out(NamedTuple):
    """An output: satoshis and locking script."""

    satoshis: int
    script: bytes


@dataclass(frozen=True)
class Tx:
    """A transaction: `txid` as people write it, `spends` as outpoint texts `<txid>_<vout>`."""

    txid: str
    spends: tuple[str, ...]
    outs: tuple[Out, ...]
    witnesses: tuple[tuple[bytes, ...], ...] = ()

    @property
    def is_coinbase(self) -> bool:
        """Whether it creates coins."""
        return self.spends[0].startswith("0" * 64)


class Tape:
    """Bytes read from the front; what is missing raises IndexError."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        if self.position + size > len(self.data):
            raise IndexError(f"{size} bytes wanted at {self.position} of {len(self.data)}")
        self.position += size
        return self.data[self.position - size : self.position]

    def number(self, size: int) -> int:
        """The next little-endian number of `size` bytes."""
        return int.from_bytes(self.take(size), "little")

    def varint(self) -> int:
        """The next Bitcoin varint."""
        first = self.number(1)
        return first if first < 253 else self.number({253: 2, 254: 4, 255: 8}[first])


def read_tx(tape: Tape, *, segwit: bool = False) -> Tx:
    """The next transaction of the tape; with `segwit`, marker 0 and flag 1 announce witnesses, flag 8 a MWEB part (in a
    block that is one zero)."""
    version = tape.take(4)
    flag = 0
    if segwit and tape.data[tape.position : tape.position + 2] in (b"\x00\x01", b"\x00\x08", b"\x00\x09"):
        flag = tape.take(2)[1]
    start = tape.position
    spends = []
    for _ in range(tape.varint()):
        txid = tape.take(32)[::-1].hex()
        spends.append(f"{txid}_{tape.number(4)}")
        tape.take(tape.varint())
        tape.take(4)
    outs = []
    for _ in range(tape.varint()):
        satoshis = tape.number(8)
        outs.append(Out(satoshis, tape.take(tape.varint())))
    bare = tape.data[start : tape.position]
    stacks = [tuple(tape.take(tape.varint()) for _ in range(tape.varint())) for _ in spends] if flag & 1 else []
    if flag & 8:
        assert tape.take(1) == b"\0", "a MWEB transaction is not part of a block"
    txid = sha256d(version + bare + tape.take(4))[::-1].hex()
    return Tx(txid, tuple(spends), tuple(outs), tuple(stacks))


def read_block(raw: bytes, *, segwit: bool = False) -> list[Tx]:
    """All transactions of a raw block, the coinbase first."""
    tape = Tape(raw)
    tape.take(80)
    return [read_tx(tape, segwit=segwit) for _ in range(tape.varint())]


def block_hash(raw: bytes) -> str:
    """A block's hash as people write it."""
    return sha256d(raw[:80])[::-1].hex()


def block_prev(raw: bytes) -> str:
    """The hash of the block before it."""
    return raw[4:36][::-1].hex()


def work(raw: bytes) -> int:
    """The work that a block's bits claim: 2**256 / (target + 1)."""
    bits = int.from_bytes(raw[72:76], "little")
    target = (bits & 0x7FFFFF) << (8 * ((bits >> 24) - 3))
    return (1 << 256) // (target + 1)


def frames(data: bytes, magic: str = "fabfb5da") -> list[bytes]:
    """The raw blocks of a block file, in order of arrival, up to the first zeros or the end."""
    tape, blocks = Tape(data), []
    while data[tape.position : tape.position + 4] == bytes.fromhex(magic):
        tape.take(4)
        blocks.append(tape.take(tape.number(4)))
    return blocks


def heaviest(blocks: list[bytes]) -> list[bytes]:
    """The chain of most work from genesis among blocks in order of arrival; of equals, the first to be complete."""
    existing = {block_hash(raw): raw for raw in blocks}

    def chain(raw: bytes) -> list[bytes]:
        results = [raw]
        while block_prev(results[-1]) in existing:
            results.append(existing[block_prev(results[-1])])
        return results[::-1]

    return max(map(chain, blocks), key=lambda result: sum(map(work, result)))
