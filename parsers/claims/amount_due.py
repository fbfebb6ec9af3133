"""The amount due for an offer at a stage of payment, converted and with slippage (A2B §5.1, §5.2, §9)."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal
from typing import NamedTuple

from parsers.cards.money import MOST_EXPONENT
from parsers.cards.offers import Offer

CODES = {
    "PaymentMissing": -32030,
    "PaymentInvalid": -32031,
    "StageMismatch": -32032,
    "AmountInsufficient": -32033,
    "CurrencyUnsupported": -32034,
    "AddressMismatch": -32034,
}
"""The JSON-RPC errors of A2B §5.3 by their names; all are answered with HTTP status 402."""

STAGES = ("deposit", "final", "full")
SLIPPAGE = Decimal("0.01")
"""Default slippage: the part by which a payment may fall short, 1 % (A2B §5.2), also without a conversion (§9)."""

DECIMALS = {"BSV": 8, "BTC": 8, "BCH": 8, "LTC": 8, "DOGE": 8, "SOL": 9, "ETH": 18}
"""Decimal places of a coin's smallest unit; amounts due are rounded up to it."""

SATOSHIS = 8
"""Decimal places of a satoshi, and of the smallest unit of every UTXO chain."""

_WIDE = Context(prec=2_000, rounding=ROUND_CEILING)
_FINEST = Decimal(1).scaleb(-MOST_EXPONENT)
"""The smallest amount representable (law 12); amounts due are rounded up to a multiple of it."""

_ONE = Decimal(1)


class PaymentRefusedError(Exception):
    """A refused payment, or a refused quote for one. `name` is that of an error in A2B §5.3 and `code` its JSON-RPC
    code; `reason` is a stable code, finer than these, and the message gives the fault."""

    def __init__(self, name: str, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.name, self.reason, self.code = name, reason, CODES[name]


class Due(NamedTuple):
    """An amount due: `anchor` in the currency of the offer; `amount` and the accepted minimum, `least`, in the currency
    of the payment, both rounded up to its smallest unit. `rate` converts the first into the second."""

    anchor: Decimal
    amount: Decimal
    least: Decimal
    rate: Decimal
    slippage: Decimal


def check_currency(offer: Offer, currency: str) -> None:
    """Raises PaymentRefusedError for a currency that an offer does not accept."""
    if currency not in offer.accepted:
        accepted = ", ".join(map(ascii, offer.accepted))
        detail = f"this offer does not accept {currency!a}, only {accepted}"
        raise PaymentRefusedError("CurrencyUnsupported", "currency", detail)


def due(offer: Offer, stage: str, currency: str, rate: Decimal | None) -> Due:
    """The amount due at a stage in a currency that the offer accepts. `rate` is units of it for one unit of the offer's
    currency, from `RateTable.rate`; None without one. Raises PaymentRefusedError."""
    anchor = _staged(offer, stage)
    if currency == offer.currency:
        rate = _ONE
    if rate is None:
        detail = f"there is no usable exchange rate from {offer.currency!a} to {currency!a}"
        raise PaymentRefusedError("CurrencyUnsupported", "no-rate", detail)
    slippage = SLIPPAGE if offer.slippage_pct is None else offer.slippage_pct
    amount = _payable(_WIDE.multiply(anchor, rate), currency)
    least = _payable(_WIDE.multiply(amount, _WIDE.subtract(_ONE, slippage)), currency)
    return Due(anchor, amount, least, rate, slippage)


def satoshis(amount: Decimal) -> int:
    """An amount of a UTXO chain's coin in satoshis, rounded up."""
    return int(_WIDE.to_integral_value(amount.scaleb(SATOSHIS, context=_WIDE)))


def _staged(offer: Offer, stage: str) -> Decimal:
    """The part of the amount that is due at a stage; deposit and final part add up to the full amount."""
    if stage == "full":
        return offer.amount
    if offer.deposit_pct is None:
        detail = f"this offer has no deposit, so there is no {stage} part"
        raise PaymentRefusedError("StageMismatch", "no-deposit", detail)
    deposit = min(offer.amount, _coarse(_WIDE.multiply(offer.amount, offer.deposit_pct)))
    return deposit if stage == "deposit" else _coarse(_WIDE.subtract(offer.amount, deposit))


def _payable(amount: Decimal, currency: str) -> Decimal:
    decimals = DECIMALS.get(currency)
    return _coarse(amount) if decimals is None else amount.quantize(Decimal(1).scaleb(-decimals), context=_WIDE)


def _coarse(amount: Decimal) -> Decimal:
    if not amount:  # a product of zero adds up the exponents of its factors
        return Decimal()
    exponent = amount.as_tuple().exponent
    return (
        amount.quantize(_FINEST, context=_WIDE)
        if isinstance(exponent, int) and exponent < _FINEST.adjusted()
        else amount
    )
