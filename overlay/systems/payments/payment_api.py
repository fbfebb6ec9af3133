"""The route of payment claims: whether one would be taken, a dry run that reserves nothing and sends nothing."""

from __future__ import annotations

from asyncio import to_thread
from functools import partial
from typing import Any

from aiohttp import web

from indexer.headers.networks import ticker_of
from overlay.api.answers import SERVICES, body, json_answer
from overlay.api.executors import PUBLISHING, run_in
from overlay.api.problems import bad_request
from overlay.api.request_bodies import PaymentCheckBody, read_exactly
from overlay.api.routes import Route
from overlay.api.shared_services import PAYMENTS, Payments
from overlay.api.systems import SystemApi
from overlay.listings.lookup import single_listing
from overlay.systems.payments.checking import PaymentSources, UnreadableOfferError, check_claim, offers_in, utxo_chains
from overlay.systems.payments.own_payments import bring, close
from overlay.systems.payments.paid_requests import describe, paid_beyond_limit
from parsers.cards import strict_json
from parsers.cards.offers import Offer, in_coin


async def check_payment(request: web.Request) -> web.Response:
    """Whether a payment claim would be accepted for a price of a listing, or for a price in `config`. The status is 200
    in both cases. Nothing is reserved and nothing is sent; `unchecked` names what cannot be known here."""
    services, payments = request.app[SERVICES], request.app.get(PAYMENTS, Payments())
    document = await body(request, strict_json.MAX_BYTES)
    checked = await run_in(request, PUBLISHING, read_exactly, PaymentCheckBody, document)
    if checked.id is None:
        offers = _stated(checked.config)
    else:
        listing = await to_thread(single_listing, services.store, checked.id)
        offers = tuple(in_coin(offer, ticker_of(listing.caip2)) for offer in listing.card.offers)
    sources = PaymentSources(chains=utxo_chains(services.chains()), nodes=payments.nodes, exchange=services.exchange)
    answer = await check_claim(
        checked.claim, offers, sources, skill=checked.skillId, state=checked.state,
        run=partial(run_in, request, PUBLISHING),
    )  # fmt: skip
    return json_answer(answer)


def _stated(config: Any) -> tuple[Offer, ...]:
    """The prices in a body. Raises BadRequestError for one that cannot be read."""
    try:
        return offers_in(config)
    except UnreadableOfferError as error:
        reason = error.reason
        raise bad_request(reason.code, str(error), "config", pointer=f"/config{reason.pointer}") from None


API = SystemApi(
    routes=(
        Route(
            "/v1/pay/check", check_payment, "PaymentCheck", tag="listings", method="POST", body="PaymentClaim",
            limit="costly", errors=(404,), action="search",
        ),
    ),
    bring=bring,
    run=close,
    beyond_limit=paid_beyond_limit,
    describe=describe,
)  # fmt: skip
