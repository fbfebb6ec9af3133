"""A server's responses as records. Pure. Every member is type-checked: one of the wrong shape raises ParseError."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, NamedTuple

from parsers.bitcoin.tx import sha256d
from parsers.errors import ParseError

U32, U64 = (1 << 32) - 1, (1 << 64) - 1

WAITING, ERROR, PAGE_DONE, BLOCK_DONE, REORG, FATAL = 100, 101, 199, 200, 300, 999
"""Control codes of a stream."""

_CODES = ("statusCode", "status_code", "code")


class JsonHeader(NamedTuple):
    """A block header in JSON, which has no previous hash. Hashes are in internal byte order."""

    height: int
    hash: bytes
    version: int
    merkle_root: bytes
    time: int
    bits: int
    nonce: int

    def raw(self, prev: bytes) -> bytes | None:
        """The 80 bytes on top of block `prev` (internal byte order), None where they do not have the header's hash."""
        numbers = (self.time, self.bits, self.nonce)
        tail = b"".join(number.to_bytes(4, "little") for number in numbers)
        joined = self.version.to_bytes(4, "little") + prev + self.merkle_root + tail
        return joined if sha256d(joined) == self.hash else None


class DeliveredTransaction(NamedTuple):
    """A transaction that a stream delivers; `raw` is None where it must be fetched. It is not proved yet."""

    height: int
    tx_index: int
    txid: bytes
    block: bytes | None
    raw: bytes | None


class Control(NamedTuple):
    """A message about the stream itself."""

    code: int
    block: int
    message: str


def header(value: Any) -> JsonHeader:
    """One header. Raises ParseError."""
    bits = _member(value, "bits")
    return JsonHeader(
        _number(value, "height", (1 << 31) - 1), _hash(value, "hash"), _version(value), _hash(value, "merkleroot"),
        _number(value, "time"), _hex_number(bits) if isinstance(bits, str) else _number(value, "bits"),
        _number(value, "nonce"),
    )  # fmt: skip


def headers(value: Any, first: int, count: int) -> list[JsonHeader]:
    """At most `count` headers from height `first` on, without a gap. Raises ParseError."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise ParseError("a list of headers is not a list")
    parsed = [header(row) for row in value[:count]]
    for expected, row in enumerate(parsed, first):
        if row.height != expected:
            raise ParseError(f"a list of headers from {first:,} on has {row.height:,} instead of {expected:,}")
    return parsed


def linked(headers: Sequence[JsonHeader], prev: bytes) -> list[bytes] | None:
    """The raw bytes of headers that link to each other and to block `prev`; None where the first does not link to it.

    Raises ParseError where a later one does not link to the one before.
    """
    raws: list[bytes] = []
    for row in headers:
        raw = row.raw(prev)
        if raw is None:
            if not raws:
                return None
            raise ParseError(f"header {row.height:,} does not hash to {row.hash[::-1].hex()} on the one before it")
        raws.append(raw)
        prev = row.hash
    return raws


def page(value: Any) -> tuple[list[DeliveredTransaction], list[Control]]:
    """A page of a stream: its matches, in the order delivered, and its control messages. Raises
    ParseError."""
    if value is None:
        return [], []
    rows = [value] if isinstance(value, dict) else value
    if not isinstance(rows, list):
        raise ParseError("a page of transactions is not a list")
    matches: list[DeliveredTransaction] = []
    controls: list[Control] = []
    for row in rows:
        control = _control(row)
        if control is not None:
            controls.append(control)
        else:
            matches.append(_match(row))
    return matches, controls


def _control(row: Any) -> Control | None:
    if not isinstance(row, dict) or "id" in row:
        return None
    name = next((name for name in _CODES if name in row), None)
    if name is None:
        return None
    block = _number(row, "block") if row.get("block") is not None else 0
    return Control(_number(row, name), block, str(row.get("message") or row.get("status") or "")[:200])


def _match(row: Any) -> DeliveredTransaction:
    raw = row.get("transaction") if isinstance(row, dict) else None
    return DeliveredTransaction(
        _number(row, "block_height", (1 << 31) - 1),
        _number(row, "block_index", U64),
        _hash(row, "id"),
        _hash(row, "block_hash") if row.get("block_hash") else None,
        _base64(raw) if raw else None,
    )


def _member(row: Any, name: str) -> Any:
    if not isinstance(row, dict) or name not in row:
        raise ParseError(f"there is no {name} in it")
    return row[name]


def _number(row: Any, name: str, largest: int = U32) -> int:
    value = _member(row, name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
        raise ParseError(f"{name} is {str(value)[:60]!a}, which is not a number up to {largest:,}")
    return value


def _version(row: Any) -> int:
    """A version, which some servers write as a signed number."""
    value = _member(row, "version")
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 31) <= value <= U32:
        raise ParseError(f"version is {str(value)[:60]!a}, which is not a number of 32 bits")
    return value & U32


def _hex_number(text: str) -> int:
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) != 4:
        raise ParseError(f"bits is {text[:60]!a}, which is not a number of eight hex digits")
    return int.from_bytes(raw, "big")


def _hash(row: Any, name: str) -> bytes:
    """A hash in display order, as its 32 bytes in internal byte order."""
    value = _member(row, name)
    try:
        raw = bytes.fromhex(value) if isinstance(value, str) and len(value) == 64 else b""
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise ParseError(f"{name} is {str(value)[:80]!a}, which is not a hash of 64 hex digits")
    return raw[::-1]


def _base64(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise ParseError("transaction is not base64") from None
