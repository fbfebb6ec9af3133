"""Claims that the client builds: what is due to the proven address, within the bound, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from typing import Any

import httpx
import pytest

from overlay.client import AsyncOverlayClient, NotVerifiedError
from overlay.client.payment_claims import build_claim, choose_offer
from overlay.publish.coins import Coin, CoinsError, from_file
from overlay.publish.keys import PublisherKey
from parsers.bitcoin.address import key_hash
from parsers.bitcoin.script import p2pkh
from parsers.bitcoin.tx import Outpoint
from parsers.cards import AgentCard, read
from parsers.cards.offers import Offer
from parsers.claims.amount_due import PaymentRefusedError
from tests.chainkit import agent
from tests.overlay.client.world import BASIC, DOLLARS, MONTH, PAYEE, PAYER, PLACEHOLDER, PaidRegistry

COINS = [Coin(Outpoint(sha256(bytes((number,))).digest(), 0), 100_000) for number in range(3)]


def offers(*prices: dict[str, Any]) -> tuple[Offer, ...]:
    skills = [{"id": id_, "name": id_} for id_ in ("echo", "watch")]
    card = read(json.dumps(agent(skills=skills) | {"x-payment-config": prices}).encode())
    assert isinstance(card, AgentCard)
    return card.offers


def offer(price: dict[str, Any]) -> Offer:
    return offers(price)[0]


def test_a_claim_pays_what_is_due_and_its_change_to_the_payer() -> None:
    claim = build_claim(offer(BASIC), PAYER, COINS, most_satoshis=50_000, refund_address=PAYER.address)
    assert claim.data_part() == {"type": "data", "data": {"x-payment": {
        "configId": "wt-basic", "stage": "full", "rawTx": claim.value["rawTx"], "currency": "BSV",
        "refundAddress": PAYER.address,
    }}}  # fmt: skip
    outputs = claim.payment.tx.outputs
    payee = key_hash(PAYEE.address)
    assert payee is not None
    assert [output.script for output in outputs] == [p2pkh(payee), PAYER.script]
    assert [output.satoshis for output in outputs] == [50_000, 50_000 - claim.fee]
    assert (claim.payment.needed, claim.payment.paid) == (50_000, 50_000)


def test_the_deposit_is_paid_first_and_the_final_part_later() -> None:
    deposit = build_claim(offer(MONTH), PAYER, COINS, most_satoshis=200_000)
    final = build_claim(offer(MONTH), PAYER, COINS, most_satoshis=200_000, stage="final")
    assert (deposit.value["stage"], deposit.payment.paid) == ("deposit", 40_000)
    assert deposit.payment.paid + final.payment.paid == 200_000


def test_another_currency_is_converted_within_the_bound() -> None:
    claim = build_claim(offer(DOLLARS), PAYER, COINS, most_satoshis=125_000, rate=Decimal("0.025"))
    assert (claim.value["currency"], claim.payment.paid) == ("BSV", 125_000)
    with pytest.raises(PaymentRefusedError, match="125,000 satoshis are due, and at most 124,999 may be paid"):
        build_claim(offer(DOLLARS), PAYER, COINS, most_satoshis=124_999, rate=Decimal("0.025"))
    with pytest.raises(PaymentRefusedError, match="there is no usable exchange rate from 'USD' to 'BSV'"):
        build_claim(offer(DOLLARS), PAYER, COINS, most_satoshis=125_000)


@pytest.mark.parametrize(
    ("price", "key", "complaint"),
    [
        (PLACEHOLDER, PAYER, "'wt-placeholder' names no P2PKH address of BSV testnet: '1WatchtowerAddr'"),
        (BASIC | {"address": ""}, PAYER, "names no P2PKH address"),
        (BASIC, replace(PAYER, network="mainnet"), "no output is the P2PKH script of .* on bsv mainnet"),
        (BASIC | {"currency": "LTC", "acceptedCurrencies": ["LTC"]}, PAYER, "does not accept 'BSV', only 'LTC'"),
    ],
)
def test_what_cannot_be_paid_is_not_signed(price: dict[str, Any], key: PublisherKey, complaint: str) -> None:
    with pytest.raises(PaymentRefusedError, match=complaint):
        build_claim(offer(price), key, COINS, most_satoshis=10**8)


def test_coins_that_do_not_suffice_are_named() -> None:
    with pytest.raises(CoinsError, match="300,000 satoshis in 3 coins do not suffice"):
        build_claim(offer(BASIC | {"amount": 0.003}), PAYER, COINS, most_satoshis=10**8)


def test_an_offer_is_chosen_by_its_id_or_as_the_only_one_for_a_skill() -> None:
    other = BASIC | {"id": "other", "skillIds": ["watch"]}
    listed = offers(BASIC, other)
    assert choose_offer(listed, "other", None).id == "other"
    assert choose_offer(listed, None, "echo").id == "wt-basic"
    for config_id, skill in ((None, None), ("none", None), ("other", "echo")):
        with pytest.raises(PaymentRefusedError, match="choose one of the prices by its id: 'wt-basic'"):
            choose_offer(listed, config_id, skill)


class LyingTransport(httpx.AsyncHTTPTransport):
    """A server between the client and the overlay that puts its own address into every answer."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = "identity"
        response = await super().handle_async_request(request)
        body = (await response.aread()).replace(PAYEE.address.encode(), PAYER.address.encode())
        await response.aclose()
        return httpx.Response(response.status_code, stream=httpx.ByteStream(body))


async def test_an_address_that_is_not_proved_is_not_paid(registry: PaidRegistry) -> None:
    coins = from_file(registry.home / "coins.json")
    wanted: dict[str, Any] = {"config_id": "wt-basic", "most_satoshis": 10**8, "expected": "bsv:regtest"}
    async with AsyncOverlayClient(registry.url, transport=LyingTransport()) as overlay:
        assert (await overlay.quote(registry.id, "wt-basic")).address == PAYER.address
        with pytest.raises(NotVerifiedError, match="is not proved: ") as caught:
            await overlay.pay(registry.id, PAYER, coins, **wanted)
    assert "card" in caught.value.report.missing or "answer" in caught.value.report.missing
    async with AsyncOverlayClient(registry.url) as overlay:
        with pytest.raises(NotVerifiedError):
            await overlay.pay(registry.id, PAYER, coins, **{**wanted, "expected": "bsv:mainnet"})
        claim = await overlay.pay(registry.id, PAYER, coins, **wanted)
        review = await overlay.pay_check({"claim": claim.value, "id": registry.id, "skillId": "echo"})
    assert (review.ok, review.paid_satoshis, review.needed_satoshis) == (True, 50_000, 50_000)


async def test_a_price_in_dollars_needs_a_rate(registry: PaidRegistry) -> None:
    coins = from_file(registry.home / "coins.json")
    async with AsyncOverlayClient(registry.url) as overlay:
        with pytest.raises(PaymentRefusedError, match="there is no usable exchange rate"):
            await overlay.pay(
                registry.id, PAYER, coins, config_id="wt-usd", most_satoshis=10**8, expected="bsv:regtest"
            )
