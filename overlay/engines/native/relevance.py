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
import numpy.typing as npt

from overlay.engines.native.near_documents import nearest_documents
from overlay.engines.native.results import SegmentQueries
from overlay.engines.native.segment import Ints, NativeRecord, Segment
from overlay.search import least_word
from overlay.search.diversity import diversified, flooding, spread
from overlay.search.facts import EXACT
from overlay.search.meaning import FARTHEST_WORD, MOST_ALONE, NEAR, floor
from overlay.search.nearest import Nearest, cosines_of, fused
from overlay.search.piece_table import Vector
from overlay.search.planner import CANDIDATES, QueryPlan
from overlay.search.query import NO_MATCHES, EngineHit, Matches, Query
from overlay.search.ranker import EXACT_NAME, Floats
from overlay.search.rerank import Bounded, Factors, Scored, factors_of_all, factors_of_best
from overlay.search.text_vectors import is_of_other_language, of_question, of_words

MOST_RANKED = 4_000
"""The number of documents of a segment that are ranked for a first page: those of the highest bounds."""

_FIRST_STRETCH, _MANY = 1 << 15, 10_000
"""The number of documents of a segment that are read first; four times as many are read next. And the number of
documents to be ranked from which it pays to rank some before the others are read."""
_BELOW = 2e-5
"""The most by which bounds that are the lower ones are below the scores, relative to these (`best_kernels.select`)."""
_ALL = 2**32
"""More than the documents of a segment."""
_EQUAL = 1e-9
"""Relative difference of equal scores that are computed in another order."""
_NO_NUMBERS, _NO_BOUNDS = np.empty(0, np.int64), np.empty(0, np.float64)

_NO_VECTOR: Vector = np.empty(0, np.int8)
_NOT_NEAR = Nearest(np.empty(0, np.int64), np.empty(0, np.float32))


def by_relevance(queries: SegmentQueries, newest: float, query: Query, start: int, stop: int) -> Matches:
    """The results from position `start` to `stop`, and their number. Beyond the first ones, those near in meaning
    and the others follow by their scores."""
    if not queries:
        return NO_MATCHES
    plan = queries[0].plan
    bounded, total, matched = _best(queries, newest, (), CANDIDATES if stop > start else 0)
    finds_by_meaning = plan.finds_by_meaning(matched)
    stop = stop if total else min(stop, MOST_ALONE)
    if stop <= start or not (total or finds_by_meaning):
        return Matches([], total, matched, {})
    vector = of_question(query.text) if plan.meaning else _NO_VECTOR
    near = nearest_documents(queries, query, vector) if finds_by_meaning else [_NOT_NEAR] * len(queries)
    listings = sum(part.segment.documents for part in queries)
    greatest = max(float(part.cosines.max(initial=0.0)) for part in near)
    is_other = plan.meaning > 0 and is_of_other_language(query.text)
    least = floor(listings, is_of_other_language=is_other) if plan.meaning else 0.0
    nothing_near = finds_by_meaning and not matched and greatest < least + NEAR
    ranked = _Ranked(queries, list(map(_with_near, bounded, near)), newest, CANDIDATES, MOST_RANKED)
    order = ranked.order()[:CANDIDATES]
    names_sources = query.owners or query.domains or query.group
    floods = [] if names_sources or total <= CANDIDATES else flooding(ranked.sources(order))
    if floods:
        others = _Ranked(queries, _best(queries, newest, floods, CANDIDATES)[0], newest, CANDIDATES, MOST_RANKED)
        ranked = _Ranked(queries, list(map(_union, ranked.documents, others.documents)), newest, 0, _ALL)
        order = ranked.order()
    head = ranked.head(order, is_flooded=bool(floods))
    compared = head[:0]
    if plan.meaning:
        compared = ranked.indexes_of(near) if finds_by_meaning else head
        order = np.union1d(order, compared) if finds_by_meaning else order
        nearness = np.zeros(len(order)) if is_other else ranked.nearness(order, plan)
        order = ranked.order_by_meaning(order, ranked.cosines(order, vector), plan.meaning, least, nearness)
        head = ranked.head(order, is_flooded=bool(floods))
    rows = ranked.rows(head[diversified(ranked.sources(head), min(stop, len(head)))], 0)[start:]
    if stop > len(head):
        others_near = order[np.isin(order, compared) & ~np.isin(order, head)]
        start, stop = max(0, start - len(head)), stop - len(head)
        first = max(0, start - len(others_near))
        ranked_before = ranked.documents_of(np.union1d(head, compared))
        has_more = total > CANDIDATES or len(order) > len(head)
        beyond = _beyond(queries, ranked_before, newest, 1 - plan.meaning, first, stop) if has_more else []
        merged = sorted([*beyond, *ranked.rows(others_near, 1)], key=lambda row: row.key)
        rows += merged[start - first : stop - first]
    return Matches(rows, total, matched, {}, nothing_near)


