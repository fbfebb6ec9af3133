"""Parses `getProgramAccounts`: the accounts of a program that begin with the mark, at one finalized slot. Pure.

A response that no correct endpoint sends raises ParseError.

Shapes: Solana's RPC documentation, `getProgramAccounts` with `withContext` and encoding `base64`.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from indexer.model import UNCONFIRMED
from parsers.bitcoin import base58
from parsers.errors import ParseError
from parsers.pointers.pointer import SOLANA_MARK

ACCOUNT_BYTES = 10 * 1024 * 1024
"""The largest size of an account on Solana."""

MOST_ACCOUNTS = 1_000_000

_KEY_BYTES = 32
_BASE64_CHARACTERS = -(-ACCOUNT_BYTES // 3) * 4


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The accounts of a program at a slot, by address (32 bytes): the data after the mark, without the zero bytes at
    its end, which are unused space."""

    slot: int
    accounts: Mapping[bytes, bytes]


def address_bytes(text: object) -> bytes | None:
    """The 32 bytes of an address in base58, None for any other text."""
    raw = base58.decode(text) if isinstance(text, str) else None
    return raw if raw is not None and len(raw) == _KEY_BYTES else None


def slot(value: object) -> int:
    """A slot number. Raises ParseError for anything else, and above the heights that can be stored."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < UNCONFIRMED:
        raise ParseError(f"{str(value)[:60]!a} is not a slot")
    return value


def parse_snapshot(answer: Any, program: str) -> Snapshot:
    """Parse the result of `getProgramAccounts` for a program (base58). Accounts without the mark are left out.

    Raises ParseError for accounts that are another program's, repeated, too large, or that cannot be decoded.
    """
    if not isinstance(answer, dict) or not isinstance(answer.get("context"), dict):
        raise ParseError("the answer has no context with a slot")
    number, rows = slot(answer["context"].get("slot")), answer.get("value")
    if not isinstance(rows, list):
        raise ParseError("the answer holds no list of accounts")
    if len(rows) > MOST_ACCOUNTS:
        raise ParseError(f"the answer has {len(rows):,} accounts, where at most {MOST_ACCOUNTS:,} are read")
    accounts: dict[bytes, bytes] = {}
    seen: set[bytes] = set()
    for row in rows:
        address, data = _account(row, program)
        if address in seen:
            raise ParseError(f"the account {base58.encode(address)} is repeated")
        seen.add(address)
        if data.startswith(SOLANA_MARK):
            accounts[address] = data[len(SOLANA_MARK) :].rstrip(b"\0")
    return Snapshot(number, accounts)


def marked_accounts(answer: Any, count: int, program: str) -> list[bool]:
    """For each of `count` accounts requested by `getMultipleAccounts`: whether it is the program's and has the mark.

    Raises ParseError.
    """
    rows = answer.get("value") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or len(rows) != count:
        raise ParseError(f"the answer does not have the {count:,} accounts that were requested")
    return [isinstance(row, dict) and row.get("owner") == program and _has_mark(row.get("data")) for row in rows]


def _has_mark(value: Any) -> bool:
    return _data(b"", value).startswith(SOLANA_MARK)


def _account(row: Any, program: str) -> tuple[bytes, bytes]:
    """Address and data of an account."""
    account = row.get("account") if isinstance(row, dict) else None
    address = address_bytes(row.get("pubkey")) if isinstance(row, dict) else None
    if address is None or not isinstance(account, dict):
        raise ParseError("an account without an address, or without its content")
    if account.get("owner") != program:
        raise ParseError(f"the account {base58.encode(address)} belongs to {str(account.get('owner'))[:60]!a}")
    return address, _data(address, account.get("data"))


def _data(address: bytes, value: Any) -> bytes:
    if not (isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and value[1] == "base64"):
        raise ParseError(f"the data of the account {base58.encode(address)} are not in base64")
    if len(value[0]) > _BASE64_CHARACTERS:
        raise ParseError(f"the account {base58.encode(address)} holds more than {ACCOUNT_BYTES:,} bytes")
    try:
        return b64decode(value[0], validate=True)
    except (binascii.Error, ValueError):
        raise ParseError(f"the data of the account {base58.encode(address)} are not base64") from None
