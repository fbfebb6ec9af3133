"""Offers as an index holds them: order-preserving keys for amounts, and a compact record to find the cheapest in.

The law itself stands in `parsers.matching`; what is here gives the same answers from less, and is tested against it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from overlay.query import Cheapest, Query
from parsers.money import decimal_key, plain
from parsers.rates import before, converted

if TYPE_CHECKING:
    from overlay.document import Document

AMOUNT_BITS = 51
_DIGITS, _DIGIT_BITS = 12, 40
_read_json = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # without the looks at what stands around it
_BASE = 4499  # below the smallest exponent that `decimal_key` writes for an amount


Row = list[Any]
"""An offer: its id, currency, amount as text, interval key and accepted currencies."""
Judge = Callable[[Row], bool]


@lru_cache(maxsize=4096)  # many listings ask the same price, and people look for round ones
def amount_key(amount: Decimal) -> int:
    """A number of 51 bits that orders amounts: exact and even up to 12 significant digits; odd, and the same for all
    amounts that share these 12, beyond. Comparing with an even key is therefore always right.
    """
    return key_number(decimal_key(amount))


def key_number(key: str) -> int:
    """The number for a `decimal_key`: even when the key says no more than it does. Raises ValueError for no key."""
    exponent, digits = int(key[:4]), key[4:]
    if not digits:
        return 0
    if exponent <= _BASE:
        return 1  # a conversion to less than any amount in a card
    head = int(digits[:_DIGITS].ljust(_DIGITS, "0"))
    return 2 * ((exponent - _BASE << _DIGIT_BITS) + head) + (len(digits) > _DIGITS)


UNKNOWN = -1


def converted_keys(keys: list[int], rate: Decimal) -> list[int]:
    """The keys of what amounts come to at a rate of at most 12 digits, from their own keys; `UNKNOWN` where a key says
    less than the amount does. Exact, and ten times as fast as by decimals (100,000 keys: 10 ms).
    """
    _, digits, _ = rate.as_tuple()
    factor = int("".join(map(str, digits[:_DIGITS])).ljust(_DIGITS, "0"))
    if any(digits[_DIGITS:]):
        return [UNKNOWN] * len(keys)
    given = np.array(keys, dtype=np.int64)
    head, exponent = given >> 1 & (1 << _DIGIT_BITS) - 1, given >> _DIGIT_BITS + 1
    # head times factor has 23 or 24 digits: its last six apart, the others fit in 63 bits
    high, low = divmod(factor, 10**6)
    carried = head * low
    upper, lower = head * high + carried // 10**6, carried % 10**6
    long = upper >= 10**17
    scale = np.where(long, 10**6, 10**5)
    more = (upper % scale != 0) | (lower != 0)
    exponent = exponent + rate.adjusted() + long
    found = (exponent << _DIGIT_BITS | upper // scale) << 1 | more
    found = np.where(exponent > 0, found, 1)
    found = np.where(given == 0, 0, np.where(given & 1, UNKNOWN, found))
    return cast("list[int]", found.tolist())


def each_currency(query: Query, is_in_use: Callable[[str], bool]) -> Iterator[Query]:
    """The questions that a question about prices comes to, each about the offers of one currency, in that currency: an
    offer that meets one of them meets the whole (law 15). Only currencies that are in use are asked for."""
    yield query._replace(rates={}) if query.rates else query
    for currency, rate in query.rates.items():
        if is_in_use(currency) and (bounds := before(query.min_price, query.max_price, rate)) is not None:
            low, high = bounds
            yield query._replace(price_currency=currency, rates={}, min_price=low, max_price=high)


def is_plain(query: Query) -> bool:
    """True when no filter singles out offers, so that a listing's cheapest is always the same."""
    return not (query.skills or asks_offer(query) or query.price_currency)


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


def said_together(packed: bytes, query: Query, facet: str) -> frozenset[str]:
    """What the offers that meet all filters say for a facet of offers (`widening.OF_OFFERS`), of the listing that was
    packed."""
    if facet == "skillId":
        return frozenset(_skills(packed, _judging(query)))
    met = _meeting(packed, query, _judging(query))
    if facet == "interval":
        return frozenset(row[3] for row in met)
    if asks_price(query) and query.price_currency is None:  # bounds are in the currency that is chosen (law 15)
        return frozenset(row[1] for row in met)
    return frozenset().union(*(row[4] for row in met))


def _skills(packed: bytes, judge: Judge) -> Iterator[str]:
    offers, _, skills = packed.partition(b"\n")
    own, names, named = json.loads(skills)
    for row, places in zip(json.loads(offers), named, strict=True):
        if judge(row):
            yield from names[:own] if places is None else (names[at] for at in places)


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


_ANY = Query()
_ONLY = "1"  # ends what is kept of a listing with a single offer


def usual(packed: bytes) -> str:
    """The cheapest offer when nothing is asked of offers: its members joined by NUL; empty without a price."""
    found = cheapest(packed, _ANY)
    if found is None:
        return ""
    parts = (found.offer_id, found.amount, found.currency, found.interval)
    only = _ONLY if len(json.loads(packed.split(b"\n")[0])) == 1 else ""
    return "\0".join((*(part.replace("\0", "\ufffd") for part in parts), only))


class Showing:
    """Finds the cheapest offer that meets a query, from what `usual` and `pack` say of a listing that meets it.
    Whatever can be decided once, is."""

    __slots__ = ("_any", "_bare", "_currency", "_in_one_currency", "_judge", "_query")

    def __init__(self, query: Query) -> None:
        self._query, self._currency = query, query.price_currency
        self._any, self._bare = is_plain(query), asks_offer(query)
        self._in_one_currency = not (query.skills or query.rates)
        self._judge = _judging(query)

    def __call__(self, usual: str, packed: bytes) -> Cheapest | None:
        """The offer, None without one."""
        if self._is_usual(usual):
            return read_usual(usual)
        return _lowest(_meeting(packed, self._query, self._judge), self._query)

    def _is_usual(self, usual: str) -> bool:
        """Whether `usual` alone tells that its offer is the one. A listing's only offer must be what met the query; and
        what is cheapest of all offers in a currency is it of those that meet the query in that currency, if it does."""
        if self._any or (found := read_usual(usual)) is None:
            return True
        same = self._currency == found.currency
        if self._bare and (same or self._currency is None) and usual.endswith(_ONLY):
            return True
        if not (same and self._in_one_currency):
            return False
        # which says no to a currency that is only accepted: that is not told here
        return self._judge([found.offer_id, found.currency, found.amount, found.interval, ()])


@lru_cache(maxsize=4096)
def read_usual(usual: str) -> Cheapest | None:
    """The offer that `usual` told. Many listings ask the same price."""
    if not usual:
        return None
    id_, amount, currency, interval, _ = usual.split("\0")
    return Cheapest(id_, amount, currency, interval)
