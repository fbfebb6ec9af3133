"""Payment claims of A2B §4.2, verified as §9 does (`a2b_payments.jsonl`).

The oracle of a vector has `rates[T]`: units of T for one unit of the currency of the price. A vector without an oracle,
seen transactions or a task's state has no rates, none and a pending task.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from indexer.rates import feed_client
from parsers.bitcoin.address import PREFIXES
from parsers.cards.fields import Fields
from parsers.cards.offers import read_offers
from parsers.cards.rate_table import RateTable
from parsers.claims.amount_due import PaymentRefusedError
from parsers.claims.payment import PaymentTerms, UtxoChain, verify
from tests.vectors.runner import Vector

HTTP_STATUS = 402
CHAINS = {coin.upper(): UtxoChain(coin, "mainnet") for coin in PREFIXES}


def evaluate(vector: Vector) -> dict[str, Any]:
    """The verdict of verification on the claim, in the words of the vectors."""
    row = json.loads(vector.line, parse_float=Decimal)
    config = row.get("config") or {}
    terms = PaymentTerms(
        offers=read_offers({"x-payment-config": [config]}, Fields(0), frozenset()),
        chains=CHAINS,
        rate=_table(row.get("oracle"), str(config.get("currency", ""))).rate,
        state=row.get("task_state", "pending"),
        is_used=set(row.get("seen_txids", ())).__contains__,
    )
    try:
        payment = verify(row.get("claim"), terms)
    except PaymentRefusedError as error:
        return {"ok": False, "http": HTTP_STATUS, "code": error.code, "name": error.name}
    return {
        "ok": True,
        "stage": payment.claim.stage,
        "needed_satoshis": payment.needed,
        "paid_satoshis": payment.paid,
    }


def _table(oracle: Any, base: str) -> RateTable:
    """The oracle's answer, read as that of a configured feed; one without a usable rate quotes nothing."""
    try:
        rates = feed_client.read(json.dumps(oracle, default=str).encode(), base).rates if oracle else {}
    except feed_client.RatesRefusedError:
        rates = {}
    return RateTable(base=base, rates=rates, source="", quoted_at=0, until=0)
