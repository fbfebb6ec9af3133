"""A page of search results as JSON: stored items, spliced with what depends on the query, never parsed again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from json.encoder import encode_basestring  # the C encoder of one string, which is all a cheapest offer needs
from typing import Any

from overlay import cursors
from overlay.asked import Asked
from overlay.compact import encode
from overlay.engines import Cursor
from overlay.query import Cheapest, Hit, Hits


def page(asked: Asked, hits: Hits, index: Cursor | None, heights: Mapping[str, int]) -> bytes:
    """CONTRACT's Page as UTF-8 JSON. `index` is the generation the hits were read from."""
    shown = () if asked.beyond else hits.hits
    tail: dict[str, Any] = {
        "total": hits.total,
        "totalRelation": "gte" if hits.at_least else "eq",
        "limit": asked.query.limit,
        "offset": asked.position,
        "nextCursor": None if asked.beyond else next_cursor(asked, hits, index),
        "queryType": asked.kind,
        "query": asked.query.text,
    }
    if asked.query.facets:
        tail["facets"] = _facets(hits)
    if asked.notes:
        tail["unappliedFilters"] = asked.unapplied
        tail["notes"] = [note.as_json() for note in asked.notes]
    if asked.explain:
        tail["explain"] = _explained(asked)
    tail["index"] = {"seq": index.seq if index else 0, "heights": dict(heights)}
    return b'{"items":[' + b",".join(map(_item, shown)) + b"]," + encode(tail)[1:]


def _item(hit: Hit) -> bytes:
    return b'%b,"score":%.6g,"cheapest":%b}' % (hit.item[:-1], hit.score, _cheapest(hit.cheapest))


def _cheapest(offer: Cheapest | None) -> bytes:
    if offer is None:
        return b"null"
    parts = tuple(map(encode_basestring, (offer.offer_id, offer.amount, offer.currency, offer.interval)))
    return '{{"offerId":{},"amount":{},"currency":{},"interval":{}}}'.format(*parts).encode()


def next_cursor(asked: Asked, hits: Hits, index: Cursor | None) -> str | None:
    """None at the end. A full page reached by a cursor may have been the last one: then an empty one follows."""
    count = len(hits.hits)
    seen = asked.position + count
    if count < asked.query.limit or (asked.query.after is None and seen >= hits.total and not hits.at_least):
        return None
    epoch, seq = index or ("", 0)
    return cursors.encode(cursors.Place(asked.sort, hits.hits[-1].sort_key, epoch, seq, seen))


def _facets(hits: Hits) -> dict[str, list[dict[str, Any]]]:
    found = hits.facets or {}
    return {name: [{"value": value, "count": count} for value, count in pairs] for name, pairs in found.items()}


def _explained(asked: Asked) -> dict[str, Any]:
    """The query as an engine was asked it, without what was not asked for."""
    query = {name: str(v) if isinstance(v, Decimal) else v for name, v in asdict(asked.query).items()}
    return {"query": {name: value for name, value in query.items() if value not in (None, (), "")}}
