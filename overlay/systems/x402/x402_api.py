"""The x402 Bazaar, read-only: listings with an offer that is priced in BSV, as discovery resources (x402 v2).

The scheme is `a2b`: a payment by the A2B specification to the address of the offer. It is not x402's `exact`, and no
facilitator settles it. An offer is a resource's where its amount in satoshis is certain: it is priced in BSV, or takes
BSV and there is an exchange rate. `accepts` is empty where no payment can reach its address.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Context, Decimal
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit

from aiohttp import web

from indexer.headers.networks import by_caip2
from overlay.api import values
from overlay.api.answers import SERVICES, conditional, json_answer
from overlay.api.base_url import base_url, listing_url
from overlay.api.parameters import WHOLE, page_size, parameter, read_query, table
from overlay.api.problems import ProblemError
from overlay.api.protocol_requests import FoundPage, find
from overlay.api.routes import Route
from overlay.api.systems import SystemApi
from overlay.pricing.exchange_rates import ExchangeRates
from overlay.text.compact_json import encode
from parsers.cards.money import plain
from parsers.cards.payees import SATS, reaches
from parsers.local_hosts import shared_url

X402_VERSION = 2
SCHEME, ASSET, MAINNET = "a2b", "BSV", "bsv:mainnet"
TIMEOUT_SECONDS = 600
"""How long a payment may take; rates are usable for longer."""

_SATOSHIS = 8
_WIDE = Context(prec=2_000, rounding=ROUND_CEILING)
_KINDS = {"http": "agent", "mcp": "tool"}
_TYPES = {kind: name for name, kind in _KINDS.items()}
_CAIP2 = re.compile(r"[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}")
_MOST_TAGS, _LONGEST_TAG, _LONGEST_NAME = 5, 32, 32
_HOST = re.compile(r"(?!localhost|ip6-)(?=.*[a-z])(?!0x)[a-z0-9-]+(?:\.[a-z0-9-]+)+")


def _network(text: str) -> str:
    if not _CAIP2.fullmatch(text):
        raise values.ValueRefusedError("not-caip-2", f"{values.shown(text)} is not a CAIP-2 network such as {MAINNET}")
    return text


_FILTERS = (
    parameter("type", "`http`: agents; `mcp`: tools."),
    parameter("payTo", "Cannot be applied: `unappliedFilters` says so."),
    parameter("scheme", "Only `a2b` is served."),
    parameter("network", "A CAIP-2 network to pay on: BSV's.", _network, pattern=f"^{_CAIP2.pattern}$"),
    parameter("extensions", "No resource has any."),
    page_size("limit", "Resources a page: 20, at most 100."),
)
_LIST = table(*_FILTERS, parameter("offset", "Resources to skip.", values.whole, **WHOLE))
_SEARCH = table(
    parameter("query", "Words to find.", values.words, required=True),
    *_FILTERS,
    parameter("cursor", "The cursor of the page before."),
)


async def resources(request: web.Request) -> web.Response:
    """Resources that are priced in BSV, the oldest first."""
    arguments = read_query(request, _LIST)
    offset = arguments.get("offset", 0)
    page = await _find(request, arguments, [("sort", "-created"), ("offset", str(offset))])
    paging = {"limit": arguments.get("limit", 20), "offset": offset, "total": page.total if page else 0}
    return _answer(request, arguments, "items", page, paging)


async def search(request: web.Request) -> web.Response:
    """Resources that are priced in BSV and match words, the most relevant first."""
    arguments = read_query(request, _SEARCH)
    cursor = [("cursor", arguments["cursor"])] if "cursor" in arguments else []
    page = await _find(request, arguments, [("q", arguments["query"]), *cursor])
    paging = {"limit": arguments.get("limit", 20), "cursor": page.next_cursor if page else None}
    return _answer(request, arguments, "resources", page, paging, partialResults=False)


async def _find(request: web.Request, arguments: dict[str, Any], pairs: list[tuple[str, str]]) -> FoundPage | None:
    """The confirmed listings with an offer of a certain price in BSV; None where no listing can meet the filters."""
    kind, network = arguments.get("type"), arguments.get("network")
    chains = [name for name, caip2 in request.app[SERVICES].chains().items() if network in (None, network_of(caip2))]
    if kind not in (None, *_KINDS) or arguments.get("scheme", SCHEME) != SCHEME or "extensions" in arguments:
        return None
    if network is not None and not chains:
        return None
    priced = [("acceptedCurrency", ASSET), ("priceCurrency", ASSET), ("minPrice", "0"), ("status", "live")]
    narrowed = [("chain", name) for name in chains] if network is not None else []
    kinds = [("type", _KINDS[kind])] if kind else []
    return await find(request, [*pairs, *priced, *narrowed, *kinds, ("limit", str(arguments.get("limit", 20)))])


def network_of(caip2: str) -> str:
    """The network on which an offer in BSV of a listing on a chain is paid: the chain itself, else the main network."""
    return caip2 if caip2.startswith("bsv:") else MAINNET


def _answer(
    request: web.Request,
    arguments: dict[str, Any],
    member: str,
    page: FoundPage | None,
    paging: dict[str, Any],
    **more: Any,
) -> web.Response:
    base = base_url(request)
    exchange = request.app[SERVICES].exchange
    resources = [resource(base, item, exchange) for item in (page.items if page else ())]
    answer = {"x402Version": X402_VERSION, member: resources}
    answer |= {"pagination": paging, **more}
    if "payTo" in arguments and page is not None:
        answer["unappliedFilters"] = ["payTo"]
    return conditional(encode(answer))


def resource(base: str, item: dict[str, Any], exchange: ExchangeRates) -> dict[str, Any]:
    """A listing as a discovery resource. Its texts are cut to the lengths that the Bazaar takes; `metadata.id` is the
    listing's."""
    about = listing_url(base, item["id"])
    members: dict[str, Any] = {
        "resource": shared_url(item["url"]) or about,
        "type": _TYPES[item["type"]],
        "x402Version": X402_VERSION,
        "lastUpdated": item["timestamp"],
        "description": item["description"],
        "serviceName": item["name"] if _is_short(item["name"], _LONGEST_NAME) else "",
        "tags": [tag for tag in item["tags"] if _is_short(tag, _LONGEST_TAG)][:_MOST_TAGS],
        "iconUrl": item["logo"] if _is_icon(item["logo"]) else "",
    }
    metadata = {name: item[name] for name in ("id", "name", "status", "warnings")}
    metadata |= {"chain": item["caip2"], "listing": about}
    shown = {name: value for name, value in members.items() if value}
    return shown | {"accepts": accepts(base, item, exchange), "metadata": metadata}


