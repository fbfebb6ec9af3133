"""Amounts of money: exact, bounded decimals from 0 up, as text and as sort keys."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from parsers.cards.strict_json import MAX_DIGITS, MAX_EXPONENT

_NUMERIC = re.compile(r"[+-]?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?")
_KEY_OFFSET = 5000
MOST_EXPONENT = MAX_DIGITS + MAX_EXPONENT
"""An amount in a card is 0, or from 10^-500 to 10^500 (law 12)."""
_BY_RATES = 60  # orders of magnitude that exchange rates may add


def amount(value: Any) -> Decimal | None:
    """The amount of a number (int, Decimal, float) or a numeric string; None for anything that is not a decimal from 0
    up. A float counts as its shortest decimal text, as that was written: 0.1 is a tenth.

    Strings are held to the limits of numbers in cards: 100 digits, exponent within 400 (law 12).
    """
    if isinstance(value, str):
        return _numeric(value.strip())
    if isinstance(value, bool) or not isinstance(value, (int, Decimal, float)):
        return None
    decimal = Decimal(repr(float(value))) if isinstance(value, float) else Decimal(value)
    return decimal.copy_abs() if decimal.is_finite() and decimal >= 0 else None


def _numeric(text: str) -> Decimal | None:
    match = _NUMERIC.fullmatch(text) if len(text) <= 2 * MAX_DIGITS else None
    if not match or sum(map(str.isdigit, match[1])) > MAX_DIGITS or abs(int(match[2] or 0)) > MAX_EXPONENT:
        return None
    decimal = Decimal(text)
    return decimal.copy_abs() if decimal >= 0 else None


def plain(value: Decimal) -> str:
    """An amount as text without exponent and without superfluous zeros, so that equal amounts have equal texts.

    At most 1,000 characters. Raises ValueError for a value that is not an amount.
    """
    _check(value)
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.lstrip("-") or "0"


def decimal_key(value: Decimal) -> str:
    """A string of digits that sorts as the amounts do; equal amounts have equal keys.

    Four digits for the decimal exponent of the first significant digit (plus 5,000), then the significant digits.
    Raises ValueError for a value that is not an amount.
    """
    _check(value)
    if not value:
        return "0000"
    digits = "".join(map(str, value.as_tuple().digits)).lstrip("0").rstrip("0")
    return f"{value.adjusted() + _KEY_OFFSET:04}{digits}"


def amount_of_key(key: str) -> Decimal:
    """The amount of a `decimal_key`. Raises ValueError for a text that is not a key."""
    exponent, digits = int(key[:4]) - _KEY_OFFSET, key[4:]
    return Decimal((0, tuple(map(int, digits)), exponent - len(digits) + 1)) if digits else Decimal(0)


def _check(value: Decimal) -> None:
    if not value.is_finite() or value < 0 or abs(value.adjusted()) > MOST_EXPONENT + _BY_RATES:
        raise ValueError(f"{value!s:.60} is not an amount: a decimal from 0 up, at most 10^{MOST_EXPONENT}")
