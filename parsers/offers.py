"""Prices: decimal amounts, and intervals that are equal by meaning (laws 13 and 14)."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Offer:
    """One price entry of a card.

    `amount` is in units of `currency` (the anchor). `accepted` holds the anchor and `acceptedCurrencies`, upper-case,
    in card order, without repeats. `skill_ids` is None when the entry is for all skills of the card. `interval` is as
    written (None when per call), `interval_key` its canonical form, equal for equal meaning (`none` = per call).
    `number` is its place in the card's price list.
    """

    number: int
    id: str
    name: str
    currency: str
    amount: Decimal
    interval: str | None
    interval_key: str
    accepted: tuple[str, ...]
    skill_ids: tuple[str, ...] | None
    address: str
    deposit_pct: Decimal | None
    price_feed_url: str
    slippage_pct: Decimal | None
    description: str
