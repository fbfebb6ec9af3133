"""Routes of one listing: its item, its history, the exact bytes of its card, and its proof with headers."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from aiohttp import web

from overlay.answers.record import as_json
from overlay.answers.record import encode as encode_record
from overlay.api.answers import REVALIDATE, SERVICES, Answer, conditional, json_answer, json_bytes
from overlay.api.executors import PUBLISHING, READ_EXECUTOR, read_json, run_in
from overlay.api.findability_searches import of_listing
from overlay.api.parameters import COMPARE, HEADERS, PROOF, read_query
from overlay.api.problems import ProblemError, bad_request
from overlay.api.protocol_requests import get, read_item
from overlay.api.request_cost import in_thread
from overlay.api.search_api import count_opened
from overlay.api.services import AppServices
from overlay.api.values import shown
from overlay.listings import lookup, proofs
from overlay.listings.comparison import Candidate, compared
from overlay.listings.ids import parse_id
from overlay.listings.lookup import ListedUnderError
from overlay.listings.repository import ListingRepository
from overlay.listings.snippets import usage
from overlay.listings.tool_list import tool_list
from overlay.text.compact_json import encode
from parsers.cards.offer_filter import OfferFilter

_CARD_POLICY = "sandbox; default-src 'none'; frame-ancestors 'none'"


async def listing(request: web.Request) -> web.Response:
    """One item, with all offers and warnings, or the ids of its servers. The txid and the current outpoint of a
    listing, and its domain in another spelling, redirect to it (303); where they are of several listings, the answer
    has their `ids`."""
    try:
        item = await get(request, request.match_info["id"])
    except ListedUnderError as elsewhere:
        return redirect("/v1/listings/", elsewhere) or json_answer({"ids": list(elsewhere.ids)})
    count_opened(request)
    return conditional(encode(item))


def redirect(path: str, elsewhere: ListedUnderError) -> web.Response | None:
    """Where the one listing is; None where there are several."""
    if len(elsewhere.ids) > 1:
        return None
    location = path + quote(elsewhere.ids[0], safe="")
    return web.Response(status=303, headers={"Location": location, "Cache-Control": REVALIDATE})


async def history(request: web.Request) -> web.Response:
    """Every revision, newest first."""
    store, id_ = request.app[SERVICES].store, request.match_info["id"]
    return conditional(await read_json(request, lookup.history, store, id_))


async def card(request: web.Request) -> web.Response:
    """The card's exact bytes, from the chain or the domain."""
    store = request.app[SERVICES].store
    digest, body = await request.app[READ_EXECUTOR].read(lookup.card, store, request.match_info["id"])
    headers = {
        "Content-Type": "application/json",
        "ETag": f'"{digest.hex()}"',
        "Content-Digest": f"sha-256=:{b64encode(digest).decode()}:",
        "Cache-Control": f"{REVALIDATE}, no-transform",
        "Content-Security-Policy": _CARD_POLICY,
    }
    return Answer(body=body, headers=headers)


async def proof(request: web.Request) -> web.Response:
    """The proof of a listing: the transactions of its satoshi with their merkle paths, and headers from a height on on
    request."""
    parameters = read_query(request, PROOF)
    store, id_ = request.app[SERVICES].store, request.match_info["id"]
    await _check_owner(request.app[SERVICES], id_)
    return conditional(await read_json(request, proofs.proof, store, id_, parameters.get("from")))


async def snippets(request: web.Request) -> web.Response:
    """Texts to copy: settings of MCP clients for a tool, and a call of an agent. None for a listing with a warning of
    high severity."""
    store, id_ = request.app[SERVICES].store, request.match_info["id"]
    return conditional(await read_json(request, _snippets, store, id_))


def _snippets(store: ListingRepository, id_: str) -> Any:
    return as_json(usage(lookup.single_listing(store, id_)))


async def findability(request: web.Request) -> web.Response:
    """How a listing is found: its rank in at most 20 searches for its examples, skills and tags, its prices beside the
    median of others, and what would help."""
    answer = await run_in(request, PUBLISHING, _findability, request.app[SERVICES], request.match_info["id"])
    return json_bytes(answer, headers={"Cache-Control": "no-store"})


def _findability(services: AppServices, id_: str) -> bytes:
    return encode_record(of_listing(services, lookup.single_listing(services.store, id_)))


async def compare(request: web.Request) -> web.Response:
    """Two to four listings side by side: their items, and what decides between them in words."""
    parameters = read_query(request, COMPARE)
    return conditional(await read_json(request, comparison, request.app[SERVICES], parameters))


def comparison(services: AppServices, parameters: Mapping[str, Any]) -> Any:
    """The listings that the parameters name, side by side. Raises ListingNotFoundError."""
    candidates = [
        Candidate(lookup.single_listing(services.store, id_), read_item(services, id_)) for id_ in parameters["id"]
    ]
    exchange = services.exchange
    currency = parameters.get("priceCurrency") or exchange.default_currency()
    table = exchange.quoting(currency) if currency else None
    rates = exchange.crosses(table, currency) if table and currency else {}
    terms = OfferFilter(price_currency=currency, rates=rates, calls=parameters.get("calls"))
    facts = [as_json(fact) for fact in compared(candidates, terms)]
    return {"items": [candidate.item for candidate in candidates], "facts": facts}


async def tools(request: web.Request) -> web.Response:
    """The tools that the URL of a listing lists, with their schemas, as a visit observed them (`tools/list`), and how
    they differ from those that were seen first. 404 where nobody looked. Descriptions are strangers' texts."""
    store, id_ = request.app[SERVICES].store, request.match_info["id"]
    return conditional(await read_json(request, _tools, store, id_))


def _tools(store: ListingRepository, id_: str) -> Any:
    return as_json(tool_list(store, id_))


async def headers(request: web.Request) -> web.Response:
    """Consecutive headers of a chain from a height on, which link blocks to each other and to a checkpoint."""
    parameters = read_query(request, HEADERS)
    services, chain_name, first = request.app[SERVICES], parameters.get("chain"), parameters.get("from") or 0
    chain = next((pair for pair in services.chains().items() if chain_name in (None, *pair)), None)
    if chain is None:
        detail = f"chain: {shown(chain_name or '')} is not indexed here; there are {', '.join(services.chains())}"
        raise bad_request("unknown-chain", detail, "chain")
    return conditional(await read_json(request, _headers, services.store, chain, first))


def _headers(store: ListingRepository, chain: tuple[str, str], first: int) -> dict[str, Any]:
    raws = store.headers(chain[0], first, proofs.MAX_HEADERS)
    return {"chain": chain[1], "from": first, "headers": [raw.hex() for raw in raws]}


async def _check_owner(services: AppServices, text: str) -> None:
    """Where transfers are found by a request to the source: send it now. Raises ProblemError (503) when the satoshi was
    spent."""
    if services.publishing.check_owner is None:
        return
    listing = await in_thread(services.store.listing, parse_id(text)[0])
    outpoint = listing.state.outpoint if listing else None
    if listing and outpoint and await services.publishing.check_owner(listing.chain, outpoint) is False:
        raise ProblemError(503, f"{outpoint} has just been found spent, and the spender is being read: try again",
                           headers={"Retry-After": "2"})  # fmt: skip
