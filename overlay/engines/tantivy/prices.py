"""Sorting by price: every listing by its cheapest offer that meets the query, within its currency.

Columns are read and sorted as numbers: for a first page the lowest amounts of each column, else whole columns, and what
came of the last few questions is remembered. Of 100,000 offers the first page by price in dollars takes 20 ms, a later
one 120 ms, and the one after that 2 ms. Only what a page shows is read from records; of listings that ask the same,
thousands perhaps, just the ids.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import tantivy
from numpy.typing import NDArray

from overlay.engines.tantivy.facts import number
from overlay.engines.tantivy.pages import Address, Key, Keyed
from overlay.engines.tantivy.queries import Part, every
from overlay.engines.tantivy.schema import FIRST
from overlay.engines.tantivy.view import View
from overlay.query import Cheapest, Query
from overlay.search.prices import UNKNOWN, amount_key, compared, converted_keys, key_number, price_key
from overlay.search.records import Record

MOST_REMEMBERED = 1_000_000
"""Rows that are kept of questions asked before, at 24 bytes each."""

FIRST_PAGES, LOWEST = 100, 400
"""Hits that are looked for among the lowest amounts of each column first, and how many these are."""

Find = Callable[[Record], Cheapest | None]
"""The cheapest offer of a record under the query."""

Numbers = NDArray[np.int64]
_NONE: Numbers = np.array([], np.int64)


class Priced(NamedTuple):
    """All listings with a price in question, by currency code and then by amount: the number of the currency among
    `names`, the key of the lowest amount, and where the record lies."""

    names: list[str]
    ranks: Numbers
    keys: Numbers
    places: Numbers


class ByPrice:
    """All hits by currency code, then amount, then id; listings without a price in question stand last, by id, and
    that in either direction."""

    def __init__(self, view: View, query: Query, admitted: Part, total: int, find: Find, *, reverse: bool) -> None:
        self._view, self._admitted, self._total, self._find, self._reverse = view, admitted, total, find, reverse
        self._priced = self._enough(query) or _remembered(view, query, admitted, total, find)
        self._count = len(self._priced.keys)

    def _enough(self, query: Query) -> Priced | None:
        """The first hits, where no more are needed: None where they are, or are known already."""
        stop = query.offset + query.limit
        if self._reverse or query.after or query.price_currency is None or stop > FIRST_PAGES:
            return None
        if _question(query) in self._view.ask.priced or self._total <= LOWEST:
            return None
        found = _priced(self._view, query, self._admitted, self._total, self._find, LOWEST)
        return found if len(found.keys) >= stop else None

    def page(self, start: int, limit: int) -> list[Keyed]:
        """Hits number `start` to `start + limit`."""
        stop, priced = start + limit, self._count
        found = self._rows(start, min(stop, priced))
        if stop > priced and priced < self._total:
            found += self._unpriced(None)[max(0, start - priced) : stop - priced]
        return found

    def after(self, key: Key, limit: int) -> list[Keyed]:
        """The `limit` hits that come strictly after a key."""
        later: list[Keyed] = []
        if key[0] == 0:
            start = self._before(str(key[1]), key_number(key[2]))
            rows = self._rows(start, min(self._end_of_tie(start) + limit, self._count))
            later = [row for row in rows if self._follows(row[0], key)][:limit]
        if len(later) < limit and self._count < self._total:
            later += self._unpriced(key if key[0] == 1 else None)[: limit - len(later)]
        return later

    def _follows(self, one: Key, other: Key) -> bool:
        return one < other if self._reverse else one > other

    def _before(self, currency: str, key: int) -> int:
        """How many priced hits come before those with a currency and an amount's number."""
        names, ranks, keys, _ = self._priced
        rank = bisect_left(names, currency)
        low, high = (int(np.searchsorted(ranks, each)) for each in (rank, rank + 1))
        side = "right" if self._reverse else "left"
        if rank < len(names) and names[rank] == currency:
            low += int(np.searchsorted(keys[low:high], key, side))  # type: ignore[call-overload,unused-ignore]
        return self._count - low if self._reverse else low

    def _end_of_tie(self, at: int) -> int:
        """The hit after those that tie with one."""
        return self._tie(at)[1] if at < self._count else at

    def _tie(self, at: int) -> tuple[int, int]:
        """The stretch of hits of one currency and number that one of them stands in."""
        _, ranks, keys, _ = self._priced
        here = self._count - 1 - at if self._reverse else at
        low, high = (int(np.searchsorted(ranks, ranks[here], side)) for side in ("left", "right"))
        same = keys[low:high]
        low, high = (low + int(np.searchsorted(same, keys[here], side)) for side in ("left", "right"))
        return (self._count - high, self._count - low) if self._reverse else (low, high)

    def _rows(self, start: int, stop: int) -> list[Keyed]:
        """The stretch of priced hits. Numbers tie for amounts that are equal, or equal to 12 digits."""
        found: list[int] = []
        at = start
        while at < stop:
            low, high = self._tie(at)
            found += self._in_order(low, high)[at - low : stop - low]
            at = high
        return [(price_key(self._find(each), each.id), each) for each in self._view.read_at(found)]

    def _in_order(self, low: int, high: int) -> list[int]:
        """Where the records of hits that tie lie, in the order of what their keys leave open."""
        _, _, keys, places = self._priced
        inside = slice(self._count - high, self._count - low) if self._reverse else slice(low, high)
        tied: list[int] = places[inside].tolist()
        if len(tied) == 1:
            return tied
        if keys[inside][0] % 2:  # the amounts differ after the digits that keys hold
            whole = [price_key(self._find(each), each.id) for each in self._view.read_at(tied)]
        else:
            whole = [(id_,) for id_ in self._view.ids_at(tied)]
        at = sorted(range(len(tied)), key=whole.__getitem__, reverse=self._reverse)
        return [tied[each] for each in at]

    def _unpriced(self, after: Key | None) -> list[Keyed]:
        """The hits without a price in question, or those of them after a key."""
        places = _places(self._view, self._admitted, self._total)
        rest: list[int] = np.setdiff1d(places, self._priced.places).tolist()
        ids = sorted(zip(self._view.ids_at(rest), rest, strict=True), reverse=self._reverse)
        if after is not None:
            ids = [each for each in ids if self._follows((1, each[0]), after)]
        return _Lazily(self._view, ids)


