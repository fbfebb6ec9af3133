"""The price rule: which price entry of a listing meets a filter, its price, and which is the cheapest (laws 14 and 15).

Everything that compares prices uses these functions; indexes only store offers in other forms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Generic, NamedTuple, Protocol, TypeVar

from parsers.cards.card import Skill
from parsers.cards.intervals import PER_CALL, per_day, per_month
from parsers.cards.offers import Offer
from parsers.cards.rate_table import convert


class PricedOffer(Protocol):
    """The members of an offer that the rule uses; see `parsers.cards.offers.Offer` for the members."""

    @property
    def currency(self) -> str: ...
    @property
    def amount(self) -> Decimal: ...
    @property
    def interval_key(self) -> str: ...
    @property
    def accepted(self) -> Sequence[str]: ...
    @property
    def is_payable(self) -> bool: ...


class HasOffers(Protocol):
    """An object with skills and offers: an AgentCard, a Server, a Document."""

    @property
    def skills(self) -> tuple[Skill, ...]:
        """The skills of the listing."""
        ...

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The offers of the listing, in card order."""
        ...


OfferT = TypeVar("OfferT", bound=PricedOffer)


class PriceEntry(NamedTuple, Generic[OfferT]):
    """One price entry: the skills that it covers, case-folded, and its offer; None for the skills without a price."""

    skill_ids: frozenset[str]
    offer: OfferT | None


class OfferFilter(NamedTuple):
    """Filters that a single entry must meet. An empty collection or None filters nothing; several values mean any of.

    `skills` are case-folded, `currencies` and `price_currency` upper-case, `intervals` keys (`interval_key`). Prices
    are in `price_currency`; None: in the anchor currency of each offer. `rates` holds units of `price_currency` for one
    unit of each currency that is quoted in it. With `per_day`, the cheapest offer is the one with the lowest price per
    day, with `calls` (a year) that with the lowest cost of a month, and with `by_amount` that with the lowest amount;
    `min_price` and `max_price` always bound the amount itself. `free`: an amount of 0, or any other; `payable`: whether
    it can be paid (`Offer.is_payable`).
    """

    skills: Collection[str] = ()
    currencies: Collection[str] = ()
    intervals: Collection[str] = ()
    min_price: Decimal | None = None
    max_price: Decimal | None = None
    price_currency: str | None = None
    rates: Mapping[str, Decimal] = MappingProxyType({})
    per_day: bool = False
    by_amount: bool = False
    calls: Decimal | None = None
    free: bool | None = None
    payable: bool | None = None

    @property
    def has_price_bound(self) -> bool:
        """Whether amounts are bounded."""
        return self.min_price is not None or self.max_price is not None

    @property
    def asks_offer(self) -> bool:
        """Whether only an offer can meet the filter."""
        is_of_kind = self.free is not None or self.payable is not None
        return bool(self.currencies or self.intervals) or self.has_price_bound or is_of_kind


def entries(listing: HasOffers) -> tuple[PriceEntry[Offer], ...]:
    """The price entries of a listing: one per offer in card order, then one for the skills that no offer names.

    A listing without offers is one unpriced entry, also without skills.
    """
    all_skills = frozenset(skill.id.casefold() for skill in listing.skills)
    priced: list[PriceEntry[Offer]] = [
        PriceEntry(all_skills if offer.skill_ids is None else frozenset(map(str.casefold, offer.skill_ids)), offer)
        for offer in listing.offers
    ]
    unpriced = all_skills.difference(*(entry.skill_ids for entry in priced))
    return (*priced, PriceEntry(unpriced, None)) if unpriced or not priced else tuple(priced)


def meets(listing: HasOffers, offer_filter: OfferFilter) -> bool:
    """Whether a single entry of a listing meets all filters."""
    return any(matches(entry, offer_filter) for entry in entries(listing))


def matches(entry: PriceEntry[OfferT], offer_filter: OfferFilter) -> bool:
    """Whether one entry meets all filters. An entry without an offer can meet a skill filter only."""
    if offer_filter.skills and entry.skill_ids.isdisjoint(offer_filter.skills):
        return False
    offer = entry.offer
    if offer is None:
        return not offer_filter.asks_offer
    return (
        (not offer_filter.currencies or any(currency in offer_filter.currencies for currency in offer.accepted))
        and (not offer_filter.intervals or offer.interval_key in offer_filter.intervals)
        and offer_filter.free in (None, not offer.amount)
        and (offer_filter.payable is None or offer_filter.payable is offer.is_payable)
        and (not offer_filter.has_price_bound or _is_within_bounds(offer, offer_filter))
    )


