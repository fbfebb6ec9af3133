"""Amounts of money: decimals from 0 up, exact, bounded, and how they are written and ordered."""

from __future__ import annotations

import re
from decimal import Decimal
from hashlib import sha256
from typing import Any

from parsers.strict_json import MAX_DIGITS, MAX_EXPONENT

_NUMERIC = re.compile(r"[+-]?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?")
_KEY_OFFSET = 5000
MOST_EXPONENT = MAX_DIGITS + MAX_EXPONENT
"""An amount in a card is 0, or lies between 10^-500 and 10^500 (law 12)."""
_BY_RATES = 60  # orders of magnitude that exchange rates may add
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def amount(value: Any) -> Decimal | None:
    """The decimal that a number (int, Decimal) or a numeric string says; None when it says none from 0 up.

    Strings are held to the limits of numbers in cards: 100 digits, exponent within 400 (law 12).
    """
    if isinstance(value, str):
        return _numeric(value.strip())
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    found = Decimal(value)
    return found.copy_abs() if found.is_finite() and found >= 0 else None


def _numeric(text: str) -> Decimal | None:
    match = _NUMERIC.fullmatch(text) if len(text) <= 2 * MAX_DIGITS else None
    if not match or sum(map(str.isdigit, match[1])) > MAX_DIGITS or abs(int(match[2] or 0)) > MAX_EXPONENT:
        return None
    found = Decimal(text)
    return found.copy_abs() if found >= 0 else None


def plain(value: Decimal) -> str:
    """An amount without exponent and without idle zeros: equal amounts are written alike. At most 1,000 characters.

    Raises ValueError for what is no amount.
    """
    _check(value)
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.lstrip("-") or "0"


def decimal_key(value: Decimal) -> str:
    """A string of digits that sorts among its like as the amounts do; equal amounts have equal keys.

    Four digits for the decimal exponent of the first significant digit (plus 5,000), then the significant digits.
    Raises ValueError for what is no amount.
    """
    _check(value)
    if not value:
        return "0000"
    digits = "".join(map(str, value.as_tuple().digits)).lstrip("0").rstrip("0")
    return f"{value.adjusted() + _KEY_OFFSET:04}{digits}"


def amount_of_key(key: str) -> Decimal:
    """The amount that has a `decimal_key`. Raises ValueError for no key."""
    exponent, digits = int(key[:4]) - _KEY_OFFSET, key[4:]
    return Decimal((0, tuple(map(int, digits)), exponent - len(digits) + 1)) if digits else Decimal(0)


def _check(value: Decimal) -> None:
    if not value.is_finite() or value < 0 or abs(value.adjusted()) > MOST_EXPONENT + _BY_RATES:
        raise ValueError(f"{value!s:.60} is not an amount: a decimal from 0 up, at most 10^{MOST_EXPONENT}")


def address_looks_valid(address: str) -> bool:
    """Whether an address of BSV or BTC can be one: base58 with a right checksum, or of a form checked otherwise.

    Bech32 addresses and paymails (`name@host`) are let through: their checks are not made here.
    """
    if address.lower().startswith(("bc1", "tb1")) or "@" in address:
        return True
    if not 25 <= len(address) <= 36:
        return False
    number = 0
    for character in address:
        digit = _BASE58.find(character)
        if digit < 0:
            return False
        number = number * 58 + digit
    zeros = len(address) - len(address.lstrip("1"))
    raw = bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")
    return len(raw) == 25 and sha256(sha256(raw[:-4]).digest()).digest()[:4] == raw[-4:]
