"""Rows in an order of their own: which of them can keep their places when others come and go. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Hashable, Mapping, Sequence


def staying(before: Sequence[Hashable], after: Sequence[Hashable]) -> dict[int, int]:
    """As many items as possible that both lists hold in the same order: the number in `after`, and that in `before`.

    O(n log n), after Schensted: the longest rising run of the numbers in `before`.
    """
    where: defaultdict[Hashable, deque[int]] = defaultdict(deque)
    for number, item in enumerate(before):
        where[item].append(number)
    ends: list[int] = []  # of the rising runs of each length, the lowest number that one ends in
    last: list[int] = []  # and where in `after` that number stands
    matched: dict[int, int] = {}
    previous: dict[int, int] = {}
    for new, item in enumerate(after):
        if not where.get(item):
            continue
        old = matched[new] = where[item].popleft()
        length = bisect_left(ends, old)
        previous[new] = last[length - 1] if length else -1
        ends[length : length + 1], last[length : length + 1] = [old], [new]
    found, at = {}, last[-1] if last else -1
    while at >= 0:
        found[at] = matched[at]
        at = previous[at]
    return found


def ranked(stays: Mapping[int, int], count: int, places: range) -> list[int] | None:
    """Rising places for `count` items, of which some stay where they are; None where there is no room between those.

    What comes between two that stay is spread evenly over the places between.
    """
    found: list[int] = []
    below = places.start - 1
    for number in [*sorted(stays), count]:
        above = stays.get(number, places.stop)
        come = number - len(found)
        if come >= above - below:
            return None
        found += [below + (above - below) * at // (come + 1) for at in range(1, come + 1)]
        if number < count:
            found.append(above)
            below = above
    return found