class _Lazily(list[Any]):
    """Hits without a price, of which only those that are asked for are read."""

    def __init__(self, view: View, ids: list[tuple[str, int]]) -> None:
        super().__init__(ids)
        self._view = view

    def __getitem__(self, at: Any) -> Any:
        records = self._view.read_at([place for _, place in super().__getitem__(at)])
        return [((1, each.id), each) for each in records]


def _remembered(view: View, query: Query, admitted: Part, total: int, find: Find) -> Priced:
    """What is known of a question, whichever of its pages is asked for."""
    known, asked = view.ask.priced, _question(query)
    found = known.pop(asked, None) or _priced(view, asked, admitted, total, find, total + 1)
    known[asked] = found
    while len(known) > 1 and sum(len(each.keys) for each in list(known.values())) > MOST_REMEMBERED:
        known.pop(next(iter(known)), None)
    return found


def _question(query: Query) -> Query:
    return query._replace(limit=0, offset=0, after=None, facets=(), descending=None)


class Column(NamedTuple):
    """Place, currency and amount of the offers of one number that meet a question, the lowest first; those that are
    missing, if any are, do not come before `end`."""

    places: Numbers
    anchors: Numbers
    keys: Numbers
    end: int | None


def _places(view: View, part: Part, total: int) -> Numbers:
    """Where the records of all hits of a question lie."""
    hits = view.ask.searcher.search(part, max(1, total), count=False).hits
    return np.array(view.ask.numbers("place", [address for _, address in hits]), dtype=np.int64)


