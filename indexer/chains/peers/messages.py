"""Messages of the peer-to-peer protocol of Bitcoin as bytes. Pure: bytes in, records out.

A message is a frame header of 24 bytes (magic, command, length, checksum) and a payload. On Bitcoin SV a payload above
4 GB has the command `extmsg` in a longer frame header, with the real command and a length of eight bytes. Everything
that is read comes from strangers: each reader raises ParseError for bytes that are not what it reads, and for lists
that are longer than the protocol allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from indexer.headers import proof_of_work
from indexer.headers.proof_of_work import HEADER_BYTES
from parsers.bitcoin.tx import sha256d, varint
from parsers.byte_reader import ByteReader
from parsers.errors import ParseError

FRAME_BYTES, EXTENSION_BYTES = 24, 20
"""Bytes of a frame header, and of what follows it in an `extmsg`."""

EXTENDED, EXTENDED_SIZE = "extmsg", 0xFFFFFFFF

MAX_HEADERS, MAX_INVENTORY, MAX_ADDRESSES = 2_000, 60_000, 1_000
"""Entries of a list, at most; an inventory of Bitcoin SV is bounded by two megabytes alone, 58,254 entries."""

MAX_USER_AGENT = 256

TX, BLOCK, WITNESS_FLAG = 1, 2, 1 << 30
"""Kinds of an inventory entry, and the flag that asks for witnesses."""

_COMMAND_BYTES = 12
_MAPPED = bytes(10) + b"\xff\xff"
_NO_ADDRESS = bytes(26)


class FrameHeader(NamedTuple):
    """The frame header of a message: its command, the bytes of its payload, and the payload's checksum (None in an
    `extmsg`, which has none)."""

    command: str
    size: int
    checksum: bytes | None


class PeerVersion(NamedTuple):
    """A peer's version message: protocol version, service bits, nonce, user agent, height of its tip."""

    version: int
    services: int
    nonce: bytes
    user_agent: str
    height: int


class Inventory(NamedTuple):
    """An entry of an inventory: its kind, and a hash in internal byte order."""

    kind: int
    hash: bytes


class WireHeader(NamedTuple):
    """A block header of 80 bytes, and its merge-mined proof of work, None without one."""

    raw: bytes
    aux: bytes | None


class PeerAddress(NamedTuple):
    """The address of a peer, and its port."""

    ip: IPv4Address | IPv6Address
    port: int

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if self.ip.version == 6 else f"{self.ip}:{self.port}"


# -- frames


def frame(magic: bytes, command: str, payload: bytes = b"") -> bytes:
    """A whole message."""
    return magic + _command(command) + len(payload).to_bytes(4, "little") + sha256d(payload)[:4] + payload


def _command(command: str) -> bytes:
    return command.encode().ljust(_COMMAND_BYTES, b"\0")


def read_frame(raw: bytes, magic: bytes) -> FrameHeader:
    """The frame header in 24 bytes. Raises ParseError for another magic: that of another network."""
    reader = ByteReader(raw)
    if (theirs := reader.take(4, "magic")) != magic:
        raise ParseError(f"the magic of a message is {theirs.hex()}, not {magic.hex()}", 0)
    command, size = _read_command(reader), int.from_bytes(reader.take(4, "length"), "little")
    return FrameHeader(command, size, reader.take(4, "checksum"))


def read_extension(raw: bytes) -> FrameHeader:
    """The frame header in the 20 bytes that follow an `extmsg`."""
    reader = ByteReader(raw)
    return FrameHeader(_read_command(reader), int.from_bytes(reader.take(8, "length"), "little"), None)


def _read_command(reader: ByteReader) -> str:
    padded = reader.take(_COMMAND_BYTES, "command")
    command = padded.rstrip(b"\0")
    if not command or not all(32 < byte < 127 for byte in command):
        raise ParseError(f"{padded!r} is not a command", 4)
    return command.decode()


def check(header: FrameHeader, payload: bytes) -> None:
    """Raise ParseError where the checksum is not that of the payload."""
    if header.checksum is not None and sha256d(payload)[:4] != header.checksum:
        raise ParseError(f"the checksum of {header.command} is wrong")


