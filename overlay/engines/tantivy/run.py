"""One question put to Tantivy, for as many hits as turn out to be needed."""

from __future__ import annotations

from typing import Any

import tantivy

from overlay.engines.tantivy.pages import Found
from overlay.query import Query
from overlay.sorting import is_descending

_FIELDS = {"updated": "newest", "created": "made", "name": "name"}


class Run:
    """`part` is what to find, `scored` whether it makes points."""

    def __init__(self, searcher: tantivy.Searcher, part: tantivy.Query, query: Query, scored: bool) -> None:
        self.part = part
        # Without words all listings are equally relevant, and the newest come first.
        self.sort = "updated" if query.sort == "relevance" and not scored else query.sort
        self._searcher = searcher
        self._down = is_descending(query)
        self._found: dict[int, Found] = {}
        usual = (
            1 if query.sort == "price" or query.limit <= 0 or query.after else max(64, 2 * (query.offset + query.limit))
        )
        result = self._search(usual)
        self.total = counted(result)
        self._keep(usual, result.hits)

    def top(self, number: int) -> Found:
        """The first hits in the order asked for."""
        if number not in self._found:
            self._keep(number, self._search(number).hits)
        return self._found[number]

    def _keep(self, number: int, hits: list[tuple[Any, tantivy.DocAddress]]) -> None:
        if self.sort == "relevance" and not self._down:
            hits.reverse()
        values, addresses = [list(column) for column in zip(*hits, strict=True)] or [[], []]
        self._found[number] = Found(values, addresses, complete=len(hits) >= self.total)

    def _search(self, number: int) -> tantivy.SearchResult:
        if self.sort == "relevance":
            # Tantivy has no search for the least points: the worst come first by turning all around.
            limit = number if self._down else max(1, self._searcher.num_docs)
            return self._searcher.search(self.part, limit, weight_by_field="recency")
        if self.sort == "price":
            return self._searcher.search(self.part, 1)
        order = tantivy.Order.Desc if self._down else tantivy.Order.Asc
        return self._searcher.search(self.part, number, order_by_field=_FIELDS[self.sort], order=order)


def counted(result: tantivy.SearchResult) -> int:
    """How many documents matched (the stubs of tantivy leave it out)."""
    return int(result.count)  # type: ignore[attr-defined]
