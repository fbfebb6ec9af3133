"""A page of search results as JSON: stored items, spliced with what depends on the query, never parsed again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from overlay.api import cursors
from overlay.api.asked import Asked
from overlay.compact import encode
from overlay.engines import Cursor
from overlay.exchange import version
from overlay.query import Cheapest, Hit, Hits
from overlay.telling import cheapest, scored


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
        "matched": hits.matched,
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
    before, after = b'{"items":[', b"]," + encode(tail)[1:]
    return b"".join((before, *_items(shown, asked.query.rates), after))


def _items(hits: Sequence[Hit], rates: Mapping[str, Decimal]) -> list[bytes | memoryview]:
    """The items in pieces: each is stored as `{...}`, and the members that depend on the query go before its end."""
    pieces: list[bytes | memoryview] = []
    for _, item, score, offer, _, _ in hits:
        told = cheapest(offer, _rate(offer, rates) if rates else None)
        pieces += (memoryview(item)[:-1], told, scored(score))
    if pieces:
        pieces[-1] = pieces[-1][:-1]
    return pieces


def _rate(offer: Cheapest | None, rates: Mapping[str, Decimal]) -> Decimal | None:
    return rates.get(offer.currency) if offer and offer.converted else None


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
    asked_of = asked.query._replace(rates={}, quotes=None)._asdict()
    query = {name: str(v) if isinstance(v, Decimal) else v for name, v in asked_of.items()}
    if asked.query.operators is not None:
        query["operators"] = asdict(asked.query.operators)
    return {"query": {name: value for name, value in query.items() if value not in (None, (), "", {})}}
