"""A slow, obvious walker of blocks: parses everything, shares nothing with the compiled loop, uses no byte search."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field


class RefusedError(Exception):
    """The bytes are not a block."""


@dataclass
class Tx:
    """A transaction as it stands in a block; `bare` is its bytes without marker and witness."""

    start: int
    stop: int = 0
    spends: list[bytes] = field(default_factory=list)
    scripts: list[bytes] = field(default_factory=list)
    witness: list[bytes] = field(default_factory=list)
    bare: bytes = b""


class Bytes:
    """Reads forward and refuses to read beyond the end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def take(self, size: int) -> bytes:
        if self.position + size > len(self.data):
            raise RefusedError(f"{size} bytes wanted at {self.position}")
        self.position += size
        return self.data[self.position - size : self.position]

    def varint(self) -> int:
        first = self.take(1)[0]
        wide = {0xFD: ("<H", 2), 0xFE: ("<I", 4), 0xFF: ("<Q", 8)}
        if first not in wide:
            return first
        form, size = wide[first]
        return int(struct.unpack(form, self.take(size))[0])


def transactions(data: bytes, *, segwit: bool) -> list[Tx]:
    """All transactions of a block, or RefusedError."""
    reader = Bytes(data)
    reader.take(80)
    count = reader.varint()
    if count == 0:
        raise RefusedError("no transactions")
    results = [transaction(reader, segwit=segwit) for _ in range(count)]
    if reader.position < len(data) and not segwit:
        raise RefusedError("trailing bytes")
    return results


def transaction(reader: Bytes, *, segwit: bool) -> Tx:
    tx = Tx(reader.position)
    version = reader.take(4)
    flag = 0
    if segwit and reader.data[reader.position : reader.position + 2] in (b"\0\1", b"\0\x08", b"\0\x09"):
        flag = reader.take(2)[1]
    body = reader.position
    inputs = reader.varint()
    for _ in range(inputs):
        tx.spends.append(reader.take(36))
        reader.take(reader.varint())
        reader.take(4)
    for _ in range(reader.varint()):
        reader.take(8)
        tx.scripts.append(reader.take(reader.varint()))
    middle = reader.data[body : reader.position]
    if flag in (1, 9):
        for _ in range(inputs):
            for _ in range(reader.varint()):
                tx.witness.append(reader.take(reader.varint()))
    if flag in (8, 9) and reader.take(1) != b"\0":
        raise RefusedError("a MWEB body")
    tx.bare = version + middle + reader.take(4)
    tx.stop = reader.position
    return tx


def operations(script: bytes) -> Iterator[tuple[int, bytes]]:
    """(opcode, pushed bytes); the last push may be cut short."""
    position = 0
    while position < len(script):
        code = script[position]
        position += 1
        if code <= 0x4B:
            size = code
        elif code in (0x4C, 0x4D, 0x4E):
            wide = {0x4C: 1, 0x4D: 2, 0x4E: 4}[code]
            size = int.from_bytes(script[position : position + wide], "little")
            position += wide
        else:
            yield code, b""
            continue
        yield code, script[position : position + size]
        position += size


def is_lock_only(script: bytes) -> bool:
    """P2PKH, P2SH and the three witness programs: hashes and keys, nothing said."""
    hashes = (
        (25, b"\x76\xa9\x14", b"\x88\xac"), (23, b"\xa9\x14", b"\x87"), (22, b"\x00\x14", b""),
        (34, b"\x00\x20", b""), (34, b"\x51\x20", b""),
    )  # fmt: skip
    return any(len(script) == size and script.startswith(head) and script.endswith(end) for size, head, end in hashes)


def content_types(script: bytes) -> Iterator[bytes]:
    """The values in the fields of each envelope, up to the body."""
    walked = list(operations(script))
    for number in range(2, len(walked)):
        if walked[number - 2] == (0, b"") and walked[number - 1][0] == 0x63 and walked[number][1] == b"ord":
            fields = walked[number + 1 :]
            for (tag, name), (value, content) in zip(fields[::2], fields[1::2], strict=False):
                if tag == 0 or name == b"\0" or tag > 0x60 or value > 0x60:
                    break
                yield content


def elements(script: bytes) -> Iterator[bytes]:
    """The pushed elements, also of the script that is the value behind MAP's prefix in an envelope."""
    before = b""
    for _, element in operations(script):
        yield element
        if before == b"1PuQa7K62MiKCtssSLKy1kh56WWU7MtUR5":
            yield from (inner for _, inner in operations(element))
        before = element


def speaks(script: bytes) -> bool:
    """Whether a script says something that a law takes notice of."""
    if any(element.startswith(b"a2b") or element == b"bsv-mcp" for element in elements(script)):
        return True
    return any(b"json" in content.lower() for content in content_types(script))


def relevant(tx: Tx, watched: set[bytes], *, witness: bool) -> bool:
    """Whether a transaction must be read: it spends a watched outpoint (36 bytes), or it speaks."""
    if any(spent in watched for spent in tx.spends):
        return True
    message = [script for script in tx.scripts if not is_lock_only(script)] + (tx.witness if witness else [])
    return any(speaks(script) for script in message)
