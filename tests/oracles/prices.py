"""Laws 13 and 14 written a second way: intervals as fractions read letter by letter, price entries as flat rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from parsers.cards import Skill
    from parsers.cards.offers import Offer

_DATE = {"Y": (0, 12), "M": (0, 1), "W": (1, 7), "D": (1, 1)}
_TIME = {"H": (2, 3600), "M": (2, 60), "S": (2, 1)}


def meaning(text: str | None) -> object:
    """The meaning of an interval: None per call, a tuple of fractions, or the text itself."""
    if text is None or not text.strip():
        return None
    words = text.lower().split()
    if words in (["none"], ["null"], ["per", "call"]):
        return None
    one = len(words) == 2 and words[0] in ("per", "every", "each", "a", "an", "one", "1")
    units = {"day": (0, 1, 0), "week": (0, 7, 0), "month": (1, 0, 0), "year": (12, 0, 0)}
    adverbs = {"daily": "day", "weekly": "week", "monthly": "month", "yearly": "year"}
    if len(words) == 1 or one:
        word = words[-1] if one else adverbs.get(words[0], words[0])
        if word in units:
            return units[word]
    return _iso(text.strip()) or text


def _iso(text: str) -> tuple[Fraction, ...] | None:
    if not text.startswith("P"):
        return None
    totals = [Fraction(0)] * 3
    units, order, number, read = _DATE, "YMWD", "", 0
    fraction_seen = False
    for index, character in enumerate(text[1:]):
        if character == "T" and units is _DATE and not number:
            units, order = _TIME, "HMS"
            if index == len(text) - 2:
                return None
        elif character in "0123456789.,":
            number += character
        elif character in order and number and not fraction_seen:
            whole, _, part = number.replace(",", ".").partition(".")
            if not whole or len(whole) > 100 or len(part) > 100 or number[-1] in ".," or "." in part:
                return None
            fraction_seen = bool(part)
            kind, size = units[character]
            totals[kind] += size * (int(whole) + Fraction(int(part or 0), 10 ** len(part)))
            order, number, read = order[order.index(character) + 1 :], "", read + 1
        else:
            return None
    return tuple(totals) if read and not number else None


_MONTH = Fraction(3652425, 10000 * 12)
"""Days of a mean month."""


def per_day(amount: Fraction, interval: str | None) -> Fraction | None:
    """The amount for one day of an amount for an interval, to 12 digits (half to even); None without a length, or
    beyond 10^500 either way."""
    meant = meaning(interval)
    if not isinstance(meant, tuple):
        return None
    months, days, seconds = meant
    length = months * _MONTH + days + Fraction(seconds) / 86_400
    return _rounded(amount / length) if length else None


def per_month(amount: Fraction, interval: str | None, calls: Fraction) -> Fraction | None:
    """The cost of a month, a twelfth of a year with so many calls, to 12 digits; None for no time and no call."""
    meant = meaning(interval)
    if meant is None:
        return _rounded(amount * calls / 12)
    if not isinstance(meant, tuple):
        return None
    months, days, seconds = meant
    length = months * _MONTH + days + Fraction(seconds) / 86_400
    return _rounded(amount * _MONTH / length) if length else None


def _rounded(value: Fraction) -> Fraction | None:
    if not value:
        return value
    exponent = 0
    while value >= 10 ** Fraction(exponent + 1):
        exponent += 1
    while value < Fraction(10) ** exponent:
        exponent -= 1
    unit = Fraction(10) ** (exponent - 11)
    rounded = round(value / unit) * unit
    return rounded if Fraction(10) ** -500 <= rounded < Fraction(10) ** 501 else None


class PriceFilter(Protocol):
    """The filter of price entries; an empty collection or None is not a filter."""

    skills: Collection[str]
    currencies: Collection[str]
    intervals: Collection[str]
    min_price: Decimal | None
    max_price: Decimal | None
    price_currency: str | None
    rates: Mapping[str, Decimal]
    free: bool | None
    payable: bool | None


class Row(NamedTuple):
    """One thing one can buy: a skill (None: of a listing without any), with what, how often, for how much."""

    skill: str | None
    accepted: str | None
    interval: str | None
    anchor: str | None
    amount: Decimal | None
    is_payable: bool = False


def rows(skills: Iterable[Skill], offers: Iterable[Offer]) -> Iterator[Row]:
    """A listing as a flat table: every offer for every of its skills in every currency, and skills without offer."""
    ids = [skill.id for skill in skills]
    priced: set[str] = set()
    anything = False
    for offer in offers:
        anything = True
        for skill in (ids if offer.skill_ids is None else offer.skill_ids) or [None]:
            if skill is not None:
                priced.add(skill)
            for currency in offer.accepted:
                yield Row(skill, currency, offer.interval_key, offer.currency, offer.amount, offer.is_payable)
    for skill in ids if anything else ids or [None]:
        if skill not in priced:
            yield Row(skill, None, None, None, None)


def row_meets(row: Row, filters: PriceFilter) -> bool:
    """Whether one row satisfies every filter."""
    if filters.skills and (row.skill is None or row.skill.casefold() not in filters.skills):
        return False
    if filters.currencies and row.accepted not in filters.currencies:
        return False
    if filters.intervals and row.interval not in filters.intervals:
        return False
    if filters.free is not None and (row.amount is None or (row.amount == 0) != filters.free):
        return False
    if filters.payable is not None and (row.amount is None or row.is_payable != filters.payable):
        return False
    if filters.min_price is None and filters.max_price is None:
        return True
    price = row_price(row, filters)
    if price is None:
        return False
    low = Decimal(0) if filters.min_price is None else filters.min_price
    high = Decimal("1e1000") if filters.max_price is None else filters.max_price
    return Fraction(low) <= price <= Fraction(high)


def row_price(row: Row, filters: PriceFilter) -> Fraction | None:
    """The price of a row in the currency of the filter; None where it cannot be converted."""
    if row.amount is None:
        return None
    if filters.price_currency is None or row.anchor == filters.price_currency:
        return Fraction(row.amount)
    quoted = [rate for currency, rate in filters.rates.items() if currency == row.anchor]
    return Fraction(row.amount) * Fraction(quoted[0]) if quoted else None
