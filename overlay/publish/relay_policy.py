"""The transactions that nodes relay by default, by which the fee of a P2PKH transaction is computed."""

from __future__ import annotations

RELAYED = {"bsv": (1, 1), "btc": (1, 546), "bch": (1, 546), "ltc": (10, 5_460), "doge": (1_000, 1_000_000)}
"""Satoshis per byte, and satoshis of an output, with which nodes of a coin relay a transaction by default."""

SIGNED_INPUT, OUTPUT, REST = 149, 34, 10
"""Bytes of a signed P2PKH input, of a P2PKH output, and of the rest of a transaction."""
