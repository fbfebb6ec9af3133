"""The search page. The URL is its whole state, and answers JSON when Accept prefers that."""

from __future__ import annotations

import json
from asyncio import to_thread
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import ceil
from typing import NamedTuple
from urllib.parse import unquote_plus, urlencode
from weakref import WeakKeyDictionary

from aiohttp import web
from markupsafe import Markup

from indexer.model import LOGO_BYTES
from overlay.api import search_api
from overlay.api.answers import REVALIDATE, SERVICES, not_modified, unchanged
from overlay.api.parameters import MAX_LIMIT, MAX_OFFSET, ONLY_OVER_HTTP, pairs
from overlay.api.problems import BadRequestError, Fault, bad_request
from overlay.api.saved_searches import feeds
from overlay.api.search_answer import NO_INDEX, next_cursor
from overlay.api.search_request import SearchRequest
from overlay.api.search_statistics import counted
from overlay.api.services import AppServices
from overlay.api.understood import with_filter, without
from overlay.engines import CompilingError, IndexPosition
from overlay.installation import SORTS
from overlay.pricing.exchange_rates import ExchangeRates
from overlay.projection.search_index import SearchIndex
from overlay.search.planner import ALL, QueryPlan
from overlay.search.query import Hit, Hits, Query
from overlay.search.sorting import AMOUNT, COST, PER_DAY, order, price_comparison
from overlay.web.amounts import About, short, worth
from overlay.web.assets import addresses
from overlay.web.badges import explained
from overlay.web.cards import Result, render_card, result
from overlay.web.facets import TITLES, FacetCache, alternative_searches, chips, cleared, groups
from overlay.web.highlight import ranges_in
from overlay.web.links import Pairs, link, named
from overlay.web.rendering import PAGE_BYTES, WITH_LOGOS, html_answer, page_etag, render, wants_json

LONGEST = 4_096
"""Characters of a query string: the page repeats it in every link. /v1/search accepts more."""

CARDS_BYTES = 48_000
"""Bytes of cards on a page; further cards are on the next page."""

SIGN_BYTES = 64
"""Bytes by which an identicon is longer than the address of a logo, at most."""

_FAULTS = 20
"""Faults of a search that are shown."""

_FACET_CACHES: WeakKeyDictionary[SearchIndex, FacetCache] = WeakKeyDictionary()

_NO_INDEX, _COMPILING = Fault("unmade", NO_INDEX), Fault("compiling", str(CompilingError()))
_UNCOUNTED = Fault("uncounted", "the filters to choose from are not shown: to count what they leave takes too long now")

_DECORATIONS = frozenset(
    {"fbclid", "gclid", "dclid", "msclkid", "twclid", "yclid", "igshid", "mc_cid", "mc_eid", "ref"}
)
"""Tracking parameters of newsletters and networks, beside `utm_…`."""

# What the form shows; every other parameter of the URL is carried along hidden.
_FIELDS = ("q", "minPrice", "maxPrice", "priceCurrency", "sort")
_NOT_CARRIED = ONLY_OVER_HTTP | {"offset", "cursor"}
_ALSO = 8  # related words that the page names
_BEST, _LATEST = "best match", "latest"
_LABELS = {
    "relevance": _BEST, "updated": "newest update", "created": "newest", "price": "lowest price",
    "-price": "highest price",
    "price_per_day": "lowest price per day", "-price_per_day": "highest price per day", "name": "name",
    "-name": "name, Z to A", "-updated": "oldest update", "-created": "oldest", "-relevance": "worst match",
    "cost": "lowest cost", "-cost": "highest cost", "rating": "best rating", "-rating": "worst rating",
}  # fmt: skip


_COMPARED = {
    AMOUNT: "Prices are compared as amounts, whatever the interval that they are for.",
    COST: "Prices are compared as what a month costs, a twelfth of a year, with so many calls.",
    PER_DAY: "Prices are compared per day: a month has 30.436875 days, a year twelve months. A price for no length of "
    "time, such as one per call, comes last.",
}


def _compared(query: Query) -> str | None:
    comparison = price_comparison(query)
    return None if comparison is None else _COMPARED[comparison]


