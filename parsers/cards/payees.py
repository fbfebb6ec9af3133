"""Whether a payment in a currency can reach the address of a price."""

from __future__ import annotations

import re
from functools import lru_cache

from parsers.bitcoin import base58
from parsers.bitcoin.address import PREFIXES, script_of

SATS = "SATS"
"""The currency of prices in satoshis, of the coin of the chain that carries the card."""

_ETH = re.compile(r"0x[0-9a-fA-F]{40}")
_SOL_BYTES = 32
_FIAT = frozenset(
    (
        "USD", "EUR", "GBP", "JPY", "CNY", "CHF", "INR", "CAD", "AUD", "NZD", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF",
        "BRL", "MXN", "KRW", "SGD", "HKD", "TRY", "ZAR",
    )
)  # fmt: skip
"""Currencies that no chain carries: an amount in them is paid in another one."""


@lru_cache(maxsize=4096)  # the offers of a card are mostly paid to one address
def reaches(address: str, currency: str, network: str = "") -> bool:
    """Whether an address is one of the chain that carries a currency: of this network of the coins of Bitcoin's family
    (mainnet, testnet or regtest; "" for any), else 0x and 40 hex digits of ETH, or 32 bytes in base58 of SOL. A token
    may be on either of these; `SATS` are of any coin."""
    text = address.strip()
    if currency == SATS:
        return any(reaches(address, coin.upper(), network) for coin in PREFIXES)
    if networks := PREFIXES.get(currency.lower()):
        forms = [networks[network]] if network else networks.values()
        return any(script_of(text, prefixes) is not None for prefixes in forms)
    is_eth, is_sol = _ETH.fullmatch(text) is not None, len(base58.decode(text) or b"") == _SOL_BYTES
    return {"ETH": is_eth, "SOL": is_sol}.get(currency, currency not in _FIAT and (is_eth or is_sol))
