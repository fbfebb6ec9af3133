"""Offers as an index stores them, judged by the price rule of `parsers.cards.offer_filter`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from overlay.search.query import PRICE_SORTS, Cheapest, Cost, Query
from overlay.search.sorting import compares_cost, compares_per_day
from overlay.text.compact_json import decode, encode
from parsers.cards import offer_filter
from parsers.cards.money import decimal_key, plain
from parsers.cards.offer_filter import Lowest, OfferFilter, PriceEntry
from parsers.cards.rate_table import amount_bounds

if TYPE_CHECKING:
    from overlay.search.document import Document


class PackedOffer(NamedTuple):
    """The members of an offer that an index stores; they are those of `parsers.cards.offers.Offer`."""

    id: str
    currency: str
    amount: Decimal
    interval_key: str
    accepted: Sequence[str]
    is_payable: bool = True


def by_currency(query: Query, is_in_use: Callable[[str], bool]) -> Iterator[Query]:
    """A query with price bounds as one query for each currency of offers, with bounds in that currency: an offer that
    meets one of them meets the query (law 15). Only for currencies that `is_in_use` accepts."""
    yield query._replace(rates={}) if query.rates else query
    for currency, rate in query.rates.items():
        if is_in_use(currency) and (bounds := amount_bounds(query.min_price, query.max_price, rate)) is not None:
            low, high = bounds
            yield query._replace(price_currency=currency, rates={}, min_price=low, max_price=high)


def asks_offer(query: Query) -> bool:
    """True when only listings with offers can meet the query."""
    is_of_kind = query.free is not None or query.payable is not None
    return bool(query.currencies or query.intervals or asks_price(query) or is_of_kind)


def asks_price(query: Query) -> bool:
    """True when amounts are bounded."""
    return query.min_price is not None or query.max_price is not None


def pack(document: Document) -> bytes:
    """The offers of a listing as JSON: the members of the `Cheapest` without filters, null without offers; the offers;
    the number of skills of the card; the ids of these and of other skills that offers name, case-folded; and by offer
    the indexes into these ids (null: all of the card)."""
    names = dict.fromkeys(skill.id.casefold() for skill in document.skills)
    unnamed = len(names)
    if not document.offers:
        return encode([None, [], unnamed, list(names), []])
    for offer in document.offers:
        names.update(dict.fromkeys(map(str.casefold, offer.skill_ids or ())))
    index_of = {name: index for index, name in enumerate(names)}
    skills = [
        None if offer.skill_ids is None else [index_of[name.casefold()] for name in offer.skill_ids]
        for offer in document.offers
    ]
    rows = [
        [offer.id, offer.currency, plain(offer.amount), offer.interval_key, offer.accepted, offer.is_payable]
        for offer in document.offers
    ]
    least = offer_filter.cheapest((PriceEntry(frozenset(), offer) for offer in document.offers), OfferFilter())
    shown = least and _shown(least, OfferFilter())
    return encode([shown, rows, unnamed, list(names), skills])


def offer_filter_of(query: Query) -> OfferFilter:
    """The filters of a query on offers, and how it compares prices."""
    return OfferFilter(
        query.skills,
        frozenset(query.currencies),
        frozenset(query.intervals),
        query.min_price,
        query.max_price,
        query.price_currency,
        query.rates,
        per_day=compares_per_day(query),
        by_amount=query.sort in PRICE_SORTS,
        calls=query.calls if compares_cost(query) else None,
        free=query.free,
        payable=query.payable,
    )


def cheapest_for(query: Query) -> Callable[[bytes], Cheapest | None]:
    """A function that returns the cheapest offer of a packed listing that meets a query, by the price rule of
    `parsers.cards.offer_filter`."""
    if asks_offer(query) or query.skills or query.price_currency or query.sort in PRICE_SORTS:
        return partial(_cheapest, offer_filter_of(query))
    return _cheapest_of_all


def _cheapest_of_all(packed: bytes) -> Cheapest | None:
    if packed.startswith(b"[null,"):
        return None
    id_, amount, currency, interval, _, others = decode(packed)[0]
    return Cheapest(id_, amount, currency, interval, None, tuple(others))


def _cheapest(filters: OfferFilter, packed: bytes) -> Cheapest | None:
    least = offer_filter.cheapest(_unpack(packed, filters), filters)
    return None if least is None else _shown(least, filters)


def _shown(least: Lowest[Any], filters: OfferFilter) -> Cheapest:
    offer, into = least.offer, filters.price_currency
    price = offer_filter.worth(offer, filters) if into not in (None, offer.currency) else None
    converted = None if price is None or into is None else (plain(price), into)
    return Cheapest(offer.id, plain(offer.amount), offer.currency, offer.interval_key, converted, least.others)


def cost_for(query: Query) -> Callable[[bytes], Cost | None]:
    """A function that returns the lowest cost of a month among the offers of a packed listing that meet a query."""
    filters = offer_filter_of(query)._replace(calls=query.calls)

    def cost_of(packed: bytes) -> Cost | None:
        least = offer_filter.cheapest(_unpack(packed, filters), filters)
        cost = None if least is None else offer_filter.cost(least.offer, filters)
        if least is None or cost is None:
            return None
        offer = least.offer
        return Cost(offer.id, plain(cost), query.price_currency or offer.currency)

    return cost_of if query.calls is not None else lambda _: None


def meets(packed: bytes, query: Query) -> bool:
    """Whether one offer of a packed listing meets all filters of a query, which has a filter that only offers meet."""
    filters = offer_filter_of(query)
    return any(offer_filter.matches(entry, filters) for entry in _unpack(packed, filters))


def _unpack(packed: bytes, filters: OfferFilter) -> Iterator[PriceEntry[PackedOffer]]:
    """The price entries of a packed listing, in card order; their skills are left out where the filter names none."""
    _, rows, unnamed, names, skills = decode(packed)
    for (id_, currency, amount, interval, accepted, is_payable), numbers in zip(rows, skills, strict=True):
        of_offer = () if not filters.skills else names[:unnamed] if numbers is None else map(names.__getitem__, numbers)
        yield PriceEntry(
            frozenset(of_offer), PackedOffer(id_, currency, Decimal(amount), interval, accepted, is_payable)
        )


def price_key(price: Cheapest | None, id_: str, query: Query) -> tuple[int | str, ...]:
    """The sort key of a listing by price: (0, currency, price, id), or (1, id) without a price of the compared kind.

    The price is a string that orders exactly (`parsers.cards.money.decimal_key`)."""
    if price is None:
        return (1, id_)
    amount, currency = price.converted or (price.amount, price.currency)
    filters = offer_filter_of(query)
    if not filters.per_day and filters.calls is None:
        return (*price_position(currency, decimal_key(Decimal(amount)), query), id_)
    offer = PackedOffer(price.offer_id, price.currency, Decimal(price.amount), price.interval, ())
    value = offer_filter.compared(offer, filters)
    return (1, id_) if value is None else (*price_position(currency, decimal_key(value), query), id_)


_FREE = decimal_key(Decimal(0))


def price_position(currency: str, key: str, query: Query) -> tuple[int, str, str]:
    """The position of a price in the order: by currency, then by amount (its `decimal_key`). Where currencies are not
    compared, what costs nothing comes first (law 15)."""
    is_free_of_all = query.price_currency is None and key == _FREE
    return (0, "" if is_free_of_all else currency, key)
