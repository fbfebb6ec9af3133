"""A listing's own page, and its JSON for who asks for that."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from overlay.aging import aged
from overlay.api import listing_api
from overlay.api.answers import REVALIDATE, SERVICES, not_modified, unchanged, weak_etag
from overlay.api.problems import NotFoundError
from overlay.exchange import Exchange
from overlay.pages.amounts import FAMILIAR, about
from overlay.pages.badges import badges, explained
from overlay.pages.install import install_config
from overlay.pages.logo import addresses
from overlay.pages.marks import mark
from overlay.pages.measures import LISTING_BYTES, measured
from overlay.pages.problems import problem_page
from overlay.pages.proving import provable, why_not
from overlay.pages.rendering import html_answer, render, wants_json
from overlay.pages.timeline import timeline
from overlay.ports import Services

INTO = "in"
"""The parameter of the page that names the currency to convert prices to."""

_LONGEST_CURRENCY = 20


async def listing(request: web.Request) -> web.Response:
    """A listing with all that is known of it, or its item as JSON when Accept prefers that. `in`: the currency that
    prices are shown in beside their own."""
    if wants_json(request):
        return await listing_api.listing(request)
    into = request.query.get(INTO, "").strip().upper()[:_LONGEST_CURRENCY] or FAMILIAR
    try:
        body = await to_thread(_page, request.app[SERVICES], request.match_info["id"], into)
    except NotFoundError as problem:
        return problem_page(problem)
    etag = weak_etag(body)
    if unchanged(request, etag):
        return not_modified({"ETag": etag, "Cache-Control": REVALIDATE})
    return html_answer(body, etag=etag)


def _page(services: Services, text: str, into: str) -> bytes:
    """The page of an id. Raises NotFoundError."""
    store, exchange = services.store, services.exchange
    item = aged(listing_api.shown(services, text), services.heights(), services.change_blocks)
    revisions = listing_api.revisions(store, text)["revisions"]
    _, card = listing_api.card_of(store, text)
    proved = item["txid"] in store.proved([item["txid"]])
    shown = badges(item, proved=proved)
    values = {
        "item": item,
        "name": item.get("name") or item["id"],
        "mark": mark(item["id"], item.get("name") or item["id"]),
        "logo": addresses(services.logos, [item]).get(item.get("logo", ""), ""),
        "badges": shown,
        "explained": explained(shown),
        "entries": timeline(store, revisions),
        "revisions": len(revisions),
        "card": card.decode("utf-8", "replace"),
        "card_bytes": len(card),
        "proof": provable(item, proved=proved),
        "why_not": why_not(item),
        "into": into,
        **_prices(item, into, exchange),
        "install": install_config(item) if "servers" not in item else None,
    }
    return measured(lambda measure: render("listing.html", m=measure, **values), LISTING_BYTES)


def _prices(item: Mapping[str, Any], into: str, exchange: Exchange) -> dict[str, Any]:
    """The prices with what they are worth, the currencies to choose from, and by which rates."""
    rows = [(offer, about(offer["amount"], offer["currency"], into, exchange)) for offer in item.get("offers", ())]
    tables = exchange.usable()
    table = next((each for each in tables if into in each.rates), None)
    names = sorted({name for each in tables for name in each.rates})[:300]
    return {
        "prices": rows,
        "currencies": names,
        "rates": exchange.told(table) if table else None,
        "no_rate": exchange.missing(into)[1] if table is None else "",
    }
