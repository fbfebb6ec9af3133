"""Results by price: a walk in order over the amounts, or prices per day, in Tantivy's term dictionary.

A listing is ordered by the cheapest of its offers that meet the query. It is read when the walk reaches any of its
offers, and queued until the walk reaches its cheapest.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple

from overlay.engines.tantivy.offers import PER_DAY, OfferTerms, under
from overlay.engines.tantivy.translation import Part, every
from overlay.engines.tantivy.view import TantivyView
from overlay.search.prices import cheapest_for, price_key, price_position
from overlay.search.query import Query
from overlay.search.record_file import IndexRecord
from overlay.search.sorting import compares_per_day, is_reversed
from parsers.cards.money import amount_of_key, decimal_key
from parsers.cards.rate_table import convert

Key = tuple[Any, ...]
Keyed = tuple[Key, IndexRecord]

FIRST_STEP, GROWTH = 64, 4
"""Listings of the first step of the walk, and the growth factor of the next steps."""


class _Amount(NamedTuple):
    """An amount of offers: its position in the order, its term, and its document frequency."""

    place: Key
    term: str
    listings: int


def by_price(view: TantivyView, query: Query, part: Part, total: int) -> Iterator[Keyed]:
    """All results by currency, amount and id; those without a compared price last, by id, in both directions."""
    reverse = is_reversed(query)
    seen: set[str] = set()
    for key, record in _priced(view, query, part, total, reverse=reverse):
        seen.add(record.id)
        yield key, record
    if len(seen) < total:
        rest = [((1, record.id), record) for record in view.first(part, total) if record.id not in seen]
        yield from sorted(rest, key=lambda row: row[0], reverse=reverse)


def _priced(view: TantivyView, query: Query, part: Part, total: int, *, reverse: bool) -> Iterator[Keyed]:
    cheapest = cheapest_for(query)
    waiting: list[_Queued] = []
    read: set[int] = set()
    for step in _steps(_amounts(view.offers, query), reverse=reverse):
        addresses = view.addresses(every([part, view.offers.any_of([amount.term for amount in step])]), total)
        unread = [record_address for record_address in view.record_addresses(addresses) if record_address not in read]
        read.update(unread)
        for record in view.records.read(unread) if view.records else ():
            key = price_key(cheapest(record.offers), record.id, query)
            if key[0] == 0:
                heappush(waiting, _Queued(key, record, reverse))
        last = step[-1].place
        while waiting and (waiting[0].key[:3] >= last if reverse else waiting[0].key[:3] <= last):
            yield waiting[0].key, heappop(waiting).record
    while waiting:
        yield waiting[0].key, heappop(waiting).record


class _Queued(NamedTuple):
    """A listing that the walk has read but maybe not reached."""

    key: Key
    record: IndexRecord
    reverse: bool

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return bool(self.key > other[0] if self.reverse else self.key < other[0])


def _steps(amounts: list[_Amount], *, reverse: bool) -> Iterator[list[_Amount]]:
    """Amounts in order, in steps of a growing number of listings; equal amounts stay in one step."""
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
    """All amounts, or prices per day, of offers in the compared currencies, in order."""
    amounts = []
    for anchor in _anchors(offers, query):
        rate = None if anchor == query.price_currency else query.rates.get(anchor)
        prefix = under(anchor, PER_DAY if compares_per_day(query) else "")
        for key, count in zip(*offers.amounts(prefix), strict=True):
            place = (
                price_position(anchor, key, query)
                if rate is None
                else (0, query.price_currency, decimal_key(convert(amount_of_key(key), rate)))
            )
            amounts.append(_Amount(place, f"{prefix}\0{key}", count))
    return sorted(amounts)


def _anchors(offers: OfferTerms, query: Query) -> list[str]:
    if query.price_currency is None:
        return offers.anchors()
    return [
        query.price_currency,
        *(currency for currency in query.rates if currency != query.price_currency and offers.in_use(currency)),
    ]
