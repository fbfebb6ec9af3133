"""The order by relevance for an engine that scores by BM25 only: `rerank` orders the best of its results, which are the
candidates, and beyond them the order of the engine applies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf, nextafter
from typing import TYPE_CHECKING, cast

from overlay.search.diversity import diversified, flooding, spread
from overlay.search.facts import source_fact
from overlay.search.forward import source_of
from overlay.search.planner import CANDIDATES, QueryPlan
from overlay.search.query import EngineHit, Matches, Query
from overlay.search.rerank import Factors, Scored, factors
from overlay.search.sorting import order

if TYPE_CHECKING:
    from overlay.search.record_file import IndexRecord

Find = Callable[[Query, QueryPlan, int, int], Matches]
"""Runs a query in the order of the engine; the results from one position to another are read."""


def ranked(find: Find, query: Query, plan: QueryPlan, start: int, stop: int) -> Matches:
    """Run a query; the results from position `start` to `stop` are read, by relevance in the order of `rerank`."""
    if order(query) != "relevance" or not plan.groups or stop <= start:
        return find(query, plan, start, stop)
    is_deep = start >= 2 * CANDIDATES
    first = find(query, plan, 0, CANDIDATES if is_deep else max(CANDIDATES, stop))
    rows, bare = first.rows, query._replace(facets=())
    if not rows:
        return first
    if others := _others(find, bare, plan, first):
        rows = rows if len(rows) >= min(stop, first.total) else find(bare, plan, 0, stop).rows
        rows = _with_others(rows, others)
    head = _reranked(rows[:CANDIDATES], plan, stop)
    beyond = rows[max(start, CANDIDATES) : stop]
    if len(rows) < min(stop, first.total):
        beyond += find(bare, plan, max(start, len(rows)), stop).rows
    if not beyond:
        return first._replace(rows=head[start:])
    last = max(row.score for row in rows[len(head) - 1 : len(head) + 1])
    lowest = min(row.score for row in head)
    # division first, so that equal scores stay equal
    return first._replace(rows=[*head[start:], *(row._replace(score=lowest * (row.score / last)) for row in beyond)])


def factors_of(rows: Iterable[EngineHit], plan: QueryPlan) -> Factors:
    """The factors of results of such an engine."""
    return factors(plan, list(map(_forward, rows)))


def _forward(candidate: EngineHit) -> bytes:
    """The forward index of a candidate."""
    return cast("IndexRecord", candidate.record).forward


def _sources(candidates: Iterable[EngineHit]) -> list[int]:
    return [source_of(_forward(candidate)) for candidate in candidates]


def _others(find: Find, query: Query, plan: QueryPlan, first: Matches) -> list[EngineHit]:
    """The best results of other sources where most candidates are of one; none otherwise."""
    if first.total <= CANDIDATES or query.owners or query.domains or query.group:
        return []
    floods = flooding(_sources(first.rows[:CANDIDATES]))
    without = query._replace(not_facts=(*query.not_facts, *map(source_fact, floods)))
    return find(without, plan, 0, CANDIDATES).rows if floods else []


def _with_others(rows: Sequence[EngineHit], others: Sequence[EngineHit]) -> list[EngineHit]:
    """The first results, with `others` among the candidates, which come first."""
    best = {row.record.id: row for row in (*rows[:CANDIDATES], *others)}
    merged = sorted(best.values(), key=lambda row: row.key)
    positions = spread(_sources(merged), CANDIDATES)
    chosen = [merged[position] for position in positions[:CANDIDATES]]
    ids = {row.record.id for row in chosen}
    return [*chosen, *(row for row in rows if row.record.id not in ids)]


def _reranked(rows: Sequence[EngineHit], plan: QueryPlan, stop: int) -> list[EngineHit]:
    """The first `stop` candidates, re-ranked and diversified. Results that diversity moves get keys that keep the keys
    ascending."""
    scored = factors_of(rows, plan)
    scores = scored.scores.tolist()
    best = sorted(range(len(rows)), key=lambda index: (-scores[index], rows[index].record.id))
    head: list[EngineHit] = []
    for position in diversified(_sources([rows[index] for index in best]), stop):
        index = best[position]
        record, key = rows[index].record, -scores[index]
        if head and head[-1].key >= (0, key, record.id):
            key = nextafter(head[-1].key[1], inf)
        head.append(EngineHit((0, key, record.id), scores[index], record, Scored(scored, index)))
    return head
