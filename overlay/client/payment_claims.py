"""Builds the payment claim for an offer (A2B §4.2): a signed transaction on a UTXO chain, which the server sends."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from overlay.publish.coins import Coin
from overlay.publish.keys import PublisherKey
from overlay.publish.relay_policy import RELAYED
from overlay.publish.transactions import DEFAULT_FEE_RATE, fund, sign
from parsers.bitcoin.address import PREFIXES, p2pkh_hash
from parsers.bitcoin.script import p2pkh
from parsers.bitcoin.tx import TxOutput
from parsers.cards.offers import Offer
from parsers.claims.amount_due import PaymentRefusedError, check_currency, due, satoshis
from parsers.claims.payment import Payment, PaymentTerms, UtxoChain, verify

CURRENCY = "BSV"
"""The currency in which claims are paid unless another one is named."""

FORKID_COINS = ("bsv", "bch")
"""The coins whose signatures carry SIGHASH_FORKID."""

PAYABLE = tuple(coin.upper() for coin in RELAYED)
"""The currencies in which claims can be paid: P2PKH outputs of one key."""


@dataclass(frozen=True, slots=True)
class SignedPayment:
    """A claim: `value` is its JSON; `payment` what a server reads in it. Amounts and `fee` are in satoshis."""

    value: dict[str, Any]
    payment: Payment
    fee: int

    def data_part(self) -> dict[str, Any]:
        """The claim as the DataPart of a message (A2B §4.2)."""
        return {"type": "data", "data": {"x-payment": self.value}}

    def meta(self, task: str = "") -> dict[str, Any]:
        """The claim as `params._meta` of a call of an MCP tool, with the id of a task that may be repeated."""
        return claim_meta(self.value, task)

    def headers(self, task: str = "") -> dict[str, str]:
        """The claim as headers of a call by HTTP, with the id of a task that may be repeated."""
        return claim_headers(self.value, task)


def claim_meta(claim: Mapping[str, Any] | None, task: str) -> dict[str, Any]:
    """A claim as `params._meta` of a call of an MCP tool, with the id of its task; each only where there is one."""
    return ({"x-payment": dict(claim)} if claim else {}) | ({"x-payment-task": task} if task else {})


def claim_headers(claim: Mapping[str, Any] | None, task: str) -> dict[str, str]:
    """A claim as headers of a call by HTTP, with the id of its task; each only where there is one."""
    paid = {"A2B-Payment": b64encode(json.dumps(claim).encode()).decode()} if claim else {}
    return paid | ({"A2B-Task": task} if task else {})


def usual_fee_rate(currency: str) -> int:
    """Satoshis per 1,000 bytes that a transaction in a currency of PAYABLE pays, so that nodes relay it."""
    return DEFAULT_FEE_RATE if currency == CURRENCY else 1_000 * RELAYED[currency.lower()][0]


def stage_of(offer: Offer, stage: str | None) -> str:
    """The stage to pay first: the deposit of an offer that has one, else the whole amount."""
    return stage or ("full" if offer.deposit_pct is None else "deposit")


def choose_offer(offers: Sequence[Offer], config_id: str | None, skill: str | None) -> Offer:
    """The offer with this id, or the only one for a skill. Raises PaymentRefusedError naming those that there are."""
    usable = [offer for offer in offers if skill is None or offer.skill_ids is None or skill in offer.skill_ids]
    named = [offer for offer in usable if config_id in (None, offer.id)]
    if not named or (config_id is None and len(named) > 1):
        ids = ", ".join(ascii(offer.id[:100]) for offer in usable[:16]) or "none"
        raise PaymentRefusedError("PaymentInvalid", "unknown-config", f"choose one of the prices by its id: {ids}")
    return named[0]


def build_claim(
    offer: Offer,
    key: PublisherKey,
    coins: Sequence[Coin],
    *,
    most_satoshis: int,
    stage: str | None = None,
    rate: Decimal | None = None,
    fee_rate: int | None = None,
    refund_address: str | None = None,
    currency: str = CURRENCY,
    network: str | None = None,
) -> SignedPayment:
    """The claim that pays an offer in a currency of PAYABLE from these coins, which the key spends; `network` is that
    of the addresses, by default the one that the key names. `rate` is the coins for one unit of the offer's currency,
    not needed where that is the same. Nothing above `most_satoshis` is signed, the fee aside: `fee_rate` is in satoshis
    per 1,000 bytes, by default what nodes relay.

    Raises PaymentRefusedError where the offer cannot be paid so, CoinsError where the coins do not suffice.
    """
    check_currency(offer, currency)
    stage = stage_of(offer, stage)
    needed = satoshis(due(offer, stage, currency, rate).amount)
    if needed > most_satoshis:
        detail = f"{needed:,} satoshis are due, and at most {most_satoshis:,} may be paid"
        raise PaymentRefusedError("AmountInsufficient", "amount", detail)
    chain = UtxoChain(currency.lower(), network or key.network)
    script = p2pkh(_address(offer, chain))
    _, dust = RELAYED[chain.coin]
    paid_rate = usual_fee_rate(currency) if fee_rate is None else fee_rate
    unsigned = fund([TxOutput(needed, script)], coins, key.script, fee_rate=paid_rate, least_change=max(dust, 2))
    draft = sign(unsigned, key, forkid=chain.coin in FORKID_COINS)
    value = {"configId": offer.id, "stage": stage, "rawTx": draft.raw.hex(), "currency": currency}
    value |= {"refundAddress": refund_address} if refund_address else {}
    terms = PaymentTerms(offers=[offer], chains={currency: chain}, rate=lambda _paid, _into: rate, state=None)
    return SignedPayment(value, verify(value, terms), draft.fee)


def _address(offer: Offer, chain: UtxoChain) -> bytes:
    digest = p2pkh_hash(offer.address.strip(), PREFIXES[chain.coin][chain.network])
    if digest is None:
        detail = (
            f"the price {offer.id[:100]!a} names no P2PKH address of {chain.coin.upper()} {chain.network}: "
            f"{offer.address[:100]!a}"
        )
        raise PaymentRefusedError("AddressMismatch", "address", detail)
    return digest
