"""The counts of currencies, where to choose one converts prices into it: as each comes out once it is chosen."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from overlay.query import Hits, Query
from overlay.search.widening import choosing, commonest, prices_it, without_own

if TYPE_CHECKING:
    from overlay.engines import Engine

MOST = 20
"""Currencies that are chosen to be counted: PostgreSQL takes some milliseconds for each."""

_FACET = "acceptedCurrency"


def search(engine: Engine, query: Query) -> Hits:
    """What an engine answers, with what is found in each currency that any of the listings takes: bounds of prices
    without a currency are in the one that is chosen, and offers in others meet them converted (law 15). Of the `MOST`
    that most listings take, a question more for each; none where more is found than is counted exactly."""
    hits = engine.search(query)
    wide = without_own(query, _FACET)
    if _FACET not in (hits.facets or {}) or hits.at_least or wide.quotes is None or not prices_it(wide, _FACET):
        return hits
    asked = wide._replace(sort="relevance", descending=None, limit=0, offset=0, after=None, facets=())
    taken = engine.search(asked._replace(min_price=None, max_price=None, facets=(_FACET,))).facets or {}
    counts = Counter({value: engine.search(choosing(asked, _FACET, value)).total for value, _ in taken[_FACET][:MOST]})
    return replace(hits, facets={**(hits.facets or {}), _FACET: commonest(+counts)})
