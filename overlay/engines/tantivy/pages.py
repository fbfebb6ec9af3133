"""Which hits stand on a page, in an order without accidents: ties end in the id, wherever documents lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tantivy

from overlay.records import Record

Address = tantivy.DocAddress
Key = tuple[Any, ...]
Keyed = tuple[Key, Record]


class Found(NamedTuple):
    """The first hits of a search, by a value that may tie."""

    values: list[Any]
    addresses: list[Address]
    complete: bool  # there are no more


class Order(NamedTuple):
    """An order of hits. `top` finds the first n of them in it. `first` makes the first part of a key from a value,
    `key` the whole key; keys ascend in the natural order and descend when it is reversed."""

    top: Callable[[int], Found]
    first: Callable[[Any], Any]
    key: Callable[[Any, Record], Key]
    reverse: bool


Read = Callable[[list[Address]], list[Record]]


def page(order: Order, read: Read, start: int, limit: int) -> list[Keyed]:
    """Hits number `start` to `start + limit`: so many are fetched that no run of equal values is cut in two."""
    stop = start + limit
    wanted = max(64, 2 * stop)
    while True:
        found = order.top(wanted)
        if found.complete or found.values[-1] != found.values[stop - 1]:
            break
        wanted *= 8
    low, high = _whole_ties(found.values, start, stop)
    return _sorted(order, found, low, high, read)[start - low : stop - low]


def page_after(order: Order, read: Read, after: Key, limit: int) -> list[Keyed]:
    """The `limit` hits that come strictly after a key."""
    wanted = 256
    while True:
        found = order.top(wanted)
        low = _before(order, found.values, after[0])
        high = len(found.values)
        if not found.complete:
            high = _start_of_tie(found.values, high - 1)
        rows = _sorted(order, found, low, max(low, high), read)
        later = [row for row in rows if (row[0] < after if order.reverse else row[0] > after)]
        if found.complete or len(later) >= limit:
            return later[:limit]
        wanted *= 8


def _sorted(order: Order, found: Found, low: int, high: int, read: Read) -> list[Keyed]:
    records = read(found.addresses[low:high])
    rows = [(order.key(value, record), record) for value, record in zip(found.values[low:high], records, strict=True)]
    rows.sort(key=lambda row: row[0], reverse=order.reverse)
    return rows


def _whole_ties(values: Sequence[Any], low: int, high: int) -> tuple[int, int]:
    """The stretch, widened so that it cuts no run of equal values."""
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
