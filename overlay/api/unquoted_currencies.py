"""Whether a search leaves out offers because no feed quotes their currency: only then does its answer say so."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

from overlay.api.request_cost import in_thread
from overlay.api.search_request import QUOTED_ONLY, SearchRequest
from overlay.engines import EngineError, IndexPosition
from overlay.projection.search_index import SearchIndex
from overlay.search.facts import MOST_FACET_VALUES
from overlay.search.query import Query

_TAKEN = "acceptedCurrency"


class _Currencies(NamedTuple):
    """The currencies that offers name at a position of an index, None where they are too many."""

    position: IndexPosition | None
    names: frozenset[str] | None


_CACHE: WeakKeyDictionary[SearchIndex, _Currencies] = WeakKeyDictionary()


async def without_idle_note(
    search_request: SearchRequest, engine: SearchIndex, position: IndexPosition | None
) -> SearchRequest:
    """The request without the note `quoted-only` where every currency of offers is quoted."""
    notes = tuple(note for note in search_request.notes if note.code != QUOTED_ONLY)
    if len(notes) == len(search_request.notes) or search_request.rates is None:
        return search_request
    cached = _CACHE.get(engine)
    if cached is None or cached.position != position:
        cached = _CACHE[engine] = _Currencies(position, await in_thread(_currencies, engine))
    quoted = search_request.rates.rates.keys() | {search_request.query.price_currency}
    return search_request if cached.names is None or cached.names - quoted else search_request._replace(notes=notes)


def _currencies(engine: SearchIndex) -> frozenset[str] | None:
    try:
        hits = engine.search(Query(facets=(_TAKEN,), facet_limit=MOST_FACET_VALUES, limit=0))
    except EngineError:  # the search itself says why
        return None
    values = [name for name, _ in (hits.facets or {}).get(_TAKEN, ())]
    is_whole = hits.facet_totals.get(_TAKEN) == len(values)
    return frozenset(map(str.upper, values)) if is_whole else None
