"""CIDs of IPFS, and verification of the blocks that they name (specifications of CID, DAG-PB and UnixFS).

Supported are CIDv0 and CIDv1 in base32, base58btc, base36 and hex, with SHA-256 and the codecs raw and dag-pb. A block
is verified by its hash. In dag-pb, a file of one block yields its bytes and a directory of one block its links by name;
a file of several blocks and a sharded directory are only recognised.
"""

from __future__ import annotations

from base64 import b32decode, b32encode
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import NamedTuple

from parsers.byte_reader import ByteReader
from parsers.errors import ParseError, ProofError

RAW, DAG_PB = 0x55, 0x70
MAX_BLOCK = 2 << 20
"""Bytes of the largest block that IPFS nodes exchange."""
MAX_LINKS = 10_000
MAX_TEXT = 128

_SHA256 = 0x12
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"


class Cid(NamedTuple):
    """A content identifier: its version, the codec of the block, and the block's SHA-256 (32 bytes)."""

    version: int
    codec: int
    digest: bytes

    @property
    def base32(self) -> str:
        """The CIDv1 of the block in base32, which every gateway accepts, also for a CIDv0."""
        raw = b"\x01" + bytes((self.codec, _SHA256, 32)) + self.digest
        return "b" + _in_base32(raw)


class BlockContent(Enum):
    """The kind of content of a block."""

    FILE = "file"
    DIRECTORY = "directory"
    MANY = "a file of several blocks"
    SHARDED = "a sharded directory"
    OTHER = "neither a file nor a directory"


@dataclass(frozen=True, slots=True)
class IpfsBlock:
    """A verified block: the bytes of a file, or the links of a directory (name and CID, both as bytes)."""

    content: BlockContent
    body: bytes = b""
    links: tuple[tuple[bytes, bytes], ...] = ()

    def link(self, name: str) -> bytes | None:
        """The CID (bytes) of an entry of a directory; None without this entry."""
        name_bytes = name.encode()
        return next((cid for entry, cid in self.links if entry == name_bytes), None)


def read(text: str) -> Cid:
    """Parse a CID from text. Raises ParseError, also for unsupported hashes, codecs and bases."""
    if len(text) > MAX_TEXT:
        raise ParseError(f"a CID of {len(text):,} characters; at most {MAX_TEXT} are read")
    if len(text) == 46 and text.startswith("Qm"):
        return of_bytes(_number(text, _BASE58))
    base, digits = text[:1], text[1:]
    if base == "b":
        return of_bytes(_base32(digits))
    if base == "f":
        return of_bytes(_hex(digits))
    if base in ("z", "k"):
        return of_bytes(_number(digits, _BASE58 if base == "z" else _BASE36))
    raise ParseError("a CID in a base other than base32, base36, base58btc and hex")


def of_bytes(raw: bytes) -> Cid:
    """Parse a CID from bytes. Raises ParseError."""
    if raw[:2] == bytes((_SHA256, 32)) and len(raw) == 34:
        return Cid(0, DAG_PB, raw[2:])
    reader = ByteReader(raw)
    version, codec, kind, size = (_varint(reader, what) for what in ("version", "codec", "hash", "hash's size"))
    if version != 1:
        raise ParseError(f"a CID of version {version}")
    if codec not in (RAW, DAG_PB):
        raise ParseError(f"a CID of codec {codec:#x}; raw and dag-pb are supported")
    if kind != _SHA256 or size != 32:
        raise ParseError(f"a CID with hash function {kind:#x} of {size} bytes; SHA-256 is supported")
    digest = reader.take(32, "the hash")
    reader.finish("the CID")
    return Cid(1, codec, digest)


