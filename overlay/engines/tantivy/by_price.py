"""Results by price: amounts are walked in order through Tantivy's dictionary, some hundred listings at a time.

A listing comes where the cheapest of its offers that meet the query does. It is read when the walk first meets any
offer of it, and waits until the walk has come as far as its cheapest.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple

from overlay.engines.tantivy.offers import OfferTerms
from overlay.engines.tantivy.translation import Part, every
from overlay.engines.tantivy.view import View
from overlay.query import Query
from overlay.search.prices import cheapest, price_key
from overlay.search.records import Record
from overlay.search.sorting import is_reversed
from parsers.money import amount_of_key, decimal_key
from parsers.rates import converted

Key = tuple[Any, ...]
Keyed = tuple[Key, Record]

FIRST_STEP, GROWTH = 64, 4
"""Listings of the first step of the walk, and how much larger each next one is."""


class _Amount(NamedTuple):
    """An amount that offers have: where it comes in the order, its term, and how many listings have it."""

    place: Key
    term: str
    listings: int


def by_price(view: View, query: Query, part: Part, total: int) -> Iterator[Keyed]:
    """All results by currency, amount and id; those without a price in question last, by id, in either direction."""
    reverse = is_reversed(query)
    seen: set[str] = set()
    for key, record in _priced(view, query, part, total, reverse=reverse):
        seen.add(record.id)
        yield key, record
    if len(seen) < total:
        rest = [((1, each.id), each) for each in view.first(part, total) if each.id not in seen]
        yield from sorted(rest, key=lambda row: row[0], reverse=reverse)


def _priced(view: View, query: Query, part: Part, total: int, *, reverse: bool) -> Iterator[Keyed]:
    waiting: list[_Waiting] = []
    read: set[int] = set()
    for step in _steps(_amounts(view.offers, query), reverse=reverse):
        found = view.addresses(every([part, view.offers.any_of([each.term for each in step])]), total)
        places = [place for place in view.places(found) if place not in read]
        read.update(places)
        for record in view.records.read(places) if view.records else ():
            offer = cheapest(record.offers, query)
            if offer is not None:
                heappush(waiting, _Waiting(price_key(offer, record.id), record, reverse))
        last = step[-1].place
        while waiting and (waiting[0].key[:3] >= last if reverse else waiting[0].key[:3] <= last):
            yield waiting[0].key, heappop(waiting).record
    while waiting:
        yield waiting[0].key, heappop(waiting).record


class _Waiting(NamedTuple):
    """A listing whose turn may not have come."""

    key: Key
    record: Record
    reverse: bool

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return bool(self.key > other[0] if self.reverse else self.key < other[0])


def _steps(amounts: list[_Amount], *, reverse: bool) -> Iterator[list[_Amount]]:
    """Amounts in order, as many at a time as a growing number of listings has; equal ones are not parted."""
    amounts = amounts[::-1] if reverse else amounts
    size, listings, step = FIRST_STEP, 0, list[_Amount]()
    for amount in amounts:
        if listings >= size and amount.place != step[-1].place:
            yield step
            size, listings, step = size * GROWTH, 0, []
        step.append(amount)
        listings += amount.listings
    if step:
        yield step


def _amounts(offers: OfferTerms, query: Query) -> list[_Amount]:
    """All amounts that offers have in the currencies in question, in order."""
    found = []
    for anchor in _anchors(offers, query):
        rate = None if anchor == query.price_currency else query.rates.get(anchor)
        prefix = "\0".join((anchor, "", "", ""))
        for key, count in zip(*offers.amounts(prefix), strict=True):
            place = (
                (0, anchor, key)
                if rate is None
                else (0, query.price_currency, decimal_key(converted(amount_of_key(key), rate)))
            )
            found.append(_Amount(place, f"{prefix}\0{key}", count))
    return sorted(found)


def _anchors(offers: OfferTerms, query: Query) -> list[str]:
    if query.price_currency is None:
        return offers.anchors()
    return [
        query.price_currency,
        *(each for each in query.rates if each != query.price_currency and offers.in_use(each)),
    ]
