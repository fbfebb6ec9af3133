"""Results in the orders of columns and prices, exact to any depth: those that contain every word, then the others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from overlay.engines.native import search_kernels as kernels
from overlay.engines.native.admission import mark_offers
from overlay.engines.native.price_ranks import price_ranks
from overlay.engines.native.segment import Ints, NativeRecord, Segment
from overlay.engines.native.segment_results import SegmentResults
from overlay.search.prices import cheapest_for, price_key
from overlay.search.query import PRICE_SORTS, EngineHit, Query
from overlay.search.sorting import compares_per_day, is_reversed, order_field

Row = tuple[EngineHit, Segment, int]
_Part = tuple[SegmentResults, Ints]
"""Some of the results in a segment."""


def in_order(results: Sequence[SegmentResults], query: Query, start: int, stop: int) -> list[Row]:
    """The results from position `start` to `stop`, each with its document."""
    rows: list[Row] = []
    tiers = zip(*(result.tiers() for result in results), strict=True)
    for tier, documents in enumerate(tiers):
        parts = list(zip(results, documents, strict=True))
        if len(rows) < stop:
            rows += (_by_price if query.sort in PRICE_SORTS else _by_field)(parts, query, tier, stop - len(rows))
    return rows[start:stop]


def _by_field(parts: Sequence[_Part], query: Query, tier: int, most: int) -> list[Row]:
    field, reverse = order_field(query), is_reversed(query)
    rows: list[Row] = []
    for results, documents in parts:
        segment = results.segment
        values = _values(segment, field)
        chosen = kernels.first(documents, values, segment.arrays["id_rank"], most, reverse)
        for document in chosen.tolist():
            record = NativeRecord(segment, document)
            if field == "name_order":
                key: tuple[Any, ...] = (segment.row("name_order", document).decode("utf-8", "surrogatepass"),)
            else:
                key = (-int(values[document]), record.id)
            rows.append((EngineHit((tier, *key), 0.0, record), segment, document))
    return _sorted(rows, 1, reverse=reverse)[:most]


def _values(segment: Segment, field: str) -> npt.NDArray[np.uint64]:
    """A column whose largest values come first in the natural order."""
    if field == "name_order":
        return np.uint64(2**32) - segment.arrays["name_rank"]
    return segment.arrays[field]


def _sorted(rows: Sequence[Row], of_key: int, *, reverse: bool) -> list[Row]:
    return sorted(rows, key=lambda row: row[0].key[of_key:], reverse=reverse)


def _by_price(parts: Sequence[_Part], query: Query, tier: int, most: int) -> list[Row]:
    """By price; those without a compared price last, by id, in both directions."""
    reverse = is_reversed(query)
    priced: list[Row] = []
    others: list[Row] = []
    key_of = partial(_price_key, query, tier)
    for results, documents in parts:
        segment = results.segment
        lowest = _lowest(results, documents, query)
        is_priced = lowest != kernels.NOWHERE
        for rows, chosen, values in (
            (priced, documents[is_priced], np.iinfo(np.uint64).max - lowest[is_priced].astype(np.uint64)),
            (others, documents[~is_priced], np.zeros(int(np.count_nonzero(~is_priced)), np.uint64)),
        ):
            ranks = segment.arrays["id_rank"][chosen]
            for index in kernels.first(np.arange(len(chosen)), values, ranks, most, reverse).tolist():
                document = int(chosen[index])
                record = NativeRecord(segment, document)
                rows.append((EngineHit(key_of(record), 0.0, record), segment, document))
    rows = _sorted(priced, 2, reverse=reverse)[:most]
    return rows + _sorted(others, 2, reverse=reverse)[: most - len(rows)]


def _price_key(query: Query, tier: int, record: NativeRecord) -> tuple[Any, ...]:
    return tier, *price_key(cheapest_for(query)(record.offers), record.id, query)


def _lowest(results: SegmentResults, documents: Ints, query: Query) -> Ints:
    """The rank of the lowest price of each document among its offers that meet the query."""
    segment, scratch, a = results.segment, results.scratch, results.segment.arrays
    mark_offers(segment, query, scratch, documents, np.empty(segment.documents, np.uint8))
    ranks = price_ranks(segment, query, is_per_day=compares_per_day(query))
    lowest = np.empty(len(documents), np.int64)
    kernels.lowest(
        documents, a["offers_offsets"], scratch.meets, a["offer_currency"], a["price"], ranks,
        query.price_currency is None, lowest,
    )  # fmt: skip
    return lowest
