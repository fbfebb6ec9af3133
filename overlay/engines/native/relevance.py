"""Results by relevance: the documents with bounds that reach the last requested rank are ranked by the whole formula,
with those that are near in meaning.

The first `CANDIDATES` are spread over sources (`diversity`); the others follow by score.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from math import inf, nextafter

import numpy as np

from overlay.engines.native import search_kernels as kernels
from overlay.engines.native.near_documents import nearest_documents
from overlay.engines.native.segment import Ints, NativeRecord, Segment, SegmentResults
from overlay.search.diversity import diversified, flooding, spread
from overlay.search.nearest import Nearest, cosines_of, fused
from overlay.search.planner import CANDIDATES, QueryPlan
from overlay.search.query import EngineHit, Query
from overlay.search.ranker import EXACT_NAME, Floats, PlanWords
from overlay.search.rerank import Bounded, Factors, Scored, factors_of_all, factors_of_best
from overlay.search.text_vectors import of_question

MOST_RANKED = 4_000
"""The number of documents of a segment that are ranked for a first page: those of the highest bounds."""

_NOT_NEAR = Nearest(np.empty(0, np.int64), np.empty(0, np.float32))


def by_relevance(
    results: Sequence[SegmentResults],
    newest: float,
    query: Query,
    plan: QueryPlan,
    words: PlanWords,
    start: int,
    stop: int,
) -> list[EngineHit]:
    """The results from position `start` to `stop`."""
    total = sum(len(result.documents) for result in results)
    finds_by_meaning = plan.finds_by_meaning
    near = nearest_documents(results, query) if finds_by_meaning else [_NOT_NEAR] * len(results)
    bounded = _bounded(results, newest, words, ())
    ranked = _Ranked(results, list(map(_with_near, results, bounded, near)), newest, words, CANDIDATES)
    order = ranked.order()[:CANDIDATES]
    names_sources = query.owners or query.domains or query.group
    floods = [] if names_sources or total <= CANDIDATES else flooding(ranked.sources(order))
    if floods:
        bounded = _bounded(results, newest, words, floods)
        others = _Ranked(results, bounded, newest, words, CANDIDATES)
        ranked = _Ranked(results, list(map(_union, ranked.documents, others.documents)), newest, words, 0)
        order = ranked.order()
    head = ranked.head(order, is_flooded=bool(floods))
    compared = head[:0]
    if plan.meaning:
        compared = ranked.indexes_of(near) if finds_by_meaning else head
        order = np.union1d(order, compared) if finds_by_meaning else order
        order = ranked.order_by_meaning(order, ranked.cosines(compared, query), plan.meaning)
        head = ranked.head(order, is_flooded=bool(floods))
    rows = ranked.rows(head[diversified(ranked.sources(head), min(stop, len(head)))], 0)[start:]
    if stop <= len(head):
        return rows
    start, stop = max(0, start - len(head)), stop - len(head)
    others_near = order[np.isin(order, compared) & ~np.isin(order, head)]
    first = max(0, start - len(others_near))
    ranked_before = ranked.documents_of(np.union1d(head, compared))
    beyond = _window(results, ranked_before, newest, words, 1 - plan.meaning, first, stop)
    merged = sorted([*beyond, *ranked.rows(others_near, 1)], key=lambda row: row.key)
    return rows + merged[start - first : stop - first]


def _window(
    results: Sequence[SegmentResults],
    left_out: Sequence[Ints],
    newest: float,
    words: PlanWords,
    share: float,
    start: int,
    stop: int,
) -> list[EngineHit]:
    """The results from position `start` to `stop` that are not `left_out`; words have this `share` of their scores.
    Only documents are ranked that may be on either side of these positions by their bounds."""
    proximity, documents, bounds = words.most_proximity(), list[Ints](), list[Floats]()
    for result, leaving in zip(results, left_out, strict=True):
        is_left = np.ones(result.segment.documents, bool)
        is_left[leaving] = False
        members = result.documents[is_left[result.documents]]
        lower, upper = np.empty(len(members), np.float64), np.empty(len(members), np.float64)
        kernels.intervals(
            members, result.scratch.scores, result.scratch.held, result.segment.forwards, newest, result.numbers,
            proximity, lower, upper,
        )  # fmt: skip
        documents.append(members)
        bounds.append(np.stack((lower, upper)))
    lower, upper = np.concatenate(bounds, 1)
    count = len(lower)
    stop = min(stop, count)
    if start >= stop:
        return []
    most = np.partition(upper, count - 1 - start)[count - 1 - start]
    least = np.partition(lower, count - stop)[count - stop]
    before = int(np.count_nonzero(lower > most))
    chosen = [
        _unbounded(members[(low <= most) & (high >= least)])
        for members, (low, high) in zip(documents, bounds, strict=True)
    ]
    ranked = _Ranked(results, chosen, newest, words, 0)
    ranked.scale(share)
    return ranked.rows(ranked.order()[start - before : stop - before], 1)


def _bounded(
    results: Sequence[SegmentResults], newest: float, words: PlanWords, left_out: Sequence[int]
) -> list[Bounded]:
    """The results with their bounds; those of the sources `left_out` are not to be ranked, nor those that cannot
    be among the first `CANDIDATES` of the others."""
    proximity, sources = words.most_proximity(), np.array(left_out, np.uint64)
    parts, most_least = [], 0.0
    for result in results:
        a, size = result.segment.arrays, len(result.documents)
        bounded, upper = np.empty(size, np.int64), np.empty(size, np.float64)
        least, count = kernels.bounds(
            result.documents, result.scratch.scores, result.scratch.held, result.segment.forwards, newest,
            a["source"], sources, words.numbered(result.numbers), proximity, CANDIDATES, bounded, upper,
        )  # fmt: skip
        parts.append((bounded[:count], upper[:count]))
        most_least = max(most_least, least)
    return [Bounded(documents, upper, most_least) for documents, upper in parts]


def _with_near(results: SegmentResults, bounded: Bounded, near: Nearest) -> Bounded:
    """Documents with those that are near in meaning, which are ranked in any case."""
    if not len(near.documents):
        return bounded
    is_near = np.zeros(results.segment.documents, bool)
    is_near[near.documents] = True
    is_other = ~is_near[bounded.documents]
    documents = np.concatenate((near.documents, bounded.documents[is_other]))
    upper = np.concatenate((np.full(len(near.documents), inf), bounded.upper[is_other]))
    return Bounded(documents, upper, bounded.least)


def _union(left: Ints, right: Ints) -> Bounded:
    return _unbounded(np.union1d(left, right))


def _unbounded(documents: Ints) -> Bounded:
    """Documents that are ranked in any case."""
    return Bounded(documents, np.full(len(documents), inf), 0.0)


class _Ranked:
    """Documents of segments ranked by the formula. An index counts the documents of all segments. With `most`, only
    those are ranked that can be among so many of the highest scores."""

    def __init__(
        self,
        results: Sequence[SegmentResults],
        bounded: Sequence[Bounded],
        newest: float,
        words: PlanWords,
        most: int,
    ) -> None:
        self._segments = [result.segment for result in results]
        self.documents, factors = list[Ints](), list[Factors]()
        for result, members in zip(results, bounded, strict=True):
            most_ranked = MOST_RANKED if most else len(members.documents)
            ids, numbered = result.segment.arrays["id_rank"], words.numbered(result.numbers)
            indexes, of_indexes = factors_of_best(
                members, ids, most, most_ranked, result.segment.forwards, numbered, newest
            )
            self.documents.append(members.documents[indexes])
            factors.append(of_indexes)
        self._factors = _joined(factors)
        self._scores = self._factors.scores
        self._starts = [0, *accumulate(map(len, self.documents))]
        self._sources = np.empty(len(self._scores), np.uint64)
        self._id_ranks = np.empty(len(self._scores), np.uint64)
        for segment, documents, part in self._parts():
            a = segment.arrays
            self._sources[part] = a["source"][documents]
            self._id_ranks[part] = a["id_rank"][documents]

    def _parts(self) -> list[tuple[Segment, Ints, slice]]:
        """The documents of each segment, and the range of their indexes."""
        parts = [slice(first, end) for first, end in pairwise(self._starts)]
        return list(zip(self._segments, self.documents, parts, strict=True))

    def scale(self, share: float) -> None:
        """Multiply all scores."""
        self._scores = self._scores * share

    def documents_of(self, indexes: Ints) -> list[Ints]:
        """The documents of each segment among these."""
        return [documents[self._within(indexes, part) - part.start] for _, documents, part in self._parts()]

    def _within(self, indexes: Ints, part: slice) -> Ints:
        """The indexes, of those passed in, that are of one segment."""
        return indexes if len(self._segments) == 1 else indexes[(indexes >= part.start) & (indexes < part.stop)]

    def order(self) -> Ints:
        """The indexes in their order: the best first, equal ones by id."""
        return self._sorted(np.arange(len(self._scores)))

    def _sorted(self, indexes: Ints) -> Ints:
        indexes = indexes[np.lexsort((self._id_ranks[indexes], -self._scores[indexes]))]
        if len(self._segments) > 1:  # ranks of ids are comparable within a segment only
            is_equal = self._scores[indexes][1:] == self._scores[indexes][:-1]
            tied = np.flatnonzero(np.append(is_equal, False) | np.append(False, is_equal))
            records = self._records(indexes[tied])
            keys = zip((-self._scores[indexes[tied]]).tolist(), records, indexes[tied].tolist(), strict=True)
            indexes[tied] = [index for _, _, index in sorted((key, record.id, index) for key, record, index in keys)]
        return indexes

    def _records(self, indexes: Ints) -> list[NativeRecord]:
        """The results at some indexes."""
        if len(self._segments) == 1:
            return self._segments[0].records(self.documents[0][indexes].tolist())
        parts = [bisect_right(self._starts, index) - 1 for index in indexes.tolist()]
        return [
            self._segments[part].records((int(self.documents[part][index - self._starts[part]]),))[0]
            for part, index in zip(parts, indexes.tolist(), strict=True)
        ]

    def head(self, order: Ints, *, is_flooded: bool) -> Ints:
        """The first `CANDIDATES` of an order; where one source floods it, less than most of them are of that source."""
        if is_flooded:
            order = order[spread(self.sources(order), CANDIDATES)]
        return order[:CANDIDATES]

    def indexes_of(self, near: Sequence[Nearest]) -> Ints:
        """The indexes of documents that are near."""
        return np.concatenate(
            [
                np.flatnonzero(np.isin(documents, result.documents)) + part.start
                for (_, documents, part), result in zip(self._parts(), near, strict=True)
            ]
        )

    def cosines(self, indexes: Ints, query: Query) -> Floats:
        """The cosines of documents and the question, by their text vectors; NaN for the other documents."""
        cosines, vector = np.full(len(self._scores), np.nan), of_question(query.text)
        for segment, documents, part in self._parts():
            members = self._within(indexes, part)
            inverse = segment.arrays["vector_inverse"]
            cosines[members] = cosines_of(segment.vectors, inverse, documents[members - part.start], vector)
        return cosines

    def order_by_meaning(self, indexes: Ints, cosines: Floats, share: float) -> Ints:
        """The order of documents when meaning has this share of the scores. A document without a word of the question
        is left out where meaning adds nothing to it. A name that is exactly the question has the greatest cosine,
        so that no name that only repeats it precedes it."""
        named = self._factors.exact_name[indexes] >= 1 + EXACT_NAME
        compared = cosines[indexes]
        compared[named & ~np.isnan(compared)] = np.nanmax(compared, initial=0.0)
        self._scores = self._scores.copy()
        self._scores[indexes] = fused(self._scores[indexes], compared, share)
        return self._sorted(indexes[self._scores[indexes] > 0])

    def sources(self, indexes: Ints) -> list[int]:
        """The numbers of their sources."""
        sources: list[int] = self._sources[indexes].tolist()
        return sources

    def rows(self, indexes: Ints, tier: int) -> list[EngineHit]:
        """Results in this order, with ascending keys."""
        rows: list[EngineHit] = []
        key: tuple[int, float, str] = (-1, 0.0, "")
        scores = self._scores[indexes].tolist()
        for index, score, record in zip(indexes.tolist(), scores, self._records(indexes), strict=True):
            before, key = key, (tier, -score, record.id)
            if before >= key:
                key = tier, nextafter(before[1], inf), record.id
            rows.append(EngineHit(key, score, record, Scored(self._factors, index)))
        return rows


def factors_of(
    results: Sequence[SegmentResults], members: Sequence[tuple[Segment, int]], newest: float, words: PlanWords
) -> Factors:
    """The factors of documents, which are among the results."""
    chosen = [[index for index, (segment, _) in enumerate(members) if segment is result.segment] for result in results]
    documents = [np.array([members[index][1] for index in indexes], np.int64) for indexes in chosen]
    parts = [
        factors_of_all(numbers, result.segment.forwards, words.numbered(result.numbers), newest)
        for result, numbers in zip(results, documents, strict=True)
    ]
    order = np.argsort(np.array(list(chain.from_iterable(chosen)), np.int64))
    return Factors._make(column[order] for column in _joined(parts))


def _joined(parts: Sequence[Factors]) -> Factors:
    """The factors of all parts, concatenated."""
    return parts[0] if len(parts) == 1 else Factors(*map(np.concatenate, zip(*parts, strict=True)))
