"""A server's answers as records. Pure; every member is looked at before it is believed to be of its type."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, NamedTuple

from parsers.tx import sha256d

U32, U64 = (1 << 32) - 1, (1 << 64) - 1

WAITING, ERROR, PAGE_DONE, BLOCK_DONE, REORG, FATAL = 100, 101, 199, 200, 300, 999
"""Control codes of a subscription."""

_CODES = ("statusCode", "status_code", "code")


class AnswerError(Exception):
    """An answer that is not of the shape it has to be: the message names the member."""


class ToldHeader(NamedTuple):
    """A header in JSON, which leaves out the block before. Hashes are in internal byte order."""

    height: int
    hash: bytes
    version: int
    merkle_root: bytes
    time: int
    bits: int
    nonce: int

    def raw(self, prev: bytes) -> bytes | None:
        """The 80 bytes on top of block `prev`, None where they do not hash to what was told."""
        numbers = (self.time, self.bits, self.nonce)
        tail = b"".join(number.to_bytes(4, "little") for number in numbers)
        joined = self.version.to_bytes(4, "little") + prev + self.merkle_root + tail
        return joined if sha256d(joined) == self.hash else None


class Match(NamedTuple):
    """A transaction that a subscription delivers; `raw` is None where it must be fetched. Nothing of it is proved."""

    height: int
    tx_index: int
    txid: bytes
    block: bytes | None
    raw: bytes | None


class Control(NamedTuple):
    """A message about the subscription itself."""

    code: int
    block: int
    message: str


def header(said: Any) -> ToldHeader:
    """One header. Raises AnswerError."""
    bits = _member(said, "bits")
    return ToldHeader(
        _number(said, "height", (1 << 31) - 1), _hash(said, "hash"), _version(said), _hash(said, "merkleroot"),
        _number(said, "time"), _hex_number(bits) if isinstance(bits, str) else _number(said, "bits"),
        _number(said, "nonce"),
    )  # fmt: skip


def headers(said: Any, first: int, most: int) -> list[ToldHeader]:
    """Headers from height `first` on, without a gap, at most so many. Raises AnswerError."""
    if said is None:
        return []
    if not isinstance(said, list):
        raise AnswerError("a list of headers is no list")
    found = [header(each) for each in said[:most]]
    for at, each in enumerate(found, first):
        if each.height != at:
            raise AnswerError(f"a list of headers from {first:,} on has {each.height:,} in the place of {at:,}")
    return found


def linked(told: Sequence[ToldHeader], prev: bytes) -> list[bytes] | None:
    """The raw bytes of headers that follow each other on top of `prev`; None where the first does not follow it.

    Raises AnswerError where a later one does not follow the one before.
    """
    raws: list[bytes] = []
    for each in told:
        raw = each.raw(prev)
        if raw is None:
            if not raws:
                return None
            raise AnswerError(f"header {each.height:,} does not hash to {each.hash[::-1].hex()} on the one before it")
        raws.append(raw)
        prev = each.hash
    return raws


def page(said: Any) -> tuple[list[Match], list[Control]]:
    """A page of a subscription: what matches, in the order told, and what is said about it. Raises AnswerError."""
    if said is None:
        return [], []
    if isinstance(said, dict):
        said = [said]
    if not isinstance(said, list):
        raise AnswerError("a page of transactions is no list")
    matches: list[Match] = []
    controls: list[Control] = []
    for each in said:
        control = _control(each)
        if control is not None:
            controls.append(control)
        else:
            matches.append(_match(each))
    return matches, controls


def _control(said: Any) -> Control | None:
    if not isinstance(said, dict) or "id" in said:
        return None
    name = next((name for name in _CODES if name in said), None)
    if name is None:
        return None
    block = _number(said, "block") if said.get("block") is not None else 0
    return Control(_number(said, name), block, str(said.get("message") or said.get("status") or "")[:200])


def _match(said: Any) -> Match:
    text = said.get("transaction") if isinstance(said, dict) else None
    return Match(
        _number(said, "block_height", (1 << 31) - 1),
        _number(said, "block_index", U64),
        _hash(said, "id"),
        _hash(said, "block_hash") if said.get("block_hash") else None,
        _base64(text) if text else None,
    )


def _member(said: Any, name: str) -> Any:
    if not isinstance(said, dict) or name not in said:
        raise AnswerError(f"there is no {name} in it")
    return said[name]


def _number(said: Any, name: str, most: int = U32) -> int:
    value = _member(said, name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise AnswerError(f"{name} is {str(value)[:60]!a}, which is no number up to {most:,}")
    return value


def _version(said: Any) -> int:
    """A version, which some write as a signed number."""
    value = _member(said, "version")
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 31) <= value <= U32:
        raise AnswerError(f"version is {str(value)[:60]!a}, which is no number of 32 bits")
    return value & U32


def _hex_number(text: str) -> int:
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) != 4:
        raise AnswerError(f"bits is {text[:60]!a}, which is no number of eight hex digits")
    return int.from_bytes(raw, "big")


def _hash(said: Any, name: str) -> bytes:
    """A hash in display order, as its 32 bytes in internal order."""
    value = _member(said, name)
    try:
        raw = bytes.fromhex(value) if isinstance(value, str) and len(value) == 64 else b""
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise AnswerError(f"{name} is {str(value)[:80]!a}, which is no hash of 64 hex digits")
    return raw[::-1]


def _base64(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise AnswerError("transaction is not base64") from None
