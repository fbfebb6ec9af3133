"""Parsers of query parameter values: text in, a normalised value out, or ValueRefusedError."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf
from typing import Any

from indexer.model import LATEST_TIME
from parsers.cards.intervals import calls_a_year

LARGEST = 2**53 - 1  # what a JavaScript client can still count
MAX_TEXT_BYTES = 4_096
MAX_VALUE_BYTES = 2_048
LARGEST_WHOLE = 10**15 - 1

_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400}|Infinity)(?:[eE][+-]?[0-9]{1,3})?")
_WHOLE = re.compile(r"[0-9]{1,15}")
_AMOUNT = re.compile(r"[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,2})?|\.[0-9]{1,40}(?:[eE][+-]?[0-9]{1,2})?")
_ACCOUNT = re.compile(r"0[xX][0-9a-fA-F]{40}")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:]{5,8}(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})")


class ValueRefusedError(ValueError):
    """A value that cannot be parsed. `code` is for programs; the message describes a valid value."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


def shown(value: str) -> str:
    """A stranger's value for a message: quoted, control characters escaped, at most 60 characters."""
    return ascii(value) if len(value) <= 60 else f"{value[:60]!a}... ({len(value):,} characters)"


def json_texts(value: Any) -> Iterator[str]:
    """A JSON value, or each of a list, as it would be in a query string; null counts as absent. Whole numbers may come
    as `10.0`: the `Value` of Protocol Buffers has no integers."""
    for member in value if isinstance(value, list) else (value,):
        if isinstance(member, bool):
            yield str(member).lower()
        elif isinstance(member, float) and member.is_integer():
            yield str(int(member))
        elif member is not None:
            yield str(member)


def words(value: str) -> str:
    """Free text of at most 4 kB."""
    size = len(value.encode())
    if size > MAX_TEXT_BYTES:
        raise ValueRefusedError("too-long", f"{size:,} bytes; at most {MAX_TEXT_BYTES} are read")
    return value


def text(value: str) -> str:
    """A name to compare exactly, without surrounding white space."""
    return value.strip()


def currency(value: str) -> str:
    """A currency code; they compare upper-case (law 13)."""
    return value.strip().upper()


def folded(value: str) -> str:
    """A tag, or the id of a skill; they compare case-folded."""
    return value.strip().casefold()


def owner(value: str) -> str:
    """An address in its stored form: those of EVM chains in lower case, without the ERC-55 checksum."""
    value = text(value)
    return value.lower() if _ACCOUNT.fullmatch(value) else value


def domain(value: str) -> str:
    """A domain name as lower-case A-labels."""
    from parsers.pointers.locator import a_label  # idna, which only this parameter needs

    if (name := a_label(value.strip())) is None:
        raise ValueRefusedError("not-a-domain", f"{shown(value)} is not a domain name")
    return name


def clamped(value: str, low: int, high: int) -> int:
    """Any number a JavaScript client can write (`10.0`, `-1`, `1e9`, `Infinity`), cut to a whole one in [low, high]."""
    value = value.strip().replace("e ", "e+")  # an unencoded plus arrives as a space
    if not _NUMBER.fullmatch(value):
        raise ValueRefusedError("not-a-number", f"{shown(value)} is not a number")
    number = float(value)
    return low if number <= low else high if number >= high or number == inf else int(number)


def record_position(value: str) -> tuple[bytes, str]:
    """The digest of a record and its second key, with a hyphen between them."""
    if not re.fullmatch(r"[0-9a-f]{64}-([0-9a-f]{64})?", value):
        raise ValueRefusedError("not-a-position", f"{shown(value)} is not the `next` of an earlier answer")
    digest, _, key = value.partition("-")
    return bytes.fromhex(digest), key


def whole(value: str) -> int:
    """A whole number from 0 to 999,999,999,999,999."""
    value = value.strip()
    if not _WHOLE.fullmatch(value):
        raise ValueRefusedError("not-a-whole-number", f"{shown(value)} is not a whole number from 0 to 999999999999999")
    return int(value)


_CALLS = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?(?:/|per |a |an )? ?(day|week|month|year)", re.IGNORECASE)


def calls(value: str) -> Decimal:
    """A number of calls for a time, as calls a year."""
    match = _CALLS.fullmatch(value.strip())
    if match is None or not Decimal(match[1]):
        detail = f"{shown(value)} is not a number of calls for a time, such as 50/day, 10/week, 1000/month or 5/year"
        raise ValueRefusedError("not-calls", detail)
    return calls_a_year(Decimal(match[1]), match[2].lower())


def amount(value: str) -> Decimal:
    """A price: a decimal number from 0 on, with a point."""
    value = value.strip()
    if not _AMOUNT.fullmatch(value):
        raise ValueRefusedError("not-an-amount", f"{shown(value)} is not an amount: a decimal number such as 0.05")
    return Decimal(value)


def truth(value: str) -> bool:
    """`true` or `1`, `false` or `0`."""
    answer = {"true": True, "1": True, "false": False, "0": False}.get(value.strip().lower())
    if answer is None:
        raise ValueRefusedError("not-a-truth-value", f"{shown(value)} is neither true nor false")
    return answer


def one_of(value: str, allowed: tuple[str, ...]) -> str:
    """One of the words allowed, in any case."""
    word = {word.lower(): word for word in allowed}.get(value.strip().lower())
    if word is None:
        raise ValueRefusedError("unknown-value", f"{shown(value)} is not one of {', '.join(allowed)}")
    return word


def moment(value: str) -> int:
    """Seconds since 1970 of an RFC 3339 date and time, or of a date's beginning in UTC; 0 for any time before 1970,
    when there were no blocks, and `LATEST_TIME` for any after it, as that of a zone behind UTC."""
    value = value.strip()
    try:
        if _DAY.fullmatch(value):
            day = date.fromisoformat(value)
            return max(0, int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()))
        if _MOMENT.fullmatch(value):
            return min(max(0, int(datetime.fromisoformat(value.upper()).timestamp())), LATEST_TIME)
    except (ValueError, OverflowError) as error:
        raise ValueRefusedError("not-a-time", f"{shown(value)} is not a time: {error}") from None
    raise ValueRefusedError(
        "not-a-time", f"{shown(value)} is not a time: write 2025-01-31 or 2025-01-31T12:00:00Z (a plus sign as %2B)"
    )
