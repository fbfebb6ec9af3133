"""Amounts for people: shortened, and converted to a familiar currency."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import NamedTuple

from overlay.pricing.exchange_rates import ExchangeRates
from parsers.cards.money import plain

FAMILIAR = "USD"
"""The currency that prices are converted to by default."""

_SHORT = Context(prec=3, rounding=ROUND_HALF_EVEN)
_TOO_LARGE = Decimal(10) ** 15
_LEAST = Decimal("1e-12")


class About(NamedTuple):
    """An approximate value: a shortened amount and its currency."""

    amount: str
    currency: str


def short(amount: Decimal) -> str:
    """An amount to three digits, thousands separated: `4.82`, `0.50`, `0.000964`, `12,300`; very large and small
    ones with an exponent."""
    if not amount:
        return "0"
    if amount >= _TOO_LARGE or amount < _LEAST:
        return f"{_SHORT.plus(amount):.2e}"
    if amount >= 1_000:
        return f"{amount:,.0f}"
    rounded = _SHORT.plus(amount)
    if rounded >= 1:
        return f"{rounded:.2f}" if rounded < 10 else f"{rounded:.1f}" if rounded < 100 else f"{rounded:.0f}"
    return max(plain(rounded), f"{rounded:.2f}", key=len)


def percent(part: str) -> str:
    """A fraction as percent: `0.2` is `20 %`."""
    return f"{plain(Decimal(part) * 100)[:12]} %"


def about(amount: str, currency: str, into: str, exchange: ExchangeRates) -> About | None:
    """An amount converted to another currency; None for the same currency, or without a usable rate."""
    if currency == into:
        return None
    table = exchange.quoting(currency, into)
    rate = table.rate(currency, into) if table else None
    return None if rate is None else About(short(Decimal(amount) * rate), into)


def worth(cheapest: Mapping[str, str] | None, exchange: ExchangeRates) -> About | None:
    """The lowest price of a listing in a familiar currency; None without one."""
    return about(cheapest["amount"], cheapest["currency"], FAMILIAR, exchange) if cheapest else None
