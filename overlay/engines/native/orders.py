"""Results in the orders of columns and prices, exact to any depth: those that contain every word, then the others.

A page at any position takes a few passes over the numbers of the results: no more results are sorted, and read, than
the first page has. Numbers differ between segments, so a position is found by splitting all results at one of them, and
by looking its key up in each segment.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.engines.native import search_kernels as kernels
from overlay.engines.native.admission import mark_offers
from overlay.engines.native.price_ranks import price_ranks, rank_of_price
from overlay.engines.native.results import SegmentResults
from overlay.engines.native.segment import Ints, NativeRecord, Segment
from overlay.search.prices import cheapest_for, price_key
from overlay.search.query import PRICE_SORTS, EngineHit, Query
from overlay.search.sorting import is_reversed, order_field

Longs = npt.NDArray[np.uint64]
Key = tuple[Any, ...]
Row = tuple[EngineHit, Segment, int]

_FIRST_PAGE = 64
"""Positions up to which the first results are chosen without a split."""
_MOST_SPLITS = 50
_MOST_VALUE = np.uint64(2**64 - 1)
_NAMES = 2**32


def in_order(results: Sequence[SegmentResults], query: Query, start: int, stop: int) -> list[Row]:
    """The results from position `start` to `stop`, each with its document; after the key of the query, if it has one,
    from where positions count."""
    rows: list[Row] = []
    for run in _runs(results, query):
        if query.after is not None:
            begins = query.after[: len(run.prefix)]
            if run.prefix < begins:
                continue
            if run.prefix == begins:
                run = run.split(query.after)[1]
        if start < run.count:
            rows += run.between(start, stop)
        start, stop = max(0, start - run.count), stop - run.count
        if stop <= 0:
            break
    return rows


class _Bound(NamedTuple):
    """The position of a key among the documents of a segment: before smaller values, and before equal values whose rank
    by id is at least this one; reversed, before larger values, and before equal ones of lower ranks."""

    value: int
    rank: int


class _Order(NamedTuple):
    """An order within a run: the sort key of a document but for the prefix of the run, and the position of such a key
    in a segment."""

    key: Callable[[NativeRecord], Key]
    bound: Callable[[Segment, Key], _Bound]


class _Part(NamedTuple):
    """Some of the results in a segment. `values` has a number for each document of the segment: the largest come first,
    equal ones by id."""

    segment: Segment
    documents: Ints
    values: Longs


class _Run:
    """Results whose keys have the same prefix: all come before those of the next run."""

    def __init__(self, prefix: tuple[int, ...], order: _Order, parts: Sequence[_Part], *, is_reversed: bool) -> None:
        self.prefix, self._order, self._parts, self._is_reversed = prefix, order, parts, is_reversed

    @cached_property
    def count(self) -> int:
        """How many results these are."""
        return sum(len(part.documents) for part in self._parts)

    def between(self, start: int, stop: int) -> list[Row]:
        """The results from one position to another."""
        run, margin = self, 0
        for _ in range(_MOST_SPLITS):
            if start - margin <= _FIRST_PAGE:
                break
            before, after = run.split(run._near(start - margin))
            if before.count <= start:
                run, start, stop = after, start - before.count, stop - before.count
            elif before.count >= stop:
                run = before
            else:
                margin = 2 * margin + stop - start
        return run.first(stop)[start:]

    def split(self, key: Key) -> tuple[_Run, _Run]:
        """The results up to a key, and those after it."""
        parts: tuple[list[_Part], list[_Part]] = [], []
        for part in self._parts:
            bound = self._order.bound(part.segment, key[len(self.prefix) :])
            values, ranks = part.values[part.documents], part.segment.arrays["id_rank"][part.documents]
            value, is_after = np.uint64(bound.value), values == np.uint64(bound.value)
            if self._is_reversed:
                is_after = (values > value) | (is_after & (ranks < np.uint64(bound.rank)))
            else:
                is_after = (values < value) | (is_after & (ranks >= np.uint64(bound.rank)))
            for side, chosen in zip(parts, (~is_after, is_after), strict=True):
                side.append(part._replace(documents=part.documents[chosen]))
        before, after = (_Run(self.prefix, self._order, side, is_reversed=self._is_reversed) for side in parts)
        return before, after

    def _near(self, position: int) -> Key:
        """The key of a result near a position; it is before some of the results."""
        part = max(self._parts, key=lambda part: len(part.documents))
        index = max(0, position * len(part.documents) // self.count - 1)
        values = part.values[part.documents]
        values = values if self._is_reversed else ~values
        value = np.partition(values, index)[index]
        ranks = part.segment.arrays["id_rank"][part.documents[values == value]]
        ranks = ~ranks if self._is_reversed else ranks
        index -= int(np.count_nonzero(values < value))
        rank = np.partition(ranks, index)[index]
        rank = ~rank if self._is_reversed else rank
        return self._row(part.segment, int(part.segment.arrays["id_order"][rank]))[0].key

    def first(self, most: int) -> list[Row]:
        """The first results. Those of one key, of an id on two chains, are in the same order for any `most`."""
        rows = [
            (self._row(segment, document), number, int(segment.arrays["id_rank"][document]))
            for number, (segment, documents, values) in enumerate(self._parts)
            for document in kernels.first(
                documents, values, segment.arrays["id_rank"], most, self._is_reversed
            ).tolist()
        ]
        rows.sort(key=lambda entry: (entry[0][0].key, *entry[1:]), reverse=self._is_reversed)
        return [row for row, _, _ in rows[:most]]

    def _row(self, segment: Segment, document: int) -> Row:
        (record,) = segment.records((document,))
        key = (*self.prefix, *self._order.key(record))
        return EngineHit(key, 0.0, record), segment, document


def _runs(results: Sequence[SegmentResults], query: Query) -> Iterator[_Run]:
    """The results in tiers, as `SegmentResults.tiers` has them; by price those without a compared price after the
    others of these, by id, in both directions."""
    reverse, tiers = is_reversed(query), zip(*(result.tiers() for result in results), strict=True)
    for tier, documents in enumerate(tiers):
        if query.sort not in PRICE_SORTS:
            order = _by_name(reverse) if query.sort == "name" else _by_column(order_field(query), reverse)
            parts = [
                _Part(result.segment, members, _values(result.segment, query))
                for result, members in zip(results, documents, strict=True)
            ]
            yield _Run((tier,), order, parts, is_reversed=reverse)
            continue
        priced, others = list[_Part](), list[_Part]()
        for result, members in zip(results, documents, strict=True):
            lowest = _lowest(result, members, query)
            is_priced = lowest != kernels.NOWHERE
            values = np.zeros(result.segment.documents, np.uint64)
            values[members] = _MOST_VALUE - lowest.astype(np.uint64)
            priced.append(_Part(result.segment, members[is_priced], values))
            others.append(_Part(result.segment, members[~is_priced], np.zeros_like(values)))
        yield _Run((tier, 0), _by_price(query), priced, is_reversed=reverse)
        yield _Run((tier, 1), _by_id(reverse), others, is_reversed=reverse)


def _values(segment: Segment, query: Query) -> Longs:
    """A number for each document of a segment in an order other than by price: see `_Part`."""
    if query.sort == "name":
        return np.asarray(np.uint64(_NAMES) - segment.arrays["name_rank"])
    return segment.arrays[order_field(query)]


def _rank_of(segment: Segment, name: str, order: npt.NDArray[np.uint32], text: str, *, is_reversed: bool) -> int:
    """Before which rank a text is in the `order` of documents by a row of bytes."""
    bisect = bisect_left if is_reversed else bisect_right
    data = text.encode("utf-8", "surrogatepass")
    return bisect(range(len(order)), data, key=lambda rank: segment.row(name, int(order[rank])))


def _rank_of_id(segment: Segment, id_: str, *, is_reversed: bool) -> int:
    return _rank_of(segment, "id", segment.arrays["id_order"], id_, is_reversed=is_reversed)


def _by_id(reverse: bool) -> _Order:
    """The order of documents with equal values: by id."""
    return _Order(
        lambda record: (record.id,),
        lambda segment, key: _Bound(0, _rank_of_id(segment, key[-1], is_reversed=reverse)),
    )


def _by_column(field: str, reverse: bool) -> _Order:
    """The order by a column of numbers."""

    def bound(segment: Segment, key: Key) -> _Bound:
        value = min(max(0, -int(key[0])), 2**64 - 1)
        return _Bound(value, _rank_of_id(segment, key[1], is_reversed=reverse))

    return _Order(lambda record: (-int(record.segment.arrays[field][record.document]), record.id), bound)


def _by_name(reverse: bool) -> _Order:
    """The order by name, which ends in the id: no two are equal."""

    def bound(segment: Segment, key: Key) -> _Bound:
        return _Bound(_NAMES - _rank_of(segment, "name_order", segment.by_name, key[0], is_reversed=reverse), 0)

    return _Order(
        lambda record: (record.segment.row("name_order", record.document).decode("utf-8", "surrogatepass"),), bound
    )


def _by_price(query: Query) -> _Order:
    """The order by the lowest price of an offer that meets the query."""
    reverse, cheapest = is_reversed(query), cheapest_for(query)

    def bound(segment: Segment, key: Key) -> _Bound:
        rank, is_equal = rank_of_price(segment, query, key[:2])
        return _Bound(int(_MOST_VALUE) - rank, _rank_of_id(segment, key[2], is_reversed=reverse) if is_equal else 0)

    return _Order(lambda record: price_key(cheapest(record.offers), record.id, query)[1:], bound)


def _lowest(results: SegmentResults, documents: Ints, query: Query) -> Ints:
    """The rank of the lowest price of each document among its offers that meet the query."""
    segment, scratch, a = results.segment, results.scratch, results.segment.arrays
    mark_offers(segment, query, scratch, documents, np.empty(segment.documents, np.uint8))
    ranks = price_ranks(segment, query)
    lowest = np.empty(len(documents), np.int64)
    kernels.lowest(
        documents, a["offers_offsets"], scratch.meets, a["offer_currency"], a["price"], ranks,
        query.price_currency is None, lowest,
    )  # fmt: skip
    return lowest
