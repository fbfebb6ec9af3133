"""Offers as an index holds them: order-preserving keys for amounts, and a compact record to find the cheapest in.

The law itself stands in `parsers.matching`; what is here gives the same answers from less, and is tested against it.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from overlay.query import Cheapest, Query
from parsers.money import decimal_key, plain

if TYPE_CHECKING:
    from overlay.document import Document
    from parsers.offers import Offer

_DIGITS = 15
_SPAN: int = 10**_DIGITS
_BASE = 4000  # the smallest exponent that `decimal_key` writes for an amount is well above this


def amount_key(amount: Decimal) -> int:
    """A 64-bit number that orders amounts: exact and even up to 15 significant digits; odd, and the same for all
    amounts that share these 15, beyond. Comparing with an even key is therefore always right.
    """
    return key_number(decimal_key(amount))


def key_number(key: str) -> int:
    """The number for a `decimal_key`: even when the key says no more than it does. Raises ValueError for no key."""
    exponent, digits = int(key[:4]), key[4:]
    if not digits:
        return 0
    head = int(digits[:_DIGITS].ljust(_DIGITS, "0"))
    return 2 * ((exponent - _BASE) * _SPAN + head) + (len(digits) > _DIGITS)


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
    """The offers of a listing as compact JSON: how many skills its card has, the ids of these and of others that offers
    name, and the offers with their skills as places in that list (null: all of the card's)."""
    names = dict.fromkeys(skill.id for skill in document.skills)
    own = len(names)
    for offer in document.offers:
        names.update(dict.fromkeys(offer.skill_ids or ()))
    place = {name: at for at, name in enumerate(names)}
    rows = [_row(offer, place) for offer in document.offers]
    return json.dumps([own, list(names), rows], ensure_ascii=False, separators=(",", ":")).encode()


def _row(offer: Offer, place: dict[str, int]) -> list[Any]:
    skills = None if offer.skill_ids is None else [place[name] for name in offer.skill_ids]
    return [offer.id, offer.currency, plain(offer.amount), offer.interval_key, offer.accepted, skills]


def cheapest(packed: bytes, query: Query) -> Cheapest | None:
    """What `parsers.matching.cheapest` says of the listing that was packed."""
    own, names, rows = json.loads(packed)
    places = {at for at, name in enumerate(names) if name in query.skills} if query.skills else None
    met = [row for row in rows if _meets(row, query, places, own)]
    if not met:
        return None
    currency = query.price_currency or met[0][1]
    row = min((row for row in met if row[1] == currency), key=lambda row: Decimal(row[2]), default=None)
    return None if row is None else Cheapest(row[0], row[2], row[1], row[3])


def _meets(row: list[Any], query: Query, places: set[int] | None, own: int) -> bool:
    _, currency, amount, interval, accepted, skills = row
    if places is not None and (min(places, default=own) >= own if skills is None else places.isdisjoint(skills)):
        return False
    if query.currencies and not any(each in query.currencies for each in accepted):
        return False
    if query.intervals and interval not in query.intervals:
        return False
    return not asks_price(query) or _in_range(currency, Decimal(amount), query)


def _in_range(currency: str, amount: Decimal, query: Query) -> bool:
    if query.price_currency is not None and currency != query.price_currency:
        return False
    if query.min_price is not None and amount < query.min_price:
        return False
    return query.max_price is None or amount <= query.max_price


def text_key(amount: str) -> str:
    """A string that orders amounts exactly (`parsers.money.decimal_key`), for an amount as text."""
    return decimal_key(Decimal(amount))


def price_key(found: Cheapest | None, id_: str) -> tuple[int | str, ...]:
    """The place of a listing when sorting by price: (0, currency, amount in order, id), or (1, id) without a price."""
    return (1, id_) if found is None else (0, found.currency, text_key(found.amount), id_)


def meets(packed: bytes, query: Query) -> bool:
    """Whether one offer of the listing that was packed meets all filters of a query that asks for one."""
    own, names, rows = json.loads(packed)
    places = {at for at, name in enumerate(names) if name in query.skills} if query.skills else None
    return any(_meets(row, query, places, own) for row in rows)


_ANY = Query()


def usual(packed: bytes) -> str:
    """The cheapest offer when nothing is asked of offers: its members joined by NUL; empty without a price."""
    found = cheapest(packed, _ANY)
    parts = () if found is None else (found.offer_id, found.amount, found.currency, found.interval)
    return "\0".join(part.replace("\0", "\ufffd") for part in parts)


def from_usual(text: str) -> Cheapest | None:
    """The inverse of `usual`."""
    return Cheapest(*text.split("\0")) if text else None
