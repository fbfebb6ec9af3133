"""Facets that were counted before: they stay the same while one pages and sorts, until the index changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from time import monotonic
from typing import TypeVar

from overlay.api.problems import ProblemError
from overlay.engines import Cursor
from overlay.query import Hits, Query

KEPT = 256
"""Searches whose facets are remembered, at some 5 kB each."""

REST = 300.0
"""Seconds for which a search is not counted again that took too long to count."""

_TOO_LONG = 503
Facets = dict[str, tuple[tuple[str, int], ...]]
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Counted:
    """Remembers facets by search and index generation. Used in one thread."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[tuple[Cursor | None, Query], Facets] = OrderedDict()
        self._rests: OrderedDict[Query, float] = OrderedDict()

    async def ask(
        self, query: Query, index: Cursor | None, names: tuple[str, ...], found: Callable[[Query], Awaitable[Hits]]
    ) -> Hits:
        """What `found` answers, with facets of these names: counted by it, or before; none, {}, where counting takes
        too long, as it may with a million listings."""
        alike = query._replace(limit=0, offset=0, after=None, sort="relevance", descending=None, facets=())
        key = (index, alike)
        if (known := self._known.get(key)) is not None:
            self._known.move_to_end(key)
            return replace(await found(query._replace(facets=())), facets=known)
        if self._rests.get(alike, 0.0) <= self._clock():
            try:
                hits = await found(query._replace(facets=names))
            except ProblemError as problem:
                if problem.status != _TOO_LONG:
                    raise
                _remember(self._rests, alike, self._clock() + REST)
            else:
                _remember(self._known, key, hits.facets or {})
                return hits
        return replace(await found(query._replace(facets=())), facets={})


def _remember(known: OrderedDict[_Key, _Value], key: _Key, value: _Value) -> None:
    known[key] = value
    if len(known) > KEPT:
        known.popitem(last=False)
