"""What endpoints of EVM chains answer, taken to pieces: strangers stand behind every byte. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from indexer.facts import UNCONFIRMED

TOPICS = 4
"""Topics a log has at most."""

LATEST_TIME = 1 << 40


class AnswerError(Exception):
    """An answer that no node gives: the message says what is wrong with it."""


class Header(NamedTuple):
    """A block: hashes in internal byte order, time in seconds since 1970, and the 256 bytes of its logs' bloom."""

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


def number(value: Any, most: int = UNCONFIRMED - 1) -> int:
    """A quantity such as `0x1b4`, at most `most`. Raises AnswerError."""
    if isinstance(value, str) and value[:2] == "0x" and len(value) < 67 and "_" not in value:
        try:
            found = int(value, 0)
        except ValueError:
            found = most + 1
        if 0 <= found <= most:
            return found
    raise AnswerError(f"{str(value)[:80]!a} is no number from 0 to {most:,}")


def data(value: Any, size: int | None = None) -> bytes:
    """Bytes such as `0x1234`, so many of them. Raises AnswerError."""
    if isinstance(value, str) and value[:2] == "0x":
        try:
            found = bytes.fromhex(value[2:])
        except ValueError:
            found = b""
        # fromhex passes over spaces
        if len(found) * 2 == len(value) - 2 and size in (None, len(found)):
            return found
    what = "no bytes" if size is None else f"not {size} bytes"
    raise AnswerError(f"{str(value)[:80]!a} is {what}")


def internal(value: Any) -> bytes:
    """A hash as it is shown, in internal byte order. Raises AnswerError."""
    return data(value, 32)[::-1]


def header(row: Any) -> Header:
    """A block as eth_getBlockByNumber tells it. Raises AnswerError."""
    if not isinstance(row, dict):
        raise AnswerError(f"{str(row)[:80]!a} is no block")
    return Header(
        number(row.get("number")),
        internal(row.get("hash")),
        internal(row.get("parentHash")),
        number(row.get("timestamp"), LATEST_TIME),
        data(row.get("logsBloom"), 256) if row.get("logsBloom") is not None else bytes(256),
    )


def logs(rows: Any, address: bytes, topics: Sequence[bytes], first: int, last: int) -> list[Log]:
    """Logs as eth_getLogs tells them, those of one contract with one of these first topics in blocks `first` to `last`,
    in their order on chain, each once. Raises AnswerError for anything else, and for what a reorganisation took back.
    """
    if not isinstance(rows, list):
        raise AnswerError(f"{str(rows)[:80]!a} is no list of logs")
    found: dict[tuple[int, int], Log] = {}
    for told in map(_log, rows):
        if told.address != address or not told.topics or told.topics[0] not in topics:
            raise AnswerError(f"a log of 0x{told.address.hex()} was not asked for")
        if not first <= told.block <= last:
            raise AnswerError(f"a log of block {told.block:,} was not asked for, which was {first:,} to {last:,}")
        if found.setdefault((told.block, told.log_index), told) != told:
            raise AnswerError(f"log {told.log_index} of block {told.block:,} is told twice, and not the same")
    _check_blocks(found.values())
    return [found[place] for place in sorted(found)]


def _log(row: Any) -> Log:
    if not isinstance(row, dict):
        raise AnswerError(f"{str(row)[:80]!a} is no log")
    if row.get("removed"):
        raise AnswerError("a log is told that is no longer on the chain")
    topics = row.get("topics")
    if not isinstance(topics, list) or len(topics) > TOPICS:
        raise AnswerError(f"{str(topics)[:80]!a} are no topics")
    return Log(
        data(row.get("address"), 20),
        tuple(data(topic, 32) for topic in topics),
        data(row.get("data")),
        number(row.get("blockNumber")),
        internal(row.get("blockHash")),
        internal(row.get("transactionHash")),
        number(row.get("transactionIndex")),
        number(row.get("logIndex")),
    )


def _check_blocks(told: Iterable[Log]) -> None:
    """Raise AnswerError when logs of one height name several blocks."""
    hashes: dict[int, bytes] = {}
    for log in told:
        if hashes.setdefault(log.block, log.block_hash) != log.block_hash:
            raise AnswerError(f"logs of block {log.block:,} are told of two branches")
