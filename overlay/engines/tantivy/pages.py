"""Which hits stand on a page, in an order without accidents: ties end in the id, wherever documents lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tantivy

from overlay.query import Hit, Hits
from overlay.search.facts import EXACT
from overlay.search.prices import Showing
from overlay.search.ranking import BEST
from overlay.search.records import Record

Address = tantivy.DocAddress
Key = tuple[Any, ...]
Keyed = tuple[Key, Record]
Located = tuple[Any, Address]


class Found(NamedTuple):
    """The first hits of a search, by a value that may tie."""

    values: list[Any]
    addresses: list[Address]
    complete: bool  # there are no more


class Order(NamedTuple):
    """An order of hits. `top` finds the first n of them in it, coarsely or finely (`run.Run.top`). `first` makes the
    first part of a key from a value, `key` the whole key; keys ascend in the natural order and descend when it is
    reversed. `ties` gives numbers that put hits of equal value in the natural order downwards, as far as they differ;
    None when equal values are rare."""

    top: Callable[[int, bool], Found]
    first: Callable[[Any], Any]
    key: Callable[[Any, Record], Key]
    reverse: bool
    ties: Callable[[list[Address]], list[int]] | None


Read = Callable[[list[Address]], list[Record]]


def by_seniority(searcher: tantivy.Searcher, part: tantivy.Query) -> Order:
    """The order of who has said so longest, of what a part finds."""

    def top(number: int, _fine: bool) -> Found:
        hits = searcher.search(part, number, count=False, order_by_field="seniority").hits
        return Found([value for value, _ in hits], [address for _, address in hits], len(hits) < number)

    return Order(top, lambda seniority: -seniority, lambda seniority, each: (-seniority, each.id), False, None)


def first_wanted(stop: int, *, tying: bool) -> int:
    """How many hits to ask for at first, to show those up to number `stop`. Where values tie in long rows, 256: a row
    is cut in one search of 40 then, with 64 in one of 4, and asking again costs as much as asking did."""
    return max(256, 2 * stop) if tying else stop + 12


def hits(rows: Sequence[Keyed], find: Showing, total: int, *, scored: bool) -> Hits:
    """An answer without facets: a page of `total` hits, whose keys begin with their points where they are `scored`."""
    made = [
        Hit(each.id, each.item, -key[0] / BEST if scored else 0.0, find(each.cheapest, each.offers), key)
        for key, each in rows
    ]
    return answer(tuple(made), total, ages=any(each.ages for _, each in rows))


def answer(made: Sequence[Hit], total: int, *, ages: bool) -> Hits:
    """A page of `total` hits."""
    return Hits(made, min(total, EXACT), at_least=total > EXACT, ages=ages)


def page(order: Order, read: Read, start: int, limit: int) -> list[Keyed]:
    """Hits number `start` to `start + limit`: so many are fetched that no run of equal values is cut in two."""
    stop = start + limit
    wanted, fine = first_wanted(stop, tying=order.ties is not None), False
    while True:
        found = order.top(wanted, fine)
        if found.complete or found.values[-1] != found.values[stop - 1]:
            break
        wanted, fine = wanted * 8 if fine else wanted, True
    low, high = whole_ties(found.values, start, stop)
    hits = list(zip(found.values[low:high], found.addresses[low:high], strict=True))
    start, stop = start - low, stop - low
    if order.ties and len(hits) > limit:
        hits, start, stop = _narrowed(order, order.ties, hits, start, stop)
    return _sorted(order, hits, read)[start:stop]


def _narrowed(
    order: Order, ties: Callable[[list[Address]], list[int]], hits: list[Located], start: int, stop: int
) -> tuple[list[Located], int, int]:
    """Fewer hits to read for the same page: reading one costs as much as comparing a hundred numbers."""
    numbers = ties([address for _, address in hits])
    places = [(order.first(value), -number) for (value, _), number in zip(hits, numbers, strict=True)]
    at = sorted(range(len(hits)), key=places.__getitem__, reverse=order.reverse)
    low, high = whole_ties([places[each] for each in at], start, stop)
    return [hits[each] for each in at[low:high]], start - low, stop - low


def page_after(order: Order, read: Read, after: Key, limit: int) -> list[Keyed]:
    """The `limit` hits that come strictly after a key."""
    wanted = 256
    while True:
        found = order.top(wanted, True)
        low = _before(order, found.values, after[0])
        high = len(found.values)
        if not found.complete:
            high = max(low, _start_of_tie(found.values, high - 1))
        rows = _sorted(order, list(zip(found.values[low:high], found.addresses[low:high], strict=True)), read)
        later = [row for row in rows if (row[0] < after if order.reverse else row[0] > after)]
        if found.complete or len(later) >= limit:
            return later[:limit]
        wanted *= 8


def _sorted(order: Order, hits: list[Located], read: Read) -> list[Keyed]:
    records = read([address for _, address in hits])
    rows = [(order.key(value, record), record) for (value, _), record in zip(hits, records, strict=True)]
    rows.sort(key=lambda row: row[0], reverse=order.reverse)
    return rows


def whole_ties(values: Sequence[Any], low: int, high: int) -> tuple[int, int]:
    """The stretch of a list, widened so that it cuts no run of equal values."""
    if low >= len(values):
        return len(values), len(values)
    high = min(high, len(values))
    while high < len(values) and values[high] == values[high - 1]:
        high += 1
    return _start_of_tie(values, low), high


def _start_of_tie(values: Sequence[Any], at: int) -> int:
    while at > 0 and values[at - 1] == values[at]:
        at -= 1
    return at


def _before(order: Order, values: Sequence[Any], first: Any) -> int:
    """How many values come before those whose keys begin with `first`."""
    for at, value in enumerate(values):
        here = order.first(value)
        if here <= first if order.reverse else here >= first:
            return at
    return len(values)
