"""The route of quotes: a price converted now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from aiohttp import web

from indexer.headers.networks import by_caip2, ticker_of
from overlay.answers.record import as_json
from overlay.api.answers import SERVICES, json_answer
from overlay.api.parameters import QUOTE, pairs, read
from overlay.api.problems import BadRequestError, NotFoundError, bad_request
from overlay.api.request_cost import in_thread
from overlay.api.services import AppServices
from overlay.api.values import shown
from overlay.listings import lookup
from overlay.listings.item_json import pending_update
from overlay.pricing.exchange_rates import ExchangeRates
from overlay.text.network_words import network_kind, network_note
from overlay.text.timestamps import timestamp
from parsers.bitcoin.address import looks_valid
from parsers.cards.money import plain
from parsers.cards.offers import CHECKED_ADDRESSES, Offer, in_coin
from parsers.cards.payees import SATS, reaches
from parsers.cards.rate_table import RateTable
from parsers.claims.amount_due import DECIMALS, SATOSHIS, Due, PaymentRefusedError, check_currency, due, satoshis
from parsers.reasons import Reason


class AmountDue(NamedTuple):
    """An amount due, and the table of its rate: None for equal currencies. `note`: why that has the last good rates."""

    due: Due
    table: RateTable | None
    note: str = ""


def amount_due(offer: Offer, stage: str, currency: str, exchange: ExchangeRates) -> AmountDue:
    """The amount due for an offer at a stage in a currency. Raises PaymentRefusedError."""
    check_currency(offer, currency)
    table = None if currency == offer.currency else exchange.paying(currency, offer.currency)
    amounts = due(offer, stage, currency, exchange.rate_to_pay(offer.currency, currency))
    return AmountDue(amounts, table, exchange.last_good_note(table, offer.currency, currency) if table else "")


def amount_due_json(quote: AmountDue, currency: str, exchange: ExchangeRates) -> dict[str, Any]:
    """The members of an answer for an amount due."""
    amounts, table, note = quote
    members: dict[str, Any] = {
        "amount": plain(amounts.amount),
        "least": plain(amounts.least),
        "rate": plain(amounts.rate),
        "slippagePct": plain(amounts.slippage),
    }
    if DECIMALS.get(currency) == SATOSHIS:
        members |= {"neededSatoshis": satoshis(amounts.amount), "leastSatoshis": satoshis(amounts.least)}
    if table:
        members |= {"validUntil": timestamp(table.until), "rates": exchange.table_json(table)}
    return members | ({"notes": [{"code": "refused-quote", "detail": note}]} if note else {})


async def quote(request: web.Request) -> web.Response:
    """The amount to pay now for a price of a listing, with rate, slippage and validity."""
    return json_answer(await quote_for(request, pairs(request.rel_url.raw_query_string)))


async def quote_for(request: web.Request, texts: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The quote for parameters as in a query string. Raises ProblemError, ListingNotFoundError."""
    parameters, faults = read(texts, QUOTE)
    if faults:
        raise BadRequestError(faults)
    return await in_thread(quoted, request.app[SERVICES], parameters)


def quoted(services: AppServices, parameters: dict[str, Any]) -> dict[str, Any]:
    """The quote for validated parameters. Raises ListingNotFoundError, NotFoundError for an unknown price."""
    listing = lookup.single_listing(services.store, parameters["id"])
    carried, coin = carried_currencies(services.chains().values()), ticker_of(listing.caip2)
    offer = in_coin(_offer(listing.card.offers, parameters.get("configId"), listing.id), coin)
    stage = parameters.get("stage") or ("full" if offer.deposit_pct is None else "deposit")
    currency = parameters.get("currency") or next(
        (ticker for ticker in (offer.currency, *offer.accepted) if ticker in carried), ""
    )
    currency = coin if coin and currency == SATS else currency
    note = network_note(listing.caip2)
    first: dict[str, Any] = {"testNetwork": note} if note else {}
    answer: dict[str, Any] = {
        "id": listing.id,
        "network": network_kind(listing.caip2),
        "status": listing.status,
        "configId": offer.id,
        "stage": stage,
        "currency": currency or offer.currency,
        "interval": offer.interval,
        "depositPct": None if offer.deposit_pct is None else plain(offer.deposit_pct),
        "address": offer.address,
    }
    update = pending_update([listing])
    if update is not None and update.changes:
        answer["pending"] = as_json(update)
    if not currency:
        detail = f"no chain here carries {' or '.join(map(shown, offer.accepted[:16]))}: name another currency"
        return first | {"ok": False, "code": "no-chain", "error": "CurrencyUnsupported", "detail": detail} | answer
    try:
        amount = amount_due(offer, stage, currency, services.exchange)
    except PaymentRefusedError as error:
        return first | {"ok": False, "code": error.code, "error": error.name, "detail": str(error)} | answer
    anchor = {"amount": plain(amount.due.anchor), "currency": offer.currency}
    payable = _payable(offer, currency, amount.due, carried.get(currency, "mainnet"))
    return first | payable | answer | {"anchor": anchor} | amount_due_json(amount, currency, services.exchange)


def carried_currencies(chains: Iterable[str]) -> dict[str, str]:
    """The tickers of the coins of chains (CAIP-2 ids), with the network of addresses; "" for any, as the cards of test
    chains name addresses of the main network, too."""
    carried: dict[str, str] = {}
    for caip2 in chains:
        network = by_caip2(caip2)
        if network is not None:
            carried.setdefault(network.coin.upper(), "mainnet" if network.kind == "mainnet" else "")
        elif ticker := {"eip155": "ETH", "solana": "SOL"}.get(caip2.partition(":")[0]):
            carried.setdefault(ticker, "")
    return carried


def _payable(offer: Offer, currency: str, amount: Due, network: str) -> dict[str, Any]:
    """Whether a payment in a currency can reach the address of an offer."""
    if not amount.amount or reaches(offer.address, currency, network):
        return {"ok": True}
    if currency in CHECKED_ADDRESSES and offer.address and not looks_valid(offer.address):
        reason = Reason("address-checksum", offer.address)
        return {"ok": False, "error": reason.code, "detail": reason.sentence}
    where = f"the address {shown(offer.address)}" if offer.address else "a price without an address"
    return {"ok": False, "error": "unpayable", "detail": f"no payment in {shown(currency)} can reach {where}"}


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
