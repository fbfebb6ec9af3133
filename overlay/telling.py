"""What an answer tells of a listing beside its stored item, as pieces of JSON: they are put together, never read."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring  # the C encoder of one string, which is all that is needed here

from overlay.query import Cheapest
from parsers.intervals import per_day
from parsers.money import plain
from parsers.rates import converted

CHEAPEST = b',"cheapest":'


@lru_cache(maxsize=4096)
def scored(score: float) -> bytes:
    """How an item ends that was found with such a score. There are as many different ones as there are points."""
    return b',"score":%.6g},' % score


@lru_cache(maxsize=4096)
def cheapest(offer: Cheapest | None, rate: Decimal | None = None) -> bytes:
    """The member `cheapest`, after a comma. Many listings ask the same price."""
    if offer is None:
        return CHEAPEST + b"null"
    id_, currency, interval = map(encode_basestring, (offer.offer_id, offer.currency, offer.interval))
    told = f'{{"offerId":{id_},"amount":"{offer.amount}","currency":{currency},"interval":{interval}'
    return CHEAPEST + f"{told},{_more(offer, rate)}}}".encode()


def _more(offer: Cheapest, rate: Decimal | None) -> str:
    """The price per day, and both in the currency that was asked for."""
    daily = per_day(Decimal(offer.amount), offer.interval)
    told = f'"perDay":{_decimal(daily)}'
    if offer.converted is None or rate is None:
        return told
    amount, into = offer.converted
    worth = None if daily is None else converted(daily, rate)
    members = (
        f'"amount":"{amount}","currency":{encode_basestring(into)},"rate":{_decimal(rate)},"perDay":{_decimal(worth)}'
    )
    return f'{told},"converted":{{{members}}}'


def _decimal(value: Decimal | None) -> str:
    return "null" if value is None else f'"{plain(value)}"'
