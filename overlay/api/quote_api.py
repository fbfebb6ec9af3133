"""A quote: what a price of a listing comes to now, in the currency and at the stage that somebody wants to pay."""

from __future__ import annotations

from asyncio import to_thread
from typing import Any

from aiohttp import web

from overlay import items
from overlay.api.answers import SERVICES, json_answer
from overlay.api.listing_api import find, split
from overlay.api.params import QUOTE, pairs, read
from overlay.api.problems import BadRequestError, Fault, NotFoundError
from overlay.api.values import shown
from overlay.ports import Services
from overlay.quoting import NoQuoteError, due, told
from parsers import cards
from parsers.money import plain
from parsers.offers import Offer


async def quote(request: web.Request) -> web.Response:
    """The amount to pay now for a price of a listing, with rate, slippage and validity."""
    asked, faults = read(pairs(request.rel_url.raw_query_string), QUOTE)
    if "id" not in asked and not faults:
        faults.append(Fault("missing", "id is needed: the listing whose price is asked for", "id"))
    if faults:
        raise BadRequestError(faults)
    return json_answer(await to_thread(quoted, request.app[SERVICES], asked))


def quoted(services: Services, asked: dict[str, Any]) -> dict[str, Any]:
    """The answer to a question that was read. Raises NotFoundError for an unknown listing or price."""
    subject = _subject(services, asked["id"])
    offer = _offer(subject.card.offers, asked.get("configId"), subject.id)
    stage = asked.get("stage") or ("full" if offer.deposit_pct is None else "deposit")
    currency = asked.get("currency") or offer.currency
    answer: dict[str, Any] = {
        "id": subject.id,
        "status": subject.status,
        "configId": offer.id,
        "stage": stage,
        "currency": currency,
        "interval": offer.interval,
        "depositPct": None if offer.deposit_pct is None else plain(offer.deposit_pct),
        "address": offer.address,
    }
    try:
        found = due(offer, stage, currency, services.exchange)
    except NoQuoteError as error:
        return {"ok": False, "code": error.code, "error": error.name, "detail": str(error)} | answer
    anchor = {"amount": plain(found.anchor), "currency": offer.currency}
    return {"ok": True} | answer | {"anchor": anchor} | told(found, currency, services.exchange)


def _subject(services: Services, text: str) -> items.Subject:
    """The one listing that an id names."""
    plain_id, key = split(text)
    found = find(services.store, plain_id, text)
    if found.card_body is None:
        raise NotFoundError(f"the card of {shown(text)} has not been fetched yet")
    subjects = items.subjects(found, cards.read_of(found.state.id, found.card_body, found.state.kind))
    wanted = plain_id if key is None else f"{plain_id}#{key}"
    for subject in subjects:
        if subject.id == wanted:
            return subject
    raise NotFoundError(f"{shown(text)} is no single listing; there are {', '.join(each.id for each in subjects[:64])}")


def _offer(offers: tuple[Offer, ...], config: str | None, id_: str) -> Offer:
    """The price of an id, the first where it is repeated; the only one when none is named. Raises BadRequestError where
    one of several has to be named, NotFoundError for one that is not there."""
    if config is None and len(offers) == 1:
        return offers[0]
    for offer in offers:
        if offer.id == config:
            return offer
    known = ", ".join(shown(offer.id) for offer in offers[:16]) or "none"
    if config is None and offers:
        raise BadRequestError((Fault("missing", f"configId is needed: {shown(id_)} names {known}", "configId"),))
    what = "there is no price" if config is None else f"no price has the id {shown(config)}"
    raise NotFoundError(f"{what}: {shown(id_)} names {known}")
