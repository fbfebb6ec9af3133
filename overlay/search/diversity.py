"""Diversity of results by relevance: no source fills a page alone.

A source is an owner together with the registrable domain of a host: anyone can register for the address of another, or
name the host of another, and must not use up the places of that one. Listings that their domain confirms are of no
source. Of every `PAGE` results at most three of one source precede others. Where one has most of the candidates, a
search without it finds candidates of others. The order does not depend on how many results are requested, so pages by
number and by cursor agree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

from indexer.fetcher.budgets import registrable

PAGE = 20
MOST = 3
"""Results of one source that precede others."""
SHARE = 20
"""Candidates of one source that precede others, where it has more than half of them."""

Sources = Sequence[int]
"""The source of each result as a number, 0 for none."""


@lru_cache(maxsize=16_384)
def source_number(key: bytes, owner: str, host: str) -> int:
    """The source of an owner and a host as a number of 64 bits, never 0: BLAKE2b under a key that only the database
    has, so that no owner or host can be made that has the number of another."""
    text = f"{owner}\0{registrable(host) if host else ''}"
    hashed = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest()
    return int.from_bytes(hashed, "little") or 1


def flooding(sources: Sources) -> list[int]:
    """The sources with more than `SHARE` of the candidates, where one of them has more than half."""
    counts = Counter(sources)
    del counts[0]
    if max(counts.values(), default=0) <= len(sources) // 2:
        return []
    return [source for source, count in counts.items() if count > SHARE]


def spread(sources: Sources, count: int) -> list[int]:
    """The results, sorted so that the first `count` have at most `SHARE` of one source, unless there are no others. The
    remaining ones keep their order."""
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
    """The first `count` results with at most `most` of one source, followed by others where these are too few; and the
    remaining results."""
    counts = defaultdict[int, int](int)
    first: list[int] = []
    others: list[int] = []
    for rank, index in enumerate(results):
        if len(first) == count:
            return first, [*others, *results[rank:]]
        source = sources[index]
        if counts[source] < most:
            first.append(index)
            counts[source] += source != 0
        else:
            others.append(index)
    missing = count - len(first)
    return first + others[:missing], others[missing:]
