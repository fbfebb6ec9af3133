"""The route of quotes: what a price comes to now, in a currency and at a stage of payment."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Iterable
from typing import Any

from aiohttp import web

from overlay.api.answers import SERVICES, json_answer
from overlay.api.parameters import QUOTE, pairs, read
from overlay.api.problems import BadRequestError, Fault, NotFoundError
from overlay.api.services import AppServices
from overlay.api.values import shown
from overlay.listings import lookup
from overlay.pricing.payment_quotes import amount_due, amount_due_json
from parsers.cards.money import plain
from parsers.cards.offers import Offer
from parsers.claims.amount_due import PaymentRefusedError


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
    return {"ok": True} | answer | {"anchor": anchor} | amount_due_json(amount, currency, services.exchange)


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
        raise BadRequestError((Fault("missing", f"configId is needed: {shown(id_)} names {ids}", "configId"),))
    what = "there is no price" if config is None else f"no price has the id {shown(config)}"
    raise NotFoundError(f"{what}: {shown(id_)} names {ids}")
