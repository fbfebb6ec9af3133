"""A query and its plan as queries of OpenSearch: which documents the filters admit, and how words score."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from overlay.query import Query
from overlay.search.facts import selection, unwanted, wanted
from overlay.search.forward import FIELDS
from overlay.search.planner import Group, QueryPlan
from overlay.search.prices import asks_offer, asks_price, each_currency
from parsers.money import decimal_key

Json = dict[str, Any]
InUse = Callable[[str], bool]

NAME_BOOST = 2.0
MOST_SCORED = 250
"""Alternatives that are scored in all fields: servers refuse more than 1,024 clauses. Others only find."""


def filters(query: Query, in_use: InUse) -> list[Json]:
    """What every result meets beside the words."""
    found: list[Json] = [{"terms": {"fact": list(group)}} for group in (*selection(query), *wanted(query))]
    found += _numbers(query)
    if asks_offer(query):
        found.append(nested(offer(query, in_use)))
    operators = query.operators
    if operators is not None:
        found += map(_phrase, operators.phrases)
        excluded = [*map(_phrase, operators.excluded)]
        if unwanted(query):
            excluded.append({"terms": {"fact": unwanted(query)}})
        if excluded:
            found.append({"bool": {"must_not": excluded}})
    return found


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
    """Documents of which one offer meets all conditions."""
    return {"nested": {"path": "offers", "query": {"bool": {"filter": conditions}}}}


def offer(query: Query, in_use: InUse) -> list[Json]:
    """What one offer must meet (laws 14 and 15): bounds in another currency are one range for each currency."""
    asked = (("accepts", query.currencies), ("interval", query.intervals), ("skills", query.skills))
    found: list[Json] = [{"terms": {f"offers.{name}": list(values)}} for name, values in asked if values]
    if asks_price(query):
        ranges = [_price(each) for each in each_currency(query, in_use)]
        found.append({"bool": {"should": ranges, "minimum_should_match": 1}})
    return found


def _price(query: Query) -> Json:
    found: list[Json] = [{"range": {"offers.key": _bounds(_key(query.min_price), _key(query.max_price))}}]
    if query.price_currency is not None:
        found.append(anchored(query.price_currency))
    return {"bool": {"filter": found}}


def anchored(currency: str) -> Json:
    """Offers priced in a currency."""
    return {"term": {"offers.currency": currency}}


def _key(amount: Decimal | None) -> str | None:
    return None if amount is None else decimal_key(amount)


def words(plan: QueryPlan) -> tuple[Json, Json]:
    """Documents that hold any word, scored; and those that hold all."""
    scored = _scored(plan)
    every = [{"terms": {"term": [each.term for each in group.alternatives]}} for group in plan.groups]
    all_words: Json = {"bool": {"filter": every}}
    parts = [_group(group, scored) for group in plan.groups]
    any_word: Json = {"bool": {"should": parts, "minimum_should_match": 1}}
    return any_word, all_words


def _scored(plan: QueryPlan) -> float:
    """The least weight of the alternatives that are scored."""
    weights = sorted((each.weight for group in plan.groups for each in group.alternatives), reverse=True)
    return weights[MOST_SCORED] + 1e-9 if len(weights) > MOST_SCORED else 0.0


def _group(group: Group, least: float) -> Json:
    """The best of the alternatives for a word."""
    best: list[Json] = [
        {"bool": {"should": [_term(name, each.term, each.weight * group.boost) for name in FIELDS]}}
        for each in group.alternatives
        if each.weight >= least
    ]
    rest = [each.term for each in group.alternatives if each.weight < least]
    if rest:
        best.append({"constant_score": {"filter": {"terms": {"term": rest}}, "boost": group.boost * 0.1}})
    return {"dis_max": {"queries": best}}


def _term(field: str, term: str, weight: float) -> Json:
    return {"term": {field: {"value": term, "boost": weight * (NAME_BOOST if field == "name" else 1.0)}}}
