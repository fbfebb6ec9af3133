"""The codec of peers: what is built is read, and any bytes give a record or a ParseError."""

from __future__ import annotations

import struct
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.chains.peers import messages
from indexer.chains.peers.messages import FrameHeader, Inventory, PeerAddress, WireHeader
from indexer.chains.peers.wire_networks import wire_network
from indexer.headers.networks import NETWORKS
from parsers.bitcoin.tx import sha256d, varint
from parsers.errors import ParseError

MAGIC = bytes.fromhex("fabfb5da")
VERSION_OF_LITECOIND = (
    struct.pack("<iQq", 70015, 0x1000409, 1_700_000_000)
    + bytes(26)
    + struct.pack("<Q", 0x1000409)
    + bytes(18)
    + b"12345678\x17/LitecoinCore:0.21.2.1/"
    + struct.pack("<iB", 110, 1)
)
"""Laid out as litecoind 0.21 sends it: 109 bytes."""

READERS: list[Callable[[bytes], Any]] = [
    lambda raw: messages.read_frame(raw, MAGIC),
    messages.read_extension,
    messages.read_version,
    messages.read_inventory,
    messages.read_addresses,
    lambda raw: messages.read_headers(raw, auxpow=False),
    lambda raw: messages.read_headers(raw, auxpow=True),
]

hashes = st.binary(min_size=32, max_size=32)
inventories = st.lists(st.builds(Inventory, st.integers(0, 2**32 - 1), hashes), max_size=300)
commands = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)


@given(commands, st.binary(max_size=200))
def test_a_frame_that_is_built_is_read(command: str, payload: bytes) -> None:
    raw = messages.frame(MAGIC, command, payload)
    header = messages.read_frame(raw[: messages.FRAME_BYTES], MAGIC)
    assert header == FrameHeader(command, len(payload), sha256d(payload)[:4])
    messages.check(header, raw[messages.FRAME_BYTES :])
    with pytest.raises(ParseError):
        messages.check(header, payload + b"x")


@given(commands, st.integers(0, 2**64 - 1))
def test_an_extended_frame_has_eight_bytes_of_length_and_no_checksum(command: str, size: int) -> None:
    raw = command.encode().ljust(12, b"\0") + struct.pack("<Q", size)
    assert messages.read_extension(raw) == FrameHeader(command, size, None)
    messages.check(FrameHeader(command, size, None), b"anything")


@given(inventories)
def test_an_inventory_that_is_built_is_read(entries: list[Inventory]) -> None:
    assert messages.read_inventory(messages.inventory(entries)) == entries


@given(st.lists(st.binary(min_size=80, max_size=80), max_size=20), st.sampled_from([0, 1, 300, 70_000]))
def test_headers_are_read_with_any_number_of_transactions(raws: list[bytes], transactions: int) -> None:
    payload = varint(len(raws)) + b"".join(raw + varint(transactions) for raw in raws)
    assert messages.read_headers(payload, auxpow=False) == [WireHeader(raw, None) for raw in raws]


@given(st.lists(st.tuples(st.ip_addresses(), st.integers(0, 65_535)), max_size=30))
def test_addresses_are_read(pairs: list[tuple[IPv4Address | IPv6Address, int]]) -> None:
    def packed(ip: IPv4Address | IPv6Address) -> bytes:
        return ip.packed if ip.version == 6 else bytes(10) + b"\xff\xff" + ip.packed

    payload = varint(len(pairs)) + b"".join(bytes(12) + packed(ip) + port.to_bytes(2, "big") for ip, port in pairs)
    expected = [PeerAddress(getattr(ip, "ipv4_mapped", None) or ip, port) for ip, port in pairs]
    assert messages.read_addresses(payload) == expected


def test_a_version_message_of_litecoind_is_read() -> None:
    assert len(VERSION_OF_LITECOIND) == 109
    version = messages.read_version(VERSION_OF_LITECOIND)
    assert (version.version, version.services, version.height) == (70015, 0x1000409, 110)
    assert version.user_agent == "/LitecoinCore:0.21.2.1/"


def test_our_own_version_message_is_read() -> None:
    payload = messages.version(70016, "/a2b:0.1/", b"12345678", 1_700_000_000, 7, relay=False)
    version = messages.read_version(payload)
    assert version == messages.PeerVersion(70016, 0, b"12345678", "/a2b:0.1/", 7)
    assert payload.endswith(b"\0")


@given(st.integers(0, len(READERS) - 1), st.binary(max_size=400))
def test_any_bytes_give_a_record_or_a_parse_error(reader: int, raw: bytes) -> None:
    try:
        READERS[reader](raw)
    except ParseError:
        return


@given(st.integers(0, len(READERS) - 1), st.binary(max_size=60), st.integers(0, 2**64 - 1))
def test_a_count_that_does_not_fit_is_refused(reader: int, rest: bytes, count: int) -> None:
    """Nothing is allocated for it."""
    try:
        READERS[reader](b"\xff" + count.to_bytes(8, "little") + rest)
    except ParseError:
        return


@pytest.mark.parametrize(
    ("read", "entry", "most"),
    [
        (messages.read_inventory, bytes(36), messages.MAX_INVENTORY),
        (messages.read_addresses, bytes(30), messages.MAX_ADDRESSES),
        (READERS[5], bytes(81), messages.MAX_HEADERS),
    ],
)
def test_lists_longer_than_the_protocol_allows_are_refused(
    read: Callable[[bytes], list[Any]], entry: bytes, most: int
) -> None:
    assert len(read(varint(most) + most * entry)) == most
    with pytest.raises(ParseError):
        read(varint(most + 1) + (most + 1) * entry)


@pytest.mark.parametrize("command", [b"", b"a b", b"a\0b", b"\xff", b"\n"])
def test_a_command_is_printable_and_padded_with_zeros(command: bytes) -> None:
    with pytest.raises(ParseError):
        messages.read_frame(MAGIC + command.ljust(12, b"\0") + bytes(8), MAGIC)


def test_messages_of_another_network_are_refused() -> None:
    with pytest.raises(ParseError, match="magic"):
        messages.read_frame(messages.frame(b"\1\2\3\4", "ping"), MAGIC)


def test_every_network_has_parameters() -> None:
    for network in NETWORKS:
        wire = wire_network(network)
        assert len(wire.magic) == 4
        assert wire.block_bytes >= 4 << 20
        assert bool(wire.seeds) == (network.kind != "regtest")
        assert wire.segwit == network.rules.segwit == bool(wire.block_kind & messages.WITNESS_FLAG)
