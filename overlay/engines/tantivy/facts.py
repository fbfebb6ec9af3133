"""Facts that only Tantivy's fields need: what one offer says together, so that engines never mix two (law 14)."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overlay.document import Document

SLOTS = 64  # offers of a listing that are indexed (law 12)
SHARED = 64  # columns of amounts for what is not usual
USUAL = frozenset(("USD", "EUR", "GBP", "JPY", "CNY", "BSV", "SAT", "SATS", "BTC", "LTC", "DOGE", "BCH", "ETH", "SOL"))
USUAL |= {"USDC", "USDT", "MNEE"}
USUAL_INTERVALS = ("none", "PT1H", "P1D", "P1W", "P1M", "P1Y")


def joint_facts(document: Document) -> set[str]:
    """What one entry says together: currency and interval; an amount in a currency, or in one for an interval. And
    which columns of amounts hold those of several."""
    found: set[str] = set()
    keys: dict[str, set[str]] = {}
    for offer in document.offers[:SLOTS]:
        found.update(both(currency, offer.interval_key) for currency in offer.accepted)
        for key in ((offer.currency, None), (offer.currency, offer.interval_key)):
            found.add(cost(*key))
            keys.setdefault(column(*key)[0], set()).add(cost(*key))
    return found | {mixed(name) for name, several in keys.items() if len(several) > 1}


def both(currency: str, interval: str) -> str:
    """An entry takes a currency and is paid at an interval."""
    return f"both:{currency}|{interval}"


def cost(anchor: str, interval: str | None) -> str:
    """An entry has an amount in a currency, or in a currency for an interval."""
    return f"cost:{anchor}" if interval is None else f"cost:{anchor}|{interval}"


def mixed(name: str) -> str:
    """A listing has amounts of several kinds in a column."""
    return f"mixed:{name}"


def column(anchor: str, interval: str | None = None) -> tuple[str, bool]:
    """The column of the amounts in a currency, or in a currency for an interval; and whether it holds nothing else."""
    if anchor in USUAL and (interval is None or interval in USUAL_INTERVALS):
        return f"cost {anchor} {interval or 'any'}", True
    return f"cost {number(cost(anchor, interval)) % SHARED}", False


def columns() -> Iterator[str]:
    """All columns of amounts."""
    yield from (column(anchor, interval)[0] for anchor in sorted(USUAL) for interval in (None, *USUAL_INTERVALS))
    yield from (f"cost {at}" for at in range(SHARED))


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
