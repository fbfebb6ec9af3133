"""Whether a payment can reach the address of a price, and prices in satoshis."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import cards
from parsers.bitcoin.address import PREFIXES, address, script_of
from parsers.bitcoin.script import p2pkh
from parsers.cards import AgentCard, Kind
from parsers.cards.offers import Offer, in_coin
from parsers.cards.payees import reaches

MAINNET = "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"
ETH, SOL = "0x52908400098527886E0F7030069857D2E4169EE7", "So11111111111111111111111111111111111111112"
BECH32 = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"


def offer(**members: Any) -> Offer:
    price = {"id": "p", "currency": "BSV", "amount": 1, "address": MAINNET} | members
    card = {"name": "A", "url": "https://a.example", "skills": [{"id": "s"}], "x-payment-config": [price]}
    read = cards.read(json.dumps(card).encode(), Kind.AGENT)
    assert isinstance(read, AgentCard)
    return read.offers[0]


@pytest.mark.parametrize(
    ("text", "currency", "network", "is_reached"),
    [
        (MAINNET, "BSV", "mainnet", True), (f" {MAINNET} ", "BSV", "", True), (MAINNET, "BSV", "regtest", False),
        ("mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", "BSV", "mainnet", False), (BECH32, "BSV", "", False),
        ("3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy", "BSV", "", False), ("alice@pay.example", "BSV", "", False),
        (BECH32, "BTC", "mainnet", True), (BECH32.upper(), "BTC", "mainnet", True),
        (BECH32[:-1] + "5", "BTC", "", False),
        (BECH32.replace("q", "Q", 1), "BTC", "", False), (BECH32, "LTC", "", False),
        ("3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy", "BTC", "mainnet", True), (MAINNET, "BTC", "mainnet", True),
        ("bitcoincash:qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a", "BCH", "mainnet", True),
        (ETH, "ETH", "", True), (ETH[:-1], "ETH", "", False), (ETH[2:], "ETH", "", False), (ETH, "BSV", "", False),
        (SOL, "SOL", "", True), (SOL[:-3], "SOL", "", False), ("0" * 44, "SOL", "", False),
        ("1" * 5_000, "SOL", "", False),
        (ETH, "USDC", "", True), (SOL, "USDC", "", True), ("USDC-account", "USDC", "", False),
        (MAINNET, "USD", "", False), (ETH, "EUR", "", False), (MAINNET, "SATS", "", True), (ETH, "SATS", "", False),
        ("", "BSV", "", False),
    ],
)  # fmt: skip
def test_an_address_is_that_of_the_coin_that_carries_the_payment(
    text: str, currency: str, network: str, is_reached: bool
) -> None:
    assert reaches(text, currency, network) is is_reached


def test_one_currency_that_reaches_the_address_is_enough_and_nothing_is_always_payable() -> None:
    assert offer(currency="USD", acceptedCurrencies=["ETH", "BSV"]).is_payable
    assert not offer(currency="USD").is_payable
    assert offer(currency="USD", amount=0, address="").is_payable


networks = [(coin, network) for coin, kinds in PREFIXES.items() for network in kinds]
scripts = st.one_of(
    st.binary(min_size=20, max_size=20).map(p2pkh),
    st.binary(min_size=20, max_size=20).map(lambda digest: b"\xa9\x14" + digest + b"\x87"),
    st.sampled_from([20, 32])
    .flatmap(lambda n: st.binary(min_size=n, max_size=n))
    .map(lambda p: bytes((0, len(p))) + p),
    st.binary(min_size=32, max_size=32).map(lambda program: b"\x51\x20" + program),
)


@given(st.sampled_from(networks), scripts)
def test_the_script_of_an_address_is_the_one_it_is_of(chain: tuple[str, str], script: bytes) -> None:
    prefixes = PREFIXES[chain[0]][chain[1]]
    text = address(script, prefixes)
    if text is not None and not (prefixes.cashaddr and script[0] == 0xA9):  # P2SH of BCH is read in base58 only
        assert script_of(text, prefixes) == script


@given(st.sampled_from(networks), st.text(max_size=100))
def test_any_text_is_an_address_or_none(chain: tuple[str, str], text: str) -> None:
    prefixes = PREFIXES[chain[0]][chain[1]]
    script = script_of(text, prefixes)
    assert script is None or address(script, prefixes) is not None


def test_sats_are_of_the_coin_of_the_chain_and_a_text_elsewhere() -> None:
    sats = offer(currency="sats", amount=500)
    assert (sats.currency, sats.amount, in_coin(sats, "")) == ("SATS", 500, sats)
    in_bsv = in_coin(sats, "BSV")
    assert (in_bsv.currency, in_bsv.amount, in_bsv.accepted) == ("BSV", Decimal("0.000005"), ("BSV", "SATS"))
    dollars = in_coin(offer(currency="USD", acceptedCurrencies=["Sats"]), "BTC")
    assert (dollars.currency, dollars.amount, dollars.accepted) == ("USD", 1, ("USD", "BTC", "SATS"))
    assert in_coin(offer(), "BTC") == offer()


def test_many_digits_of_sats_are_not_rounded() -> None:
    digits = "1" * 100
    assert in_coin(offer(currency="SATS", amount=digits), "BSV").amount == Decimal(digits[:-8] + "." + digits[-8:])
