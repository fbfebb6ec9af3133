"""Billing intervals, compared by meaning (law 13)."""

from __future__ import annotations

import re
from decimal import Context, Decimal, Inexact
from functools import lru_cache

from parsers.cards.money import MOST_EXPONENT

PER_CALL = "none"
_PER_CALL = frozenset({"none", "null", "per call"})
_UNIT_KEYS = {"da": "P1D", "we": "P1W", "mo": "P1M", "ye": "P1Y"}
_WORDS = re.compile(r"(?:(?:per|every|each|an?|one|1) )?(?:day|week|month|year)|(?:dai|week|month|year)ly")
_DIGITS = r"([0-9]{1,100}(?:[.,][0-9]{1,100})?)"
_DURATION = re.compile(
    rf"P(?!$)(?:{_DIGITS}Y)?(?:{_DIGITS}M)?(?:{_DIGITS}W)?(?:{_DIGITS}D)?"
    rf"(?:T(?!$)(?:{_DIGITS}H)?(?:{_DIGITS}M)?(?:{_DIGITS}S)?)?"
)
_UNITS = tuple(map(Decimal, (12, 1, 7, 1, 3600, 60, 1)))
YEAR = Decimal("365.2425")
"""Days of a mean Gregorian year."""
MONTH = Decimal("30.436875")
"""Days of a mean month: a twelfth of the 365.2425 days of a mean Gregorian year."""
_DAY = 86_400  # seconds
# Two numbers of 200 digits times 3,600 fit in 300 digits, so nothing is ever rounded.
_EXACT = Context(prec=300, traps=[Inexact])
_ROUNDED = Context(prec=12)


def interval_key(text: str | None) -> str:
    """The canonical form of an interval: equal strings for equal meaning, and a key is its own key.

    ISO 8601 durations (designators in upper case, a fraction only in the last component, at most 100 digits each side
    of the point) compare as (12Y+M months, 7W+D days, seconds), exactly. The words day, week, month and year, in any
    case, are P1D, P1W, P1M and P1Y, as are daily, `per day`, `1 day` and the like. Absent, blank, null and `per call`
    mean per call: `none`. Any other text is its own key.
    """
    return meant(text) or str(text)


@lru_cache(maxsize=256)  # few are in use
def meant(text: str | None) -> str | None:
    """The canonical form of an interval; None for a text that is not an interval."""
    words = " ".join(text.lower().split()) if text else ""
    if not words or words in _PER_CALL:
        return PER_CALL
    if _WORDS.fullmatch(words):
        unit = words.rpartition(" ")[2]
        return _UNIT_KEYS[unit[:2]]
    measure = duration(text.strip()) if text else None
    return _canonical(*measure) if measure else None


@lru_cache(maxsize=256)
def duration(text: str) -> tuple[Decimal, Decimal, Decimal] | None:
    """An ISO 8601 duration as (months, days, seconds), exact; None for any other text."""
    match = _DURATION.fullmatch(text)
    if not match:
        return None
    components = [(index, number) for index, number in enumerate(match.groups()) if number is not None]
    if any(not number.isdigit() for _, number in components[:-1]):
        return None
    totals = [Decimal(0)] * 3
    for index, number in components:
        part = 0 if index < 2 else 1 if index < 4 else 2
        value = _EXACT.multiply(Decimal(number.replace(",", ".")), _UNITS[index])
        totals[part] = _EXACT.add(totals[part], value)
    return totals[0], totals[1], totals[2]


def per_day(amount: Decimal, key: str) -> Decimal | None:
    """The price for one day of an amount per interval (a canonical key), to 12 significant digits; a month has
    30.436875 days. None for per call, for an interval without a length, and for a result out of range."""
    return _share(amount, Decimal(_DAY), _seconds(key))


def per_month(amount: Decimal, key: str, calls: Decimal) -> Decimal | None:
    """The cost of a month of an amount per interval (a canonical key), or per call of so many `calls` a year, to 12
    significant digits: a twelfth of a year. None for an interval without a length, and for a result out of range."""
    if key == PER_CALL:
        return _share(amount, calls, Decimal(12))
    return _share(amount, _EXACT.multiply(MONTH, Decimal(_DAY)), _seconds(key))


def calls_a_year(number: Decimal, unit: str) -> Decimal:
    """The calls of a year, exact, for a number of them each `day`, `week`, `month` or `year`."""
    a_year = {"day": YEAR, "week": _EXACT.divide(YEAR, Decimal(7)), "month": Decimal(12), "year": Decimal(1)}
    return _EXACT.multiply(number, a_year[unit])


def _seconds(key: str) -> Decimal:
    """The length of an interval in seconds of mean months, exact; 0 for one without a length."""
    measure = duration(key)
    if measure is None:
        return Decimal(0)
    months, days, seconds = measure
    return _EXACT.add(_EXACT.multiply(_EXACT.add(_EXACT.multiply(months, MONTH), days), Decimal(_DAY)), seconds)


def _share(amount: Decimal, part: Decimal, whole: Decimal) -> Decimal | None:
    """A part of an amount, which is for the whole, rounded once; None without a whole, and out of range."""
    if not whole:
        return None
    if not amount or not part:
        return Decimal(0)
    share = _ROUNDED.divide(_EXACT.multiply(amount, part), whole)
    return share if abs(share.adjusted()) <= MOST_EXPONENT else None


def _canonical(months: Decimal, days: Decimal, seconds: Decimal) -> str:
    """The shortest usual notation: years or months, weeks (only alone) or days, and hours, minutes or seconds."""
    if not (months or days or seconds):
        return "P0D"
    alone = not (months or seconds)
    date = _part(months, ((12, "Y"), (1, "M"))) + _part(days, ((7, "W"), (1, "D")) if alone else ((1, "D"),))
    time = _part(seconds, ((3600, "H"), (60, "M"), (1, "S")))
    return f"P{date}T{time}" if time else f"P{date}"


def _part(value: Decimal, units: tuple[tuple[int, str], ...]) -> str:
    """One component in the largest unit that divides it, empty for zero."""
    if not value:
        return ""
    size, letter = next((unit for unit in units if not _EXACT.remainder(value, Decimal(unit[0]))), units[-1])
    text = format(_EXACT.divide(value, Decimal(size)) if size > 1 else value, "f")
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}{letter}"
