"""Tables of exchange rates, and exact conversion of amounts (law 15; A2B §5.2).

A table holds the units of many currencies for one unit of its base; crosses go through the base. A cross rate is
rounded once, to 12 significant digits, and everything after that is exact: the displayed amount times the displayed
rate is the displayed conversion, which filters and orders use, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, Inexact
from typing import NamedTuple

from parsers.cards.money import MOST_EXPONENT

DIGITS = 12
"""Significant digits of a rate between two currencies, more than any market has."""

SMALLEST, LARGEST = Decimal("1e-30"), Decimal("1e30")
"""The rates that a table may hold, so that a cross rate is within 10^60 of 1."""

_WIDE = 120  # an amount has at most 100 digits (law 12): there is none between two neighbours this long
_EXACT = Context(prec=2 * _WIDE, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact])
_ROUNDED = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN)
_LOW = Context(prec=_WIDE, rounding=ROUND_CEILING, Emax=MAX_EMAX, Emin=MIN_EMIN)
_HIGH = Context(prec=_WIDE, rounding=ROUND_FLOOR, Emax=MAX_EMAX, Emin=MIN_EMIN)
_ONE, _NONE = Decimal(1), Decimal(0)
_LEAST, _MOST = Decimal(f"1e-{MOST_EXPONENT}"), Decimal(f"1e{MOST_EXPONENT}")


@dataclass(frozen=True, slots=True, eq=False)
class RateTable:
    """One table of quotes. `rates[T]` is units of T for one unit of `base`, from `SMALLEST` to `LARGEST`; that of the
    base is 1. `source` is a public name. `quoted_at` is the time of the quotes and `until` the time from which they are
    too old, in seconds since 1970. Currencies are upper-case."""

    base: str
    rates: Mapping[str, Decimal]
    source: str
    quoted_at: int
    until: int

    def rate(self, currency: str, into: str) -> Decimal | None:
        """Units of `into` for one unit of `currency`, to 12 significant digits; None where one of them is not quoted.

        The rate of a currency into itself is 1, quoted or not."""
        if currency == into:
            return _ONE
        from_rate, into_rate = self.rates.get(currency), self.rates.get(into)
        return None if from_rate is None or into_rate is None else _ROUNDED.divide(into_rate, from_rate)

    def crosses(self, into: str) -> dict[str, Decimal]:
        """The rate of every other quoted currency into this one; empty where this one is not quoted."""
        into_rate = self.rates.get(into)
        if into_rate is None:
            return {}
        return {currency: _ROUNDED.divide(into_rate, rate) for currency, rate in self.rates.items() if currency != into}


class AmountBounds(NamedTuple):
    """The smallest and the largest amount, both included; None for no bound."""

    least: Decimal | None
    most: Decimal | None


def convert(amount: Decimal, rate: Decimal) -> Decimal:
    """The amount times the rate, exactly."""
    return _EXACT.multiply(amount, rate)


def amount_bounds(least: Decimal | None, most: Decimal | None, rate: Decimal) -> AmountBounds | None:
    """The bounds of amounts that `rate` converts to values from `least` to `most`, exact for all amounts that a card
    can hold (law 12); None if no amount does."""
    low = None if least is None else _LOW.divide(least, rate)
    high = None if most is None else _HIGH.divide(most, rate)
    if low is not None and low > _MOST:
        return None
    if low is not None and _NONE < low < _LEAST:
        low = _LEAST
    if high is not None and high < _LEAST:
        high = _NONE
    return AmountBounds(low, None if high is None else min(high, _MOST))
