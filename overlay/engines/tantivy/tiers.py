"""The best hits of one word or two, tier by tier: words make few different points, and so thousands of hits tie.

Scoring them all, to find the first among those that tie, costs two or three times what counting them does. Asking
instead for the most senior hits of the best tier, then of the next, touches few of them, and their order is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import nsmallest

import tantivy

from overlay.engines.tantivy.pages import Address, Found, Keyed, by_seniority, page
from overlay.engines.tantivy.queries import Part, either, every
from overlay.engines.tantivy.run import counted
from overlay.engines.tantivy.view import View
from overlay.search.kept import KEPT, least

Tier = tuple[int, list[tuple[Part, ...]]]
"""Points, and the ways to make so many: what the documents that make them, or more, have in common."""


def joined(words: list[list[tuple[int, Part]]]) -> list[Tier]:
    """The tiers of documents that hold every word, the most points first, from those of each; empty when a word has
    none. What makes as many points in another way ties with the rest of its tier."""
    ways: list[tuple[int, tuple[Part, ...]]] = [(0, ())]
    for word in words:
        ways = [(points + more, (*parts, part)) for points, parts in ways for more, part in word]
    tiers: dict[int, list[tuple[Part, ...]]] = {}
    for points, parts in ways:
        tiers.setdefault(points, []).append(parts)
    return sorted(tiers.items(), reverse=True)


@dataclass(slots=True)
class Tiers:
    """`best` are the tiers, the most points first; a document that is in several counts in the first. Its total is that
    of `part`, and `ahead` of them stand before kept places."""

    searcher: tantivy.Searcher
    part: Part
    best: list[Tier]
    admitted: list[Part]
    ahead: int
    sort: str = "relevance"
    closeness: None = None
    total: int = field(init=False)
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.total = counted(self.searcher.search(tantivy.Query.const_score_query(self.part, 1.0), 1))

    def top(self, number: int, _fine: bool) -> Found:
        """The first hits by points and seniority, which are the values."""
        values: list[tuple[int, int]] = []
        addresses: list[Address] = []
        self._seen.clear()
        for points, ways in self.best:
            wanted = number - len(values)
            if wanted <= 0:
                break
            tier = every([*ways[0], *self.admitted]) if len(ways) == 1 else self._either(ways)
            limit = wanted + len(self._seen)
            hits = self.searcher.search(tier, limit, count=False, order_by_field="seniority").hits
            for seniority, address in filter(self._is_new, hits):
                values.append((points, seniority))
                addresses.append(address)
        return Found(values, addresses, len(values) >= self.total)

    @property
    def most(self) -> int:
        """The points of the best, if there is any."""
        ((best, _),) = self.top(1, False).values
        return int(best)

    def senior(self, view: View) -> list[Keyed]:
        """Those that kept places may be for (`kept`): of each tier, those that are more senior than all its others."""
        best = self.most
        found: dict[str, Keyed] = {}
        for points, ways in self.best:
            if best >= points >= least(best):
                for (number, id_), record in page(by_seniority(self.searcher, self._either(ways)), view.read, 0, KEPT):
                    found.setdefault(id_, ((-points, number, id_), record))
        return nsmallest(KEPT, found.values(), key=lambda row: row[0][1:])

    def _either(self, ways: list[tuple[Part, ...]]) -> Part:
        return every([either([every(list(parts)) for parts in ways]), *self.admitted])

    def _is_new(self, hit: tuple[int, Address]) -> bool:
        at = hit[1].segment_ord, hit[1].doc
        if at in self._seen:
            return False
        self._seen.add(at)
        return True
