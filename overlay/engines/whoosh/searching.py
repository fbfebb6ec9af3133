"""Run a plan with the filters of a query: Whoosh looks up terms; this module scores, filters, counts and sorts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from math import inf
from typing import Any

from overlay.engines.whoosh.view import WhooshRow, WhooshView
from overlay.search.facet_counts import CountedValues
from overlay.search.facts import FACET_FIELDS, required, selection, unwanted
from overlay.search.planner import QueryPlan, TermGroup
from overlay.search.prices import asks_offer, cheapest_for, meets, price_key
from overlay.search.query import NO_MATCHES, PRICE_SORTS, Cheapest, EngineHit, Matches, Query
from overlay.search.ranker import SATURATION
from overlay.search.sorting import follows, is_reversed, order, order_field

Key = tuple[Any, ...]
Scores = dict[int, float]
"""Documents and their scores."""


def search(view: WhooshView, query: Query, plan: QueryPlan, start: int, stop: int) -> Matches:
    """Run a query; the results from position `start` to `stop` are read."""
    if plan.finds_nothing:
        return NO_MATCHES
    groups = [_group(view, group) for group in plan.content]
    scores: Scores = {} if groups else dict.fromkeys(view.rows, 0.0)
    for group in groups:
        for document, score in group.items():
            scores[document] = scores.get(document, 0.0) + score
    for stop_word in plan.stop:
        for document, score in _group(view, stop_word).items():
            if document in scores:
                scores[document] += score
    held = Counter(chain.from_iterable(groups))
    if plan.all_words:
        scores = {document: score for document, score in scores.items() if held[document] == len(groups)}
    tests = list(_tests(query))
    admitted = {document: row for document in scores for row in (view.rows[document],) if all(t(row) for t in tests)}
    tiers = {document: plan.tier(held[document]) for document in admitted}
    facets = {
        name: CountedValues(Counter(chain.from_iterable(row.facets[FACET_FIELDS[name]] for row in admitted.values())))
        for name in query.facets
    }
    by_score = order(query) == "relevance"
    keyed = _ordered(query, admitted, scores, tiers)[start:stop] if stop > start else []
    rows = [EngineHit(key, by_score * scores[document], admitted[document].record) for key, document in keyed]
    return Matches(rows, len(admitted), sum(tier == 0 for tier in tiers.values()), facets)


def _group(view: WhooshView, group: TermGroup) -> Scores:
    """The documents that contain an alternative of a word, scored by the best one."""
    best: Scores = {}
    for alternative in group.alternatives:
        value = alternative.value
        for document, frequency in view.frequencies(alternative.term).items():
            score = value * frequency / (frequency + SATURATION)
            if score > best.get(document, -1.0):
                best[document] = score
    return best


def _tests(query: Query) -> Iterator[Callable[[WhooshRow], bool]]:
    """The conditions that a document meets."""
    groups, banned = list(map(frozenset, (*selection(query), *required(query)))), unwanted(query)
    yield lambda row: not any(map(row.facts.isdisjoint, groups)) and row.facts.isdisjoint(banned)
    if query.as_of is not None:
        yield lambda row: _between(row, "since", None, query.as_of)
        yield lambda row: row.heights.get("until", inf) > (query.as_of or 0)
    if query.from_height is not None or query.to_height is not None:
        yield lambda row: _between(row, "height", query.from_height, query.to_height)
    if query.updated_since is not None:
        yield lambda row: _between(row, "time", query.updated_since, None)
    if asks_offer(query):
        yield lambda row: meets(row.record.offers, query)
    operators = query.operators
    if operators is not None:
        yield lambda row: all(f" {phrase} " in row.text for phrase in operators.phrases)
        yield lambda row: not any(f" {phrase} " in row.text for phrase in operators.excluded)


def _between(row: WhooshRow, name: str, low: int | None, high: int | None) -> bool:
    value = row.heights.get(name)
    return value is not None and (low is None or value >= low) and (high is None or value <= high)


def _ordered(query: Query, rows: dict[int, WhooshRow], scores: Scores, tiers: dict[int, int]) -> list[tuple[Key, int]]:
    """Keys and documents in order. Keys ascend in the natural order of a sort, and end in the id."""
    sort = order(query)
    if sort == "relevance":
        return sorted(((1, -scores[document], row.record.id), document) for document, row in rows.items())
    cheapest = cheapest_for(query)
    keys = [((tiers[document], *_key(row, query, cheapest)), document) for document, row in rows.items()]
    keys.sort(key=lambda pair: pair[0][1:], reverse=is_reversed(query))
    if sort in PRICE_SORTS:
        keys.sort(key=lambda pair: pair[0][1])  # without a price: last, in either direction
    keys.sort(key=lambda pair: pair[0][0])
    after = query.after
    return keys if after is None else [pair for pair in keys if follows(query, pair[0], after)]


def _key(row: WhooshRow, query: Query, cheapest: Callable[[bytes], Cheapest | None]) -> Key:
    if query.sort in PRICE_SORTS:
        return price_key(cheapest(row.record.offers), row.record.id, query)
    value = row.order[order_field(query)]
    return (value,) if isinstance(value, str) else (-value, row.record.id)
