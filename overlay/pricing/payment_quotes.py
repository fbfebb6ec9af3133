"""Quotes for an offer: the deposit, final or full amount at the exchange rates in use (A2B §5 and §9)."""

from __future__ import annotations

from typing import Any, NamedTuple

from overlay.pricing.exchange_rates import ExchangeRates, timestamp
from parsers.cards.money import plain
from parsers.cards.offers import Offer
from parsers.cards.rate_table import RateTable
from parsers.claims.amount_due import DECIMALS, SATOSHIS, Due, check_currency, due, satoshis


class AmountDue(NamedTuple):
    """An amount due, and the table that its rate is from: None for equal currencies."""

    due: Due
    table: RateTable | None


def amount_due(offer: Offer, stage: str, currency: str, exchange: ExchangeRates) -> AmountDue:
    """The amount due for an offer at a stage in a currency. Raises PaymentRefusedError."""
    check_currency(offer, currency)
    table = None if currency == offer.currency else exchange.quoting(currency, offer.currency)
    return AmountDue(due(offer, stage, currency, table.rate(offer.currency, currency) if table else None), table)


def amount_due_json(quote: AmountDue, currency: str, exchange: ExchangeRates) -> dict[str, Any]:
    """The members of an answer for an amount due."""
    amounts, table = quote
    members: dict[str, Any] = {
        "amount": plain(amounts.amount),
        "least": plain(amounts.least),
        "rate": plain(amounts.rate),
        "slippagePct": plain(amounts.slippage),
        "validUntil": timestamp(table.until) if table else None,
    }
    if DECIMALS.get(currency) == SATOSHIS:
        members |= {"neededSatoshis": satoshis(amounts.amount), "leastSatoshis": satoshis(amounts.least)}
    return members | ({"rates": exchange.table_json(table)} if table else {})
