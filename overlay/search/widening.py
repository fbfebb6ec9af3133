"""Disjunctive facets: what a facet counts is not narrowed by its own filter, so that it shows what else there is."""

from __future__ import annotations

from typing import Any

from overlay.query import Query
from overlay.search.facts import LISTED

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
    return query._replace(**{name: nothing})
