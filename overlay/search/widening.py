"""Disjunctive facets: what a facet counts is not narrowed by its own filter, so that it shows what else there is; and
what it counts for a value is what choosing the value finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from overlay.query import Query
from overlay.search.facts import LISTED, MOST_VALUES
from overlay.search.prices import asks_offer, asks_price

_OWN: dict[str, tuple[str, Any]] = {
    "type": ("kind", None),
    "skillId": ("skills", ()),
    "acceptedCurrency": ("currencies", ()),
    "interval": ("intervals", ()),
    "tag": ("tags", ()),
    "chain": ("chains", ()),
    "status": ("statuses", ()),
}
"""The filter of each facet, and what stands for none."""


def without_own(query: Query, facet: str) -> Query:
    """The query without the filter of a facet; the same object when there is none. That live and pending listings are
    found unless another status is asked for is no filter."""
    name, nothing = _OWN[facet]
    given = getattr(query, name)
    if given == nothing or (name == "statuses" and frozenset(given) == LISTED):
        return query
    if facet == "acceptedCurrency" and query.priced_by_filter:
        return query._replace(currencies=(), price_currency=None, priced_by_filter=False, rates={})
    return query._replace(**{name: nothing})


OF_OFFERS = frozenset(("skillId", "acceptedCurrency", "interval"))
"""The facets of what offers say."""

Counts = tuple[tuple[str, int], ...]

MOST_TRIED = 1_000
"""Values of a facet that are looked at where some of them count less than is found with them."""


def choosing(query: Query, facet: str, value: str) -> Query:
    """What is asked once a value of a facet `OF_OFFERS` is chosen in place of all others."""
    chosen: dict[str, Any] = {_OWN[facet][0]: (value,)}
    if prices_it(query, facet):
        chosen |= {"price_currency": value, "rates": query.quotes(value) if query.quotes else {}}
    return query._replace(**chosen)


def prices_it(query: Query, facet: str) -> bool:
    """Whether the bounds of prices are in whichever currency is chosen (law 15)."""
    return facet == "acceptedCurrency" and asks_price(query) and query.price_currency is None


def is_joint(query: Query, facet: str) -> bool:
    """Whether an offer that says a value of a facet, which is not filtered by, must meet other filters, too."""
    return facet in OF_OFFERS and (asks_offer(query) or (bool(query.skills) and facet != "skillId"))


def merged(ways: Iterable[Iterable[tuple[str, int]]], most: int = MOST_VALUES) -> Counts:
    """The commonest values, `most` at most, counted by each way to take the words of a question: the first that finds a
    value tells how many choosing it finds."""
    counts: Counter[str] = Counter()
    for way in ways:
        counts.update({value: listings for value, listings in way if value not in counts})
    return commonest(counts, most)


def commonest(counts: Counter[str], most: int = MOST_VALUES) -> Counts:
    """The values that most listings have, of equally common ones the first by value."""
    return tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:most])
