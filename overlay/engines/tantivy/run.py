"""One question put to Tantivy, for as many hits as turn out to be needed."""

from __future__ import annotations

from bisect import bisect_left
from heapq import nlargest, nsmallest
from typing import Any

import tantivy

from overlay.engines.tantivy.pages import Found, Keyed, by_seniority, first_wanted, page
from overlay.engines.tantivy.view import View
from overlay.query import Query
from overlay.search.closeness import Closeness
from overlay.search.kept import KEPT, least
from overlay.search.records import Record
from overlay.search.sorting import LATEST, is_descending, order

_AT_LEAST = 256  # hits, as `pages.first_wanted`
_FIELDS = {LATEST: "newest", "updated": "newest", "created": "made", "name": "name"}


class Run:
    """`part` is what to find; `words` make points, if there are any, and `closeness` adds some to the best, of which so
    many as are `ahead` stand before kept places. The points of one word tie in long rows."""

    def __init__(
        self,
        searcher: tantivy.Searcher,
        part: tantivy.Query,
        query: Query,
        words: int,
        closeness: Closeness | None = None,
        *,
        ahead: int = 0,
    ) -> None:
        self.part, self.closeness, self.ahead = part, closeness, ahead
        self.sort = order(query)
        self._searcher = searcher
        self._down = is_descending(query)
        paged = query.sort != "price" and query.limit > 0 and not query.after
        self._first = first_wanted(query.offset + query.limit, tying=self.sort == "relevance") if paged else 1
        self._fine = words == 1
        result = self._search(self._first, fine=self._fine)
        self.total = counted(result)
        self._found = self._read_hits(result)

    @property
    def most(self) -> int:
        """The points of the best, if they are known; else 0."""
        return int(self._found.values[0]) if self.sort == "relevance" and self._down and self._found.values else 0

    def top(self, number: int, fine: bool) -> Found:
        """The first hits in the order asked for. `fine`: the more senior ones first among those of equal points, as far
        as Tantivy can tell them apart; that costs a third more, and is not needed while ties are short."""
        if number == self._first and fine <= self._fine:
            return self._found
        return self._read_hits(self._search(number, fine=fine))

    def senior(self, view: View) -> list[Keyed]:
        """Those that kept places may be for (`kept`)."""
        if self.sort == LATEST:
            return self._senior_of_all(view)
        wanted = max(self._first, _AT_LEAST)
        found = self.top(wanted, fine=False)
        while not found.complete and int(found.values[-1]) >= least(int(found.values[0])):
            wanted *= 8
            found = self.top(wanted, fine=False)
        several = bisect_left(found.values, True, key=lambda value: int(value) < least(int(found.values[0])))
        numbers = view.ask.numbers("seniority", found.addresses[:several])
        last = nlargest(KEPT, numbers)[-1]
        chosen = [at for at, number in enumerate(numbers) if number >= last]
        records = view.read([found.addresses[at] for at in chosen])
        rows: list[Keyed] = [
            ((-int(found.values[at]), -each.seniority, each.id), each) for at, each in zip(chosen, records, strict=True)
        ]
        return nsmallest(KEPT, rows, key=lambda row: row[0][1:])

    def _senior_of_all(self, view: View) -> list[Keyed]:
        """The same without words: the most senior, by the keys that they have among the latest."""
        newest: dict[str, int] = {}

        def read(addresses: list[tantivy.DocAddress]) -> list[Record]:
            records = view.read(addresses)
            newest.update(zip([each.id for each in records], view.ask.numbers("newest", addresses), strict=True))
            return records

        rows = page(by_seniority(self._searcher, self.part), read, 0, KEPT)
        return [((-newest[each.id], 0, each.id), each) for _, each in rows]

    def _read_hits(self, result: tantivy.SearchResult) -> Found:
        hits: list[tuple[Any, tantivy.DocAddress]] = result.hits
        if self.sort == "relevance" and not self._down:
            hits.reverse()
        return Found([value for value, _ in hits], [address for _, address in hits], len(hits) >= self.total)

    def _search(self, number: int, *, fine: bool) -> tantivy.SearchResult:
        if self.sort == "relevance":
            # Tantivy has no search for the least points: the worst come first by turning all around.
            limit = number if self._down else max(1, self._searcher.num_docs)
            return self._searcher.search(self.part, limit, weight_by_field="bonus" if fine else None)
        if self.sort == "price":
            return self._searcher.search(self.part, 1)
        order = tantivy.Order.Desc if self._down else tantivy.Order.Asc
        return self._searcher.search(self.part, number, order_by_field=_FIELDS[self.sort], order=order)


def counted(result: tantivy.SearchResult) -> int:
    """How many documents matched (the stubs of tantivy leave it out)."""
    return int(result.count)  # type: ignore[attr-defined]
