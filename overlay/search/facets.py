"""Disjunctive facets: a facet's own filter does not narrow its counts, so that it shows what else there is; and a value
counts the listings that choosing it finds."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from overlay.query import Query
from overlay.search.facts import EXACT, LISTED, MOST_VALUES
from overlay.search.prices import asks_offer, asks_price


class Matches(Protocol):
    """What an engine found (`overlay.engines.Matches`)."""

    @property
    def total(self) -> int:
        """How many results there are."""
        ...

    @property
    def facets(self) -> dict[str, dict[str, int]]:
        """How many results have each value."""
        ...


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
Find = Callable[[Query], Matches]
"""Finds what a query asks for, with the same words."""


def counts(query: Query, matches: Matches, find: Find) -> dict[str, Counts]:
    """The facets of a query, of which `matches` is the answer."""
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
    """The counts of values of which not all listings are found that have them: each is chosen, in the order of what it
    counts at most, until no other one can be among the commonest."""
    found: list[tuple[int, str]] = []
    for value, at_most in sorted(upper.items(), key=lambda pair: (-pair[1], pair[0])):
        if len(found) >= MOST_VALUES and found[MOST_VALUES - 1] < (-at_most, value):
            break
        if count := find(choosing(wide, name, value)).total:
            insort(found, (-count, value))
    return tuple((value, -count) for count, value in found[:MOST_VALUES])


def choosing(query: Query, facet: str, value: str) -> Query:
    """The query after a value of a facet `OF_OFFERS` is chosen in place of all others."""
    chosen: dict[str, Any] = {_OWN[facet][0]: (value,), "facets": ()}
    if prices_it(query, facet):
        chosen |= {"price_currency": value, "rates": query.quotes(value) if query.quotes else {}}
    return query._replace(**chosen)


def prices_it(query: Query, facet: str) -> bool:
    """Whether the bounds of prices are in the currency that is chosen (law 15)."""
    return facet == "acceptedCurrency" and asks_price(query) and query.price_currency is None


def _is_joint(query: Query, facet: str) -> bool:
    """Whether an offer that says a value of a facet, which is not filtered by, must meet other filters, too."""
    return facet in OF_OFFERS and (asks_offer(query) or (bool(query.skills) and facet != "skillId"))


def commonest(found: Mapping[str, int]) -> Counts:
    """The values that most listings have, of equally common ones the first by value."""
    return tuple(sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_VALUES])
