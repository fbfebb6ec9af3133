"""What `getProgramAccounts` answers, read: the accounts of a program that carry the mark, at one finalized slot. Pure.

Shapes: Solana's RPC documentation, `getProgramAccounts` with `withContext` and encoding `base64`.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import base58

from indexer.facts import UNCONFIRMED
from parsers.pointer import SOLANA_MARK

ACCOUNT_BYTES = 10 * 1024 * 1024
"""What an account of Solana can hold."""

MOST_ACCOUNTS = 1_000_000

_KEY_BYTES = 32
_KEY_CHARACTERS = 44
_BASE64_CHARACTERS = -(-ACCOUNT_BYTES // 3) * 4


class AnswerError(ValueError):
    """An answer that no honest endpoint gives: the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The accounts of a program at a slot: the data after the mark, without the zero bytes at its end (the account's
    unused room), by the account's address (32 bytes)."""

    slot: int
    accounts: Mapping[bytes, bytes]


def key(text: object) -> bytes | None:
    """The 32 bytes of an address in base58, None for anything else."""
    if not isinstance(text, str) or not 32 <= len(text) <= _KEY_CHARACTERS or not text.isascii():
        return None
    try:
        raw: bytes = base58.b58decode(text)
    except ValueError:
        return None
    return raw if len(raw) == _KEY_BYTES else None


def shown(raw: bytes) -> str:
    """An address in base58."""
    return base58.b58encode(raw).decode()


def slot(value: object) -> int:
    """A slot number. Raises AnswerError for what is none, or above all heights that can be stored."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < UNCONFIRMED:
        raise AnswerError(f"{str(value)[:60]!a} is no slot")
    return value


def read(answer: Any, program: str) -> Snapshot:
    """Read the result of `getProgramAccounts` for a program. Accounts that do not begin with the mark are left out.

    Raises AnswerError for accounts that are another program's, told twice, larger than can be, or cannot be decoded.
    """
    if not isinstance(answer, dict) or not isinstance(answer.get("context"), dict):
        raise AnswerError("the answer has no context: the slot is not told")
    at, rows = slot(answer["context"].get("slot")), answer.get("value")
    if not isinstance(rows, list):
        raise AnswerError("the answer holds no list of accounts")
    if len(rows) > MOST_ACCOUNTS:
        raise AnswerError(f"{len(rows):,} accounts are told, where at most {MOST_ACCOUNTS:,} are read")
    accounts: dict[bytes, bytes] = {}
    seen: set[bytes] = set()
    for row in rows:
        name, data = _account(row, program)
        if name in seen:
            raise AnswerError(f"the account {shown(name)} is told twice")
        seen.add(name)
        if data.startswith(SOLANA_MARK):
            accounts[name] = data[len(SOLANA_MARK) :].rstrip(b"\0")
    return Snapshot(at, accounts)


def carrying(answer: Any, count: int, program: str) -> list[bool]:
    """Of `count` accounts that `getMultipleAccounts` was asked for: whether each is the program's and carries the mark.

    Raises AnswerError.
    """
    rows = answer.get("value") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or len(rows) != count:
        raise AnswerError(f"not {count:,} accounts are told, which were asked for")
    return [isinstance(row, dict) and row.get("owner") == program and _begins(row.get("data")) for row in rows]


def _begins(told: Any) -> bool:
    return _data(b"", told).startswith(SOLANA_MARK)


def _account(row: Any, program: str) -> tuple[bytes, bytes]:
    """Address and data of an account."""
    told = row.get("account") if isinstance(row, dict) else None
    name = key(row.get("pubkey")) if isinstance(row, dict) else None
    if name is None or not isinstance(told, dict):
        raise AnswerError("an account without an address, or without what it holds")
    if told.get("owner") != program:
        raise AnswerError(f"the account {shown(name)} is told to be of {str(told.get('owner'))[:60]!a}")
    return name, _data(name, told.get("data"))


def _data(name: bytes, told: Any) -> bytes:
    if not (isinstance(told, list) and len(told) == 2 and isinstance(told[0], str) and told[1] == "base64"):
        raise AnswerError(f"the data of the account {shown(name)} are not told in base64")
    if len(told[0]) > _BASE64_CHARACTERS:
        raise AnswerError(f"the account {shown(name)} is told to hold more than {ACCOUNT_BYTES:,} bytes")
    try:
        return b64decode(told[0], validate=True)
    except (binascii.Error, ValueError):
        raise AnswerError(f"the data of the account {shown(name)} are not base64") from None
