"""Offers as an index holds them: order-preserving keys for amounts, and a compact record to find the cheapest in.

The law itself stands in `parsers.matching`; what is here gives the same answers from less, and is tested against it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from overlay.query import Cheapest, Query
from parsers.money import decimal_key, plain

if TYPE_CHECKING:
    from overlay.document import Document

AMOUNT_BITS = 51
_DIGITS, _DIGIT_BITS = 12, 40
_BASE = 4499  # below the smallest exponent that `decimal_key` writes for an amount


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
    head = int(digits[:_DIGITS].ljust(_DIGITS, "0"))
    return 2 * ((exponent - _BASE << _DIGIT_BITS) + head) + (len(digits) > _DIGITS)


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
    met = _meeting(packed, query)
    if not met:
        return None
    currency = query.price_currency or met[0][1]
    row = min((row for row in met if row[1] == currency), key=lambda row: Decimal(row[2]), default=None)
    return None if row is None else Cheapest(row[0], row[2], row[1], row[3])


def meets(packed: bytes, query: Query) -> bool:
    """Whether one offer of the listing that was packed meets all filters of a query that asks for one."""
    return bool(_meeting(packed, query))


def _meeting(packed: bytes, query: Query) -> list[list[Any]]:
    """The offers that meet all filters, in card order."""
    offers, _, skills = packed.decode().partition("\n")
    rows: list[list[Any]] = json.loads(offers)
    if query.skills:
        own, names, named = json.loads(skills)
        rows = list(_with_skills(rows, own, names, named, query))
    return [row for row in rows if _meets(row, query)]


def _with_skills(
    rows: list[list[Any]], own: int, names: list[str], skills: list[list[int] | None], query: Query
) -> Iterator[list[Any]]:
    places = {at for at, name in enumerate(names) if name in query.skills}
    for row, named in zip(rows, skills, strict=True):
        if min(places, default=own) < own if named is None else not places.isdisjoint(named):
            yield row


def _meets(row: list[Any], query: Query) -> bool:
    _, currency, amount, interval, accepted = row
    if query.currencies and currency not in query.currencies and frozenset(query.currencies).isdisjoint(accepted):
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


_ANY = Query()


def usual(packed: bytes) -> str:
    """The cheapest offer when nothing is asked of offers: its members joined by NUL; empty without a price."""
    found = cheapest(packed, _ANY)
    if found is None:
        return ""
    parts = (found.offer_id, found.amount, found.currency, found.interval)
    only = "1" if len(json.loads(packed.split(b"\n")[0])) == 1 else ""
    return "\0".join((*(part.replace("\0", "\ufffd") for part in parts), only))


Find = Callable[[str, bytes], Cheapest | None]
"""Finds the cheapest offer that meets a query, from what `usual` and `pack` say of a listing that meets it."""


def showing(query: Query) -> Find:
    """What finds cheapest offers under a query; whatever can be decided once, is."""
    if is_plain(query):
        return _as_usual
    bare = asks_offer(query)

    def find(usual: str, packed: bytes) -> Cheapest | None:
        """A listing's only offer must be what met the query."""
        if not usual:
            return None
        found = usual.split("\0")
        if bare and found[4] and query.price_currency in {None, found[2]}:
            return Cheapest._make(found[:4])
        return cheapest(packed, query)

    return find


def _as_usual(usual: str, _packed: bytes) -> Cheapest | None:
    return _read_usual(usual) if usual else None


@lru_cache(maxsize=4096)
def _read_usual(usual: str) -> Cheapest:
    """Many listings ask the same price."""
    return Cheapest._make(usual.split("\0")[:4])
