"""The members of a hit that depend on the query, as pieces of JSON to append to its stored item."""

from __future__ import annotations

from decimal import Decimal

from overlay.answers.items import CheapestOffer, ConvertedPrice, MonthlyCost
from overlay.answers.record import Amount, encode
from overlay.search.memo import cached_if
from overlay.search.query import Cheapest, Cost
from parsers.cards.intervals import per_day
from parsers.cards.rate_table import convert


@cached_if(lambda words: len(words) <= 8, 4_096)
def lacking(words: tuple[str, ...]) -> bytes:
    """The member `lacks`, after a comma; nothing where a listing has all words."""
    return b',"lacks":' + encode(words) if words else b""


BY_MEANING = b',"byMeaning":true'
"""The member of a listing that has no word of the query, after a comma."""


NO_OFFER = b',"cheapest":null'
"""The member of a listing without an offer that meets the query, after a comma."""


@cached_if(lambda offer, _=None: len(offer.offer_id) + len(offer.interval) <= 64, 4_096)
def cheapest(offer: Cheapest, rate: Decimal | None = None) -> bytes:
    """The member `cheapest`, after a comma. Cached, as many listings have the same price."""
    return b',"cheapest":' + encode(_priced(offer, rate))


def monthly_cost(cost: Cost) -> bytes:
    """The member `cost`, after a comma."""
    return b',"cost":' + encode(MonthlyCost(offer_id=cost.offer_id, amount=Amount(cost.amount), currency=cost.currency))


def _priced(offer: Cheapest, rate: Decimal | None) -> CheapestOffer:
    """The price with the price per day, and both in the currency of the query."""
    daily = per_day(Decimal(offer.amount), offer.interval)
    priced = CheapestOffer(
        offer_id=offer.offer_id, amount=Amount(offer.amount), currency=offer.currency, interval=offer.interval,
        per_day=None if daily is None else Amount(daily), others=offer.others,
    )  # fmt: skip
    if offer.converted is not None and rate is not None:
        amount, into = offer.converted
        priced.converted = ConvertedPrice(
            amount=Amount(amount), currency=into, rate=Amount(rate),
            per_day=None if daily is None else Amount(convert(daily, rate)),
        )  # fmt: skip
    return priced
