"""A server's responses as records. Pure: a member of another type than it may have raises ParseError."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from parsers.bitcoin.tx import sha256d
from parsers.errors import ParseError
from parsers.json_records import JsonObject, convert, internal, unhex, whole

U32 = (1 << 32) - 1

WAITING, ERROR, PAGE_DONE, BLOCK_DONE, REORG, FATAL = 100, 101, 199, 200, 300, 999
"""Control codes of a stream."""

_CODES = ("statusCode", "status_code", "code")
_Height = Annotated[int, whole(0, (1 << 31) - 1)]
_Number = Annotated[int, whole(0, U32)]


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


class _HeaderJson(JsonObject):
    height: _Height
    hash: str
    # some servers write a version as a signed number
    version: Annotated[int, whole(-(1 << 31), U32)]
    merkleroot: str
    time: _Number
    bits: _Number | str
    nonce: _Number


class _ControlJson(JsonObject):
    code: _Number
    block: _Number | None
    message: Any
    status: Any


class _TransactionJson(JsonObject, rename=None):
    id: str
    block_height: _Height
    block_index: Annotated[int, whole(0, (1 << 63) - 1)]
    block_hash: str | None = None
    transaction: bytes | None = None


def header(value: Any) -> JsonHeader:
    """One header. Raises ParseError."""
    row = convert(value, _HeaderJson, "a header")
    bits = int.from_bytes(unhex(row.bits.lower(), "bits", 4)) if isinstance(row.bits, str) else row.bits
    return JsonHeader(
        row.height, internal(row.hash, "hash"), row.version & U32, internal(row.merkleroot, "merkleroot"),
        row.time, bits, row.nonce,
    )  # fmt: skip


def headers(value: Any, first: int, count: int) -> list[JsonHeader]:
    """At most `count` headers from height `first` on, without a gap. Raises ParseError."""
    rows = convert(value, list[Any]) if value is not None else []
    parsed = [header(row) for row in rows[:count]]
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
    rows = [value] if isinstance(value, dict) else convert(value, list[Any])
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
    members = {member: row.get(member) for member in ("block", "message", "status")}
    control = convert(members | {"code": row[name]}, _ControlJson, "a control message")
    return Control(control.code, control.block or 0, str(control.message or control.status or "")[:200])


def _match(row: Any) -> DeliveredTransaction:
    match = convert(row, _TransactionJson, "a transaction")
    block = internal(match.block_hash, "block_hash") if match.block_hash else None
    return DeliveredTransaction(
        match.block_height, match.block_index, internal(match.id, "id"), block, match.transaction or None
    )
