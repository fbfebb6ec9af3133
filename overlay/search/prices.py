"""Offers as an index stores them, which of them meet a query, and which is the cheapest.

The law itself stands in `parsers.matching`; what is here gives the same answers from less, and is tested against it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from overlay.query import Cheapest, Query
from parsers.money import decimal_key, plain
from parsers.rates import before, converted

if TYPE_CHECKING:
    from overlay.document import Document

_read_json = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # without the looks at what stands around it

Row = list[Any]
"""An offer: its id, currency, amount as text, interval key and accepted currencies."""
Judge = Callable[[Row], bool]


def each_currency(query: Query, is_in_use: Callable[[str], bool]) -> Iterator[Query]:
    """The questions that a question about prices comes to, each about the offers of one currency, in that currency: an
    offer that meets one of them meets the whole (law 15). Only currencies that are in use are asked for."""
    yield query._replace(rates={}) if query.rates else query
    for currency, rate in query.rates.items():
        if is_in_use(currency) and (bounds := before(query.min_price, query.max_price, rate)) is not None:
            low, high = bounds
            yield query._replace(price_currency=currency, rates={}, min_price=low, max_price=high)


def asks_offer(query: Query) -> bool:
    """True when only a priced entry can meet the query."""
    return bool(query.currencies or query.intervals or asks_price(query))


def asks_price(query: Query) -> bool:
    """True when amounts are bounded."""
    return query.min_price is not None or query.max_price is not None


def pack(document: Document) -> bytes:
    """The offers of a listing in two lines of compact JSON: the offers, and their skills: how many skills the card has,
    the ids of these and of others that offers name, and each offer's places in that list (null: all of the card's)."""
    names = dict.fromkeys(skill.id for skill in document.skills)
    own = len(names)
    for offer in document.offers:
        names.update(dict.fromkeys(offer.skill_ids or ()))
    place = {name: at for at, name in enumerate(names)}
    skills = [None if each.skill_ids is None else [place[name] for name in each.skill_ids] for each in document.offers]
    rows = [[each.id, each.currency, plain(each.amount), each.interval_key, each.accepted] for each in document.offers]
    return f"{_compact(rows)}\n{_compact([own, list(names), skills])}".encode()


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def cheapest(packed: bytes, query: Query) -> Cheapest | None:
    """What `parsers.matching.cheapest` says of the listing that was packed."""
    return _lowest(_meeting(packed, query, _judging(query)), query)


def _lowest(met: list[Row], query: Query) -> Cheapest | None:
    if not met:
        return None
    if query.rates:
        return _lowest_converted(met, query)
    currency = query.price_currency or met[0][1]
    rows = [row for row in met if row[1] == currency]
    if not rows:
        return None
    row = rows[0] if len(rows) == 1 else min(rows, key=lambda row: Decimal(row[2]))
    return Cheapest(row[0], row[2], row[1], row[3])


def _lowest_converted(met: list[Row], query: Query) -> Cheapest | None:
    """The lowest of what offers are worth in `price_currency`, those without a quote left out."""
    prices = [(price, row) for row in met if (price := _price(row[1], Decimal(row[2]), query)) is not None]
    if not prices:
        return None
    price, (id_, currency, amount, interval, _) = min(prices, key=lambda pair: pair[0])
    into = query.price_currency
    return Cheapest(id_, amount, currency, interval, None if into in (None, currency) else (plain(price), into))


def meets(packed: bytes, query: Query) -> bool:
    """Whether one offer of the listing that was packed meets all filters of a query that asks for one."""
    return bool(_meeting(packed, query, _judging(query)))


def _meeting(packed: bytes, query: Query, judge: Judge) -> list[Row]:
    """The offers that meet all filters, in card order."""
    offers, _, skills = packed.partition(b"\n")
    rows: list[Row] = _read_json(offers.decode(), 0)[0]
    if query.skills:
        own, names, named = json.loads(skills)
        rows = list(_with_skills(rows, own, names, named, query))
    return list(filter(judge, rows))


def _with_skills(
    rows: list[Row], own: int, names: list[str], skills: list[list[int] | None], query: Query
) -> Iterator[Row]:
    places = {at for at, name in enumerate(names) if name in query.skills}
    for row, named in zip(rows, skills, strict=True):
        if min(places, default=own) < own if named is None else not places.isdisjoint(named):
            yield row


def _judging(query: Query) -> Judge:
    """Whether an offer meets the filters of a query but that for skills; what can be decided once, is."""
    currencies, intervals, priced = frozenset(query.currencies), frozenset(query.intervals), asks_price(query)
    low, high, into = query.min_price, query.max_price, query.price_currency

    def judge(row: Row) -> bool:
        _, currency, amount, interval, accepted = row
        if currencies and currency not in currencies and currencies.isdisjoint(accepted):
            return False
        if intervals and interval not in intervals:
            return False
        if not priced:
            return True
        price = Decimal(amount) if currency == into else _price(currency, Decimal(amount), query)
        return price is not None and (low is None or price >= low) and (high is None or price <= high)

    return judge


def _price(currency: str, amount: Decimal, query: Query) -> Decimal | None:
    """What is compared: the amount in the currency that prices are asked for in, None without a quote (law 15)."""
    if query.price_currency in (None, currency):
        return amount
    rate = query.rates.get(currency)
    return None if rate is None else converted(amount, rate)


def text_key(amount: str) -> str:
    """A string that orders amounts exactly (`parsers.money.decimal_key`), for an amount as text."""
    return decimal_key(Decimal(amount))


def price_key(found: Cheapest | None, id_: str) -> tuple[int | str, ...]:
    """The place of a listing when sorting by price: (0, currency, amount in order, id), or (1, id) without a price."""
    if found is None:
        return (1, id_)
    amount, currency = compared(found)
    return (0, currency, text_key(amount), id_)


def compared(found: Cheapest) -> tuple[str, str]:
    """The amount and the currency that a cheapest offer is compared by."""
    return found.converted or (found.amount, found.currency)
