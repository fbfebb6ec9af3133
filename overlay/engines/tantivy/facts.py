"""Facts that only Tantivy's fields need: what one offer says together, so that engines never mix two (law 14)."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING

from overlay.search.listed import OFFERS

if TYPE_CHECKING:
    from overlay.document import Document

SLOTS = OFFERS
USUAL = frozenset(("USD", "EUR", "GBP", "JPY", "CNY", "BSV", "SAT", "SATS", "BTC", "LTC", "DOGE", "BCH", "ETH", "SOL"))
USUAL |= {"USDC", "USDT", "MNEE"}
USUAL_INTERVALS = ("none", "PT1H", "P1D", "P1W", "P1M", "P1Y")
_CLASSES, _NAMED = 4096, 128  # 12 bits; the first are for what is usual
COLUMNS = 8


def joint_facts(document: Document) -> set[str]:
    """What one entry says together: currency and interval; an amount in a currency, or in one for an interval. And
    which classes of amounts hold those of several."""
    found: set[str] = set()
    kinds: dict[int, set[str]] = {}
    for offer in document.offers[:SLOTS]:
        found.update(both(currency, offer.interval_key) for currency in offer.accepted)
        for key in ((offer.currency, None), (offer.currency, offer.interval_key)):
            found.add(cost(*key))
            kinds.setdefault(price_class(*key), set()).add(cost(*key))
    return found | {mixed(each) for each, several in kinds.items() if len(several) > 1}


def both(currency: str, interval: str) -> str:
    """An entry takes a currency and is paid at an interval."""
    return f"both:{currency}|{interval}"


def cost(anchor: str, interval: str | None) -> str:
    """An entry has an amount in a currency, or in a currency for an interval."""
    return f"cost:{anchor}" if interval is None else f"cost:{anchor}|{interval}"


def mixed(price_class: int) -> str:
    """A listing has amounts of several kinds in a class."""
    return f"mixed:{price_class}"


def price_class(anchor: str, interval: str | None = None) -> int:
    """The class of the amounts in a currency, or in a currency for an interval. From `_NAMED` on, several may share one
    (one listing of a thousand has two that do)."""
    named = _USUAL_CLASSES.get((anchor, interval))
    return _NAMED + number(cost(anchor, interval)) % (_CLASSES - _NAMED) if named is None else named


def is_shared(price_class: int) -> bool:
    """Whether a class may hold amounts of several kinds."""
    return price_class >= _NAMED


_USUAL_CLASSES = {
    pair: at for at, pair in enumerate(((a, i) for a in sorted(USUAL) for i in (None, *USUAL_INTERVALS)), 1)
}


def number(text: str) -> int:
    """A number that stands for a text: 63 bits of BLAKE2b."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 1


def slot_facts(document: Document) -> Iterator[str]:
    """The facts of every offer under its number k: `k`; `ka…`, `ki…`, `kc…` and `ks…` for its anchor, interval,
    currencies and skills, or `k*` for all of the card's skills, which stand once as `*s…`."""
    for slot, offer in enumerate(document.offers[:SLOTS]):
        yield f"{slot}"
        yield f"{slot}a{offer.currency}"
        yield f"{slot}i{offer.interval_key}"
        yield from (f"{slot}c{currency}" for currency in offer.accepted)
        yield from (f"{slot}*",) if offer.skill_ids is None else (f"{slot}s{skill}" for skill in offer.skill_ids)
    if document.offers:
        yield from (f"*s{skill}" for skill in dict.fromkeys(skill.id for skill in document.skills))
