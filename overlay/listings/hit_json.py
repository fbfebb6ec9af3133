"""The members of a hit that depend on the query, as pieces of JSON to append to its stored item."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring  # the C encoder of one string, which is all that is needed here

from overlay.search.query import Cheapest
from parsers.cards.intervals import per_day
from parsers.cards.money import plain
from parsers.cards.rate_table import convert

CHEAPEST = b',"cheapest":'


@lru_cache(maxsize=4096)
def lacking(words: tuple[str, ...]) -> bytes:
    """The member `lacks`, after a comma; nothing where a listing has all words."""
    return f',"lacks":[{",".join(map(encode_basestring, words))}]'.encode() if words else b""


BY_MEANING = b',"byMeaning":true'
"""The member of a listing that has no word of the query, after a comma."""


@lru_cache(maxsize=4096)
def cheapest(offer: Cheapest | None, rate: Decimal | None = None) -> bytes:
    """The member `cheapest`, after a comma. Cached, as many listings have the same price."""
    if offer is None:
        return CHEAPEST + b"null"
    id_, currency, interval = map(encode_basestring, (offer.offer_id, offer.currency, offer.interval))
    members = f'{{"offerId":{id_},"amount":"{offer.amount}","currency":{currency},"interval":{interval}'
    return CHEAPEST + f"{members},{_more(offer, rate)}}}".encode()


def _more(offer: Cheapest, rate: Decimal | None) -> str:
    """The price per day, and both in the currency of the query."""
    daily = per_day(Decimal(offer.amount), offer.interval)
    per_day_member = f'"perDay":{_decimal(daily)}'
    if offer.converted is None or rate is None:
        return per_day_member
    amount, into = offer.converted
    worth = None if daily is None else convert(daily, rate)
    members = (
        f'"amount":"{amount}","currency":{encode_basestring(into)},"rate":{_decimal(rate)},"perDay":{_decimal(worth)}'
    )
    return f'{per_day_member},"converted":{{{members}}}'


def _decimal(value: Decimal | None) -> str:
    return "null" if value is None else f'"{plain(value)}"'
