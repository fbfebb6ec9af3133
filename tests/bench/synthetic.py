"""A synthetic block to measure with: 32 MB, 60,000 transactions of the kinds that real BSV blocks are made of."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, serialise, varint

MAP_PREFIX = b"1PuQa7K62MiKCtssSLKy1kh56WWU7MtUR5"
COINBASE = serialise((TxInput(Outpoint(bytes(32), 0xFFFFFFFF), b"\x03\x01\x02\x03", 0),), (TxOutput(50, b"\x51"),))


def push(data: bytes) -> bytes:
    """The shortest push of `data`."""
    size = len(data)
    if size < 0x4C:
        return bytes((size,)) + data
    if size < 0x100:
        return b"\x4c" + bytes((size,)) + data
    return (b"\x4d" + size.to_bytes(2, "little") if size < 0x10000 else b"\x4e" + size.to_bytes(4, "little")) + data


def envelope(content_type: bytes, body: bytes) -> bytes:
    """An ord envelope of one body."""
    return b"\x00\x63\x03ord\x51" + push(content_type) + b"\x00" + push(body) + b"\x68"


class Maker:
    """Makes random but repeatable transactions."""

    def __init__(self, seed: int = 1) -> None:
        self.random = random.Random(seed)

    def p2pkh(self) -> bytes:
        """A locking script of 25 bytes."""
        return b"\x76\xa9\x14" + self.random.randbytes(20) + b"\x88\xac"

    def inputs(self) -> tuple[TxInput, ...]:
        """Mostly one or two inputs, unlocked with signature and key."""
        count = self.random.choices((1, 2, 3, 8), (70, 20, 8, 2))[0]
        return tuple(
            TxInput(
                Outpoint(self.random.randbytes(32), self.random.randrange(4)),
                push(self.random.randbytes(71)) + push(self.random.randbytes(33)),
                0xFFFFFFFF,
            )
            for _ in range(count)
        )

    def transaction(self, *messages: bytes) -> bytes:
        """A transaction with these output scripts of one satoshi, and change."""
        outputs = tuple(TxOutput(1, script) for script in messages)
        change = tuple(TxOutput(self.random.randrange(10**8), self.p2pkh()) for _ in range(1 if messages else 2))
        return serialise(self.inputs(), outputs + change)

    def payment(self) -> bytes:
        """Value from keys to keys."""
        return self.transaction()

    def data(self) -> bytes:
        """A data carrier, binary or hexadecimal text."""
        size = self.random.randrange(20, 220)
        content = self.random.randbytes(size)
        return self.transaction(b"\x00\x6a" + push(b"app") + push(content.hex().encode() if size % 2 else content))

    def token(self) -> bytes:
        """A BSV-20 transfer."""
        body = json.dumps({"p": "bsv-20", "op": "transfer", "tick": "ORDI", "amt": str(self.random.randrange(10**6))})
        return self.transaction(envelope(b"application/bsv-20", body.encode()) + self.p2pkh())

    def text(self) -> bytes:
        """An inscribed text with words such as word and order."""
        words = self.random.choices(("word", "order", "a2", "b", "afford", "json", "-m", "2b", "record"), k=200)
        return self.transaction(envelope(b"text/plain", " ".join(words).encode()) + self.p2pkh())

    def picture(self) -> bytes:
        """An inscribed picture of 20 to 130 kB."""
        return self.transaction(envelope(b"image/png", self.random.randbytes(self.random.randrange(20_000, 130_000))))

    def registration(self) -> bytes:
        """An A2B tool."""
        body = json.dumps({"mcpServers": {"tool": {"command": "bunx", "args": [self.random.randbytes(4).hex()]}}})
        message = b"\x6a" + b"".join(map(push, (MAP_PREFIX, b"SET", b"app", b"bsv-mcp", b"type", b"a2b-mcp")))
        return self.transaction(envelope(b"application/json", body.encode()) + self.p2pkh() + message)


def block(transactions: int = 60_000, seed: int = 1) -> bytes:
    """A block of that many mixed transactions (533 bytes each on average) under an empty header."""
    maker = Maker(seed)
    kinds: tuple[Callable[[], bytes], ...] = (
        maker.payment, maker.data, maker.token, maker.text, maker.picture, maker.registration,
    )  # fmt: skip
    picks = maker.random.choices(kinds, (8030, 1000, 800, 130, 28, 12), k=transactions - 1)
    return bytes(80) + varint(transactions) + COINBASE + b"".join(pick() for pick in picks)
