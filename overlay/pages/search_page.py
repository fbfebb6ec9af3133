"""The search page: the URL is its whole state, and the same URL answers JSON to who asks for that."""

from __future__ import annotations

import json
from asyncio import to_thread
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import ceil
from typing import NamedTuple
from urllib.parse import unquote_plus, urlencode
from weakref import WeakKeyDictionary

from aiohttp import web
from markupsafe import Markup

from indexer.fetching.thumbnail import LOGO_BYTES
from overlay.api import search_api
from overlay.api.answers import REVALIDATE, SERVICES, not_modified, unchanged
from overlay.api.asked import Asked, from_pairs
from overlay.api.extras import AGAIN, UNMADE
from overlay.api.page import next_cursor
from overlay.api.params import MAX_LIMIT, MAX_OFFSET, SORT_WORDS, pairs
from overlay.api.problems import BadRequestError, Fault
from overlay.exchange import Exchange
from overlay.index import SearchIndex
from overlay.pages.amounts import FAMILIAR, About, about, short
from overlay.pages.badges import explained
from overlay.pages.cards import Result, drawn, result
from overlay.pages.counted import Counted
from overlay.pages.facets import TITLES, chips, cleared, groups
from overlay.pages.links import Pairs, link, named
from overlay.pages.logo import addresses
from overlay.pages.marking import Finder, finder
from overlay.pages.measures import PAGE_BYTES, WITH_LOGOS
from overlay.pages.rendering import html_answer, page_etag, render, wants_json
from overlay.pages.ways_out import ways_out
from overlay.ports import Services
from overlay.query import Cheapest, Hit, Hits, Query
from overlay.search.planner import ALL

LONGEST = 4_096
"""Characters of a query string that the page answers: it repeats them in every link. /v1/search reads more."""

CARDS_BYTES = 48_000
"""Cards on a page: after so many bytes of them the rest is left to the next page."""

SIGN_BYTES = 64
"""By how many bytes a drawn sign is longer than the address of a picture, at most."""

_FAULTS = 20
"""Faults of a search that are told."""

_COUNTED: WeakKeyDictionary[SearchIndex, Counted] = WeakKeyDictionary()

_UNMADE = (Fault("unmade", UNMADE),)
_UNCOUNTED = Fault("uncounted", "the filters to choose from are not shown: to count what they leave takes too long now")

_DECORATIONS = frozenset(
    {"fbclid", "gclid", "dclid", "msclkid", "twclid", "yclid", "igshid", "mc_cid", "mc_eid", "ref"}
)
"""What newsletters, networks and shops add to links that they pass on, beside `utm_…`."""

