"""Public services of exchange rates, as feeds: which URL answers for a base currency, and how its answer is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from parsers.json_records import JsonObject, convert

_COINS = {
    "BSV": "bitcoin-cash-sv", "BTC": "bitcoin", "BCH": "bitcoin-cash", "LTC": "litecoin", "DOGE": "dogecoin",
    "ETH": "ethereum", "SOL": "solana",
}  # fmt: skip
"""The ids of coins at CoinGecko."""

_AGAINST = "usd,eur,gbp,jpy,cny,chf,cad,aud,inr,krw,brl,btc,bch,eth,ltc"
"""The currencies that CoinGecko is asked for."""


class ServiceAnswer(NamedTuple):
    """The base that an answer names, its rates by currency, and its times, the first usable one of which counts; all
    unchecked."""

    base: Any
    rates: Mapping[str, Any]
    times: tuple[Any, ...] = ()


class _WhatsOnChain(JsonObject):
    rate: Any
    currency: Any
    time: Any = None


class _CoinbaseRates(JsonObject):
    currency: Any
    rates: dict[str, Any]


class _CoinbaseAnswer(JsonObject):
    data: _CoinbaseRates


class RateService(NamedTuple):
    """A service: its host, the path and query for a base, the bases that it has (empty: any but `BSV`), and the reader
    of its JSON, which raises ParseError."""

    host: str
    path: Callable[[str], str]
    bases: frozenset[str]
    read: Callable[[Any, str], ServiceAnswer]

    def quotes(self, base: str) -> bool:
        """Whether the service has rates of a currency."""
        return base in self.bases if self.bases else base != "BSV"


def _read_whatsonchain(value: Any, base: str) -> ServiceAnswer:
    """`{"rate": 27.055, "time": 1732000000, "currency": "USD"}`, for one coin."""
    answer = convert(value, _WhatsOnChain)
    return ServiceAnswer(base, {str(answer.currency): answer.rate}, (answer.time,))


def _read_coingecko(value: Any, base: str) -> ServiceAnswer:
    """`{"bitcoin-cash-sv": {"usd": 27.1, …, "last_updated_at": 1732000000}}`, for one coin."""
    rates = convert(value, dict[str, dict[str, Any]]).get(_COINS[base], {})
    return ServiceAnswer(
        base,
        {name: rate for name, rate in rates.items() if name in _AGAINST.split(",")},
        (rates.get("last_updated_at"),),
    )


def _read_coinbase(value: Any, _: str) -> ServiceAnswer:
    """`{"data": {"currency": "USD", "rates": {"EUR": "0.95", …}}}`, in units for one of `currency`."""
    data = convert(value, _CoinbaseAnswer).data
    return ServiceAnswer(data.currency, {name: rate for name, rate in data.rates.items() if name != "BSV"})


SERVICES = {
    "whatsonchain": RateService(
        "https://api.whatsonchain.com", lambda base: f"/v1/{base.lower()}/main/exchangerate",
        frozenset({"BSV", "BTC"}), _read_whatsonchain,
    ),
    "coingecko": RateService(
        "https://api.coingecko.com",
        lambda base: f"/api/v3/simple/price?ids={_COINS[base]}&vs_currencies={_AGAINST}&include_last_updated_at=true",
        frozenset(_COINS), _read_coingecko,
    ),
    "coinbase": RateService(
        "https://api.coinbase.com", lambda base: f"/v2/exchange-rates?currency={base}", frozenset(), _read_coinbase
    ),
}  # fmt: skip
"""The services by their names in the setting. Coinbase ended BSV in January 2024."""
