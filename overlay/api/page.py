"""A page of search results as JSON: stored items, spliced with what depends on the query, never parsed again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring  # the C encoder of one string, which is all a cheapest offer needs
from typing import Any

from overlay.api import cursors
from overlay.api.asked import Asked
from overlay.compact import encode
from overlay.engines import Cursor
from overlay.exchange import version
from overlay.query import Cheapest, Hit, Hits
from parsers.intervals import per_day
from parsers.money import plain
from parsers.rates import converted


def page(
    asked: Asked,
    hits: Hits,
    index: Cursor | None,
    heights: Mapping[str, int],
    rates: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
) -> bytes:
    """CONTRACT's Page as UTF-8 JSON. `index` is the generation the hits were read from, `rates` what is told of the
    table that converted prices, `more` are further members (`extras`)."""
    shown = () if asked.beyond else hits.hits
    tail: dict[str, Any] = {
        "total": hits.total,
        "totalRelation": "gte" if hits.at_least else "eq",
        "limit": asked.query.limit,
        "offset": asked.position,
        "nextCursor": None if asked.beyond else next_cursor(asked, hits, index),
        "queryType": asked.kind,
        "query": asked.text,
    }
    if asked.query.facets:
        tail["facets"] = _facets(hits)
    if rates:
        tail["rates"] = rates
    if asked.notes:
        if asked.unapplied:
            tail["unappliedFilters"] = asked.unapplied
        tail["notes"] = [note.as_json() for note in asked.notes]
    if asked.explain:
        tail["explain"] = explained(asked)
    if more:
        tail |= more
    tail["index"] = {"seq": index.seq if index else 0, "heights": dict(heights)}
    return b"".join((b'{"items":[', *_items(shown, asked.query.rates), b"],", encode(tail)[1:]))


def _items(hits: Iterable[Hit], rates: Mapping[str, Decimal]) -> list[bytes | memoryview]:
    """The items in pieces: each is stored as `{...}`, and the members that depend on the query go before its end."""
    pieces: list[bytes | memoryview] = []
    for _, item, score, offer, _ in hits:
        told = _cheapest(offer, _rate(offer, rates) if rates else None)
        pieces += (memoryview(item)[:-1], _scored(score), told)
    if pieces:
        pieces[-1] = pieces[-1][:-1]
    return pieces


@lru_cache(maxsize=4096)
def _scored(score: float) -> bytes:
    """The engines give as many different scores as there are points."""
    return b',"score":%.6g,"cheapest":' % score


def _rate(offer: Cheapest | None, rates: Mapping[str, Decimal]) -> Decimal | None:
    return rates.get(offer.currency) if offer and offer.converted else None


@lru_cache(maxsize=4096)
def _cheapest(offer: Cheapest | None, rate: Decimal | None) -> bytes:
    """Up to the end of an item and a comma. Many listings ask the same price."""
    if offer is None:
        return b"null},"
    id_, currency, interval = map(encode_basestring, (offer.offer_id, offer.currency, offer.interval))
    told = f'{{"offerId":{id_},"amount":"{offer.amount}","currency":{currency},"interval":{interval}'
    return f"{told},{_more(offer, rate)}}}}},".encode()


def _more(offer: Cheapest, rate: Decimal | None) -> str:
    """The price per day, and both in the currency that was asked for."""
    daily = per_day(Decimal(offer.amount), offer.interval)
    told = f'"perDay":{_decimal(daily)}'
    if offer.converted is None or rate is None:
        return told
    amount, into = offer.converted
    worth = None if daily is None else converted(daily, rate)
    members = (
        f'"amount":"{amount}","currency":{encode_basestring(into)},"rate":{_decimal(rate)},"perDay":{_decimal(worth)}'
    )
    return f'{told},"converted":{{{members}}}'


def _decimal(value: Decimal | None) -> str:
    return "null" if value is None else f'"{plain(value)}"'


def next_cursor(asked: Asked, hits: Hits, index: Cursor | None) -> str | None:
    """None at the end. A full page reached by a cursor may have been the last one: then an empty one follows."""
    count = len(hits.hits)
    seen = asked.position + count
    if count < asked.query.limit or (asked.query.after is None and seen >= hits.total and not hits.at_least):
        return None
    epoch, seq = index or ("", 0)
    rates = version(asked.rates) if asked.rates and asked.query.sort == "price" else ""
    return cursors.encode(cursors.Place(asked.sort, hits.hits[-1].sort_key, epoch, seq, seen, rates))


def _facets(hits: Hits) -> dict[str, list[dict[str, Any]]]:
    found = hits.facets or {}
    return {name: [{"value": value, "count": count} for value, count in pairs] for name, pairs in found.items()}


def explained(asked: Asked) -> dict[str, Any]:
    """The query as an engine was asked it, without what was not asked for."""
    asked_of = asdict(replace(asked.query, rates={}))
    query = {name: str(v) if isinstance(v, Decimal) else v for name, v in asked_of.items()}
    return {"query": {name: value for name, value in query.items() if value not in (None, (), "", {})}}