def _best(queries: SegmentQueries, newest: float, left_out: Sequence[int], most: int) -> tuple[list[Bounded], int, int]:
    """The documents that can be among the `most` best of all segments, without those of the sources `left_out`; the
    number of results, and of those that contain every word.

    Where the words have many postings in a segment, its documents are read in stretches. Where many of one stretch can
    be among the best, those of the highest bounds are ranked, which excludes most documents of the next stretch."""
    parts, least, total, matched, sources = list[Bounded](), 0.0, 0, 0, np.array(left_out, np.uint64)
    for part in queries:
        segment, stretches, start = part.segment, list[Bounded](), 0
        is_long = most and segment.documents > _FIRST_STRETCH and part.postings() > _MANY
        stop = _FIRST_STRETCH if is_long else segment.documents
        while start < segment.documents:
            stop = min(stop, segment.documents)
            best = part.best(newest, sources, most, least, EXACT + 1 - total, start, stop)
            total, matched, least = total + best.total, matched + best.matched, best.bounded.least
            stretches.append(best.bounded)
            expected = len(best.bounded.documents) * (segment.documents - stop) // (stop - start)
            if expected > _MANY * most // CANDIDATES:
                ids, plan = segment.arrays["id_rank"], part.plan_arrays
                _, factors = factors_of_best(best.bounded, ids, most, 8 * most, segment.forwards, plan, newest)
                if len(factors.scores) >= most:
                    least = max(least, float(np.partition(factors.scores, -most)[-most]) * (1 - _EQUAL))
            start, stop = stop, 4 * stop
        parts.append(stretches[0] if len(stretches) == 1 else _concatenated(stretches))
    return [part._replace(least=least) for part in parts], total, matched


def _concatenated(stretches: Sequence[Bounded]) -> Bounded:
    documents, upper, _ = zip(*stretches, strict=True) if stretches else ((), (), ())
    return Bounded(np.concatenate((_NO_NUMBERS, *documents)), np.concatenate((_NO_BOUNDS, *upper)), 0.0)


def _beyond(
    queries: SegmentQueries, left_out: Sequence[Ints], newest: float, share: float, start: int, stop: int
) -> list[EngineHit]:
    """The results from position `start` to `stop` that are not `left_out`; words have this `share` of their scores."""
    most = stop + sum(map(len, left_out))
    bounded = [part._replace(upper=part.upper * (1 + _BELOW)) for part in _best(queries, newest, (), most)[0]]
    ranked = _Ranked(queries, bounded, newest, most, _ALL, by_words=True)
    ranked.scale(share)
    is_other = np.concatenate(
        [~np.isin(documents, leaving) for documents, leaving in zip(ranked.documents, left_out, strict=True)]
    )
    order = ranked.order()
    return ranked.rows(order[is_other[order]][start:stop], 1)


def _with_near(bounded: Bounded, near: Nearest) -> Bounded:
    """Documents with those that are near in meaning, which are ranked in any case."""
    if not len(near.documents):
        return bounded
    is_other = ~np.isin(bounded.documents, near.documents)
    documents = np.concatenate((near.documents, bounded.documents[is_other]))
    upper = np.concatenate((np.full(len(near.documents), inf), bounded.upper[is_other]))
    return Bounded(documents, upper, bounded.least)


def _union(left: Ints, right: Ints) -> Bounded:
    """The documents of both, which are ranked in any case."""
    documents = np.union1d(left, right)
    return Bounded(documents, np.full(len(documents), inf), 0.0)