def _is_within_bounds(offer: PricedOffer, offer_filter: OfferFilter) -> bool:
    price = worth(offer, offer_filter)
    if price is None:
        return False
    is_above = offer_filter.min_price is None or price >= offer_filter.min_price
    return is_above and (offer_filter.max_price is None or price <= offer_filter.max_price)


def worth(offer: PricedOffer, offer_filter: OfferFilter) -> Decimal | None:
    """The offer's amount in `price_currency`, exact; None without a quote."""
    return _converted(offer.currency, offer.amount, offer_filter)


def worth_per_day(offer: PricedOffer, offer_filter: OfferFilter) -> Decimal | None:
    """The offer's amount for one day in `price_currency`; None for an interval without a length, or without a quote."""
    daily = per_day(offer.amount, offer.interval_key)
    return None if daily is None else _converted(offer.currency, daily, offer_filter)


def cost(offer: PricedOffer, offer_filter: OfferFilter) -> Decimal | None:
    """The offer's cost for a month of `calls` in `price_currency`; None where it is for no length of time, or without a
    quote."""
    monthly = None
    if offer_filter.calls is not None:
        monthly = per_month(offer.amount, offer.interval_key, offer_filter.calls)
    return None if monthly is None else _converted(offer.currency, monthly, offer_filter)


def compared(offer: PricedOffer, offer_filter: OfferFilter) -> Decimal | None:
    """The value by which offers are compared: the cost of a month, the price per day, or the amount."""
    if offer_filter.calls is not None:
        return cost(offer, offer_filter)
    return worth_per_day(offer, offer_filter) if offer_filter.per_day else worth(offer, offer_filter)


def _converted(currency: str, amount: Decimal, offer_filter: OfferFilter) -> Decimal | None:
    if offer_filter.price_currency in (None, currency):
        return amount
    rate = offer_filter.rates.get(currency)
    return None if rate is None else convert(amount, rate)


class Lowest(NamedTuple, Generic[OfferT]):
    """The cheapest offer, and the currencies of the other offers that cannot be compared with it, in card order."""

    offer: OfferT
    others: tuple[str, ...]


def cheapest(listed: Iterable[PriceEntry[OfferT]], offer_filter: OfferFilter) -> Lowest[OfferT] | None:
    """The cheapest of the offers that meet all filters and can be compared, ties in card order (law 14); None without
    any.

    Offers are compared in `price_currency`, where they are quoted in it, else those in the currency that most of them
    have. A price per call comes before one for an interval, and these compare by their price a day. With `per_day` the
    cheapest offer is the one with the lowest price a day, with `calls` that of the lowest cost, if any offer has one;
    with `by_amount` that of the lowest amount.
    """
    offers = [entry.offer for entry in listed if entry.offer is not None and matches(entry, offer_filter)]
    prices = []
    if offer_filter.per_day or offer_filter.calls is not None:
        prices = [(offer, price) for offer in offers if (price := compared(offer, offer_filter)) is not None]
    prices = prices or [(offer, price) for offer in offers if (price := worth(offer, offer_filter)) is not None]
    if offer_filter.price_currency is None and prices:
        frequent = Counter(offer.currency for offer, _ in prices).most_common(1)[0][0]
        prices = [(offer, price) for offer, price in prices if offer.currency == frequent]
    if not prices:
        return None
    by_amount = offer_filter.by_amount or offer_filter.per_day or offer_filter.calls is not None
    best, _ = min(prices, key=lambda pair: pair[1] if by_amount else _standard(pair[0], pair[1], offer_filter))
    compared_currencies = {offer.currency for offer, _ in prices}
    others = (offer.currency for offer in offers if offer.currency not in compared_currencies)
    return Lowest(best, tuple(dict.fromkeys(others)))


def _standard(offer: PricedOffer, price: Decimal, offer_filter: OfferFilter) -> tuple[int, Decimal]:
    """The order of prices: those per call, those for an interval by their price a day, those for no length of time."""
    if offer.interval_key == PER_CALL:
        return 0, price
    daily = worth_per_day(offer, offer_filter)
    return (2, price) if daily is None else (1, daily)