# -- payloads that are sent


def version(protocol: int, user_agent: str, nonce: bytes, now: int, height: int, *, relay: bool) -> bytes:
    """The payload of `version` of a client without services. `nonce` has 8 bytes, `now` is in seconds since 1970;
    without `relay` no transactions are announced."""
    agent = user_agent.encode()
    start = protocol.to_bytes(4, "little") + bytes(8) + now.to_bytes(8, "little") + 2 * _NO_ADDRESS
    return start + nonce + varint(len(agent)) + agent + height.to_bytes(4, "little") + bytes([relay])


def protocol_configuration(max_payload: int) -> bytes:
    """The payload of Bitcoin SV's `protoconf`: the greatest payload that is not a block, in bytes."""
    return varint(1) + max_payload.to_bytes(4, "little")


def get_headers(protocol: int, locator: Sequence[bytes], stop: bytes = bytes(32)) -> bytes:
    """The payload of `getheaders`: headers after the first hash of the locator that the peer's best chain has, up to
    the block `stop`. An empty locator asks for the header of `stop` alone."""
    return protocol.to_bytes(4, "little") + varint(len(locator)) + b"".join(locator) + stop


def inventory(entries: Iterable[Inventory]) -> bytes:
    """The payload of `inv`, `getdata` and `notfound`."""
    packed = [entry.kind.to_bytes(4, "little") + entry.hash for entry in entries]
    return varint(len(packed)) + b"".join(packed)


# -- payloads that are received


def read_version(payload: bytes) -> PeerVersion:
    """The payload of `version`. What newer versions append is ignored. Raises ParseError."""
    reader = ByteReader(payload)
    protocol = int.from_bytes(reader.take(4, "version"), "little", signed=True)
    services = int.from_bytes(reader.take(8, "services"), "little")
    reader.take(8 + len(_NO_ADDRESS) * 2, "time and addresses")
    nonce = reader.take(8, "nonce")
    size = reader.varint("the length of the user agent")
    if size > MAX_USER_AGENT:
        raise ParseError(f"a user agent of {size:,} bytes", reader.offset)
    agent = reader.take(size, "user agent").decode("ascii", "replace")
    height = int.from_bytes(reader.take(4, "height"), "little", signed=True)
    return PeerVersion(protocol, services, nonce, agent, height)


def read_inventory(payload: bytes) -> list[Inventory]:
    """The payload of `inv` and `notfound`. Raises ParseError."""
    reader = ByteReader(payload, max_items=MAX_INVENTORY)
    count = reader.count("inventory entries", 36)
    entries = [
        Inventory(int.from_bytes(reader.take(4, "kind"), "little"), reader.take(32, "hash")) for _ in range(count)
    ]
    reader.finish("an inventory")
    return entries


def read_headers(payload: bytes, *, auxpow: bool) -> list[WireHeader]:
    """The payload of `headers`; with `auxpow` a merge-mined header is followed by its proof of work. The number of
    transactions after each header may be any. Raises ParseError."""
    reader = ByteReader(payload, max_items=MAX_HEADERS)
    headers = []
    for _ in range(reader.count("headers", HEADER_BYTES + 1)):
        start = reader.offset
        end = proof_of_work.header_end(payload, start) if auxpow else start + HEADER_BYTES
        raw = reader.take(end - start, "header")
        headers.append(WireHeader(raw[:HEADER_BYTES], raw[HEADER_BYTES:] or None))
        reader.varint("the number of transactions")
    reader.finish("the headers")
    return headers


def read_addresses(payload: bytes) -> list[PeerAddress]:
    """The addresses in the payload of `addr`. Raises ParseError."""
    reader = ByteReader(payload, max_items=MAX_ADDRESSES)
    addresses = []
    for _ in range(reader.count("addresses", 30)):
        reader.take(12, "time and services")
        ip, port = reader.take(16, "address"), int.from_bytes(reader.take(2, "port"), "big")
        mapped = IPv4Address(ip[12:]) if ip.startswith(_MAPPED) else IPv6Address(ip)
        addresses.append(PeerAddress(mapped, port))
    reader.finish("the addresses")
    return addresses
