"""A page of search results as JSON: stored items, spliced with the members that depend on the query and never parsed
again; highlights and explanations on demand; and for a search without results, the reason, and searches that have
results."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from overlay.api import cursors, zero_results
from overlay.api.problems import ProblemError
from overlay.listings.hit_json import BY_MEANING, NO_OFFER, cheapest, lacking, monthly_cost
from overlay.pricing.exchange_rates import table_version
from overlay.search import query_syntax
from overlay.search.highlighting import highlights, in_utf16, text_at
from overlay.search.meaning import MOST_ALONE, NEAREST
from overlay.search.planner import Alternative, QueryPlan
from overlay.search.query import MARK_BYTES, PRICE_SORTS, Hit, question_mark, shown_marks
from overlay.search.ranker import DEPRECATED_FLAG, LOST_FLAG, NOT_RUNNABLE_FLAG
from overlay.search.sorting import price_comparison
from overlay.text.compact_json import decode, encode

if TYPE_CHECKING:
    from overlay.api.search_request import SearchRequest
    from overlay.engines import IndexPosition
    from overlay.projection.search_index import SearchIndex
    from overlay.search.query import Hits, Query


def understood(plan: QueryPlan) -> list[dict[str, Any]]:
    """The query plan as JSON: for each word its alternative terms and their weights."""
    return [
        {
            "word": group.word,
            "alternatives": [
                _alternative_json(alternative) | {"weight": alternative.weight} for alternative in group.alternatives
            ],
        }
        for group in plan.groups
    ]


def explained(plan: QueryPlan, hit: Hit) -> dict[str, Any]:
    """The factors of a hit's score as JSON. A hit beyond the re-ranked candidates has the engine's score only, scaled
    below theirs; orders other than relevance have no score."""
    if hit.scored is None:
        return {"score": hit.score, "stage": "engine", "words": []}
    factors, row = hit.scored.factors, hit.scored.row
    by_words = float(factors.scores[row])
    meaning = {"weight": plan.meaning, "score": hit.score - (1 - plan.meaning) * by_words}
    words = []
    for column, group in enumerate(plan.groups):
        chosen = int(factors.terms[row, column])
        members = _alternative_json(group.alternatives[chosen]) if chosen >= 0 else {"term": None, "match": None}
        words.append({"word": group.word, "score": float(factors.words[row, column])} | members)
    return {
        "score": hit.score,
        "stage": "rerank",
        "words": words,
        "proximity": float(factors.proximity[row]),
        "exactName": float(factors.exact_name[row]),
        "staticRank": float(factors.static_rank[row]),
        **({"lowered": lowered} if (lowered := _lowered(int(factors.flags[row]))) else {}),
        **({"meaning": meaning} if plan.meaning else {}),
    }


_LOWERED = {DEPRECATED_FLAG: "deprecated", LOST_FLAG: "no-answer", NOT_RUNNABLE_FLAG: "not-runnable"}
"""The names of the rules that lower the static rank, by their flags."""


def _lowered(flags: int) -> list[str]:
    return [name for flag, name in _LOWERED.items() if flags & flag]


def _alternative_json(alternative: Alternative) -> dict[str, Any]:
    members: dict[str, Any] = {"term": alternative.term, "match": alternative.match}
    return members | {"edits": alternative.edits} if alternative.match == "corrected" else members


def page(
    search_request: SearchRequest,
    hits: Hits,
    index: IndexPosition | None,
    heights: Mapping[str, int],
    rates: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
) -> list[bytes | memoryview]:
    """A page of results (schema `Page`) as UTF-8 JSON, in pieces. `index` is the generation the hits were read from,
    `rates` the description of the table that converted prices, `more` are further members (`extras`)."""
    shown = () if search_request.beyond else hits.hits
    tail: dict[str, Any] = {
        "total": hits.total,
        "matched": hits.matched,
        "totalRelation": "gte" if hits.at_least else "eq",
        "limit": search_request.query.limit,
        "offset": search_request.position,
        "nextCursor": None if search_request.beyond else next_cursor(search_request, hits, index),
        "queryType": search_request.kind,
        "query": search_request.text,
    }
    if search_request.query.facets:
        facets = {name: _values(pairs) for name, pairs in (hits.facets or {}).items()}
        tail |= {"facets": facets, "facetTotals": hits.facet_totals}
    if comparison := price_comparison(search_request.query):
        tail["priceComparison"] = comparison
    if rates:
        tail["rates"] = rates
    tail |= search_request.note_members(hits)
    if more:
        tail |= more
    tail["index"] = {"seq": index.seq if index else 0, "heights": dict(heights)}
    pieces = _items(shown, search_request.query.rates)
    if search_request.fields is not None:
        pieces = [_chosen(b"".join(pieces), search_request.fields)]
    return [b'{"items":[', *pieces, b"]," + encode(tail)[1:]]


def items(hits: Sequence[Hit], rates: Mapping[str, Decimal]) -> list[dict[str, Any]]:
    """The items of a page as JSON values."""
    decoded: list[dict[str, Any]] = decode(b"".join((b"[", *_items(hits, rates), b"]")))
    return decoded


def _chosen(items: bytes, members: Collection[str]) -> bytes:
    """Items, as JSON separated by commas, with these members only. Their values are copied, not parsed."""
    whole = _MEMBERS.decode(b"[%b]" % items)
    return msgspec.json.encode([{name: item[name] for name in item if name in members} for item in whole])[1:-1]


_MEMBERS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


def _items(hits: Sequence[Hit], rates: Mapping[str, Decimal]) -> list[bytes | memoryview]:
    """The items in pieces: each is stored as `{...}`, and members that depend on the query are added before its end."""
    pieces: list[bytes | memoryview] = []
    for _, item, score, offer, _, _, lacks, by_meaning, cost in hits:
        rate = rates.get(offer.currency) if offer and offer.converted else None
        cheapest_json = cheapest(offer, rate) if offer else NO_OFFER
        more = (
            (monthly_cost(cost) if cost else b"")
            + (lacking(lacks) if lacks else b"")
            + (BY_MEANING if by_meaning else b"")
        )
        pieces += (item[:-1], b'%b%b,"score":%.6g},' % (cheapest_json, more, score))
    if pieces:
        pieces[-1] = pieces[-1][:-1]
    return pieces


def next_cursor(search_request: SearchRequest, hits: Hits, index: IndexPosition | None) -> str | None:
    """The cursor of the next page, None at the end. A full page reached by a cursor may be followed by an empty one."""
    count = len(hits.hits)
    seen = search_request.position + count
    most_near = hits.total + NEAREST if hits.total else MOST_ALONE
    most = most_near if hits.plan.finds_by_meaning(hits.matched) else hits.total
    is_last = search_request.query.after is None and seen >= most and not hits.at_least
    if count < search_request.query.limit or is_last:
        return None
    epoch, seq = index or ("", 0)
    rates = (
        table_version(search_request.rates) if search_request.rates and search_request.query.sort in PRICE_SORTS else ""
    )
    position = cursors.PagePosition(
        search_request.sort, hits.hits[-1].sort_key, epoch, seq, seen, rates, _shown(search_request, hits),
        question_mark(search_request.query),
    )  # fmt: skip
    return cursors.encode(position)


def _shown(search_request: SearchRequest, hits: Hits) -> bytes:
    """The marks of the listings on this page and those before, where the order can change with the index: the order by
    words. Empty where some are missing, since the first page began at an offset, or where they are too many for a
    cursor."""
    shown = search_request.query.shown
    if not hits.plan.groups or len(shown) != search_request.position * MARK_BYTES:
        return b""
    shown += shown_marks([hit.id for hit in hits.hits])
    return shown if len(shown) <= cursors.MOST_SHOWN * MARK_BYTES else b""


def _values(pairs: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"value": value, "count": count} for value, count in pairs]


def query_explained(search_request: SearchRequest) -> dict[str, Any]:
    """The query that the engine received, without empty fields."""
    fields = search_request.query._replace(rates={}, quotes=None)._asdict()
    del fields["shown"]
    query = {name: str(value) if isinstance(value, Decimal) else value for name, value in fields.items()}
    if search_request.query.operators is not None:
        query["operators"] = asdict(search_request.query.operators)
    return {"query": {name: value for name, value in query.items() if value not in (None, (), "", {})}}


NO_INDEX = (
    "the search index is being built, so nothing can be found yet: try again in a while; the status of the registry "
    "shows how far it is"
)
AGAIN = {"Retry-After": "5"}
_FEW_FILTERS = 4


def needs_extras(search_request: SearchRequest, hits: Hits) -> bool:
    """Whether `extras` adds anything: not for a plain search with good results."""
    return search_request.highlight or search_request.explain or not hits.total or hits.is_weak


def is_quick(search_request: SearchRequest) -> bool:
    """Whether `extras` takes no longer than a search: without words, and with few filters (counting them takes 0.25 ms
    at 100,000 offers, as long as the detour through a thread), none of them compared by spelling."""
    query = search_request.query
    plain = not (search_request.highlight or search_request.explain or query.text or query.operators)
    plain = plain and not any(getattr(query, field) for field in zero_results.SPELT.values())
    return plain and len(zero_results.narrowing(query)) <= _FEW_FILTERS


def has_no_index(hits: Hits, position: IndexPosition | None, unread: Callable[[], int]) -> bool:
    """Whether nothing is found because an index at this position has read none of the stored changes (`unread` is their
    number): it is being built, or its disk was full from the start."""
    if hits.total:
        return False
    return hits.is_of_new_index or position is None or (not position.seq and unread() > 0)


def check_index(hits: Hits, position: IndexPosition | None, unread: Callable[[], int]) -> None:
    """Raise ProblemError (503) where nothing is found because there is no index yet."""
    if has_no_index(hits, position, unread):
        raise ProblemError(503, NO_INDEX, headers=AGAIN)


def extras(engine: SearchIndex, search_request: SearchRequest, hits: Hits) -> tuple[Hits, Mapping[str, Any]]:
    """The hits with `highlights` and `explain` in their items, and further members of the page. Takes a few
    milliseconds for twenty items, or for the up to 30 searches that find alternatives; may be called in any thread."""
    more = alternatives(engine, search_request, hits) if hits.is_weak or not hits.total else {}
    if search_request.explain:
        more["explain"] = query_explained(search_request) | {"words": understood(hits.plan)}
    if search_request.highlight or search_request.explain:
        hits = replace(hits, hits=tuple(_with_extras(hit, search_request, hits.plan) for hit in hits.hits))
    return hits, more


def _with_extras(hit: Hit, search_request: SearchRequest, plan: QueryPlan) -> Hit:
    added: dict[str, Any] = {}
    if search_request.highlight:
        added["highlights"] = highlighted(json.loads(bytes(hit.item)), plan)
    if search_request.explain:
        added["explain"] = explained(plan, hit)
    return hit._replace(item=b"".join((hit.item[:-1], b",", encode(added)[1:])))


def highlighted(item: Mapping[str, Any], plan: QueryPlan) -> list[dict[str, Any]]:
    """The highlights of a page: texts of an item by RFC 6901 pointer, with ranges in UTF-16 code units."""
    texts = highlights(item, plan)
    return [{"pointer": text.pointer, "ranges": in_utf16(text_at(item, text.pointer), text.ranges)} for text in texts]


def alternatives(engine: SearchIndex, search_request: SearchRequest, hits: Hits) -> dict[str, Any]:
    """The alternatives to a search with these hits: where there is no result, `emptiedBy`, the filters without which
    there are some, and `didYouMean`, other texts with results; each only where there are any."""
    query, words = engine.resolved(search_request.query), query_syntax.read(search_request.text)

    def count(other: Query) -> tuple[int, int]:
        hits = engine.search(other)
        return hits.total, hits.matched

    respellings = zero_results.respellings(query.text, engine.terms())
    emptied = [] if hits.total else [_emptied(query, way, engine) for way in zero_results.emptied_by(query, count)]
    meant = [proposal._asdict() for proposal in zero_results.proposals(query, words, respellings, count)]
    return {name: members for name, members in (("emptiedBy", emptied), ("didYouMean", meant)) if members}


def _emptied(query: Query, emptied: zero_results.Emptied, engine: SearchIndex) -> dict[str, Any]:
    detail = zero_results.occurrence(query, emptied, engine.search)
    members: dict[str, Any] = {"parameters": list(emptied.parameters), "total": emptied.total, "detail": detail}
    if near := zero_results.near(query, emptied, engine.search):
        members["near"] = {name: _values(pairs) for name, pairs in near.items()}
    return members
