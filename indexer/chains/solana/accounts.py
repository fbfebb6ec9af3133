"""Parses `getProgramAccounts`: the accounts of a program that begin with the mark, at one finalized slot. Pure.

A response that no correct endpoint sends raises ParseError.

Shapes: Solana's RPC documentation, `getProgramAccounts` with `withContext` and encoding `base64`.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from indexer.model import UNCONFIRMED
from parsers.bitcoin import base58
from parsers.errors import ParseError
from parsers.json_records import JsonObject, convert, whole
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


class _ContextJson(JsonObject):
    # up to the heights that can be stored
    slot: Annotated[int, whole(0, UNCONFIRMED - 1)]


class _AccountJson(JsonObject):
    data: tuple[str, Literal["base64"]]
    owner: Any = None


class _NamedAccountJson(JsonObject):
    pubkey: str
    account: _AccountJson


class _ProgramAccountsJson(JsonObject):
    context: _ContextJson
    value: list[_NamedAccountJson]


class _AccountsJson(JsonObject):
    value: list[_AccountJson | None]


def address_bytes(text: object) -> bytes | None:
    """The 32 bytes of an address in base58, None for any other text."""
    raw = base58.decode(text) if isinstance(text, str) else None
    return raw if raw is not None and len(raw) == _KEY_BYTES else None


def parse_snapshot(answer: Any, program: str) -> Snapshot:
    """Parse the result of `getProgramAccounts` for a program (base58). Accounts without the mark are left out.

    Raises ParseError for accounts that are another program's, repeated, too large, or that cannot be decoded.
    """
    listed = convert(answer, _ProgramAccountsJson)
    if len(listed.value) > MOST_ACCOUNTS:
        raise ParseError(f"the answer has {len(listed.value):,} accounts, where at most {MOST_ACCOUNTS:,} are read")
    accounts: dict[bytes, bytes] = {}
    seen: set[bytes] = set()
    for row in listed.value:
        address, data = _account(row, program)
        if address in seen:
            raise ParseError(f"the account {base58.encode(address)} is repeated")
        seen.add(address)
        if data.startswith(SOLANA_MARK):
            accounts[address] = data[len(SOLANA_MARK) :].rstrip(b"\0")
    return Snapshot(listed.context.slot, accounts)


def marked_accounts(answer: Any, count: int, program: str) -> list[bool]:
    """For each of `count` accounts requested by `getMultipleAccounts`: whether it is the program's and has the mark.

    Raises ParseError.
    """
    rows = convert(answer, _AccountsJson).value
    if len(rows) != count:
        raise ParseError(f"the answer does not have the {count:,} accounts that were requested")
    return [
        row is not None and row.owner == program and _data(b"", row.data[0]).startswith(SOLANA_MARK) for row in rows
    ]


def _account(row: _NamedAccountJson, program: str) -> tuple[bytes, bytes]:
    """Address and data of an account."""
    address = address_bytes(row.pubkey)
    if address is None:
        raise ParseError(f"{row.pubkey[:60]!a} is not an address")
    if row.account.owner != program:
        raise ParseError(f"the account {base58.encode(address)} belongs to {str(row.account.owner)[:60]!a}")
    return address, _data(address, row.account.data[0])


def _data(address: bytes, text: str) -> bytes:
    if len(text) > _BASE64_CHARACTERS:
        raise ParseError(f"the account {base58.encode(address)} holds more than {ACCOUNT_BYTES:,} bytes")
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ParseError(f"the data of the account {base58.encode(address)} are not base64") from None