def _number(digits: str, alphabet: str) -> bytes:
    """Bytes from digits of a base that is not a power of two; leading zero digits are zero bytes."""
    value = 0
    for digit in digits:
        digit_value = alphabet.find(digit)
        if digit_value < 0:
            raise ParseError(f"{digit!a} is not a digit of this base")
        value = value * len(alphabet) + digit_value
    zeros = len(digits) - len(digits.lstrip(alphabet[0]))
    return bytes(zeros) + value.to_bytes(-(-value.bit_length() // 8), "big")


def _in_base32(data: bytes) -> str:
    """Base32 in lower case without padding."""
    return b32encode(data).decode().rstrip("=").lower()


def _base32(digits: str) -> bytes:
    try:
        data = b32decode(digits.upper() + "=" * (-len(digits) % 8))
    except ValueError:
        data = None
    if data is None or _in_base32(data) != digits:
        raise ParseError("digits that are not base32 in lower case, or end in the middle of a byte")
    return data


def _hex(digits: str) -> bytes:
    if not digits.isascii() or not digits.isalnum() or digits != digits.lower():
        raise ParseError("hex in lower case was expected")
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise ParseError("no hex") from None


def _varint(reader: ByteReader, what: str) -> int:
    """An unsigned LEB128 of at most 63 bits, as the multiformats and protobuf write it."""
    value = 0
    for shift in range(0, 63, 7):
        byte = reader.byte(what)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise ParseError(f"{what} is a number of more than 63 bits", reader.offset)


def block(cid: Cid, data: bytes) -> IpfsBlock:
    """Verify and parse the block of a CID. Raises ProofError for bytes with another hash, ParseError for malformed
    content."""
    if len(data) > MAX_BLOCK:
        raise ParseError(f"a block of {len(data):,} bytes; at most {MAX_BLOCK:,} are read")
    digest = sha256(data).digest()
    if digest != cid.digest:
        raise ProofError(f"the block has SHA-256 {digest.hex()}, not {cid.digest.hex()}")
    return IpfsBlock(BlockContent.FILE, data) if cid.codec == RAW else _node(data)


def _fields(data: bytes, what: str) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message: field number, and an int (wire type 0) or bytes (wire types 1, 2 and 5)."""
    reader = ByteReader(data)
    while reader.offset < reader.end:
        key = _varint(reader, f"a field of {what}")
        number, wire = key >> 3, key & 7
        if wire == 0:
            yield number, _varint(reader, f"field {number} of {what}")
        elif wire in (1, 2, 5):
            size = _varint(reader, f"the size of field {number}") if wire == 2 else 8 if wire == 1 else 4
            yield number, reader.take(size, f"field {number} of {what}")
        else:
            raise ParseError(f"field {number} of {what} has wire type {wire}", reader.offset)


def _node(data: bytes) -> IpfsBlock:
    """A DAG-PB node: links (field 2) and data (field 1), which is a UnixFS message."""
    links: list[tuple[bytes, bytes]] = []
    inner: bytes | None = None
    for number, value in _fields(data, "the node"):
        if not isinstance(value, bytes) or number not in (1, 2) or (number == 1 and inner is not None):
            raise ParseError(f"field {number} does not belong in a DAG-PB node")
        if number == 1:
            inner = value
            continue
        if len(links) == MAX_LINKS:
            raise ParseError(f"a node of more than {MAX_LINKS:,} links")
        links.append(_link(value))
    if inner is None:
        raise ParseError("a DAG-PB node without UnixFS data")
    return _unixfs(inner, tuple(links))


def _link(data: bytes) -> tuple[bytes, bytes]:
    name, cid = b"", b""
    for number, value in _fields(data, "a link"):
        if number == 1 and isinstance(value, bytes):
            cid = value
        elif number == 2 and isinstance(value, bytes):
            name = value
    return name, cid


_TYPES = {0: BlockContent.FILE, 1: BlockContent.DIRECTORY, 2: BlockContent.FILE, 5: BlockContent.SHARDED}
"""UnixFS types: raw, directory, file, HAMT shard; metadata (3) and symlinks (4) are not read."""


def _unixfs(data: bytes, links: tuple[tuple[bytes, bytes], ...]) -> IpfsBlock:
    kind, body, size, blocks = -1, b"", None, 0
    for number, value in _fields(data, "UnixFS data"):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number == 2 and isinstance(value, bytes):
            body = value
        elif number == 3 and isinstance(value, int):
            size = value
        elif number == 4:
            blocks += 1
    shape = _TYPES.get(kind, BlockContent.OTHER)
    if shape is BlockContent.FILE and (links or blocks):
        return IpfsBlock(BlockContent.MANY)
    if shape is BlockContent.FILE:
        if size is not None and size != len(body):
            raise ParseError(f"a file of {len(body):,} bytes that claims to have {size:,}")
        return IpfsBlock(shape, body)
    return IpfsBlock(shape, links=links if shape is BlockContent.DIRECTORY else ())
