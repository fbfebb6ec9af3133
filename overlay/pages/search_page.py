"""The search page: the URL is its whole state, and the same URL answers JSON to who asks for that."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from overlay.api import search_api
from overlay.api.answers import REVALIDATE, SERVICES, not_modified, unchanged
from overlay.api.asked import Asked, from_pairs
from overlay.api.page import next_cursor
from overlay.api.params import KINDS, MAX_OFFSET, SORT_WORDS, pairs
from overlay.api.problems import Fault, ProblemError
from overlay.pages.rendering import html_answer, page_etag, render, wants_json
from overlay.query import Hit, Hits

Pairs = Sequence[tuple[str, str]]

# What the form shows; every other parameter of the URL is carried along hidden.
_FIELDS = ("q", "type", "skillId", "tag", "acceptedCurrency", "interval", "maxPrice", "priceCurrency", "sort")
_NOT_CARRIED = frozenset({"offset", "cursor", "query", "facets", "explain"})
_LABELS = {
    "relevance": "best match", "-relevance": "worst match", "price": "lowest price", "-price": "highest price",
    "updated": "newest update", "-updated": "oldest update", "created": "newest", "-created": "oldest",
    "name": "name", "-name": "name, Z to A",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search came to: results to show, or the faults of the question."""

    asked: Asked | None
    hits: Hits | None
    faults: tuple[Fault, ...]


async def search(request: web.Request) -> web.Response:
    """The search page, or the page of items as JSON when Accept prefers that."""
    if wants_json(request):
        return await search_api.search(request)
    services = request.app[SERVICES]
    query_string = request.rel_url.raw_query_string
    index, heights = services.engine.cursor(), services.heights()
    etag = page_etag(request, index, heights, query_string, search_api.priced(services, query_string))
    if unchanged(request, etag):
        return not_modified({"ETag": etag, "Cache-Control": REVALIDATE})
    given: Pairs = ()
    try:
        given = pairs(query_string)
        asked = from_pairs(given, services.chains(), services.exchange)
        outcome = Outcome(asked, await search_api.found(services, asked), ())
    except ProblemError as problem:
        outcome = Outcome(None, None, problem.faults)
    body = render("search.html", **_view(given, outcome, heights))
    return html_answer(body, status=400 if outcome.faults else 200, etag=None if outcome.faults else etag)


def _view(given: Pairs, outcome: Outcome, heights: Mapping[str, int]) -> dict[str, Any]:
    form = {name: next((v for k, v in given if k in _names(name)), "") for name in _FIELDS}
    shown: tuple[Hit, ...] = ()
    if outcome.hits and outcome.asked and not outcome.asked.beyond:
        shown = outcome.hits.hits
    return {
        "form": form,
        "filtered": any(form[name] for name in _FIELDS[2:]),
        "hidden": [(k, v) for k, v in given if k not in _FIELDS and k not in _NOT_CARRIED and v],
        "kinds": KINDS,
        "sorts": [(word, _LABELS[word]) for word in SORT_WORDS],
        "faults": outcome.faults,
        "asked": outcome.asked,
        "hits": outcome.hits,
        "results": [_result(hit) for hit in shown],
        "before": _before(given, outcome),
        "after": _after(given, outcome),
        "heights": heights,
        "json_url": "/v1/search?" + urlencode(given) if given else "/v1/search",
    }


def _names(name: str) -> tuple[str, ...]:
    return ("q", "query") if name == "q" else (name,)


def _result(hit: Hit) -> dict[str, Any]:
    return {"item": json.loads(hit.item), "cheapest": hit.cheapest}


def _before(given: Pairs, outcome: Outcome) -> str | None:
    """The link to the page before; None on the first, and after a cursor, which leads only forward."""
    if outcome.asked is None or outcome.asked.query.after is not None or outcome.asked.position == 0:
        return None
    start = max(0, outcome.asked.position - outcome.asked.query.limit)
    return _link(given, {"offset": str(start)} if start else {})


def _after(given: Pairs, outcome: Outcome) -> str | None:
    """The link to the next page: by offset while that is served, then by cursor."""
    asked, hits = outcome.asked, outcome.hits
    if asked is None or hits is None or asked.beyond or (cursor := next_cursor(asked, hits, None)) is None:
        return None
    start = asked.position + len(hits.hits)
    by_offset = asked.query.after is None and start <= MAX_OFFSET
    return _link(given, {"offset": str(start)} if by_offset else {"cursor": cursor})


def _link(given: Pairs, place: Mapping[str, str]) -> str:
    kept = [(k, v) for k, v in given if k not in ("offset", "cursor") and v]
    return "/?" + urlencode([*kept, *place.items()])
