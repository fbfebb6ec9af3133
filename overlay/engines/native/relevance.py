"""Results by relevance: the documents whose bounds reach the last place asked for are ranked by the whole formula, with
those that are near in meaning.

The first `CANDIDATES` are spread over owners and domains (`diversity`); the others follow by score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf, nextafter

import numpy as np
import numpy.typing as npt

from overlay.engines.native import search_kernels as kernels
from overlay.engines.native.near_documents import Place, cosines_of_documents, nearest_documents
from overlay.engines.native.segment import NativeRecord, Segment
from overlay.engines.native.segment_results import SegmentResults, question_of
from overlay.search import ranker
from overlay.search.diversity import diversified, flooding, spread
from overlay.search.meaning import fused
from overlay.search.planner import CANDIDATES, QueryPlan
from overlay.search.query import EngineHit, Query
from overlay.search.rerank import Factors, Scored

MOST_RANKED = 1_000
"""Documents that are ranked for a first page: those of the highest bounds."""


def by_relevance(
    results: Sequence[SegmentResults], newest: float, query: Query, plan: QueryPlan, start: int, stop: int
) -> list[EngineHit]:
    """The results from position `start` to `stop`."""
    total = sum(len(one.documents) for one in results)
    near = nearest_documents(results, query) if plan.finds_by_meaning else {}
    strongest = _strongest(results, newest, plan, max(CANDIDATES, stop), ())
    ranked = _Ranked(list(dict.fromkeys((*strongest, *near))), newest, plan)
    head = ranked.order[:CANDIDATES]
    names_sources = query.owners or query.domains or query.group
    floods = [] if names_sources or total <= CANDIDATES else flooding([ranked.sources[index] for index in head])
    if floods:
        others = _strongest(results, newest, plan, CANDIDATES, floods)
        ranked = _Ranked(list(dict.fromkeys((*ranked.documents, *others))), newest, plan)
        head = ranked.spread()
    if plan.meaning:
        if near:
            cosines = {index: near[place] for index, place in enumerate(ranked.documents) if place in near}
        else:
            compared = cosines_of_documents([ranked.documents[index] for index in head], query)
            cosines = dict(zip(head, compared, strict=True))
        ranked.add_meaning(cosines, plan.meaning)
        head = ranked.spread() if floods else ranked.order[:CANDIDATES]
    first = [head[position] for position in diversified([ranked.sources[index] for index in head], len(head))]
    rows = ranked.rows(first, 0)[:stop]
    if stop > len(first):
        taken = set(head)
        rows += ranked.rows([index for index in ranked.order if index not in taken][: stop - len(first)], 1)
    return rows[start:stop]


class _Ranked:
    """Documents ranked by the formula: `order` has their indexes, the best first."""

    def __init__(self, documents: list[Place], newest: float, plan: QueryPlan) -> None:
        self.documents = documents
        self.factors = factors_of(documents, newest, plan)
        self.scores: list[float] = self.factors.scores.tolist()
        self.ids = [segment.id(document) for segment, document in documents]
        self.sources = self.factors.sources
        self.order = sorted(range(len(documents)), key=lambda index: (-self.scores[index], self.ids[index]))

    def spread(self) -> list[int]:
        """The best, of which not most are of one owner or domain."""
        positions = spread([self.sources[index] for index in self.order], CANDIDATES)
        return [self.order[position] for position in positions[:CANDIDATES]]

    def add_meaning(self, cosines: Mapping[int, float], share: float) -> None:
        """Give meaning this share of the scores, by the cosines of the documents that are compared, by index. A
        document without a word of the question that meaning adds nothing to is in the order no more."""
        scores = fused({index: score for index, score in enumerate(self.scores) if score > 0}, cosines, share)
        for index, score in scores.items():
            self.scores[index] = score
        self.order = sorted(scores, key=lambda index: (-self.scores[index], self.ids[index]))

    def rows(self, indexes: Sequence[int], tier: int) -> list[EngineHit]:
        """Results in this order, with ascending keys."""
        rows: list[EngineHit] = []
        for index in indexes:
            key, id_ = -self.scores[index], self.ids[index]
            if rows and rows[-1].key >= (tier, key, id_):
                key = nextafter(rows[-1].key[1], inf)
            rows.append(
                EngineHit(
                    (tier, key, id_),
                    self.scores[index],
                    NativeRecord(*self.documents[index]),
                    Scored(self.factors, index),
                )
            )
        return rows


def _strongest(
    results: Sequence[SegmentResults], newest: float, plan: QueryPlan, most: int, left_out: Sequence[int]
) -> list[Place]:
    """The documents that can be among the first `most` which are not of the owners and domains `left_out`."""
    nearness = ranker.PROXIMITY * sum(max(one.rarity, other.rarity) for one, other in pairwise(plan.groups))
    sources = np.array(left_out, np.uint32)
    uppers, least = [], 0.0
    for one in results:
        a, upper = one.segment.arrays, np.empty(len(one.documents), np.float64)
        bound = kernels.bounds(
            one.documents, one.scratch.scores, one.scratch.held, a["flags"], a["text_since"], newest, a["owner"],
            a["domain"], sources, nearness, len(plan.groups), most, upper,
        )  # fmt: skip
        uppers.append(upper)
        least = max(least, bound)
    ranked = sum(int(np.count_nonzero(upper >= max(least, 0.0))) for upper in uppers)
    if ranked > MOST_RANKED >= most:
        least = float(np.partition(np.concatenate(uppers), -MOST_RANKED)[-MOST_RANKED])
    return [
        (one.segment, document)
        for one, upper in zip(results, uppers, strict=True)
        for document in one.documents[np.flatnonzero(upper >= max(least, 0.0))].tolist()
    ]


def factors_of(documents: Sequence[Place], newest: float, plan: QueryPlan) -> Factors:
    """The factors of documents."""
    shape = len(documents), len(plan.groups)
    words, best = np.empty(shape, np.float64), np.empty(shape, np.int64)
    factors = np.empty((len(documents), 3), np.float64)
    sources = np.empty((len(documents), 2), np.int64)
    for segment in dict.fromkeys(segment for segment, _ in documents):
        chosen = [index for index, (own, _) in enumerate(documents) if own is segment]
        numbers = np.array([documents[index][1] for index in chosen], np.int64)
        part = _factors_in(segment, numbers, newest, plan)
        for whole, of_segment in zip((words, best, factors, sources), part, strict=True):
            whole[chosen] = of_segment
    return Factors(words, best, factors[:, 0], factors[:, 1], factors[:, 2], sources.tolist())


def _factors_in(
    segment: Segment, documents: npt.NDArray[np.int64], newest: float, plan: QueryPlan
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    shape = len(documents), len(plan.groups)
    words, best = np.empty(shape, np.float64), np.empty(shape, np.int64)
    factors = np.empty((len(documents), 3), np.float64)
    a = segment.arrays
    ranker.rank(
        documents, a["forward_offsets"], a["section_ends"], a["forward"], a["flags"], a["text_since"], newest,
        *question_of(segment, plan), words, best, factors,
    )  # fmt: skip
    return words, best, factors, np.stack((a["owner"][documents], a["domain"][documents]), 1).astype(np.int64)
