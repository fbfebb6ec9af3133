"""Run a plan with the filters of a query over the segments of a commit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain

import numpy as np

from overlay.engines.native import search_kernels as kernels
from overlay.engines.native.admission import admitted
from overlay.engines.native.orders import in_order
from overlay.engines.native.relevance import by_relevance, factors_of
from overlay.engines.native.segment import Scratch, Segment
from overlay.engines.native.segment_results import PlanTerms, SegmentResults
from overlay.search.facts import FACET_FIELDS
from overlay.search.meaning import MOST_ALONE
from overlay.search.planner import QueryPlan
from overlay.search.query import NO_MATCHES, EngineHit, Matches, Query
from overlay.search.rerank import Scored
from overlay.search.sorting import order


def search(segments: Sequence[Segment], newest: float, query: Query, plan: QueryPlan, start: int, stop: int) -> Matches:
    """Run a query; the results from position `start` to `stop` are read. `newest` is the time of the newest block, in
    seconds since 1970."""
    if plan.finds_nothing:
        return NO_MATCHES
    with ExitStack() as stack:
        results = [_results(segment, stack.enter_context(segment.scratch()), query, plan) for segment in segments]
        total, matched = sum(len(one.documents) for one in results), sum(one.matched for one in results)
        facets = {name: _counts(results, FACET_FIELDS[name]) for name in query.facets}
        rows: list[EngineHit] = []
        if stop > start and (total or plan.finds_by_meaning):
            if plan.groups and order(query) == "relevance":
                stop = stop if total else min(stop, MOST_ALONE)
                rows = by_relevance(results, newest, query, plan, start, stop)
            else:
                rows = _explained(in_order(results, query, start, stop), newest, plan)
        for one in results:
            one.reset()
    return Matches(rows, total, matched, facets)


def _results(segment: Segment, scratch: Scratch, query: Query, plan: QueryPlan) -> SegmentResults:
    """The results in a segment; with words, `SegmentResults.reset` is due after them."""
    mask = admitted(segment, query, scratch)
    if not plan.groups:
        documents = np.flatnonzero(mask)
        return SegmentResults(segment, scratch, mask, documents, len(documents), 0)
    terms, a = PlanTerms.of(segment, plan), segment.arrays
    count, matched = kernels.score(
        mask, a["term_offsets"], a["term_documents"], a["term_impacts"], terms.starts, terms.numbers, terms.values,
        terms.is_stop, scratch.scores, scratch.best, scratch.held, scratch.complete, scratch.touched,
    )  # fmt: skip
    documents = scratch.touched[:count]
    if plan.all_words and matched < count:
        documents = documents[scratch.complete[documents] != 0]
    return SegmentResults(segment, scratch, mask, documents, matched, count)


def _explained(rows: list[tuple[EngineHit, Segment, int]], newest: float, plan: QueryPlan) -> list[EngineHit]:
    """Results in an order other than relevance, with the factors by which they are explained."""
    if not plan.groups or not rows:
        return [hit for hit, _, _ in rows]
    computed = factors_of([(segment, document) for _, segment, document in rows], newest, plan)
    return [hit._replace(scored=Scored(computed, index)) for index, (hit, _, _) in enumerate(rows)]


def _counts(results: Sequence[SegmentResults], field: str) -> dict[str, int]:
    """The number of results with each value of a field."""
    counts: dict[str, int] = {}
    for value, count in chain.from_iterable(map(_counts_in, results, [field] * len(results))):
        counts[value] = counts.get(value, 0) + count
    return counts


def _counts_in(results: SegmentResults, field: str) -> list[tuple[str, int]]:
    segment, a = results.segment, results.segment.arrays
    positions = segment.positions("values", [f"{field}:", f"{field};"]).tolist()
    start, end = (place if place >= 0 else -1 - place for place in positions)
    totals = np.zeros(len(a["values_offsets"]) - 1, np.int64)
    kernels.count(results.documents, a["document_values_offsets"], a["document_values"], totals)
    numbers = (np.flatnonzero(totals[start:end]) + start).tolist()
    return [(segment.string("values", number).partition(":")[2], int(totals[number])) for number in numbers]
