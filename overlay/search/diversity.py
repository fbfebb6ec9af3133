"""Diversity of results by relevance: no owner and no domain fills a page alone.

Of every `PAGE` results at most three of one owner or registrable domain precede others; the rest follow. Where one of
them has most of the candidates, candidates of others are taken from further results. A verified domain is another
source than listings that only name it. The order does not depend on how many results are requested, so pages by number
and by cursor agree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

PAGE = 20
MOST = 3
"""Results of one owner or domain that precede others."""
SHARE = 20
"""Candidates of one owner or domain that precede others, where it has more than half of them."""
WIDE = 600
"""Results that are then read to find candidates."""

Sources = Sequence[Sequence[int]]
"""Of each result the owner and the domain as numbers, 0 for none."""


def is_flooded(sources: Sources) -> bool:
    """Whether one owner or domain has more than half of the candidates."""
    for column in zip(*sources, strict=True):
        counts = Counter(column)
        counts[0] = 0
        if max(counts.values()) > len(sources) // 2:
            return True
    return False


def spread(sources: Sources, count: int) -> list[int]:
    """The order of results in which the first `count` have at most `SHARE` of one owner or domain, unless there are no
    others. The rest keep their order."""
    owners, domains = defaultdict[int, int](int), defaultdict[int, int](int)
    first: list[int] = []
    for index, (owner, domain) in enumerate(sources):
        if len(first) < count and owners[owner] < SHARE and domains[domain] < SHARE:
            first.append(index)
            owners[owner] += owner != 0
            domains[domain] += domain != 0
    chosen = frozenset(first)
    rest = [index for index in range(len(sources)) if index not in chosen]
    missing = count - len(first)
    return sorted([*first, *rest[:missing]]) + rest[missing:]


def diversified(sources: Sources, stop: int) -> list[int]:
    """The order of results up to place `stop`."""
    remaining = list(range(len(sources)))
    order: list[int] = []
    while remaining and len(order) < stop:
        owners, domains = defaultdict[int, int](int), defaultdict[int, int](int)
        first: list[int] = []
        rest: list[int] = []
        for index in remaining:
            owner, domain = sources[index]
            if len(first) < PAGE and owners[owner] < MOST and domains[domain] < MOST:
                first.append(index)
                owners[owner] += owner != 0
                domains[domain] += domain != 0
            else:
                rest.append(index)
        missing = PAGE - len(first)
        order += first + rest[:missing]
        remaining = rest[missing:]
    return order[:stop]
