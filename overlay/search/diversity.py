"""Room on a page for others: no owner, and no domain, fills it alone.

Of every `PAGE` results by relevance at most three of one owner or registrable domain stand before others; the rest
follow. A verified domain shares no places with listings that only name it. The order does not depend on how many
results are asked for, so pages by number and by cursor agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

PAGE = 20
MOST = 3
"""Results of one owner or domain that stand before others."""


def diversified(sources: Sequence[Sequence[int]], stop: int) -> list[int]:
    """The order of results up to place `stop`. Of each the owner and the domain are given as numbers, 0 for none."""
    remaining = list(range(len(sources)))
    order: list[int] = []
    while remaining and len(order) < stop:
        owners, domains = Counter[int](), Counter[int]()
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
