"""Facets that were counted before: they stay the same while one pages and sorts, until the index changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace

from overlay.engines import Cursor
from overlay.query import Hits, Query

KEPT = 256
"""Searches whose facets are remembered, at some 5 kB each."""

Facets = dict[str, tuple[tuple[str, int], ...]]


class Counted:
    """Remembers facets by search and index generation. Used in one thread."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Cursor | None, Query], Facets] = OrderedDict()

    async def ask(
        self, query: Query, index: Cursor | None, names: tuple[str, ...], found: Callable[[Query], Awaitable[Hits]]
    ) -> Hits:
        """What `found` answers, with facets of these names: counted by it, or before."""
        key = (index, replace(query, limit=0, offset=0, after=None, sort="relevance", descending=None, facets=()))
        if (known := self._known.get(key)) is not None:
            self._known.move_to_end(key)
            return replace(await found(replace(query, facets=())), facets=known)
        hits = await found(replace(query, facets=names))
        self._known[key] = hits.facets or {}
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return hits
