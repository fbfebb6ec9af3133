"""Disjunctive facets: a facet's own filter does not narrow its counts, and the count of a value is the total of the
search with that value chosen."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping
from typing import Any

from overlay.search.facts import EXACT, LISTED, MOST_VALUES
from overlay.search.prices import asks_offer, asks_price
from overlay.search.query import Matches, Query

_OWN: dict[str, tuple[str, Any]] = {
    "type": ("kind", None),
    "skillId": ("skills", ()),
    "acceptedCurrency": ("currencies", ()),
    "interval": ("intervals", ()),
    "tag": ("tags", ()),
    "chain": ("chains", ()),
    "status": ("statuses", ()),
}
"""The query field of each facet, and its value when there is no filter."""


def without_own(query: Query, facet: str) -> Query:
    """The query without the filter of a facet; the same object when there is none. The default statuses (live and
    pending) are no filter."""
    name, nothing = _OWN[facet]
    values = getattr(query, name)
    if facet == "acceptedCurrency" and query.priced_by_filter:
        return query._replace(currencies=(), price_currency=None, priced_by_filter=False, rates={})
    if values == nothing or (name == "statuses" and frozenset(values) == LISTED):
        return query
    return query._replace(**{name: nothing})


OF_OFFERS = frozenset(("skillId", "acceptedCurrency", "interval"))
"""The facets over members of offers."""

Counts = tuple[tuple[str, int], ...]
Find = Callable[[Query], Matches]
"""Runs a query with the same words."""


def counts(query: Query, matches: Matches, find: Find) -> dict[str, Counts]:
    """The facets of a query; `matches` is its result."""
    return {name: _facet(query, name, matches, find) for name in query.facets}


def _facet(query: Query, name: str, matches: Matches, find: Find) -> Counts:
    wide = without_own(query, name)
    is_joint = _is_joint(wide, name) and matches.total <= EXACT
    if wide is query and not is_joint:
        return commonest(matches.facets.get(name, {}))
    wide = wide._replace(facets=(name,))
    if not is_joint:
        return commonest(find(wide).facets.get(name, {}))
    unpriced = wide._replace(min_price=None, max_price=None) if prices_it(wide, name) else wide
    return _chosen(wide, name, find(unpriced).facets.get(name, {}), find)


def _chosen(wide: Query, name: str, upper: Mapping[str, int], find: Find) -> Counts:
    """The exact counts of values that not every listing with the value would be found by: a search for each value, by
    decreasing upper bound, until no other value can be among the most frequent."""
    counted: list[tuple[int, str]] = []
    for value, at_most in sorted(upper.items(), key=lambda pair: (-pair[1], pair[0])):
        if len(counted) >= MOST_VALUES and counted[MOST_VALUES - 1] < (-at_most, value):
            break
        if count := find(choosing(wide, name, value)).total:
            insort(counted, (-count, value))
    return tuple((value, -count) for count, value in counted[:MOST_VALUES])


def choosing(query: Query, facet: str, value: str) -> Query:
    """The query with one value of a facet of `OF_OFFERS` chosen instead of the present filter."""
    chosen: dict[str, Any] = {_OWN[facet][0]: (value,), "facets": ()}
    if prices_it(query, facet):
        chosen |= {"price_currency": value, "rates": query.quotes(value) if query.quotes else {}}
    return query._replace(**chosen)


def prices_it(query: Query, facet: str) -> bool:
    """Whether the chosen currency becomes the currency of the price bounds (law 15)."""
    return facet == "acceptedCurrency" and asks_price(query) and query.price_currency is None


def _is_joint(query: Query, facet: str) -> bool:
    """Whether the offer with a value of this facet, which is not filtered by, must also meet other filters."""
    return facet in OF_OFFERS and (asks_offer(query) or (bool(query.skills) and facet != "skillId"))


def commonest(by_value: Mapping[str, int]) -> Counts:
    """The most frequent values, equally frequent ones by value."""
    return tuple(sorted(by_value.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_VALUES])
