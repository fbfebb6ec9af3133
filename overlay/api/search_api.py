"""Searching: a page of items, and completions while typing."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Mapping
from typing import Any

from aiohttp import hdrs, web

from overlay.aging import aged_hits
from overlay.api import extras
from overlay.api.answers import (
    COSTS,
    EDGE,
    REVALIDATE,
    SERVICES,
    json_answer,
    json_bytes,
    not_modified,
    unchanged,
    weak_etag,
)
from overlay.api.asked import Asked, from_pairs
from overlay.api.page import page
from overlay.api.params import SUGGEST, pairs, taken
from overlay.engines import Cursor
from overlay.ports import Services
from overlay.query import Hits
from overlay.search import query_syntax
from overlay.visible import one_line


async def search(request: web.Request) -> web.Response:
    """A page of items."""
    services = request.app[SERVICES]
    query_string = request.rel_url.raw_query_string
    index, heights = await cursor(services), services.heights()
    etag = weak_etag("json", index and tuple(index), heights, query_string, priced(services, query_string))
    headers: dict[str, str] = {hdrs.ETAG: etag, hdrs.CACHE_CONTROL: REVALIDATE}
    if unchanged(request, etag):
        return not_modified(headers)
    asked = from_pairs(pairs(query_string), services.chains(), services.exchange, heights)
    hits = await found(request, asked)
    more: Mapping[str, Any] = {}
    if extras.wanted(asked, hits):
        hits, more = await told(request, asked, hits)
    rates = services.exchange.told(asked.rates) if asked.rates else None
    return json_bytes(page(asked, hits, index, heights, rates, more), headers=headers)


async def told(request: web.Request, asked: Asked, hits: Hits) -> tuple[Hits, Mapping[str, Any]]:
    """The hits, and what the answer tells beside them, since that is asked for or nothing was found (`extras`)."""
    engine = request.app[SERVICES].engine
    if request.app[COSTS].are_low(asked.query) and extras.is_quick(asked):
        return extras.extras(engine, asked, hits)
    return await to_thread(extras.extras, engine, asked, hits)


def priced(services: Services, query_string: str) -> tuple[object, ...]:
    """The exchange rates that an answer depends on: none where no parameter can be about prices (a name may be
    percent-encoded), so that such answers stay valid when rates change."""
    return services.exchange.stamp() if "rice" in query_string or "%" in query_string else ()


async def cursor(services: Services) -> Cursor | None:
    """How far the index has read; an engine that says it is slow is asked in a thread."""
    engine = services.engine
    return await to_thread(engine.cursor) if engine.slow else engine.cursor()


async def found(request: web.Request, asked: Asked) -> Hits:
    """What the engine finds. Raises ProblemError (429, 503) where that would take too long."""
    services, costs, query = request.app[SERVICES], request.app[COSTS], asked.query
    hits = (
        costs.search(query) if costs.are_low(query) else await costs.wait(query, request.app[EDGE].clients.of(request))
    )
    return aged_hits(hits, services.heights(), services.change_blocks)


async def suggest(request: web.Request) -> web.Response:
    """Completions of what is being typed, the best first, with control and bidi characters as escapes.

    A tag that holds such is left out: as a filter its escaped text would find nothing."""
    services = request.app[SERVICES]
    given = taken(request.rel_url.raw_query_string, SUGGEST)
    text, limit = query_syntax.read(given.get("q", "")).text, given.get("limit", 8)
    if services.engine.slow:
        completions = await to_thread(services.engine.suggest, text, limit)
    else:
        completions = services.engine.suggest(text, limit)
    items = [
        {"text": text, "kind": each.kind} | ({"id": each.id} if each.id else {})
        for each in completions
        if (text := one_line(each.text)) == each.text or each.kind != "tag"
    ]
    return json_answer({"items": items}, headers={"Cache-Control": REVALIDATE})
