"""Run a plan with the filters of a query: by score or sorted, to any depth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import tantivy

from overlay.engines.tantivy.by_price import by_price
from overlay.engines.tantivy.translation import Part, better_with, either, every, unscored, without
from overlay.engines.tantivy.view import TantivyView, counted
from overlay.search.facts import FACET_FIELDS, MAX_COUNTED
from overlay.search.planner import QueryPlan
from overlay.search.query import NO_MATCHES, PRICE_SORTS, EngineHit, Matches, Query
from overlay.search.sorting import is_descending, order, order_field

_MORE = 100  # extra results, in case of ties; they cost less than a second search
_SEGMENT_VALUES = 65_000


def search(view: TantivyView, query: Query, plan: QueryPlan, start: int, stop: int) -> Matches:
    """Run a query; the results from position `start` to `stop` are read."""
    if view.state is None or plan.finds_nothing:
        return NO_MATCHES
    if not plan.groups:
        return _sorted(view, query, [every(view.translate.required(query))], start, stop)
    words, filters = view.translate.words(plan.content, query), unscored(view.translate.admitted(query))
    stop_words = view.translate.words(plan.stop, query)
    parts = [every([better_with(every(words), stop_words), *filters])]
    if len(words) > 1 and not plan.all_words:
        parts.append(every([better_with(either(words), stop_words), *filters]))
    if order(query) == "relevance":
        return _by_score(view, query, parts, start, stop)
    return _sorted(view, query, parts, start, stop)


def _by_score(view: TantivyView, query: Query, parts: Sequence[Part], start: int, stop: int) -> Matches:
    """Results by score; those that contain all words are counted."""
    part = parts[-1]
    result = view.searcher.search(part, max(1, stop))
    total = counted(result)
    matched = view.count(parts[0]) if len(parts) > 1 else total
    hits = result.hits[start:stop]
    records = view.read([address for _, address in hits])
    rows = [
        EngineHit((1, -float(score), record.id), float(score), record)
        for (score, _), record in zip(hits, records, strict=True)
    ]
    return Matches(rows, total, matched, facets(view, query, part))


def _sorted(view: TantivyView, query: Query, parts: Sequence[Part], start: int, stop: int) -> Matches:
    """Results in another order: those that contain all words, then the others."""
    part = parts[-1]
    if len(parts) == 1 and stop > start and query.sort not in PRICE_SORTS:
        rows, total = _by_field(view, query, part, 0, start, stop)
        return Matches(rows, total, total, facets(view, query, part))
    total = view.count(part)
    matched = view.count(parts[0]) if len(parts) > 1 else total
    rows = []
    if start < matched:
        rows += _ordered(view, query, parts[0], matched, 0, start, min(stop, matched))
    if stop > matched and matched < total:
        others = without(part, parts[0])
        rows += _ordered(view, query, others, total - matched, 1, max(0, start - matched), stop - matched)
    return Matches(rows, total, matched, facets(view, query, part))


def _ordered(
    view: TantivyView, query: Query, part: Part, total: int, tier: int, start: int, stop: int
) -> list[EngineHit]:
    """The results of one part from position `start` to `stop`; `tier` is the first element of their keys."""
    if stop <= start:
        return []
    if query.sort in PRICE_SORTS:
        keyed = by_price(view, query, part, total)
        return [EngineHit((tier, *key), 0.0, record) for key, record in islice(keyed, start, stop)]
    return _by_field(view, query, part, tier, start, stop)[0]


def _by_field(
    view: TantivyView, query: Query, part: Part, tier: int, start: int, stop: int
) -> tuple[list[EngineHit], int]:
    """The same in an order other than by price, where `stop` is above `start`; and the number of all results."""
    field, descending = order_field(query), is_descending(query)
    direction = tantivy.Order.Desc if descending else tantivy.Order.Asc
    wanted = stop + _MORE
    while True:
        result = view.searcher.search(part, wanted, order_by_field=field, order=direction)
        hits = result.hits
        if len(hits) < wanted or hits[-1][0] != hits[stop - 1][0]:
            break
        wanted *= 4
    low = start
    while low and low < len(hits) and hits[low - 1][0] == hits[low][0]:
        low -= 1
    tail = hits[
        low : stop + next((index for index, hit in enumerate(hits[stop:]) if hit[0] != hits[stop - 1][0]), len(hits))
    ]
    records = view.read([address for _, address in tail])
    keyed_rows = [(_key(value, record.id), record) for (value, _), record in zip(tail, records, strict=True)]
    keyed_rows.sort(key=lambda row: row[0], reverse=descending != (field != "name_order"))
    rows = [EngineHit((tier, *key), 0.0, record) for key, record in keyed_rows[start - low : stop - low]]
    return rows, counted(result)


def _key(value: int | str, id_: str) -> tuple[int | str, ...]:
    """The sort key of a value: the latest first, names (which end in the id) ascending."""
    return (value,) if isinstance(value, str) else (-value, id_)


def facets(view: TantivyView, query: Query, part: Part) -> dict[str, dict[str, int]]:
    """The most frequent values of facets, one aggregation each, since Tantivy limits the values of one."""
    counts = {}
    for name in query.facets:
        terms = {"field": f"{FACET_FIELDS[name]}_facet", "size": MAX_COUNTED, "segment_size": _SEGMENT_VALUES}
        buckets = view.searcher.aggregate(part, {"values": {"terms": terms}})["values"]["buckets"]
        counts[name] = {str(bucket["key"]): int(bucket["doc_count"]) for bucket in buckets}
    return counts
