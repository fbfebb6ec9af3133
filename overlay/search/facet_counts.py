"""Disjunctive facets: a facet's own filter does not narrow its counts, and the count of a value is the total of the
search with that value chosen."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping
from hashlib import blake2b
from heapq import nsmallest
from typing import Any

from overlay.search.facts import EXACT, LISTED, MAX_TRIED, MOST_VALUES
from overlay.search.prices import asks_offer, asks_price
from overlay.search.query import Matches, Query

_OF_LISTING: dict[str, tuple[str, Any]] = {
    "type": ("kind", None),
    "skillId": ("skills", ()),
    "acceptedCurrency": ("currencies", ()),
    "interval": ("intervals", ()),
    "tag": ("tags", ()),
    "chain": ("chains", ()),
    "status": ("statuses", ()),
    "access": ("access", ()),
    "transport": ("transports", ()),
    "auth": ("auth", ()),
    "protocol": ("protocols", ()),
    "launcher": ("launchers", ()),
    "health": ("health", ()),
}
"""The query field of each facet, and its value when there is no filter."""


def without_own(query: Query, facet: str) -> Query:
    """The query without the filter of a facet; the same object without one. The default statuses (live and
    pending) are not a filter."""
    name, nothing = _OF_LISTING[facet]
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


def not_exact(query: Query) -> tuple[str, ...]:
    """The facets that, beyond `EXACT` results, count every listing with an offer of the value, whether or not this
    offer meets the other filters: these are too many for a search for each value."""
    return tuple(name for name in query.facets if _is_joint(without_own(query, name), name))


def counts(query: Query, matches: Matches, find: Find) -> tuple[dict[str, Counts], dict[str, int]]:
    """The facets of a query, and the number of values of each facet whose values were all counted; `matches` is the
    query's result."""
    facets, totals = dict[str, Counts](), dict[str, int]()
    for name in query.facets:
        facets[name], total = _facet(query, name, matches, find)
        if total is not None:
            totals[name] = total
    return facets, totals


def _facet(query: Query, name: str, matches: Matches, find: Find) -> tuple[Counts, int | None]:
    wide = without_own(query, name)
    is_joint = _is_joint(wide, name) and matches.total <= EXACT
    if wide is not query or is_joint:
        unpriced = wide._replace(min_price=None, max_price=None) if is_joint and prices_it(wide, name) else wide
        matches = find(unpriced._replace(facets=(name,)))
    counted = matches.facets.get(name, CountedValues({}))
    limit = query.facet_limit or MOST_VALUES
    if not is_joint:
        return counted.commonest(query.facet_prefix, limit)
    upper, total = counted.commonest(query.facet_prefix, MAX_TRIED)
    return _chosen(wide, name, upper, total, min(limit, MOST_VALUES), find)


class CountedValues:
    """See `query.ValueCounts`: the counts of a dictionary."""

    def __init__(self, by_spelling: Mapping[str, int]) -> None:
        self._by_spelling = by_spelling

    def commonest(self, prefix: str, limit: int) -> tuple[Counts, int]:
        """The most frequent values with a beginning, and the number of all these."""
        values: dict[str, tuple[str, int, int]] = {}
        for text, count in sorted(self._by_spelling.items()):
            if (key := text.casefold()).startswith(prefix):
                shown, most, total = values.get(key, (text, count, 0))
                values[key] = (text, count, total + count) if count > most else (shown, most, total + count)
        pairs = ((shown, total) for shown, _, total in values.values())
        return tuple(nsmallest(limit, pairs, key=lambda pair: _rank(*pair))), len(values)


def _chosen(wide: Query, name: str, upper: Counts, total: int, limit: int, find: Find) -> tuple[Counts, int | None]:
    """The exact counts of values, where a listing with a value may be no result when it is chosen: a search for each
    value, by decreasing upper bound, until no other value can be among the most frequent; and how many there are, if
    all `total` were counted."""
    counted: list[tuple[_Rank, str, int]] = []
    done = 0
    for value, at_most in upper:
        if len(counted) >= limit and counted[limit - 1][0] < _rank(value, at_most):
            break
        if count := find(choosing(wide, name, value)).total:
            insort(counted, (_rank(value, count), value, count))
        done += 1
    shown = tuple((value, count) for _, value, count in counted[:limit])
    return shown, len(counted) if done == total else None


def choosing(query: Query, facet: str, value: str) -> Query:
    """The query with one value of a facet of `OF_OFFERS` chosen instead of the present filter."""
    chosen: dict[str, Any] = {_OF_LISTING[facet][0]: (value.casefold() if facet == "skillId" else value,), "facets": ()}
    if prices_it(query, facet):
        chosen |= {"price_currency": value, "rates": query.quotes(value) if query.quotes else {}}
    return query._replace(**chosen)


def prices_it(query: Query, facet: str) -> bool:
    """Whether a facet's chosen currency becomes the currency of the price bounds (law 15)."""
    return facet == "acceptedCurrency" and asks_price(query) and query.price_currency is None


def _is_joint(query: Query, facet: str) -> bool:
    """Whether the offer with a value of this facet, which is not filtered by, must also meet other filters."""
    return facet in OF_OFFERS and (asks_offer(query) or (bool(query.skills) and facet != "skillId"))


_Rank = tuple[int, int]


def _rank(value: str, count: int) -> _Rank:
    return -count, hash_of(value)


def hash_of(value: str) -> int:
    """64 bits by which equally frequent values are ordered, the same for values that differ in case only: by value, one
    card with 256 skills would hide the skills of all others."""
    data = value.casefold().encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest())
