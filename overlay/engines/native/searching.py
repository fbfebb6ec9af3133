"""Run a plan with the filters of a query over the segments of a commit."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from overlay.engines.native import search_kernels as kernels
from overlay.engines.native.admission import admitted
from overlay.engines.native.facet_values import FieldCounts, SegmentCounts
from overlay.engines.native.orders import Row, in_order
from overlay.engines.native.relevance import by_relevance, factors_of
from overlay.engines.native.segment import FIELDS, Ints, Scratch, Segment, SegmentResults
from overlay.search.facts import FACET_FIELDS
from overlay.search.meaning import MOST_ALONE
from overlay.search.planner import QueryPlan
from overlay.search.query import NO_MATCHES, EngineHit, Matches, Query
from overlay.search.ranker import PlanWords
from overlay.search.rerank import Scored
from overlay.search.sorting import order

_NONE: Ints = np.empty(0, np.int64)


def search(segments: Sequence[Segment], newest: float, query: Query, plan: QueryPlan, start: int, stop: int) -> Matches:
    """Run a query; the results from position `start` to `stop` are read. `newest` is the time of the newest block, in
    seconds since 1970."""
    if plan.finds_nothing:
        return NO_MATCHES
    words = PlanWords(plan)
    results = [_results(segment, segment.take_scratch(), query, plan, words) for segment in segments]
    total, matched = sum(len(result.documents) for result in results), sum(result.matched for result in results)
    fields = [FACET_FIELDS[name] for name in query.facets]
    values = [_values(result, fields, has_words=bool(plan.groups)) for result in results] if fields else []
    facets = {name: FieldCounts(values, FACET_FIELDS[name]) for name in query.facets}
    rows: list[EngineHit] = []
    if stop > start and (total or (results and plan.finds_by_meaning)):
        if plan.groups and order(query) == "relevance":
            stop = stop if total else min(stop, MOST_ALONE)
            rows = by_relevance(results, newest, query, plan, words, start, stop)
        else:
            rows = _explained(in_order(results, query, start, stop), results, newest, words)
    for result in results:
        result.reset()
    return Matches(rows, total, matched, facets)


def _results(segment: Segment, scratch: Scratch, query: Query, plan: QueryPlan, words: PlanWords) -> SegmentResults:
    """The results in a segment; `SegmentResults.reset` is due after them."""
    mask = admitted(segment, query, scratch)
    if not plan.groups:
        documents = np.flatnonzero(mask.view(np.bool_))
        return SegmentResults(segment, scratch, mask, documents, len(documents), 0, _NONE, mask is segment.plain)
    numbers, a = np.array(segment.term_numbers(words.terms), np.int64), segment.arrays
    count, matched = kernels.score(
        mask, a["term_offsets"], a["term_documents"], a["term_impacts"], words.starts, numbers, words.values,
        words.is_stop, scratch.scores, scratch.best, scratch.held, scratch.complete, scratch.touched,
    )  # fmt: skip
    documents = scratch.touched[:count]
    if plan.all_words and matched < count:
        documents = documents[scratch.complete[documents] != 0]
    return SegmentResults(segment, scratch, mask, documents, matched, count, numbers)


def _explained(rows: list[Row], results: Sequence[SegmentResults], newest: float, words: PlanWords) -> list[EngineHit]:
    """Results in an order other than relevance, with the factors by which they are explained."""
    if not words.terms or not rows:
        return [hit for hit, _, _ in rows]
    computed = factors_of(results, [(segment, document) for _, segment, document in rows], newest, words)
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