def accepts(base: str, item: dict[str, Any], exchange: ExchangeRates) -> list[dict[str, Any]]:
    """The ways to pay for an item: each of its offers that is priced in BSV, and the cheapest one where that is
    converted by rates for payments, as far as a payment can reach their addresses."""
    cheapest, network = item["cheapest"] or {}, by_caip2(network_of(item["caip2"]))
    converted = (cheapest.get("converted") or {}).get("amount")
    if converted and exchange.paying(cheapest["currency"], ASSET) is None:
        converted = None
    requirements = []
    for offer in item["offers"]:
        own_amount = _in_bsv(offer, is_sats=item["caip2"].startswith("bsv:"))
        amount = own_amount or (converted if offer["id"] == cheapest.get("offerId") else None)
        kind = "mainnet" if network is None or network.kind == "mainnet" else ""
        if amount is not None and reaches(offer["address"], ASSET, kind):
            requirements.append(_requirement(base, item, offer, amount))
    return requirements


def _in_bsv(offer: dict[str, Any], *, is_sats: bool) -> str | None:
    """The amount of an offer that is priced in BSV, or in satoshis of BSV; None for another one."""
    if offer["currency"] == ASSET and ASSET in offer["acceptedCurrencies"]:
        return str(offer["amount"])
    if offer["currency"] == SATS and is_sats:
        return plain(Decimal(offer["amount"]).scaleb(-_SATOSHIS, _WIDE))
    return None


def _requirement(base: str, item: dict[str, Any], offer: dict[str, Any], amount: str) -> dict[str, Any]:
    quote_url = (
        f"{base}/v1/quote?id={quote(item['id'], safe='')}&configId={quote(offer['id'], safe='')}&currency={ASSET}"
    )
    members = ("interval", "skillIds", "depositPct", "amount", "currency")
    return {
        "scheme": SCHEME,
        "network": network_of(item["caip2"]),
        "amount": str(int(_WIDE.to_integral_value(Decimal(amount).scaleb(_SATOSHIS, _WIDE)))),
        "asset": ASSET,
        "payTo": offer["address"],
        "maxTimeoutSeconds": TIMEOUT_SECONDS,
        "extra": {"configId": offer["id"], "quote": quote_url} | {name: offer[name] for name in members},
    }


def _is_short(text: str, most: int) -> bool:
    return 0 < len(text) <= most and text.isascii() and text.isprintable()


def _is_icon(text: str) -> bool:
    """Whether a URL names a host, neither by an address nor this machine (Bazaar, service metadata)."""
    try:
        parts = urlsplit(text)
        host = (parts.hostname or "").lower()
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and "@" not in parts.netloc and bool(_HOST.fullmatch(host))


def error_response(_request: web.Request, problem: ProblemError, _request_id: str) -> web.Response:
    """The Bazaar's error: a text in `error`."""
    return json_answer({"x402Version": X402_VERSION, "error": problem.detail} | problem.members, status=problem.status)


_OBJECT = {"type": "object"}
_LISTED = {"type": "array", "items": {**_OBJECT, "required": ["resource", "type", "accepts", "metadata"]}}
_ITEMS, _RESOURCES = {"items": _LISTED}, {"resources": _LISTED}
_route = partial(Route, tag="x402 Bazaar", conditional=True, error_response=error_response)
API = SystemApi(
    routes=(
        _route("/discovery/resources", resources, "BazaarResources", parameters=_LIST),
        _route("/discovery/search", search, "BazaarHits", parameters=_SEARCH),
    ),
    schemas={
        "BazaarResources": {**_OBJECT, "required": ["x402Version", "items", "pagination"], "properties": _ITEMS},
        "BazaarHits": {**_OBJECT, "required": ["x402Version", "resources", "partialResults"], "properties": _RESOURCES},
    },
)
