"""Translation of plans and filters to OpenSearch queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal

from overlay.engines.opensearch.cluster import Json
from overlay.search.facts import required, selection, unwanted
from overlay.search.forward import FIELDS
from overlay.search.planner import QueryPlan, TermGroup
from overlay.search.prices import asks_offer, asks_price, by_currency
from overlay.search.query import Query
from parsers.cards.money import decimal_key

InUse = Callable[[str], bool]

MOST_SCORED = 250
"""Alternatives that are scored in all fields: OpenSearch allows 1,024 clauses. Further ones match with a low score."""


def every(*parts: Json) -> Json:
    """Documents that meet all parts."""
    return {"bool": {"filter": list(parts)}}


def filters(query: Query, in_use: InUse) -> list[Json]:
    """The filters of a query."""
    clauses: list[Json] = [{"terms": {"fact": list(group)}} for group in (*selection(query), *required(query))]
    clauses += _numbers(query)
    if asks_offer(query):
        clauses.append(nested(offer(query, in_use)))
    excluded: list[Json] = [{"terms": {"fact": facts}}] if (facts := unwanted(query)) else []
    if query.operators is not None:
        clauses += map(_phrase, query.operators.phrases)
        excluded += map(_phrase, query.operators.excluded)
    if excluded:
        clauses.append({"bool": {"must_not": excluded}})
    return clauses


def _numbers(query: Query) -> Iterator[Json]:
    if query.as_of is not None:
        yield {"range": {"since": {"lte": query.as_of}}}
        yield {"bool": {"must_not": {"range": {"until": {"lte": query.as_of}}}}}
    if query.from_height is not None or query.to_height is not None:
        yield {"range": {"height": _bounds(query.from_height, query.to_height)}}
    if query.updated_since is not None:
        yield {"range": {"time": {"gte": query.updated_since}}}


def _bounds(low: object, high: object) -> Json:
    bounds = {"gte": low, "lte": high}
    return {name: value for name, value in bounds.items() if value is not None}


def _phrase(sequence: str) -> Json:
    return {"match_phrase": {"text": {"query": sequence, "analyzer": "whitespace"}}}


def nested(conditions: list[Json]) -> Json:
    """Documents with one offer that meets all conditions."""
    return {"nested": {"path": "offers", "query": every(*conditions)}}


def offer(query: Query, in_use: InUse) -> list[Json]:
    """The conditions on one offer (laws 14 and 15); price bounds become one range per currency."""
    terms = (("accepts", query.currencies), ("interval", query.intervals), ("skills", query.skills))
    clauses: list[Json] = [{"terms": {f"offers.{name}": list(values)}} for name, values in terms if values]
    if query.free is not None:
        is_free: Json = {"term": {"offers.key": decimal_key(Decimal(0))}}
        clauses.append(is_free if query.free else {"bool": {"must_not": is_free}})
    if query.payable is not None:
        clauses.append({"term": {"offers.payable": query.payable}})
    if asks_price(query):
        ranges = [_price(query_in_currency) for query_in_currency in by_currency(query, in_use)]
        clauses.append({"bool": {"should": ranges, "minimum_should_match": 1}})
    return clauses


def _price(query: Query) -> Json:
    clauses: list[Json] = [{"range": {"offers.key": _bounds(_key(query.min_price), _key(query.max_price))}}]
    if query.price_currency is not None:
        clauses.append(anchored(query.price_currency))
    return every(*clauses)


def anchored(currency: str) -> Json:
    """Offers priced in a currency."""
    return {"term": {"offers.currency": currency}}


def _key(amount: Decimal | None) -> str | None:
    return None if amount is None else decimal_key(amount)


def words(plan: QueryPlan) -> tuple[Json, Json, Json]:
    """Documents that contain any word, scored; those that contain all; and those that contain two thirds of them."""
    weights = sorted((alternative.weight for group in plan.groups for alternative in group.alternatives), reverse=True)
    scored = weights[MOST_SCORED] + 1e-9 if len(weights) > MOST_SCORED else 0.0  # the least weight that is scored
    held = [{"terms": {"term": [other.term for other in group.alternatives]}} for group in plan.content]
    most_words: Json = {"bool": {"should": held, "minimum_should_match": -(-2 * len(held) // 3)}}
    parts = [_group(group, scored) for group in plan.content]
    any_word: Json = {"bool": {"should": parts, "minimum_should_match": 1}}
    if plan.stop:
        any_word = {"bool": {"must": any_word, "should": [_group(group, scored) for group in plan.stop]}}
    return any_word, every(*held), most_words


def _group(group: TermGroup, least: float) -> Json:
    """The best alternative of a word."""
    best: list[Json] = [
        {"bool": {"should": [_term(name, alternative.term, alternative.weight) for name in FIELDS]}}
        for alternative in group.alternatives
        if alternative.weight >= least
    ]
    unscored = [alternative.term for alternative in group.alternatives if alternative.weight < least]
    if unscored:
        best.append({"constant_score": {"filter": {"terms": {"term": unscored}}, "boost": 0.1}})
    return {"dis_max": {"queries": best}}


def _term(field: str, term: str, weight: float) -> Json:
    return {"term": {field: {"value": term, "boost": weight}}}
