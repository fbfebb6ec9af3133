"""The exact order of the prices of a segment: a rank for each distinct price (currency, interval and amount).

Doubles order most prices; those that are equal within a margin, or beyond the range of a double, are compared as
decimals, by the price rule of `parsers.cards.offer_filter`.
"""

from __future__ import annotations

from bisect import bisect_left
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from overlay.engines.native.search_kernels import NOWHERE
from overlay.engines.native.segment import Ints, Segment
from overlay.search.prices import PackedOffer, offer_filter_of, price_position
from overlay.search.query import Query
from parsers.cards.intervals import MONTH
from parsers.cards.money import amount_of_key, decimal_key
from parsers.cards.offer_filter import OfferFilter, compared

_MARGIN = 1e-9
"""Relative difference of doubles that surely differ as decimals."""

_MOST_ORDERS = 8

Floats = npt.NDArray[np.float64]


def price_ranks(segment: Segment, query: Query) -> Ints:
    """The rank of each distinct price in the order of a query, equal ones with equal ranks; `NOWHERE` for a price that
    it does not compare. A segment keeps those of its latest orders."""
    filters = offer_filter_of(query)
    rates = frozenset(query.rates.items()) if query.price_currency else None
    key = _compared_currency(segment, query), filters.per_day, filters.calls, rates
    ranks = segment.price_ranks.get(key)
    if ranks is None:
        ranks = _ranked(segment, query, filters)
        if len(segment.price_ranks) >= _MOST_ORDERS:
            segment.price_ranks.clear()
        segment.price_ranks[key] = ranks
    return ranks


def _compared_currency(segment: Segment, query: Query) -> str | None:
    """The currency that prices are compared in; "" where a segment has no price that compares with it, whatever it
    is called."""
    currency = query.price_currency
    is_made_up = currency is not None and not query.rates and segment.positions("currencies", [currency])[0] < 0
    return "" if is_made_up else currency


def rank_of_price(segment: Segment, query: Query, price: tuple[str, str]) -> tuple[int, bool]:
    """The rank of the first price that is not before a position (`prices.price_position`, without its first member) in
    the order of a query, and whether it is at this position; `NOWHERE` where all are before."""
    filters = offer_filter_of(query)
    ranks = price_ranks(segment, query)
    order = np.argsort(ranks, kind="stable")[: np.count_nonzero(ranks != NOWHERE)]

    def position(number: int) -> tuple[str, str]:
        index = int(order[number])
        exact = _exact(segment, filters, index)
        currency = segment.string("currencies", int(segment.arrays["price_currency"][index]))
        _, shown, key = price_position(query.price_currency or currency, decimal_key(exact or Decimal(0)), query)
        return shown, key

    first = bisect_left(range(len(order)), price, key=position)
    if first == len(order):
        return int(NOWHERE), False
    return int(ranks[order[first]]), position(first) == price


def _ranked(segment: Segment, query: Query, filters: OfferFilter) -> Ints:
    a = segment.arrays
    group, value = _approximate(segment, query, filters)
    order = np.lexsort((value, group))
    order = order[group[order] >= 0]
    starts = _starts(group[order], value[order])
    ends = np.append(starts[1:], len(order))
    run = np.repeat(np.arange(len(starts)), ends - starts)
    ranks = np.full(len(value), NOWHERE, np.int64)
    members = ("price_currency", *(("price_amount", "price_interval") if _is_for_time(filters) else ()))
    is_mixed = np.logical_or.reduce([a[name][order] != a[name][order[starts[run]]] for name in members])
    mixed = np.unique(run[is_mixed])
    amounts = np.where(np.isin(run, mixed), 0, a["price_amount"][order])  # of one currency, these are in their order
    within = np.lexsort((amounts, run))
    order, is_first = order[within], np.diff(amounts[within], prepend=-1) != 0
    is_first[starts] = True
    ranks[order] = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    for start, end in zip(starts[mixed].tolist(), ends[mixed].tolist(), strict=True):
        exact = {index: _exact(segment, filters, index) for index in order[start:end].tolist()}
        prices = sorted({price for price in exact.values() if price is not None})
        rank_of = {price: start + number for number, price in enumerate(prices)}
        for index, price in exact.items():
            ranks[index] = NOWHERE if price is None else rank_of[price]
    return ranks


def _approximate(segment: Segment, query: Query, filters: OfferFilter) -> tuple[Ints, Floats]:
    """The group of each distinct price, within which values are compared (-1: not compared), and its value as a double.
    Where currencies are not compared, free offers are of group 0, and each currency is a group."""
    a = segment.arrays
    value = a["amount_double"][a["price_amount"]] * _rates(segment, query)[a["price_currency"]]
    if _is_for_time(filters):
        value *= _of_time(segment, filters)[a["price_interval"]]
    group = np.zeros(len(value), np.int64)
    if query.price_currency is None:
        (free,) = segment.positions("amounts", ["0000"]).tolist()
        is_free = a["price_amount"] == free
        group = np.where(is_free, 0, 1 + a["price_currency"].astype(np.int64))
    return np.where(np.isnan(value), -1, group), value


def _is_for_time(filters: OfferFilter) -> bool:
    """Whether prices are compared for a time: per day, or as the cost of a month."""
    return filters.per_day or filters.calls is not None


def _of_time(segment: Segment, filters: OfferFilter) -> Floats:
    """By interval, the factor from an amount to the price of a day, or to the cost of a month; NaN without one."""
    if filters.calls is None:
        return segment.interval_days
    return np.where(segment.is_per_call, float(filters.calls) / 12, segment.interval_days * float(MONTH))


def _rates(segment: Segment, query: Query) -> Floats:
    """The rate of each currency, NaN without a quote; those that are quoted or asked for are looked up."""
    currencies = len(segment.arrays["currencies_offsets"]) - 1
    if query.price_currency is None:
        return np.ones(currencies)
    rates, quoted = np.full(currencies, np.nan), {**query.rates, query.price_currency: Decimal(1)}
    numbers = segment.positions("currencies", list(quoted))
    rates[numbers[numbers >= 0]] = np.array(list(map(float, quoted.values())))[numbers >= 0]
    return rates


def _starts(group: Ints, value: Floats) -> Ints:
    """The starts of the stretches of an order with values that may be equal, or in another order, as decimals."""
    is_apart = (group[1:] != group[:-1]) | (value[1:] > value[:-1] * (1 + _MARGIN))
    return np.flatnonzero(np.concatenate((np.ones(min(1, len(value)), np.bool_), is_apart)))


def _exact(segment: Segment, filters: OfferFilter, index: int) -> Decimal | None:
    a = segment.arrays
    offer = PackedOffer(
        "",
        segment.string("currencies", int(a["price_currency"][index])),
        amount_of_key(segment.string("amounts", int(a["price_amount"][index]))),
        segment.string("intervals", int(a["price_interval"][index])),
        (),
    )
    return compared(offer, filters)
