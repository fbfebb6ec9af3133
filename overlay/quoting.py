"""What is to be paid now for a price of a card: deposit, final or full, converted, with slippage (A2B §5 and §9)."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal
from typing import Any, NamedTuple

from overlay.exchange import Exchange, timestamp
from parsers.money import MOST_EXPONENT, plain
from parsers.offers import Offer
from parsers.rates import Rates

STAGES = ("deposit", "final", "full")
SLIPPAGE = Decimal("0.01")
"""What a payment may fall short by, unless the price says otherwise: 1 % (A2B §5.2), also without a conversion (§9)."""

DECIMALS = {"BSV": 8, "BTC": 8, "BCH": 8, "LTC": 8, "DOGE": 8, "SOL": 9, "ETH": 18}
"""The decimal places of a coin's smallest unit: what is to be paid is rounded up to it."""

_SATOSHIS = 8
_WIDE = Context(prec=2_000, rounding=ROUND_CEILING)
_FINEST = Decimal(1).scaleb(-MOST_EXPONENT)
"""The least amount that there is (law 12): what is to be paid is not told more finely."""

_ONE = Decimal(1)


class NoQuoteError(Exception):
    """There is nothing to pay as asked. `code` is the JSON-RPC code of A2B §5.3, `name` what it is called there."""

    def __init__(self, code: int, name: str, detail: str) -> None:
        super().__init__(detail)
        self.code, self.name = code, name


class Due(NamedTuple):
    """What is due: `anchor` in the currency of the price; `amount`, and the `least` that is enough, in that of the
    payment, both rounded up to its smallest unit; the rate between them, from `table` if there was one to look up."""

    anchor: Decimal
    amount: Decimal
    least: Decimal
    rate: Decimal
    slippage: Decimal
    table: Rates | None


def due(offer: Offer, stage: str, currency: str, exchange: Exchange) -> Due:
    """What is due for an offer at a stage in a currency. Raises NoQuoteError."""
    if currency not in offer.accepted:
        accepted = ", ".join(ascii(each) for each in offer.accepted)
        raise NoQuoteError(-32034, "CurrencyUnsupported", f"this price is not taken in {currency!a}, but in {accepted}")
    anchor = _staged(offer, stage)
    table = None if currency == offer.currency else exchange.quoting(currency, offer.currency)
    rate = _ONE if currency == offer.currency else table.rate(offer.currency, currency) if table else None
    if rate is None:
        detail = f"there is no exchange rate from {offer.currency!a} to {currency!a} that may be used"
        raise NoQuoteError(-32034, "CurrencyUnsupported", detail)
    slippage = SLIPPAGE if offer.slippage_pct is None else offer.slippage_pct
    amount = _payable(_WIDE.multiply(anchor, rate), currency)
    least = _payable(_WIDE.multiply(amount, _WIDE.subtract(_ONE, slippage)), currency)
    return Due(anchor, amount, least, rate, slippage, table)


def _staged(offer: Offer, stage: str) -> Decimal:
    """The part of the amount that is due at a stage; the deposit and the final part make the whole."""
    if stage == "full":
        return offer.amount
    if offer.deposit_pct is None:
        raise NoQuoteError(-32032, "StageMismatch", f"this price asks for no deposit, so there is no {stage} part")
    deposit = min(offer.amount, _coarse(_WIDE.multiply(offer.amount, offer.deposit_pct)))
    return deposit if stage == "deposit" else _coarse(_WIDE.subtract(offer.amount, deposit))


def _payable(amount: Decimal, currency: str) -> Decimal:
    places = DECIMALS.get(currency)
    return _coarse(amount) if places is None else amount.quantize(Decimal(1).scaleb(-places), context=_WIDE)


def _coarse(amount: Decimal) -> Decimal:
    if not amount:  # a product that is nothing has the exponents of both
        return Decimal()
    told = amount.as_tuple().exponent
    return amount.quantize(_FINEST, context=_WIDE) if isinstance(told, int) and told < _FINEST.adjusted() else amount


def told(found: Due, currency: str, exchange: Exchange) -> dict[str, Any]:
    """The members of an answer that tell what is due."""
    members: dict[str, Any] = {
        "amount": plain(found.amount),
        "least": plain(found.least),
        "rate": plain(found.rate),
        "slippagePct": plain(found.slippage),
        "validUntil": timestamp(found.table.until) if found.table else None,
    }
    if DECIMALS.get(currency) == _SATOSHIS:
        members |= {
            "neededSatoshis": int(found.amount.scaleb(_SATOSHIS, context=_WIDE)),
            "leastSatoshis": int(found.least.scaleb(_SATOSHIS, context=_WIDE)),
        }
    return members | ({"rates": exchange.told(found.table)} if found.table else {})
