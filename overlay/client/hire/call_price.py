"""The price of a call: an offer of a proved card, in a coin of the wallet, with the rate that converts it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from overlay.client.calls import Call, quote
from overlay.client.errors import ClientError
from overlay.client.exchange import base_url
from overlay.client.payment_claims import PAYABLE, stage_of, usual_fee_rate
from parsers.cards.fields import Fields
from parsers.cards.money import plain
from parsers.cards.offers import Offer, read_offers
from parsers.claims.amount_due import PaymentRefusedError, due, satoshis

RateOf = Callable[[str, str], Awaitable[Decimal | None]]
"""The units of the second currency for one of the first, from a source that the client trusts; None without one."""

OfferRate = Callable[[Offer, str], Awaitable[Decimal | None]]
"""The units of a coin for one of the currency of an offer; None without a rate."""

AGREEMENT = Decimal("1.05")
"""The most that the largest of several rates is of the smallest where they agree."""


def agree(rates: Collection[Decimal], least: int) -> bool:
    """Whether there are at least so many rates, and all agree."""
    return len(rates) >= least and max(rates) <= AGREEMENT * min(rates)


class CallPrice(NamedTuple):
    """The price of a call: the offer, the coin that is paid, the rate that converts it (None where none is needed), the
    satoshis due first, at `stage`, and those due in all."""

    offer: Offer
    currency: str
    rate: Decimal | None
    stage: str
    first: int
    total: int


CLAIM_BYTES = 500
"""Bytes of a claim that a fee is reckoned for before its coins are chosen: three inputs and two outputs."""


def usual_fee(price: CallPrice) -> int:
    """The fee in satoshis that the claims of a price are reckoned to cost: two where it has a deposit."""
    return -(-CLAIM_BYTES * usual_fee_rate(price.currency) // 1_000) * (1 if price.stage == "full" else 2)


class Cap(NamedTuple):
    """The most that a hire may cost, fee included: satoshis of the coin that is paid, or an amount of a currency."""

    satoshis: int | None = None
    amount: Decimal | None = None
    currency: str = ""


async def call_prices(offers: Iterable[Offer], currencies: Iterable[str], rate_of: OfferRate) -> list[CallPrice]:
    """The prices of offers that can be paid in one of these coins, the lowest first for each coin, prices of a call
    before intervals. An offer whose rate is unknown is left out."""
    wanted_coins = [currency for currency in currencies if currency in PAYABLE]
    prices = []
    for offer in offers:
        for currency in wanted_coins:
            if currency in offer.accepted and (price := await _price(offer, currency, rate_of)) is not None:
                prices.append(price)
                break
    return sorted(prices, key=lambda price: (price.offer.interval is not None, price.total))


async def _price(offer: Offer, currency: str, rate_of: OfferRate) -> CallPrice | None:
    rate = None if offer.currency == currency else await rate_of(offer, currency)
    stage = stage_of(offer, None)
    try:
        first, total = (satoshis(due(offer, part, currency, rate).amount) for part in (stage, "full"))
    except PaymentRefusedError:
        return None
    return CallPrice(offer, currency, rate, stage, first, total)


def most_satoshis(cap: Cap, currency: str, rate: Decimal | None) -> int | None:
    """The cap in satoshis of a coin, by the rate from its currency; None without a cap, or without a rate."""
    if cap.satoshis is not None or cap.amount is None:
        return cap.satoshis
    rate = Decimal(1) if cap.currency == currency else rate
    return None if rate is None else int((cap.amount * rate).scaleb(8))


async def no_rate(_currency: str, _into: str) -> Decimal | None:
    """No rate is trusted."""
    return None


class OverlayQuotes:
    """Rates by which overlays quote an offer. `ask_at` gives the answer of one of them."""

    def __init__(self, urls: Sequence[str], ask_at: Callable[[str, Call[Any]], Awaitable[Any]]) -> None:
        self._urls, self._ask_at = list(dict.fromkeys(map(base_url, urls))), ask_at

    async def rate(self, id_: str, offer: Offer, currency: str, least: int) -> Decimal | None:
        """The rate of the first overlay for an offer of a listing, where at least so many name one and all of these
        agree; None otherwise."""
        question = quote(id_, offer.id, currency=currency, stage="full")
        answers = await asyncio.gather(*(self._rate_at(url, question) for url in self._urls))
        rates = [rate for rate in answers if rate is not None]
        return answers[0] if agree(rates, least) else None

    async def _rate_at(self, url: str, question: Call[Any]) -> Decimal | None:
        try:
            rate = Decimal(str((await self._ask_at(url, question)).get("rate")))
        except (ClientError, InvalidOperation, AttributeError):
            return None
        return rate if rate.is_finite() and rate > 0 else None


def price_json(offer: Offer) -> dict[str, Any]:
    """An offer as the journal stores it: the members by which it is paid."""
    price: dict[str, Any] = {
        "id": offer.id, "currency": offer.currency, "amount": plain(offer.amount), "address": offer.address,
        "acceptedCurrencies": list(offer.accepted),
    }  # fmt: skip
    for name, value in (("depositPct", offer.deposit_pct), ("slippagePct", offer.slippage_pct)):
        price |= {} if value is None else {name: plain(value)}
    return price | ({"interval": offer.interval} if offer.interval else {})


def stored_offer(price: Mapping[str, Any]) -> Offer:
    """The offer of a stored price."""
    (offer,) = read_offers({"x-payment-config": [dict(price)]}, Fields(0), frozenset())
    return offer
