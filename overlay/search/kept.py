"""Places on page one that are kept for those who have said longest what they say.

Who inscribes thousands of cards that say what is asked for as loudly as can be, each in words and under an owner of its
own, cannot be told from as many honest publishers, but for coming later. So of more hits than page one shows, the
`KEPT` most senior that make `PART` of the points of the best stand right behind the first few: with the points of the
hit that they follow, so that points still go one way, and each page is a part of the whole. However many come later,
they take none of these places. Without words, where all make the same points and the latest come first, they are the
most senior of all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from overlay.query import Query
from overlay.search.closeness import Key
from overlay.search.matching import Plan
from overlay.search.sorting import is_reversed

PAGE = 20
"""Hits that page one shows; where there are no more, no place is kept."""
KEPT = 10
PART = 2, 3
"""Who says it nearly as loudly as the best: not long lists of words, which would have places for all of them."""
_AHEAD, _AHEAD_IN_LONG = 5, 10  # a longer question describes what is sought: what answers it best stands out
_NUMBER = re.compile(r"\0\d\d$")

Row = tuple[Key, Any]
"""A hit by its place in the order of relevance."""


def ahead(plan: Plan) -> int:
    """How many of the best stand ahead of the kept places."""
    return _AHEAD if plan.all_first else _AHEAD_IN_LONG


def are_kept(total: int) -> bool:
    """Whether so many hits are more than page one shows."""
    return total > PAGE


def least(best: int) -> int:
    """The points that a hit must make, where the best makes so many."""
    return PART[0] * best // PART[1]


def concerns(query: Query, ahead: int) -> bool:
    """Whether kept places can matter for what is asked: not for what stands ahead of them, nor the worst first, nor
    where it is not known who was shown in them: then all stand where they stand without."""
    reached = query.after is not None or query.offset + query.limit > ahead
    return query.sort == "relevance" and query.limit > 0 and reached and not (query.moved or is_reversed(query))


def behind(edge: Key, number: int) -> Key:
    """The key of what stands behind a hit in a kept place of this number, and before all others."""
    return edge[0], edge[1], f"{edge[2]}\0{number:02}"


def is_kept(key: tuple[Any, ...]) -> bool:
    """Whether a key is that of a kept place."""
    return bool(_NUMBER.search(str(key[-1])))


class Kept(NamedTuple):
    """The hits in kept places by their keys there, `were` those they had before, and how many stand `ahead`."""

    ahead: int
    rows: list[Row]
    were: frozenset[Key]

    @classmethod
    def of(cls, first: Sequence[Row], senior: Sequence[Row]) -> Kept:
        """Where these hits are the first, as many as stand ahead, and these the most senior, in order."""
        before = {key for key, _ in first}
        moved = [row for row in senior if row[0] not in before]
        edge = first[-1][0]
        rows = [(behind(edge, number), hit) for number, (_, hit) in enumerate(moved)]
        return cls(len(first), rows, frozenset(key for key, _ in moved))

    def page(self, natural: Callable[[int, int], list[Row]], start: int, limit: int) -> list[Row]:
        """Hits number `start` to `start + limit`; `natural` gives so many from a number on as no place is kept."""
        rows = natural(start, min(limit, self.ahead - start)) if start < self.ahead else []
        kept = max(0, start - self.ahead)
        rows += self.rows[kept : kept + limit - len(rows)]
        passed, wanted = max(0, kept - len(self.rows)), limit - len(rows)
        if wanted > 0:
            found = natural(self.ahead + passed, wanted + len(self.rows))
            gone = sum(key < found[0][0] for key in self.were) if found else 0
            rows += self._others(found)[gone : gone + wanted]
        return rows

    def after(self, natural: Callable[[Key, int], list[Row]], key: Key, limit: int) -> list[Row]:
        """The `limit` hits that come strictly after a key, as `natural` gives them where no place is kept."""
        rows = self._others(natural(key, limit + len(self.rows)))
        rows += [row for row in self.rows if row[0] > key]
        return sorted(rows, key=itemgetter(0))[:limit]

    def _others(self, rows: list[Row]) -> list[Row]:
        return [row for row in rows if row[0] not in self.were]
