"""Diversity of results by relevance: no owner and no domain fills a page alone.

Of every `PAGE` results at most three of one owner or registrable domain precede others. Where one of them has most of
the candidates, a search without it finds candidates of others. A verified domain is another source than listings that
only name it. The order does not depend on how many results are requested, so pages by number and by cursor agree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain

PAGE = 20
MOST = 3
"""Results of one owner or domain that precede others."""
SHARE = 20
"""Candidates of one owner or domain that precede others, where it has more than half of them."""

Sources = Sequence[Sequence[int]]
"""Of each result the owner and the domain as numbers, 0 for none."""


def flooding(sources: Sources) -> list[int]:
    """The owners and domains with more than `SHARE` of the candidates, where one of them has more than half."""
    counts = Counter(chain.from_iterable(sources))
    del counts[0]
    if max(counts.values(), default=0) <= len(sources) // 2:
        return []
    return [source for source, count in counts.items() if count > SHARE]


def spread(sources: Sources, count: int) -> list[int]:
    """The results, sorted so that the first `count` have at most `SHARE` of one owner or domain, unless there are no
    others. The remaining ones keep their order."""
    first, others = _limited(sources, range(len(sources)), count, SHARE)
    return sorted(first) + others


def diversified(sources: Sources, stop: int) -> list[int]:
    """The order of results up to rank `stop`."""
    remaining: Sequence[int] = range(len(sources))
    order: list[int] = []
    while remaining and len(order) < stop:
        page, remaining = _limited(sources, remaining, PAGE, MOST)
        order += page
    return order[:stop]


def _limited(sources: Sources, results: Sequence[int], count: int, most: int) -> tuple[list[int], list[int]]:
    """The first `count` results with at most `most` of one owner or domain, followed by others where these are too few;
    and the remaining results."""
    owners, domains = defaultdict[int, int](int), defaultdict[int, int](int)
    first: list[int] = []
    others: list[int] = []
    for rank, index in enumerate(results):
        if len(first) == count:
            return first, [*others, *results[rank:]]
        owner, domain = sources[index]
        if owners[owner] < most and domains[domain] < most:
            first.append(index)
            owners[owner] += owner != 0
            domains[domain] += domain != 0
        else:
            others.append(index)
    missing = count - len(first)
    return first + others[:missing], others[missing:]
