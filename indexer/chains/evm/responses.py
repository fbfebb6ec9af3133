"""Parses and validates responses of EVM endpoints: blocks, logs, and the bloom filter of logs. Pure. A response that no
correct node sends raises ParseError."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

from indexer.model import LATEST_TIME, UNCONFIRMED
from parsers.errors import ParseError
from parsers.json_records import JsonObject, convert, sized

TOPICS = 4
"""The maximum number of topics of a log."""

_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,64}\Z")


class EvmHeader(NamedTuple):
    """A block header: hashes in internal byte order, time in seconds since 1970, and its bloom filter (256 bytes)."""

    number: int
    hash: bytes
    parent: bytes
    time: int
    bloom: bytes


class Log(NamedTuple):
    """A log: `log_index` is its number in the block; hashes are in internal byte order, `address` and `topics` as on
    chain."""

    address: bytes
    topics: tuple[bytes, ...]
    data: bytes
    block: int
    block_hash: bytes
    txid: bytes
    tx_index: int
    log_index: int


class _EvmBlockJson(JsonObject):
    number: str
    hash: str
    parent_hash: str
    timestamp: str
    logs_bloom: str | None = None


class _EvmLogJson(JsonObject):
    address: str
    topics: Annotated[list[str], sized(TOPICS)]
    data: str
    block_number: str
    block_hash: str
    transaction_hash: str
    transaction_index: str
    log_index: str
    removed: Any = None


def number(text: str, most: int = UNCONFIRMED - 1) -> int:
    """A quantity like `0x1b4`, at most `most`. Raises ParseError."""
    if _QUANTITY.match(text) and (quantity := int(text, 16)) <= most:
        return quantity
    raise ParseError(f"{text[:80]!a} is not a number from 0 to {most:,}")


def data(text: str, size: int | None = None) -> bytes:
    """Bytes like `0x1234`, exactly `size` of them if it is not None. Raises ParseError."""
    if text[:2] == "0x":
        try:
            raw = bytes.fromhex(text[2:])
        except ValueError:
            raw = b""
        # fromhex skips spaces
        if len(raw) * 2 == len(text) - 2 and size in (None, len(raw)):
            return raw
    what = "no bytes" if size is None else f"not {size} bytes"
    raise ParseError(f"{text[:80]!a} is {what}")


_repeated = lru_cache(maxsize=512)(data)
"""`data` of texts that most logs of an answer share, which makes logs a fifth faster to read."""


def internal(text: str) -> bytes:
    """A hash in display order, as bytes in internal byte order. Raises ParseError."""
    return data(text, 32)[::-1]


def header(row: Any) -> EvmHeader:
    """A block header from `eth_getBlockByNumber`. Raises ParseError."""
    block = convert(row, _EvmBlockJson, "a block")
    return EvmHeader(
        number(block.number),
        internal(block.hash),
        internal(block.parent_hash),
        number(block.timestamp, LATEST_TIME),
        bytes(256) if block.logs_bloom is None else data(block.logs_bloom, 256),
    )


def logs(rows: Any, address: bytes, topics: Sequence[bytes], first: int, last: int) -> list[Log]:
    """Logs from `eth_getLogs`: of one contract, with one of these first topics, in blocks `first` to `last`, in their
    order on chain, without duplicates. Raises ParseError for any other log, and for one that a reorganisation
    removed.
    """
    by_position: dict[tuple[int, int], Log] = {}
    for log in map(_log, convert(rows, list[_EvmLogJson], "a log")):
        if log.address != address or not log.topics or log.topics[0] not in topics:
            raise ParseError(f"a log of 0x{log.address.hex()} was not requested")
        if not first <= log.block <= last:
            raise ParseError(f"a log of block {log.block:,} was not requested, which was {first:,} to {last:,}")
        if by_position.setdefault((log.block, log.log_index), log) != log:
            raise ParseError(f"log {log.log_index} of block {log.block:,} is sent twice, and differs")
    hashes: dict[int, bytes] = {}
    for log in by_position.values():
        if hashes.setdefault(log.block, log.block_hash) != log.block_hash:
            raise ParseError(f"logs of block {log.block:,} are of two branches")
    return [by_position[position] for position in sorted(by_position)]


def _log(row: _EvmLogJson) -> Log:
    if row.removed:
        raise ParseError("a log is no longer on the chain")
    return Log(
        _repeated(row.address, 20),
        tuple([data(topic, 32) for topic in row.topics]),
        data(row.data),
        number(row.block_number),
        _repeated(row.block_hash, 32)[::-1],
        data(row.transaction_hash, 32)[::-1],
        number(row.transaction_index),
        number(row.log_index),
    )


_MASK = (1 << 64) - 1
_RATE = 136  # bytes of keccak-256


def _constants() -> list[int]:
    """The round constants, from the linear feedback shift register of FIPS 202 §3.2.5."""
    constants, state = [], 1
    for _ in range(24):
        constant = 0
        for power in range(7):
            if state & 1:
                constant |= 1 << ((1 << power) - 1)
            state = (state << 1) ^ (0x171 if state & 0x80 else 0)
        constants.append(constant)
    return constants


_ROUNDS = _constants()


def _rol(lane: int, by: int) -> int:
    return ((lane << by) | (lane >> (64 - by))) & _MASK if by else lane


def _permute(lanes: list[int]) -> list[int]:
    """Keccak-f[1600] over 25 lanes, lane x + 5 y (FIPS 202 §3.3)."""
    for constant in _ROUNDS:
        column = [lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20] for x in range(5)]
        lanes = [
            lane ^ column[(index % 5 - 1) % 5] ^ _rol(column[(index % 5 + 1) % 5], 1)
            for index, lane in enumerate(lanes)
        ]
        x, y, moving = 1, 0, lanes[1]
        for step in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            lanes[x + 5 * y], moving = _rol(moving, (step + 1) * (step + 2) // 2 % 64), lanes[x + 5 * y]
        lanes = [
            lane ^ (~lanes[index - index % 5 + (index + 1) % 5] & lanes[index - index % 5 + (index + 2) % 5] & _MASK)
            for index, lane in enumerate(lanes)
        ]
        lanes[0] ^= constant
    return lanes


def keccak256(message: bytes) -> bytes:
    """Keccak-256 with the padding of Ethereum, which differs from SHA-3. Takes milliseconds."""
    padded = bytearray(message + bytes(_RATE - len(message) % _RATE))
    padded[len(message)] ^= 0x01
    padded[-1] ^= 0x80
    lanes = [0] * 25
    for start in range(0, len(padded), _RATE):
        for lane in range(_RATE // 8):
            lanes[lane] ^= int.from_bytes(padded[start + lane * 8 : start + lane * 8 + 8], "little")
        lanes = _permute(lanes)
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[:4])


def bits(item: bytes) -> int:
    """The three bits that an address or a topic sets in a bloom filter of 2,048, as an integer."""
    digest = keccak256(item)
    return sum({1 << (int.from_bytes(digest[offset : offset + 2], "big") & 2047) for offset in (0, 2, 4)})


class BloomFilter:
    """Selects blocks that can hold a log of a contract with one of some first topics."""

    def __init__(self, address: bytes, topics: Iterable[bytes]) -> None:
        self._bits_of_topics = [bits(address) | bits(topic) for topic in topics]

    def may_hold(self, bloom: bytes) -> bool:
        """Whether a block with this bloom filter can hold one; one percent of the others are false positives."""
        bits_set = int.from_bytes(bloom, "big")
        return any(bits_set & mask == mask for mask in self._bits_of_topics)
