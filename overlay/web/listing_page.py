"""A listing's page, or its JSON when Accept prefers that."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from time import time
from typing import Any, NamedTuple

from aiohttp import web

from indexer.headers.networks import SCRYPT, by_caip2, mined
from overlay.answers.observed_tools import ListedTools
from overlay.api import listing_api, values
from overlay.api.answers import SERVICES, weak_etag
from overlay.api.base_url import base_url
from overlay.api.executors import RECORDS, run_in
from overlay.api.problems import listing_problem
from overlay.api.protocol_requests import read_item
from overlay.api.search_api import count_opened
from overlay.api.services import AppServices
from overlay.api.shared_services import RECEIPTS
from overlay.engines import EngineError
from overlay.listings import lookup
from overlay.listings.pending_changes import SUBJECTS
from overlay.listings.repository import ListingRepository
from overlay.listings.snippets import usage
from overlay.listings.tool_list import tool_list
from overlay.pricing.exchange_rates import ExchangeRates
from overlay.search.query import Query
from overlay.web.amounts import FAMILIAR, about
from overlay.web.assets import addresses
from overlay.web.badge_svg import badge_text
from overlay.web.badges import SAME, badges, explained
from overlay.web.cards import mark
from overlay.web.price_lines import price_lines
from overlay.web.rendering import LISTING_BYTES, html_answer, problem_page, render_within, wants_json
from overlay.web.timeline import MOST, timeline
from parsers.cards.intervals import interval_key, per_month
from parsers.cards.money import plain
from parsers.reasons import HIGH, severity


@dataclass(frozen=True, slots=True)
class Provable:
    """The facts that a browser can verify. `holds`: what the transaction contains (card, hash or nothing); `work`: how
    proof of work is checked with SHA-256 only (header or none); `regtest`: its work proves nothing."""

    holds: str
    work: str
    segwit: bool
    regtest: bool


def provable(item: Mapping[str, Any], *, proved: bool) -> Provable | None:
    """The parts of a listing that can be verified; None where no proof is stored."""
    network = by_caip2(item["caip2"])
    if not proved or network is None or not mined(item["caip2"]):
        return None
    holds = {"inscribed": "card", "hash-verified": "hash", "drifted": "hash"}.get(item["integrity"], "")
    work = "none" if network.coin in SCRYPT else "header"
    return Provable(holds, work, network.rules.segwit, network.kind == "regtest")


def why_not(item: Mapping[str, Any]) -> str:
    """Why there is no proof of a listing, as a sentence."""
    if not mined(item["caip2"]):
        return "Its chain is read from an endpoint, without proof of work: what it answers is trusted."
    if item["updatedHeight"] is None:
        return "It is in no block yet. There is a proof once it is mined."
    return "No proof of its transaction is kept here."


INTO = "in"
"""The parameter of the page that names the currency to convert prices to."""

_LONGEST_CURRENCY = 20
_SKILLS_COMPARED, _FEW_PRICED = 3, 3
"""Skills whose prices are compared with those of other listings, and how many listings have to have one."""


async def listing(request: web.Request) -> web.Response:
    """A listing with its prices, proof and history, or its item as JSON when Accept prefers that. `in`: the currency
    to convert prices to; `calls`: how often it will be called, such as `50/day`."""
    if wants_json(request):
        return await listing_api.listing(request)
    terms = PriceTerms.read(request.query)
    try:
        body = await run_in(
            request, RECORDS, _page, request.app[SERVICES], base_url(request), request.match_info["id"], terms
        )
    except lookup.ListingNotFoundError as error:
        if isinstance(error, lookup.ListedUnderError) and (moved := listing_api.redirect("/listings/", error)):
            return moved
        return problem_page(listing_problem(error, base_url(request)))
    count_opened(request)
    return html_answer(body, etag=weak_etag(body))


class PriceTerms(NamedTuple):
    """How prices are shown: the currency to convert them to, and how often the listing will be called, as text and a
    year ("" and None where that is not asked for, or cannot be read)."""

    into: str
    calls: str
    calls_a_year: Decimal | None

    @classmethod
    def read(cls, parameters: Mapping[str, str]) -> PriceTerms:
        """The terms in the parameters of a page, of which anything is read."""
        into, calls = parameters.get(INTO, "").strip().upper()[:_LONGEST_CURRENCY], parameters.get("calls", "").strip()
        try:
            return cls(into or FAMILIAR, calls, values.calls(calls) if calls else None)
        except values.ValueRefusedError:
            return cls(into or FAMILIAR, "", None)


def _page(services: AppServices, base: str, text: str, terms: PriceTerms) -> bytes:
    """The page of an id. Raises ListingNotFoundError."""
    store, exchange = services.store, services.exchange
    item = read_item(services, text)
    revisions = lookup.history(store, text)["revisions"]
    _, card = lookup.card(store, text)
    proved = item["txid"] in store.proved([item["txid"]])
    shown = badges(item)
    bodies: dict[str, bytes] = {}
    entries = timeline(store, revisions, bodies)
    high = sum(severity(warning["code"]) == HIGH for warning in item["warnings"])
    shown_values = {
        "item": item,
        "high": high,
        "name": item.get("name") or item["id"],
        "mark": mark(item["id"], item.get("name") or item["id"]),
        "logo": addresses(services.logos, [item]).get(item.get("logo", ""), ""),
        "badges": shown,
        "same": SAME,
        "explained": explained(shown),
        "entries": entries,
        "lines": price_lines(item, revisions[:MOST], bodies, int(time())) if "servers" not in item else (),
        "revisions": len(revisions),
        "most_revisions": MOST,
        "card": card.decode("utf-8", "replace"),
        "card_bytes": len(card),
        "proof": provable(item, proved=proved),
        "why_not": why_not(item),
        "into": terms.into,
        "calls": terms.calls,
        "has_receipts": RECEIPTS in services.brought,
        "cheapest_of": _cheapest_of(services, item),
        **_prices(item, terms, exchange),
        "subjects": SUBJECTS,
        "has_feed": "feeds" in services.site.systems,
        "badge_text": badge_text(base, item),
        "tools": _tools(store, item),
        "usage": usage(lookup.single_listing(store, item["id"])) if "servers" not in item else None,
    }
    return render_within("listing.html", LISTING_BYTES, **shown_values)


def _tools(store: ListingRepository, item: Mapping[str, Any]) -> ListedTools | None:
    """The tools that the URL of a listing lists; None where nobody looked, or it lists none since then."""
    with suppress(lookup.ListingNotFoundError):
        return tool_list(store, item["id"]) if item.get("observedTools") else None
    return None


def _prices(item: Mapping[str, Any], terms: PriceTerms, exchange: ExchangeRates) -> dict[str, Any]:
    """The prices with their converted amounts and their cost for a month, the currencies to choose from, and the rates
    used."""
    into = terms.into
    rows = [
        (offer, about(offer["amount"], offer["currency"], into, exchange), _a_month(offer, terms.calls_a_year))
        for offer in item.get("offers", ())
    ]
    tables = exchange.usable()
    table = next((table for table in tables if into in table.rates), None)
    names = sorted({name for table in tables for name in table.rates})[:300]
    return {
        "prices": rows,
        "currencies": names,
        "rates": exchange.table_json(table) if table else None,
        "no_rate": exchange.missing(into)[1] if table is None else "",
    }


def _a_month(offer: Mapping[str, Any], calls_a_year: Decimal | None) -> str | None:
    """The cost of an offer for a month of so many calls; None for a price of no length of time."""
    if calls_a_year is None:
        return None
    monthly = per_month(Decimal(offer["amount"]), interval_key(offer["interval"]), calls_a_year)
    return None if monthly is None else plain(monthly)


def _cheapest_of(services: AppServices, item: Mapping[str, Any]) -> dict[str, int]:
    """By the ids of its first skills: how many listings have a price for the skill in the currency and interval of the
    cheapest price of this one, where these are at least three and this one is the cheapest of them."""
    engine, least = services.engine, item.get("cheapest")
    ranks: dict[str, int] = {}
    if not least or item["status"] != "live":
        return ranks
    for skill in item["skills"][:_SKILLS_COMPARED]:
        query = Query(
            skills=(skill["id"].casefold(),), intervals=(least["interval"],), min_price=Decimal(0),
            price_currency=least["currency"], statuses=("live",), sort="price", limit=1,
        )  # fmt: skip
        try:
            hits = engine.search(query)
        except EngineError:  # the page is of the store, and is shown while the index is not there
            break
        if hits.total >= _FEW_PRICED and [hit.id for hit in hits.hits] == [item["id"]]:
            ranks[skill["id"]] = hits.total
    return ranks