def _priced(view: View, query: Query, admitted: Part, total: int, find: Find, most: int) -> Priced:
    """Every listing's lowest amount among offers that meet the query, in the currency law 14 names; of the first `most`
    hits of each column, those that no missing one can come before. Listings with more offers than have columns
    are read, and so are those whose amounts have more digits than can be converted unread."""
    columns = list(_columns(view, query, admitted, most))
    places, anchors, keys = (np.concatenate([_NONE, *(each[at] for each in columns)]) for at in range(3))
    long = every([admitted, view.ask.term("offer", f"{FIRST}")])
    read = np.union1d(_places(view, long, total), places[keys == UNKNOWN])
    unread = ~np.isin(places, read)
    places, anchors, keys = _lowest(places[unread], anchors[unread], keys[unread])
    records = zip(read.tolist(), map(find, view.read_at(read.tolist())), strict=True)
    told = [(place, *compared(each)) for place, each in records if each]
    places = np.append(places, np.array([place for place, _, _ in told], np.int64))
    anchors = np.append(anchors, np.array([number(currency) for _, _, currency in told], np.int64))
    keys = np.append(keys, np.array([amount_key(Decimal(amount)) for _, amount, _ in told], np.int64))
    sure = keys < min((each.end for each in columns if each.end is not None), default=np.iinfo(np.int64).max)
    names, ranks = _named(view, anchors[sure], places[sure], find)
    order = np.lexsort((keys[sure], ranks))
    return Priced(names, ranks[order], keys[sure][order], places[sure][order])


def _columns(view: View, query: Query, admitted: Part, most: int) -> Iterator[Column]:
    """What the columns hold of offers that meet the query, those of lower numbers first."""
    ask, order = view.ask, tantivy.Order.Asc
    for slot, each in sorted(_slots(view, query), key=lambda pair: pair[0]):
        found = every([admitted, ask.slot(slot, each, anchored=True)])
        hits = ask.searcher.search(found, max(1, most), count=False, order_by_field=f"price{slot}", order=order).hits
        addresses: list[Address] = [address for _, address in hits]
        keys, ends = [key for key, _ in hits], [key & ~1 for key, _ in hits[most - 1 :]]
        rate = None if each.price_currency is None else query.rates.get(each.price_currency)
        if rate is None or query.price_currency is None:
            anchors = np.array(ask.numbers(f"anchor{slot}", addresses), dtype=np.int64)
        else:
            keys, ends = converted_keys(keys, rate), converted_keys(ends, rate)
            anchors = np.full(len(keys), number(query.price_currency), dtype=np.int64)
        places = np.array(ask.numbers("place", addresses), dtype=np.int64)
        yield Column(places, anchors, np.array(keys, dtype=np.int64), ends[0] if ends else None)


def _slots(view: View, query: Query) -> Iterator[tuple[int, Query]]:
    """The columns to look through, and what for."""
    for each in view.ask.each_currency(query):
        yield from ((slot, each) for slot in view.ask.slots(each, anchored=True) if slot < FIRST)


def _lowest(places: Numbers, anchors: Numbers, keys: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Of each place the lowest amount in the currency that stands first."""
    _, first, at = np.unique(places, return_index=True, return_inverse=True)
    mine = anchors == anchors[first][at]
    places, anchors, keys = places[mine], anchors[mine], keys[mine]
    order = np.lexsort((keys, places))
    _, first = np.unique(places[order], return_index=True)
    chosen = order[first]
    return places[chosen], anchors[chosen], keys[chosen]


def _named(view: View, anchors: Numbers, places: Numbers, find: Find) -> tuple[list[str], Numbers]:
    """The currency codes in order, and of each row the number of its own; read from one listing each."""
    _, first, at = np.unique(anchors, return_index=True, return_inverse=True)
    cheapest = map(find, view.read_at(places[first].tolist()))
    codes = [compared(each)[1] if each else "" for each in cheapest]
    names = sorted(set(codes))
    return names, np.array([bisect_left(names, code) for code in codes], dtype=np.int64)[at]
