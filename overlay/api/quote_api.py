"""The route of quotes: a price converted now."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Iterable
from typing import Any, NamedTuple

from aiohttp import web

from overlay.api.answers import SERVICES, json_answer
from overlay.api.parameters import QUOTE, pairs, read
from overlay.api.problems import BadRequestError, NotFoundError, bad_request
from overlay.api.services import AppServices
from overlay.api.values import shown
from overlay.listings import lookup
from overlay.pricing.exchange_rates import ExchangeRates
from overlay.text.timestamps import timestamp
from parsers.bitcoin.address import looks_valid
from parsers.cards.money import plain
from parsers.cards.offers import CHECKED_ADDRESSES, Offer
from parsers.cards.rate_table import RateTable
from parsers.claims.amount_due import DECIMALS, SATOSHIS, Due, PaymentRefusedError, check_currency, due, satoshis
from parsers.reasons import Reason


class AmountDue(NamedTuple):
    """An amount due, and the table of its rate: None for equal currencies."""

    due: Due
    table: RateTable | None


def amount_due(offer: Offer, stage: str, currency: str, exchange: ExchangeRates) -> AmountDue:
    """The amount due for an offer at a stage in a currency. Raises PaymentRefusedError."""
    check_currency(offer, currency)
    table = None if currency == offer.currency else exchange.quoting(currency, offer.currency)
    return AmountDue(due(offer, stage, currency, table.rate(offer.currency, currency) if table else None), table)


def amount_due_json(quote: AmountDue, currency: str, exchange: ExchangeRates) -> dict[str, Any]:
    """The members of an answer for an amount due."""
    amounts, table = quote
    members: dict[str, Any] = {
        "amount": plain(amounts.amount),
        "least": plain(amounts.least),
        "rate": plain(amounts.rate),
        "slippagePct": plain(amounts.slippage),
        "validUntil": timestamp(table.until) if table else None,
    }
    if DECIMALS.get(currency) == SATOSHIS:
        members |= {"neededSatoshis": satoshis(amounts.amount), "leastSatoshis": satoshis(amounts.least)}
    return members | ({"rates": exchange.table_json(table)} if table else {})


async def quote(request: web.Request) -> web.Response:
    """The amount to pay now for a price of a listing, with rate, slippage and validity."""
    return json_answer(await quote_for(request, pairs(request.rel_url.raw_query_string)))


async def quote_for(request: web.Request, texts: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The quote for parameters as in a query string. Raises ProblemError, ListingNotFoundError."""
    parameters, faults = read(texts, QUOTE)
    if faults:
        raise BadRequestError(faults)
    return await to_thread(quoted, request.app[SERVICES], parameters)


def quoted(services: AppServices, parameters: dict[str, Any]) -> dict[str, Any]:
    """The quote for validated parameters. Raises ListingNotFoundError, NotFoundError for an unknown price."""
    listing = lookup.single_listing(services.store, parameters["id"])
    offer = _offer(listing.card.offers, parameters.get("configId"), listing.id)
    stage = parameters.get("stage") or ("full" if offer.deposit_pct is None else "deposit")
    currency = parameters.get("currency") or offer.currency
    answer: dict[str, Any] = {
        "id": listing.id,
        "status": listing.status,
        "configId": offer.id,
        "stage": stage,
        "currency": currency,
        "interval": offer.interval,
        "depositPct": None if offer.deposit_pct is None else plain(offer.deposit_pct),
        "address": offer.address,
    }
    try:
        amount = amount_due(offer, stage, currency, services.exchange)
    except PaymentRefusedError as error:
        return {"ok": False, "code": error.code, "error": error.name, "detail": str(error)} | answer
    anchor = {"amount": plain(amount.due.anchor), "currency": offer.currency}
    return (
        _payable(offer, currency) | answer | {"anchor": anchor} | amount_due_json(amount, currency, services.exchange)
    )


def _payable(offer: Offer, currency: str) -> dict[str, Any]:
    """Whether a payment in a currency can reach the address of an offer, as far as its checksum shows."""
    if currency not in CHECKED_ADDRESSES or not offer.address or looks_valid(offer.address):
        return {"ok": True}
    reason = Reason("address-checksum", offer.address)
    return {"ok": False, "error": reason.code, "detail": reason.sentence}


def _offer(offers: tuple[Offer, ...], config: str | None, id_: str) -> Offer:
    """The offer with this id (the first where it is repeated), or the only one when no id is given. Raises
    BadRequestError where an id is needed, NotFoundError for an unknown one."""
    if config is None and len(offers) == 1:
        return offers[0]
    for offer in offers:
        if offer.id == config:
            return offer
    ids = ", ".join(shown(offer.id) for offer in offers[:16]) or "none"
    if config is None and offers:
        raise bad_request("missing", f"configId is needed: {shown(id_)} names {ids}", "configId")
    what = "there is no price" if config is None else f"no price has the id {shown(config)}"
    raise NotFoundError(f"{what}: {shown(id_)} names {ids}")
