"""Results by relevance: the documents whose bounds reach the last place asked for are ranked by the whole formula, with
those that are near in meaning.

The first `CANDIDATES` are spread over owners and domains (`diversity`); the others follow by score.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain, groupby, pairwise
from math import inf, nextafter
from operator import itemgetter

import numpy as np

from overlay.engines.native import search_kernels as kernels
from overlay.engines.native.near_documents import Place, cosines_of_documents, nearest_documents
from overlay.engines.native.segment import Ints, NativeRecord
from overlay.engines.native.segment_results import SegmentResults
from overlay.search import ranker
from overlay.search.diversity import diversified, flooding, spread
from overlay.search.meaning import fused
from overlay.search.planner import CANDIDATES, QueryPlan
from overlay.search.query import EngineHit, Query
from overlay.search.ranker import PlanWords
from overlay.search.rerank import Factors, Scored, factors_of_arrays

MOST_RANKED = 1_000
"""Documents that are ranked for a first page: those of the highest bounds."""

Part = tuple[SegmentResults, Ints]
"""Some of the results in a segment."""


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
    total, most = sum(len(one.documents) for one in results), max(CANDIDATES, stop)
    near = nearest_documents(results, query) if plan.finds_by_meaning else {}
    parts = _strongest(results, newest, words, most, ())
    ranked = _Ranked([_with_near(part, near) for part in parts] if near else parts, newest, words)
    order = ranked.first(most)
    head = order[:CANDIDATES]
    names_sources = query.owners or query.domains or query.group
    floods = [] if names_sources or total <= CANDIDATES else flooding(ranked.sources(head))
    if floods:
        others = _strongest(results, newest, words, CANDIDATES, floods)
        ranked = _Ranked(list(map(_union, ranked.parts, others)), newest, words)
        order = ranked.first(len(ranked.scores))
        head = ranked.spread(order)
    if plan.meaning:
        if near:
            members = enumerate(map(ranked.place, range(len(ranked.scores))))
            cosines = {index: near[place] for index, place in members if place in near}
        else:
            compared = cosines_of_documents(list(map(ranked.place, head)), query)
            cosines = dict(zip(head, compared, strict=True))
        order = ranked.with_meaning(order, cosines, plan.meaning)
        head = ranked.spread(order) if floods else order[:CANDIDATES]
    first = [head[position] for position in diversified(ranked.sources(head), min(stop, len(head)))]
    rows = ranked.rows(first, 0)
    if stop > len(head):
        taken = set(head)
        rows += ranked.rows([index for index in order if index not in taken][: stop - len(head)], 1)
    return rows[start:stop]


def _with_near(part: Part, near: Mapping[Place, float]) -> Part:
    own = [document for segment, document in near if segment is part[0].segment]
    return _union(part, (part[0], np.array(own, np.int64)))


def _union(one: Part, other: Part) -> Part:
    return one[0], np.union1d(one[1], other[1])


class _Ranked:
    """Documents ranked by the formula; an index is a place among those of all parts."""

    def __init__(self, parts: list[Part], newest: float, words: PlanWords) -> None:
        self.parts = parts
        self.factors = _joined([_factors_in(results, documents, newest, words) for results, documents in parts])
        self.scores = self.factors.scores
        self._starts = [0, *accumulate(len(documents) for _, documents in parts)]
        columns = [[own.segment.arrays[name][chosen] for own, chosen in parts] for name in ("owner", "domain")]
        self._sources = np.stack([np.concatenate(column) for column in columns], 1)

    def place(self, index: int) -> Place:
        """The document of an index."""
        part = bisect_right(self._starts, index) - 1
        results, documents = self.parts[part]
        return results.segment, int(documents[index - self._starts[part]])

    def _id(self, index: int) -> str:
        segment, document = self.place(index)
        return segment.id(document)

    def first(self, most: int) -> list[int]:
        """The indexes of the first documents: the best first, equal ones by id."""
        scores, chosen = self.scores, np.arange(len(self.scores))
        if len(scores) > most:
            chosen = np.flatnonzero(scores >= np.partition(scores, -most)[-most])
        return self._sorted(chosen)[:most]

    def _sorted(self, indexes: Ints) -> list[int]:
        indexes = indexes[np.argsort(-self.scores[indexes])]
        order: list[int] = []
        for _, run in groupby(zip(indexes.tolist(), self.scores[indexes].tolist(), strict=True), key=itemgetter(1)):
            equal = [index for index, _ in run]
            order += equal if len(equal) == 1 else sorted(equal, key=self._id)
        return order

    def spread(self, order: Sequence[int]) -> list[int]:
        """The best of an order, of which not most are of one owner or domain."""
        return [order[position] for position in spread(self.sources(order), CANDIDATES)[:CANDIDATES]]

    def with_meaning(self, order: Sequence[int], cosines: Mapping[int, float], share: float) -> list[int]:
        """The order in which meaning has this share of the scores, by the cosines of the documents that are compared. A
        document without a word of the question that meaning adds nothing to is in it no more."""
        by_words = {index: score for index in (*order, *cosines) if (score := float(self.scores[index])) > 0}
        scores = fused(by_words, cosines, share)
        self.scores[list(scores)] = list(scores.values())
        return self._sorted(np.array(list(scores), np.int64))

    def sources(self, indexes: Sequence[int]) -> list[list[int]]:
        """The numbers of owner and domain."""
        sources: list[list[int]] = self._sources[indexes].tolist()
        return sources

    def rows(self, indexes: Sequence[int], tier: int) -> list[EngineHit]:
        """Results in this order, with ascending keys."""
        rows: list[EngineHit] = []
        for index in indexes:
            record, score = NativeRecord(*self.place(index)), float(self.scores[index])
            key = -score
            if rows and rows[-1].key >= (tier, key, record.id):
                key = nextafter(rows[-1].key[1], inf)
            rows.append(EngineHit((tier, key, record.id), score, record, Scored(self.factors, index)))
        return rows


def _strongest(
    results: Sequence[SegmentResults], newest: float, words: PlanWords, most: int, left_out: Sequence[int]
) -> list[Part]:
    """The documents that can be among the first `most` which are not of the owners and domains `left_out`."""
    rarities = words.rarities.tolist()
    nearness = ranker.PROXIMITY * sum(map(max, pairwise(rarities)))
    sources = np.array(left_out, np.uint32)
    uppers, least = [], 0.0
    for one in results:
        a, upper = one.segment.arrays, np.empty(len(one.documents), np.float64)
        bound = kernels.bounds(
            one.documents, one.scratch.scores, one.scratch.held, a["flags"], a["text_since"], newest, a["owner"],
            a["domain"], sources, nearness, len(rarities), most, upper,
        )  # fmt: skip
        uppers.append(upper)
        least = max(least, bound)
    members = [np.flatnonzero(upper >= least) for upper in uppers]
    if sum(map(len, members)) > MOST_RANKED >= most:
        least = float(np.partition(np.concatenate(uppers), -MOST_RANKED)[-MOST_RANKED])
        members = [np.flatnonzero(upper >= least) for upper in uppers]
    return [(one, one.documents[own]) for one, own in zip(results, members, strict=True)]


def factors_of(results: Sequence[SegmentResults], members: Sequence[Place], newest: float, words: PlanWords) -> Factors:
    """The factors of documents, which are among the results."""
    chosen = [[index for index, (segment, _) in enumerate(members) if segment is one.segment] for one in results]
    documents = [np.array([members[index][1] for index in indexes], np.int64) for indexes in chosen]
    parts = [_factors_in(*part, newest, words) for part in zip(results, documents, strict=True)]
    order = np.argsort(np.array(list(chain.from_iterable(chosen)), np.int64))
    return Factors._make(column[order] for column in _joined(parts))


def _joined(parts: Sequence[Factors]) -> Factors:
    """The factors of all parts, one after the other."""
    return parts[0] if len(parts) == 1 else Factors(*map(np.concatenate, zip(*parts, strict=True)))


def _factors_in(results: SegmentResults, documents: Ints, newest: float, words: PlanWords) -> Factors:
    a = results.segment.arrays
    return factors_of_arrays(
        documents, a["forward_offsets"], a["section_ends"], a["forward"], a["flags"], a["text_since"], newest,
        words.numbered(results.numbers),
    )  # fmt: skip
