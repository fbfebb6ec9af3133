"""Which price entry of a listing meets a filter, and the cheapest that does (laws 14 and 15).

This is the law written down plainly. Engines that hold offers in another way are tested against it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import NamedTuple, Protocol

from parsers.cards import Skill
from parsers.offers import Offer
from parsers.rates import converted


class Priced(Protocol):
    """What has skills and offers: an AgentCard, a Server, a Document."""

    @property
    def skills(self) -> tuple[Skill, ...]:
        """The skills of the listing."""
        ...

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The offers of the listing, in card order."""
        ...


class Entry(NamedTuple):
    """One price entry: the skills it is for, and its offer; None where no price is named."""

    skill_ids: frozenset[str]
    offer: Offer | None


class Filter(NamedTuple):
    """The filters that one entry must meet. An empty collection or None is no filter; several values mean any of.

    `currencies` and `price_currency` are upper-case, `intervals` are keys (`interval_key`). The prices are in
    `price_currency`; None: in the anchor currency of each offer. `rates` holds units of `price_currency` for one unit
    of each currency that is quoted in it.
    """

    skills: Collection[str] = ()
    currencies: Collection[str] = ()
    intervals: Collection[str] = ()
    min_price: Decimal | None = None
    max_price: Decimal | None = None
    price_currency: str | None = None
    rates: Mapping[str, Decimal] = MappingProxyType({})

    @property
    def asks_price(self) -> bool:
        """Whether a price filter is given: only offers can meet one."""
        return self.min_price is not None or self.max_price is not None


def entries(listing: Priced) -> tuple[Entry, ...]:
    """The price entries of a listing: one per offer in card order, then one for the skills that no offer names.

    A listing without offers is one unpriced entry, also when it has no skills.
    """
    all_skills = frozenset(skill.id for skill in listing.skills)
    priced = [
        Entry(all_skills if offer.skill_ids is None else frozenset(offer.skill_ids), offer) for offer in listing.offers
    ]
    unnamed = all_skills.difference(*(entry.skill_ids for entry in priced))
    return (*priced, Entry(unnamed, None)) if unnamed or not priced else tuple(priced)


def matches(entry: Entry, wanted: Filter) -> bool:
    """Whether one entry meets all filters. Without an offer it meets a skill filter at most."""
    if wanted.skills and entry.skill_ids.isdisjoint(wanted.skills):
        return False
    offer = entry.offer
    if offer is None:
        return not (wanted.currencies or wanted.intervals or wanted.asks_price)
    return (
        (not wanted.currencies or any(currency in wanted.currencies for currency in offer.accepted))
        and (not wanted.intervals or offer.interval_key in wanted.intervals)
        and (not wanted.asks_price or _price_matches(offer, wanted))
    )


def meets(listing: Priced, wanted: Filter) -> bool:
    """Whether a listing meets all filters with one and the same of its entries."""
    return any(matches(entry, wanted) for entry in entries(listing))


def cheapest(found: Sequence[Entry], wanted: Filter) -> Offer | None:
    """The offer of the lowest amount among those meeting all filters, interval disregarded, ties in card order.

    Amounts are compared in `price_currency`, else in the anchor currency of the first such offer. None when no offer
    that meets the filters is priced, or quoted, in that currency.
    """
    met = [entry.offer for entry in found if entry.offer is not None and matches(entry, wanted)]
    if wanted.price_currency is None:
        return _lowest((offer, offer.amount) for offer in met if offer.currency == met[0].currency)
    return _lowest((offer, price) for offer in met if (price := worth(offer, wanted)) is not None)


def worth(offer: Offer, wanted: Filter) -> Decimal | None:
    """What a filter compares: the offer's amount in `price_currency`, exactly; None without a quote."""
    if wanted.price_currency in (None, offer.currency):
        return offer.amount
    rate = wanted.rates.get(offer.currency)
    return None if rate is None else converted(offer.amount, rate)


def _lowest(priced: Iterable[tuple[Offer, Decimal]]) -> Offer | None:
    best = min(priced, key=lambda pair: pair[1], default=None)
    return best[0] if best else None


def _price_matches(offer: Offer, wanted: Filter) -> bool:
    price = worth(offer, wanted)
    if price is None:
        return False
    above = wanted.min_price is None or price >= wanted.min_price
    return above and (wanted.max_price is None or price <= wanted.max_price)