# What the form shows; every other parameter of the URL is carried along hidden.
_FIELDS = ("q", "minPrice", "maxPrice", "priceCurrency", "sort")
_NOT_CARRIED = frozenset({"offset", "cursor", "facets", "explain", "highlight"})
_LABELS = {
    "relevance": "best match", "updated": "newest update", "created": "newest", "price": "lowest price",
    "-price": "highest price", "name": "name", "-name": "name, Z to A", "-updated": "oldest update",
    "-created": "oldest", "-relevance": "worst match",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search came to: results to show, or the faults of the question."""

    asked: Asked | None
    hits: Hits | None
    faults: tuple[Fault, ...]


class Made(NamedTuple):
    """A page, how many bytes of it are cards, and how many logos those have."""

    body: bytes
    cards: int
    logos: int


async def search(request: web.Request) -> web.Response:
    """The search page, or the page of items as JSON when Accept prefers that."""
    query_string = request.rel_url.raw_query_string
    if (plain := _plain(query_string)) != query_string:
        target = f"/?{plain}" if plain else "/"
        return web.Response(status=302, headers={"Location": target, "Cache-Control": "no-store"})
    if wants_json(request):
        return await search_api.search(request)
    services = request.app[SERVICES]
    heights = services.heights()
    seen = services.exchange.stamp(), services.logos.stamp()
    index = await search_api.cursor(services)
    etag = page_etag(request, index, heights, query_string, seen)
    if unchanged(request, etag):
        return not_modified({"ETag": etag, "Cache-Control": REVALIDATE})
    given, outcome = await _outcome(request, query_string, heights)
    if index is None and outcome.hits and not outcome.hits.total:
        outcome = Outcome(outcome.asked, None, _UNMADE)
        answer = html_answer(await to_thread(_page, services, given, outcome, heights), status=503)
        answer.headers.update(AGAIN)
        return answer
    body = await to_thread(_page, services, given, outcome, heights)
    return html_answer(body, status=400 if outcome.faults else 200, etag=None if outcome.faults else etag)


async def _outcome(request: web.Request, query_string: str, heights: Mapping[str, int]) -> tuple[Pairs, Outcome]:
    services = request.app[SERVICES]
    given: Pairs = ()
    try:
        if len(query_string) > LONGEST:
            raise BadRequestError((Fault("too-long", f"the page reads searches of up to {LONGEST:,} characters"),))
        given = pairs(query_string)
        asked = from_pairs(given, services.chains(), services.exchange, heights)
        hits = await _found(request, asked)
        if hits.facets == {}:
            asked = asked._replace(notes=(*asked.notes, _UNCOUNTED))
        return given, Outcome(asked, hits, ())
    except BadRequestError as problem:
        return given, Outcome(None, None, problem.faults)


def _plain(query_string: str) -> str:
    """The query string without what others add to links, and without the fields of the form that were left empty."""
    fields = ((field, *field.partition("=")) for field in query_string.split("&") if not field.startswith("utm_"))
    return "&".join(
        field for field, name, _, value in fields if name not in _DECORATIONS and unquote_plus(value).strip()
    )


async def _found(request: web.Request, asked: Asked) -> Hits:
    """What is found, with facets. Raises ProblemError as `search_api.found`."""
    services = request.app[SERVICES]

    async def found(query: Query) -> Hits:
        return await search_api.found(request, asked._replace(query=query))

    counted, cursor = _COUNTED.setdefault(services.engine, Counted()), await search_api.cursor(services)
    return await counted.ask(asked.query, cursor, tuple(TITLES), found)


def _page(services: Services, given: Pairs, outcome: Outcome, heights: Mapping[str, int]) -> bytes:
    """The page, with fewer cards where a long search, which every link repeats, leaves less room for them, and signs
    in place of the last logos where those would be too much. Reads the store, so that it is made in a thread."""
    room = CARDS_BYTES
    made = _made(services, given, outcome, heights, room)
    if (over := len(made.body) - PAGE_BYTES) > 0:
        room = made.cards - over
        made = _made(services, given, outcome, heights, room)
    if (over := len(made.body) + made.logos * LOGO_BYTES - WITH_LOGOS) > 0:
        fewer = max(0, made.logos - ceil(over / (LOGO_BYTES - SIGN_BYTES)))
        made = _made(services, given, outcome, heights, room, fewer)
    return made.body


def _made(
    services: Services,
    given: Pairs,
    outcome: Outcome,
    heights: Mapping[str, int],
    room: int,
    logos: int = MAX_LIMIT,
) -> Made:
    """The page with cards of at most so many bytes, and at most so many logos on them."""
    asked, hits = outcome.asked, outcome.hits
    shown = hits.hits if hits and asked and not asked.beyond else ()
    places = finder(hits.plan if hits and shown else ALL)
    cards, results = _cards(services, shown, places, room, logos)
    form = {name: next(iter(named(given, name)), "") for name in _FIELDS}
    used = chips(given)
    table = asked.rates if asked and asked.rates else next(iter(services.exchange.usable()), None)
    values = {
        "here": "/",
        "form": form,
        "start": not used and not form["q"] and not outcome.faults and not (asked and asked.position),
        "hidden": [(k, v) for k, v in given if k not in (*_FIELDS, "query") and k not in _NOT_CARRIED and v],
        "groups": groups(given, asked.query, hits.facets or {}) if asked and hits else [],
        "currencies": _currencies(services.exchange),
        "sorts": [(word, label) for word, label in _LABELS.items() if word in SORT_WORDS],
        "told": _told(asked, hits),
        "chips": used,
        "cleared": cleared(given),
        "faults": outcome.faults[:_FAULTS],
        "unmade": outcome.faults == _UNMADE,
        "notes": asked.notes if asked else (),
        "nothing": bool(hits and hits.total == 0),
        "ways_out": ways_out(services.engine, given, asked) if asked and hits and not hits.total else [],
        "first": asked.position + 1 if asked else 1,
        "cards": cards,
        "explained": explained(badge for each in results for badge in each.badges),
        "before": _before(given, outcome),
        "after": _after(given, outcome, len(cards)),
        "heights": heights,
        "rates": services.exchange.told(table) if table else None,
        "json_url": "/v1/search?" + urlencode(given) if given else "/v1/search",
    }
    size = sum(len(card.encode("utf-8", "replace")) for card in cards)
    return Made(render("search.html", **values), size, sum(bool(each.logo) for each in results))


def _cards(
    services: Services, hits: Sequence[Hit], places: Finder, room: int, logos: int
) -> tuple[list[Markup], list[Result]]:
    """As many cards as there is room for, in bytes, at least one, the first ones with logos, and what they show."""
    items = [json.loads(hit.item) for hit in hits]
    kept = addresses(services.logos, items)
    proved = services.store.proved({item["txid"] for item in items if "blockHeight" in item})
    cards: list[Markup] = []
    results: list[Result] = []
    for hit, item in zip(hits, items, strict=True):
        cheapest = hit.cheapest._asdict() if hit.cheapest else None
        worth = _worth(hit.cheapest, services.exchange) if hit.cheapest else None
        is_proved = item["txid"] in proved
        logo = kept.get(item["logo"], "") if logos > 0 else ""
        shown = result(item, cheapest, worth, places(item), proved=is_proved, logo=logo)
        card = drawn(shown)
        room -= len(card.encode("utf-8", "replace"))
        if cards and room < 0:
            break
        cards.append(card)
        results.append(shown)
        logos -= bool(logo)
    return cards, results


def _worth(cheapest: Cheapest, exchange: Exchange) -> About | None:
    """What a price is worth in the currency that was asked for, else in a familiar one."""
    if cheapest.converted is None:
        return about(cheapest.amount, cheapest.currency, FAMILIAR, exchange)
    amount, currency = cheapest.converted
    return About(short(Decimal(amount)), currency)


def _currencies(exchange: Exchange) -> list[str]:
    """The currencies that prices can be converted to."""
    return sorted({name for table in exchange.usable() for name in table.rates})[:300]


def _told(asked: Asked | None, hits: Hits | None) -> str:
    """How much was found, in words."""
    if asked is None or hits is None:
        return "No answer"
    found = "Nothing found" if hits.total == 0 else "1 listing" if hits.total == 1 else f"{hits.total:,} listings"
    found = f"More than {found}" if hits.at_least else found
    return f"{found}, from number {asked.position + 1:,}" if asked.position and hits.hits else found


def _before(given: Pairs, outcome: Outcome) -> str | None:
    """The link to the page before; None on the first, and after a cursor, which leads only forward."""
    if outcome.asked is None or outcome.asked.query.after is not None or outcome.asked.position == 0:
        return None
    start = max(0, outcome.asked.position - outcome.asked.query.limit)
    return link(given, {"offset": str(start)} if start else {})


def _after(given: Pairs, outcome: Outcome, count: int) -> str | None:
    """The link to the page after `count` cards: by offset while that is served, then by cursor."""
    asked, hits = outcome.asked, outcome.hits
    if asked is None or hits is None or asked.beyond or not count:
        return None
    if count < len(hits.hits):  # as if no more had been asked for
        asked = asked._replace(query=asked.query._replace(limit=count))
        hits = replace(hits, hits=hits.hits[:count])
    if (cursor := next_cursor(asked, hits, None)) is None:
        return None
    start = asked.position + count
    by_offset = asked.query.after is None and start <= MAX_OFFSET
    return link(given, {"offset": str(start)} if by_offset else {"cursor": cursor})
