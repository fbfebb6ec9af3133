"""The route of payment claims: whether one would be taken, a dry run that reserves nothing and sends nothing."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import web

from indexer.errors import SourceError
from indexer.headers.networks import ticker_of
from overlay.answers.payments import ListingPayment
from overlay.answers.record import as_json
from overlay.api.answers import SERVICES, body, json_answer
from overlay.api.executors import PUBLISHING, run_in
from overlay.api.problems import NotFoundError, ProblemError, bad_request
from overlay.api.request_bodies import PaymentCheckBody, read_exactly
from overlay.api.routes import Route
from overlay.api.shared_services import PAYMENTS, Payments
from overlay.api.systems import SystemApi
from overlay.listings.lookup import single_listing
from overlay.systems.payments.checking import PaymentSources, UnreadableOfferError, check_claim, offers_in, utxo_chains
from overlay.systems.payments.own_payments import bring, close
from overlay.systems.payments.paid_requests import describe, paid_beyond_limit
from parsers.bitcoin.address import PREFIXES, script_of
from parsers.cards import strict_json
from parsers.cards.offers import Offer, in_coin
from parsers.claims.payment import UtxoChain
from parsers.errors import ParseError
from parsers.json_records import internal

if TYPE_CHECKING:
    from indexer.chains.node.mined_payment import MinedPayment


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


async def listing_payment(request: web.Request) -> web.Response:
    """A payment to an address of a listing that is in a block: its transaction, merkle path and BEEF, which a receipt
    is submitted with. Only where a node is among the chains here, and has the transaction."""
    services, nodes = request.app[SERVICES], request.app.get(PAYMENTS, Payments()).nodes
    listing = await to_thread(single_listing, services.store, request.match_info["id"])
    txid = _txid(request.match_info["txid"])
    offers = [in_coin(offer, ticker_of(listing.caip2)) for offer in listing.card.offers]
    tickers = dict.fromkeys(ticker for offer in offers for ticker in offer.accepted if ticker in nodes)
    for ticker in tickers:
        try:
            payment, chain = await nodes[ticker].mined(txid), await nodes[ticker].chain()
        except SourceError as error:
            raise ProblemError(503, f"the node of {ticker} does not prove payments now: {error}") from None
        if payment is not None and _pays(payment, offers, chain):
            answer = ListingPayment(
                txid=payment.tx.hex_id, raw_tx=payment.raw.hex(), bump=payment.bump.hex(), beef=payment.beef().hex(),
                height=payment.height,
            )  # fmt: skip
            return json_answer(as_json(answer))
    where = f"of {', '.join(tickers)} here" if tickers else "here of a coin that the listing takes"
    raise NotFoundError(f"no node {where} has {txid[::-1].hex()} in a block and as a payment to this listing")


def _txid(text: str) -> bytes:
    try:
        return internal(text, "txid")
    except ParseError:
        raise bad_request("bad-txid", f"{text[:100]!a} is not a txid: 64 hex digits") from None


def _pays(payment: MinedPayment, offers: Sequence[Offer], chain: UtxoChain) -> bool:
    scripts = {script_of(offer.address.strip(), PREFIXES[chain.coin][chain.network]) for offer in offers} - {None}
    return any(output.script in scripts for output in payment.tx.outputs)


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
        Route(
            "/v1/listings/{id}/payments/{txid}", listing_payment, "ListingPayment", tag="listings", limit="costly",
            errors=(400, 404, 451, 503), action="search",
        ),
    ),
    bring=bring,
    run=close,
    beyond_limit=paid_beyond_limit,
    describe=describe,
)  # fmt: skip
