"""Run a plan with the filters of a query: Whoosh looks up terms; this module scores, filters, counts and sorts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from overlay.engines.whoosh.fields import ListingFields
from overlay.engines.whoosh.view import WhooshView
from overlay.search.facts import FACET_FIELDS, selection, unwanted, wanted
from overlay.search.planner import QueryPlan, TermGroup
from overlay.search.prices import asks_offer, cheapest, meets, price_key
from overlay.search.query import NO_MATCHES, PRICE_SORTS, EngineHit, Matches, Query
from overlay.search.rerank import SATURATION
from overlay.search.sorting import LATEST, is_reversed, order

Key = tuple[Any, ...]
Scores = dict[int, float]
"""Documents and their scores."""


def search(view: WhooshView, query: Query, plan: QueryPlan, start: int, stop: int) -> Matches:
    """Run a query; the results from position `start` to `stop` are read."""
    if plan.finds_nothing:
        return NO_MATCHES
    groups = [_group(view, group) for group in plan.groups]
    scores: Scores = {} if groups else dict.fromkeys(view.documents(), 0.0)
    for group in groups:
        for document, score in group.items():
            scores[document] = scores.get(document, 0.0) + score
    holding_all = set(groups[0]).intersection(*groups[1:]) if groups else scores.keys()
    if plan.all_words:
        scores = {document: scores[document] for document in holding_all}
    admitted = dict(_admitted(view, query, scores))
    matched = admitted.keys() & holding_all
    counts = {name: Counter(_values(admitted.values(), name)) for name in query.facets}
    keyed = _ordered(query, admitted, scores, matched)[start:stop] if stop > start else []
    by_score = order(query) == "relevance"
    rows = [EngineHit(key, scores[document] if by_score else 0.0, view.record(document)) for key, document in keyed]
    return Matches(rows, len(admitted), len(matched), {name: dict(counter) for name, counter in counts.items()})


def _group(view: WhooshView, group: TermGroup) -> Scores:
    """The documents that contain an alternative of a word, scored by the best one."""
    best: Scores = {}
    for alternative in group.alternatives:
        value = alternative.value * group.boost
        for document, frequency in view.frequencies(alternative.term).items():
            score = value * frequency / (frequency + SATURATION)
            if score > best.get(document, -1.0):
                best[document] = score
    return best


def _admitted(view: WhooshView, query: Query, scores: Scores) -> Iterator[tuple[int, ListingFields]]:
    """The documents that meet all filters, and their fields."""
    groups = [frozenset(group) for group in (*selection(query), *wanted(query))]
    banned = unwanted(query)
    tests = list(_tests(query))
    for document in _with_phrases(view, query, scores):
        row = view.row(document)
        if any(map(row.facts.isdisjoint, groups)) or not row.facts.isdisjoint(banned):
            continue
        if all(test(row) for test in tests):
            yield document, row


def _with_phrases(view: WhooshView, query: Query, scores: Scores) -> list[int]:
    """The documents with the phrases of a query and without those that it excludes."""
    left = list(scores)
    if query.operators is not None:
        for phrase in query.operators.phrases:
            left = [document for document in left if _holds(view, document, phrase)]
        for phrase in query.operators.excluded:
            left = [document for document in left if not _holds(view, document, phrase)]
    return left


def _holds(view: WhooshView, document: int, phrase: str) -> bool:
    """Whether a document contains a sequence of terms. Texts are read only if it contains all of them."""
    return all(document in view.frequencies(term) for term in phrase.split(" ")) and f" {phrase} " in view.text(
        document
    )


def _tests(query: Query) -> Iterator[Callable[[ListingFields], bool]]:
    """The conditions on numbers and offers."""
    if query.as_of is not None:
        yield lambda row: _was_current(row, query)
    if query.from_height is not None or query.to_height is not None:
        yield lambda row: row.height is not None and _between(row.height, query.from_height, query.to_height)
    if query.updated_since is not None:
        yield lambda row: row.time is not None and _between(row.time, query.updated_since, None)
    if asks_offer(query):
        yield lambda row: meets(row.offers, query)


def _was_current(row: ListingFields, query: Query) -> bool:
    height = query.as_of
    return row.since is not None and height is not None and row.since <= height < (row.until or height + 1)


def _between(value: int, low: int | None, high: int | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def _values(rows: Any, name: str) -> Iterator[str]:
    for row in rows:
        yield from row.facets[FACET_FIELDS[name]]


def _ordered(query: Query, rows: dict[int, ListingFields], scores: Scores, matched: set[int]) -> list[tuple[Key, int]]:
    """Keys and documents in order. Keys ascend in the natural order of a sort, and end in the id."""
    sort = order(query)
    if sort == "relevance":
        return sorted(((1, -scores[document], row.id), document) for document, row in rows.items())
    keys = [((int(document not in matched), *_KEYS[sort](row, query)), document) for document, row in rows.items()]
    keys.sort(key=lambda pair: pair[0][1:], reverse=is_reversed(query))
    if sort in PRICE_SORTS:
        keys.sort(key=lambda pair: pair[0][1])  # without a price: last, in either direction
    keys.sort(key=lambda pair: pair[0][0])
    return keys


_KEYS: dict[str, Callable[[ListingFields, Query], Key]] = {
    LATEST: lambda row, _: (-row.updated, row.id),
    "updated": lambda row, _: (-row.updated, row.id),
    "created": lambda row, _: (-row.created, row.id),
    "rating": lambda row, query: (-(row.rising_rating if is_reversed(query) else row.rating), row.id),
    "name": lambda row, _: (row.name,),
    **dict.fromkeys(PRICE_SORTS, lambda row, query: price_key(cheapest(row.offers, query), row.id, query)),
}