class _Ranked:
    """Documents of segments ranked by the formula, at most `most_ranked` of each. An index counts the documents of all
    segments. With `most`, only those are ranked that can be among so many of the highest scores; `by_words`: without
    related ones, which bounds do not count."""

    def __init__(
        self,
        queries: SegmentQueries,
        bounded: Sequence[Bounded],
        newest: float,
        most: int,
        most_ranked: int,
        *,
        by_words: bool = False,
    ) -> None:
        self._segments = [searched.segment for searched in queries]
        self._alternatives = queries[0].words.without_related
        self.documents, factors = list[Ints](), list[Factors]()
        for searched, members in zip(queries, bounded, strict=True):
            ids, forwards = searched.segment.arrays["id_rank"], searched.segment.forwards
            words = searched.plan_arrays if by_words else searched.ranking
            indexes, of_indexes = factors_of_best(members, ids, most, most_ranked, forwards, words, newest)
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

    def order(self, indexes: Ints | None = None) -> Ints:
        """Some indexes, or all, in their order: the best first, equal ones by id."""
        indexes = np.arange(len(self._scores)) if indexes is None else indexes
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

    def cosines(self, indexes: Ints, vector: Vector) -> Floats:
        """The cosines of documents and the question's vector; 0 for the other documents."""
        cosines = np.zeros(len(self._scores))
        for segment, documents, part in self._parts():
            members = self._within(indexes, part)
            inverse = segment.arrays["vector_inverse"]
            cosines[members] = cosines_of(segment.vectors, inverse, documents[members - part.start], vector)
        return cosines

    def nearness(self, indexes: Ints, plan: QueryPlan) -> Floats:
        """How near documents are to the content word that each is farthest from."""
        nearness = np.zeros(len(self._scores))
        is_content = np.array([not group.is_stop for group in plan.groups])
        vectors = of_words([group.word for group in plan.content])
        for segment, documents, part in self._parts():
            members = self._within(indexes, part)
            held = np.ascontiguousarray(self._has_words(members)[:, is_content], np.uint8)
            chosen = documents[members - part.start]
            nearness[members] = least_word.nearness(chosen, held, segment.word_rows, vectors)
        return nearness[indexes]

    def _has_words(self, indexes: Ints) -> npt.NDArray[np.bool_]:
        """Whether each of some documents has each word of the question, also joined or corrected."""
        terms = self._factors.terms[indexes]
        return (terms >= 0) & (terms < self._alternatives)

    def order_by_meaning(self, indexes: Ints, cosines: Floats, share: float, least: float, nearness: Floats) -> Ints:
        """The order of documents when meaning has this share of the scores, and the nearness of each to its farthest
        word adds to them. A document without a word of the question is left out where its cosine is below the `least`,
        or meaning adds nothing to it. A name that is exactly the question has the greatest cosine, so that no name that
        only repeats it precedes it."""
        named = self._factors.exact_name[indexes] >= 1 + EXACT_NAME
        compared = cosines[indexes]
        compared[named] = compared.max(initial=0.0)
        self._scores = self._scores.copy()
        is_shown = self._has_words(indexes).any(1) | (compared >= least)
        scores = fused(self._scores[indexes], compared, share)
        greatest = self._scores[indexes].max(initial=0.0) or 1.0
        self._scores[indexes] = scores + FARTHEST_WORD * greatest * nearness
        return self.order(indexes[is_shown & (scores > 0)])

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


def factors_of(queries: SegmentQueries, members: Sequence[tuple[Segment, int]], newest: float) -> Factors:
    """The factors of documents, which are among the results."""
    chosen = [[index for index, (segment, _) in enumerate(members) if segment is part.segment] for part in queries]
    documents = [np.array([members[index][1] for index in indexes], np.int64) for indexes in chosen]
    parts = [
        factors_of_all(numbers, part.segment.forwards, part.plan_arrays, newest)
        for part, numbers in zip(queries, documents, strict=True)
    ]
    order = np.argsort(np.array(list(chain.from_iterable(chosen)), np.int64))
    return Factors._make(column[order] for column in _joined(parts))


def _joined(parts: Sequence[Factors]) -> Factors:
    """The factors of all parts, concatenated."""
    return parts[0] if len(parts) == 1 else Factors(*map(np.concatenate, zip(*parts, strict=True)))
