"""Run a plan with the filters of a query over the segments of a commit."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from overlay.engines.native.facet_values import FieldCounts, SegmentCounts
from overlay.engines.native.orders import Row, in_order
from overlay.engines.native.relevance import by_relevance, factors_of
from overlay.engines.native.results import SegmentQueries, SegmentQuery, SegmentResults
from overlay.engines.native.segment import FIELDS, Segment
from overlay.search.facts import FACET_FIELDS
from overlay.search.planner import QueryPlan
from overlay.search.query import NO_MATCHES, EngineHit, Matches, Query, ValueCounts
from overlay.search.ranker import PlanWords
from overlay.search.rerank import Scored
from overlay.search.sorting import order


def search(segments: Sequence[Segment], newest: float, query: Query, plan: QueryPlan, start: int, stop: int) -> Matches:
    """Run a query; the results from position `start` to `stop` are read. `newest` is the time of the newest block, in
    seconds since 1970. Only facets and orders other than relevance list all results."""
    if plan.finds_nothing:
        return NO_MATCHES
    words = PlanWords(plan)
    queries = [SegmentQuery.of(segment, query, plan, words) for segment in segments]
    is_by_relevance = bool(plan.groups) and order(query) == "relevance"
    if is_by_relevance and not query.facets:
        matches = by_relevance(queries, newest, query, start, stop)
    elif stop <= start and not (query.facets or plan.groups):
        total = sum(int(np.count_nonzero(part.admitted)) for part in queries)
        matches = Matches([], total, total, {})
    else:
        results = [part.results() for part in queries]
        fields = [FACET_FIELDS[name] for name in query.facets]
        has_words = bool(plan.groups)
        counts = [_values(result, fields, has_words=has_words) for result in results] if fields else []
        facets: dict[str, ValueCounts] = {name: FieldCounts(counts, FACET_FIELDS[name]) for name in query.facets}
        if is_by_relevance:
            ranked = by_relevance(queries, newest, query, start, stop)
            rows, far = ranked.rows, ranked.is_far
        else:
            far, rows = False, _explained(in_order(results, query, start, stop), queries, newest, words)
        total, matched = sum(len(result.documents) for result in results), sum(result.matched for result in results)
        matches = Matches(rows, total, matched, facets, far)
    for part in queries:
        part.segment.give_back(part.scratch)
    return matches


def _explained(rows: list[Row], queries: SegmentQueries, newest: float, words: PlanWords) -> list[EngineHit]:
    """Results in an order other than relevance, with the factors by which they are explained."""
    if not words.terms or not rows:
        return [hit for hit, _, _ in rows]
    computed = factors_of(queries, [(segment, document) for _, segment, document in rows], newest)
    return [hit._replace(scored=Scored(computed, index)) for index, (hit, _, _) in enumerate(rows)]


def _values(results: SegmentResults, fields: Collection[str], *, has_words: bool) -> SegmentCounts:
    """The counts of values among the results in a segment; those of all listings stay with the segment."""
    segment = results.segment
    if not results.is_all:
        return SegmentCounts(segment, results.documents, fields, None if has_words else results.admitted)
    if segment.value_counts is None:
        segment.value_counts = SegmentCounts(segment, results.documents, FIELDS)
    counts: SegmentCounts = segment.value_counts
    return counts