def _by_cost(parameters: Pairs, hits: Hits) -> str | None:
    """The link to this search in the order of what a month costs, where prices of results are for different intervals;
    None where they are not, or are compared so already."""
    intervals = {hit.cheapest.interval for hit in hits.hits if hit.cheapest}
    if len(intervals) < 2 or "cost" in next(iter(named(parameters, "sort")), ""):
        return None
    calls = next(iter(named(parameters, "calls")), _USUAL_CALLS)
    others = [pair for pair in parameters if pair[0] not in ("sort", "calls")]
    return link([*others, ("calls", calls), ("sort", "cost")])


_USUAL_CALLS = "50/day"
"""How often an agent is called, where the page suggests to compare costs and nothing was said of it."""

EXAMPLES = (
    ("security audit", "/?q=security+audit"),
    ("MCP tools for weather", "/?q=weather&type=tool"),
    ("agents up to 1 USD", "/?type=agent&maxPrice=1&priceCurrency=USD"),
)
"""Searches that the home page offers: words and address. Each has results on the packaged sample chain."""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The result of a search: hits, or the faults of the request."""

    search_request: SearchRequest | None
    hits: Hits | None
    faults: tuple[Fault, ...]

    @property
    def is_unready(self) -> bool:
        """Whether the index cannot be searched yet."""
        return self.faults in ((_NO_INDEX,), (_COMPILING,))


class RenderedPage(NamedTuple):
    """A page, the size of its cards in bytes, and its number of logos."""

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
    index = await search_api.index_position(services)
    etag = page_etag(request, index, heights, query_string, seen)
    if unchanged(request, etag):
        return not_modified({"ETag": etag, "Cache-Control": REVALIDATE})
    parameters, outcome = await _outcome(request, query_string, heights, index)
    if outcome.hits is not None and await search_api.has_no_index(request, outcome.hits, index):
        outcome = SearchOutcome(outcome.search_request, None, (_NO_INDEX,))
    body = await to_thread(_page, services, parameters, outcome, heights)
    if not outcome.faults:
        return html_answer(body, etag=etag)
    answer = html_answer(body, status=503 if outcome.is_unready else 400)
    answer.headers.update(search_api.again(services) if outcome.is_unready else {})
    return answer


async def _outcome(
    request: web.Request, query_string: str, heights: Mapping[str, int], index: IndexPosition | None
) -> tuple[Pairs, SearchOutcome]:
    services = request.app[SERVICES]
    parameters: Pairs = ()
    try:
        if len(query_string) > LONGEST:
            raise bad_request("too-long", f"the page reads searches of up to {LONGEST:,} characters")
        parameters = pairs(query_string)
        search_request = await search_api.read_search(request, parameters, heights, index)
        if services.engine.is_compiling:
            return parameters, SearchOutcome(search_request, None, (_COMPILING,))
        hits = await _find_with_facets(request, search_request)
        search_api.count(request, counted(search_request, hits))
        if hits.facets == {}:
            search_request = search_request._replace(notes=(*search_request.notes, _UNCOUNTED))
        return parameters, SearchOutcome(search_request, hits, ())
    except BadRequestError as problem:
        return parameters, SearchOutcome(None, None, problem.faults)


def _plain(query_string: str) -> str:
    """The query string without tracking parameters, and without empty fields of the form."""
    fields = ((field, *field.partition("=")) for field in query_string.split("&") if not field.startswith("utm_"))
    return "&".join(
        field for field, name, _, value in fields if name not in _DECORATIONS and unquote_plus(value).strip()
    )


async def _find_with_facets(request: web.Request, search_request: SearchRequest) -> Hits:
    """The hits with facets. Raises ProblemError as `search_api.find_hits`."""
    services = request.app[SERVICES]

    async def search(query: Query) -> Hits:
        return await search_api.find_hits(request, search_request._replace(query=query))

    cache, index = _FACET_CACHES.setdefault(services.engine, FacetCache()), await search_api.index_position(services)
    return await cache.ask(search_request.query, index, tuple(TITLES), search)


def _page(services: AppServices, parameters: Pairs, outcome: SearchOutcome, heights: Mapping[str, int]) -> bytes:
    """The page within its size: with fewer cards for a long query string, which every link repeats, and with
    identicons instead of the last logos. Reads the store: call it in a thread."""
    room = CARDS_BYTES
    page = _render_page(services, parameters, outcome, heights, room)
    for _ in range(2):  # the link to the next page, which fewer cards bring, repeats the query string, too
        if (over := len(page.body) - PAGE_BYTES) > 0:
            room = page.cards - over
            page = _render_page(services, parameters, outcome, heights, room)
    if (over := len(page.body) + page.logos * LOGO_BYTES - WITH_LOGOS) > 0:
        fewer = max(0, page.logos - ceil(over / (LOGO_BYTES - SIGN_BYTES)))
        page = _render_page(services, parameters, outcome, heights, room, fewer)
    return page.body


def _render_page(
    services: AppServices,
    parameters: Pairs,
    outcome: SearchOutcome,
    heights: Mapping[str, int],
    room: int,
    logos: int = MAX_LIMIT,
) -> RenderedPage:
    """The page with at most `room` bytes of cards and `logos` logos."""
    search_request, hits = outcome.search_request, outcome.hits
    shown = hits.hits if hits and search_request and not search_request.beyond else ()
    cards, results = _cards(services, shown, hits.plan if hits else ALL, room, logos)
    form = {name: next(iter(named(parameters, name)), "") for name in _FIELDS}
    used = chips(parameters)
    table = (
        search_request.rates
        if search_request and search_request.rates
        else next(iter(services.exchange.usable()), None)
    )
    values = {
        "here": "/",
        "form": form,
        "start": not used and not form["q"] and not outcome.faults and not (search_request and search_request.position),
        "hidden": [(k, v) for k, v in parameters if k not in (*_FIELDS, "query") and k not in _NOT_CARRIED and v],
        "groups": groups(parameters, services.engine.resolved(search_request.query), hits.facets or {})
        if search_request and hits
        else [],
        "currencies": _currencies(services.exchange),
        "examples": EXAMPLES,
        "sorts": _sorts(form["q"], form["sort"], services.site.systems),
        "best": _BEST,
        "latest": _LATEST,
        "count_text": _count_text(search_request, hits, len(cards)),
        "compared": _compared(search_request.query) if search_request else None,
        "by_cost": _by_cost(parameters, hits) if hits else None,
        "chips": used,
        "cleared": cleared(parameters),
        "faults": outcome.faults[:_FAULTS],
        "unready": outcome.is_unready,
        "notes": search_request.notes_on(hits) if search_request and hits else (),
        "understood": [
            {
                "phrase": preference.phrase,
                "without": link(without(parameters, preference)),
                "only": link(with_filter(parameters, preference)),
            }
            for preference in (search_request.preferences if search_request else ())
        ],
        "corrected": hits.plan.corrected if hits and hits.total else (),
        "related": [word for words in hits.related.values() for word in words][:_ALSO] if hits else (),
        "partial": bool(hits and hits.total and not hits.matched),
        "nothing": bool(hits and hits.total == 0),
        "alternatives": alternative_searches(services.engine, parameters, search_request, hits)
        if search_request and hits and (hits.is_weak or not hits.total)
        else [],
        "first": search_request.position + 1 if search_request else 1,
        "cards": cards,
        "tiers": _tiers(search_request.query, hits, len(cards)) if search_request and hits else {},
        "explained": explained(badge for result_ in results for badge in result_.badges),
        "before": _before(parameters, outcome),
        "after": _after(parameters, outcome, len(cards)),
        "heights": heights,
        "rates": services.exchange.table_json(table) if table else None,
        "json_url": "/v1/search?" + urlencode(parameters) if parameters else "/v1/search",
        "feeds": _feeds(parameters) if "feeds" in services.site.systems and search_request else [],
    }
    size = sum(len(card.encode("utf-8", "replace")) for card in cards)
    return RenderedPage(render("search.html", **values), size, sum(bool(result_.logo) for result_ in results))


def _feeds(parameters: Pairs) -> list[tuple[str, str, str]]:
    """The feeds of this search: media type, name and address."""
    kinds = (("application/atom+xml", "Atom"), ("application/feed+json", "JSON Feed"))
    return [(*kind, address) for kind, address in zip(kinds, feeds(parameters).values(), strict=True)]


def _cards(
    services: AppServices, hits: Sequence[Hit], plan: QueryPlan, room: int, logos: int
) -> tuple[list[Markup], list[Result]]:
    """The cards that fit into `room` bytes, at least one, the first ones with logos; rendered, and their contents."""
    items = [json.loads(bytes(hit.item)) for hit in hits]
    logo_addresses = addresses(services.logos, items)
    cards: list[Markup] = []
    results: list[Result] = []
    for hit, item in zip(hits, items, strict=True):
        cheapest = hit.cheapest._asdict() if hit.cheapest else None
        amount, currency = hit.cheapest.converted if hit.cheapest and hit.cheapest.converted else (None, "")
        about = worth(cheapest, services.exchange) if amount is None else About(short(Decimal(amount)), currency)
        logo = logo_addresses.get(item["logo"], "") if logos > 0 else ""
        ranges = ranges_in(item, plan)
        shown = result(
            item, cheapest, about, ranges, logo=logo, by_meaning=hit.by_meaning, may_be_compared=len(hits) > 1
        )
        card = render_card(shown)
        room -= len(card.encode("utf-8", "replace"))
        if cards and room < 0:
            break
        cards.append(card)
        results.append(shown)
        logos -= bool(logo)
    return cards, results


_TIER_TEXTS = ("With all of these words:", "With most of these words:", "With some of these words:")


def _tiers(query: Query, hits: Hits, count: int) -> dict[int, str]:
    """The texts before the first of the shown results of each tier, by its number among these: in orders other than by
    relevance, where not all results have all words."""
    if order(query) == "relevance" or len(hits.plan.content) < 2 or hits.matched == hits.total:
        return {}
    first: dict[int, int] = {}
    for number, hit in enumerate(hits.hits[:count]):
        first.setdefault(hit.sort_key[0], number)
    return {number: _TIER_TEXTS[tier] for tier, number in first.items()}


def _currencies(exchange: ExchangeRates) -> list[str]:
    """The currencies that prices can be converted to."""
    return sorted({name for table in exchange.usable() for name in table.rates})[:300]


def _sorts(text: str, chosen: str, systems: Collection[str]) -> list[tuple[str, str]]:
    """The orders to choose from, with labels, without the orders of systems that are not served; without words,
    relevance is the latest first."""
    labels = _LABELS if text.strip() else _LABELS | {"relevance": _LATEST}
    needed = ("-relevance", "cost", "-cost")  # these orders are not offered
    offered = {word: label for word, label in labels.items() if word not in needed or chosen == word}
    return [(word, offered[word]) for word in offered if SORTS.get(word.removeprefix("-")) in (None, *systems)]


def _count_text(search_request: SearchRequest | None, hits: Hits | None, count: int) -> str:
    """The number of results in words, and which of them the `count` cards are where the page has not all."""
    if search_request is None or hits is None:
        return "No answer"
    text = "Nothing found" if hits.total == 0 else "1 listing" if hits.total == 1 else f"{hits.total:,} listings"
    if not count or count == hits.total:
        return f"More than {text}" if hits.at_least else text
    numbers = f"{search_request.position + 1:,}–{search_request.position + count:,}"
    return f"{numbers} of {'more than ' if hits.at_least else ''}{text}"


def _before(parameters: Pairs, outcome: SearchOutcome) -> str | None:
    """The link to the previous page; None on the first one, and after a cursor."""
    if (
        outcome.search_request is None
        or outcome.search_request.query.after is not None
        or outcome.search_request.position == 0
    ):
        return None
    start = max(0, outcome.search_request.position - outcome.search_request.query.limit)
    return link(parameters, {"offset": str(start)} if start else {})


def _after(parameters: Pairs, outcome: SearchOutcome, count: int) -> str | None:
    """The link to the next page, after `count` cards: by offset where one is served, else by cursor."""
    search_request, hits = outcome.search_request, outcome.hits
    if search_request is None or hits is None or search_request.beyond or not count:
        return None
    if count < len(hits.hits):  # as if `limit` were smaller
        search_request = search_request._replace(query=search_request.query._replace(limit=count))
        hits = replace(hits, hits=hits.hits[:count])
    if (cursor := next_cursor(search_request, hits, None)) is None:
        return None
    start = search_request.position + count
    by_offset = search_request.query.after is None and start <= MAX_OFFSET
    return link(parameters, {"offset": str(start)} if by_offset else {"cursor": cursor})
