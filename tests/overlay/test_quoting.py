"""Quotes: what is due at each stage, converted, with slippage, rounded to what can be paid; and what has none."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from overlay.api.quote_api import amount_due, amount_due_json
from overlay.api.services import AppServices
from overlay.pricing.exchange_rates import ExchangeRates
from overlay.text.compact_json import encode
from parsers import cards
from parsers.cards import AgentCard, Kind
from parsers.cards.money import plain
from parsers.cards.offers import Offer
from parsers.cards.rate_table import RateTable
from parsers.claims.amount_due import DECIMALS, PaymentRefusedError
from tests.overlay.calls import TOWER, engine_of, get, problem
from tests.overlay.conftest import Serve
from tests.overlay.fakes import PAID_TO, FakeEngine, changed, priced
from tests.overlay.test_exchange import FIRST, SECOND, exchange


def offer(**config: Any) -> Offer:
    supplied = {"id": "p", "currency": "BSV", "amount": 0.03, "acceptedCurrencies": ["BSV", "USD", "BTC"], **config}
    card = {"name": "A", "url": "https://a.example", "skills": [{"id": "s"}], "x-payment-config": [supplied]}
    parsed = cards.read(json.dumps(card).encode(), Kind.AGENT)
    assert isinstance(parsed, AgentCard)
    return parsed.offers[0]


NONE = ExchangeRates()


def test_deposit_and_final_part_make_the_whole() -> None:
    price = offer(depositPct=0.2)
    parts = {stage: amount_due(price, stage, "BSV", NONE) for stage in ("deposit", "final", "full")}
    assert {stage: part.due.amount for stage, part in parts.items()} == {
        "deposit": Decimal("0.006"), "final": Decimal("0.024"), "full": Decimal("0.03"),
    }  # fmt: skip
    assert amount_due_json(parts["final"], "BSV", NONE) == {
        "amount": "0.024", "least": "0.02376", "rate": "1", "slippagePct": "0.01",
        "neededSatoshis": 2_400_000, "leastSatoshis": 2_376_000,
    }  # fmt: skip


def test_another_currency_is_converted_and_the_quote_holds_until_the_rates_are_too_old() -> None:
    rates = exchange(FIRST)
    result = amount_due_json(amount_due(offer(), "full", "USD", rates), "USD", rates)
    assert result == {
        "amount": "1.5", "least": "1.485", "rate": "50", "slippagePct": "0.01", "validUntil": "2027-01-15T08:59:50Z",
        "rates": {"source": "https://a.example", "at": "2027-01-15T07:59:50Z", "age": 10, "base": "BSV"},
    }  # fmt: skip
    dollars = offer(currency="USD", amount=1)
    assert amount_due_json(amount_due(dollars, "full", "BSV", rates), "BSV", rates)["neededSatoshis"] == 2_000_000
    assert amount_due(dollars, "full", "BSV", exchange(SECOND)).due.amount == Decimal("0.02")


def test_the_price_may_name_its_own_slippage() -> None:
    assert amount_due(offer(slippagePct=0), "full", "BSV", NONE).due.least == Decimal("0.03")
    assert amount_due(offer(slippagePct=0.5), "full", "BSV", NONE).due.least == Decimal("0.015")


@pytest.mark.parametrize(
    ("config", "stage", "currency", "code", "name"),
    [
        ({}, "full", "SOL", -32034, "CurrencyUnsupported"),
        ({}, "full", "BTC", -32034, "CurrencyUnsupported"),
        ({}, "deposit", "BSV", -32032, "StageMismatch"),
        ({}, "final", "USD", -32032, "StageMismatch"),
    ],
)
def test_what_cannot_be_paid_so_is_refused_with_the_code_of_the_protocol(
    config: dict[str, Any], stage: str, currency: str, code: int, name: str
) -> None:
    with pytest.raises(PaymentRefusedError) as caught:
        amount_due(offer(**config), stage, currency, exchange(FIRST))
    assert (caught.value.code, caught.value.name) == (code, name)


amounts = st.decimals(0, 10**6, places=9)
shares = st.decimals(0, 1, places=4)
rates_of = st.decimals(Decimal("0.0001"), 10**6, places=6)


@given(amounts, shares, shares, rates_of, st.sampled_from(["BSV", "USD", "BTC"]))
def test_amounts_are_rounded_up_to_the_smallest_unit_and_the_least_is_within_slippage(
    amount: Decimal, deposit: Decimal, slippage: Decimal, rate: Decimal, currency: str
) -> None:
    price = replace(offer(), amount=amount, deposit_pct=deposit, slippage_pct=slippage)
    table = RateTable(
        base="BSV", rates={"BSV": Decimal(1), "USD": rate, "BTC": rate}, source="", quoted_at=0, until=10**12
    )
    rates = exchange(table)
    parts = [amount_due(price, stage, currency, rates) for stage in ("deposit", "final", "full")]
    assert (
        Fraction(parts[0].due.anchor) + Fraction(parts[1].due.anchor)
        == Fraction(parts[2].due.anchor)
        == Fraction(amount)
    )
    for part in parts:
        unit = Fraction(1, 10 ** DECIMALS[currency]) if currency in DECIMALS else Fraction(0)
        exact = Fraction(part.due.anchor) * Fraction(part.due.rate)
        assert exact <= Fraction(part.due.amount) <= exact + unit
        floor = Fraction(part.due.amount) * (1 - Fraction(slippage))
        assert floor <= Fraction(part.due.least) <= floor + unit
        assert part.due.least <= part.due.amount


def numeral(digits: int, exponent: int) -> str:
    return f"{digits}e{exponent}"


exponents = st.integers(-400, 400)
numerals = st.builds(numeral, st.integers(0, 10**99), exponents) | st.builds(numeral, st.just(1), exponents)


@example("1e300", "1e-250", "0", "1e30", "USD")
@example("1e-400", "1e-400", "1e-400", "1e-30", "EUR")
@example("1e400", "1e-400", "0.99999", "1", "USD")
@example("1e161", "0e400", "1e0", "1e-30", "USD")
@given(
    numerals, numerals, numerals, st.sampled_from(["1e-30", "1", "3.7", "1e30"]), st.sampled_from(["USD", "BSV", "EUR"])
)
def test_whatever_a_card_holds_is_quoted(amount: str, deposit: str, slippage: str, rate: str, currency: str) -> None:
    price = offer(
        amount=amount,
        currency="USD",
        depositPct=deposit,
        slippagePct=slippage,
        acceptedCurrencies=["USD", "BSV", "EUR"],
    )
    units = {"USD": Decimal(1), "BSV": Decimal(rate), "EUR": Decimal(rate)}
    table = RateTable(base="USD", rates=units, source="", quoted_at=0, until=10**11)
    rates = exchange(table)
    stages = ("deposit", "final", "full") if price.deposit_pct is not None else ("full",)
    parts = {stage: amount_due(price, stage, currency, rates) for stage in stages}
    for part in parts.values():
        body = json.loads(encode(amount_due_json(part, currency, rates)))
        assert 0 <= Decimal(body["least"]) <= Decimal(body["amount"])
        assert Decimal(plain(part.due.anchor)) == part.due.anchor <= price.amount
    if len(parts) > 1:
        assert Fraction(parts["deposit"].due.anchor) + Fraction(parts["final"].due.anchor) >= Fraction(price.amount)


def test_the_vectors_of_the_protocol_are_quoted_as_they_are_paid(shared: Path) -> None:
    rows = (shared / "vectors" / "trust" / "a2b_payments.jsonl").read_text().splitlines()
    checked = 0
    for row in map(json.loads, rows):
        claim, expected = row["claim"], row["expected"]
        if not claim or claim["configId"] != row["config"]["id"]:
            continue
        price = offer(**row["config"])
        if expected.get("needed_satoshis") and not row["oracle"] and claim["currency"] == price.currency:
            result = amount_due_json(
                amount_due(price, claim["stage"], claim["currency"], NONE), claim["currency"], NONE
            )
            assert result["neededSatoshis"] == expected["needed_satoshis"], row["name"]
            assert result["leastSatoshis"] <= expected["paid_satoshis"], row["name"]
            checked += 1
        if row["name"] in ("currency-not-accepted", "deposit-on-full-config", "fx-no-feed"):
            with pytest.raises(PaymentRefusedError) as caught:
                amount_due(price, claim["stage"], claim["currency"], NONE)
            assert (caught.value.code, caught.value.name) == (expected["code"], expected["name"])
            checked += 1
    assert checked >= 6


async def test_a_quote_is_served_for_a_listings_price(serve: Serve, services: AppServices) -> None:
    client = await serve(changed(services, exchange=exchange(FIRST)))
    answer = await get(client, f"/v1/quote?id={TOWER}&configId=wt-basic")
    assert answer == {
        "ok": False, "error": "address-checksum",
        "detail": "the address has no valid checksum, so no payment can reach it: 1WatchtowerAddr",
        "testNetwork": "bsv:regtest is a test network: its work proves nothing, and its coins have no value",
        "network": "regtest",
        "id": TOWER, "status": "live", "configId": "wt-basic", "stage": "full", "currency": "BSV",
        "interval": None, "depositPct": None, "address": "1WatchtowerAddr",
        "anchor": {"amount": "0.00045", "currency": "BSV"}, "amount": "0.00045", "least": "0.0004455", "rate": "1",
        "slippagePct": "0.01", "neededSatoshis": 45_000, "leastSatoshis": 44_550,
    }  # fmt: skip
    assert await get(client, f"/v1/quote?id={TOWER}") == answer
    refused = await get(client, f"/v1/quote?id={TOWER}&currency=usd")
    assert (refused["ok"], refused["code"], refused["error"]) == (False, -32034, "CurrencyUnsupported")
    staged = await get(client, f"/v1/quote?id={TOWER}&stage=deposit")
    assert (staged["ok"], staged["code"], staged["stage"]) == (False, -32032, "deposit")


async def test_a_quote_for_nothing_that_exists_is_a_problem(serve: Serve, services: AppServices) -> None:
    client = await serve(services)
    assert isinstance(services.engine, FakeEngine)
    document = next(item.id for item in services.engine.documents if len(json.loads(item.item)["offers"]) > 1)
    for path, status, told_so in (
        ("/v1/quote", 400, "id is missing"),
        (f"/v1/quote?id={TOWER}&stage=half", 400, "'half' is not one of"),
        (f"/v1/quote?id={TOWER}&foo=1", 400, "foo"),
        (f"/v1/quote?id={TOWER}&configId=other", 404, "names 'wt-basic'"),
        (f"/v1/quote?id={document}", 400, "configId is needed"),
        ("/v1/quote?id=nobody", 404, "no listing has the id"),
    ):
        async with client.get(path) as response:
            assert told_so in (await problem(response, status))["detail"]


# -- whether somebody can pay

BECH32 = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
ETH = "0x52908400098527886E0F7030069857D2E4169EE7"


@pytest.mark.parametrize(
    ("address", "currency", "ok"),
    [
        (PAID_TO, "BSV", True), (BECH32, "BSV", False), ("3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy", "BSV", False),
        ("alice@pay.example", "BSV", False), ("", "BSV", False), ("mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", "BSV", False),
        (ETH, "ETH", True), (ETH, "BSV", False), (PAID_TO, "ETH", False), (PAID_TO, "USD", False),
        (BECH32, "BTC", True),
    ],
)  # fmt: skip
async def test_a_quote_is_ok_where_a_payment_in_its_currency_can_reach_the_address(
    serve: Serve, services: AppServices, address: str, currency: str, ok: bool
) -> None:
    currencies = ["BSV", "ETH", "USD", "BTC"]
    client = await serve(priced(services, currency=currency, acceptedCurrencies=currencies, address=address))
    answer = await get(client, f"/v1/quote?id=priced&currency={currency}")
    assert (answer["ok"], answer["amount"]) == (ok, "0.0005")
    assert ok or answer["error"] == ("address-checksum" if (address, currency) == (ETH, "BSV") else "unpayable")


async def test_nothing_is_paid_to_any_address(serve: Serve, services: AppServices) -> None:
    client = await serve(priced(services, amount=0, address=""))
    assert (await get(client, "/v1/quote?id=priced"))["ok"] is True


@pytest.mark.parametrize(
    ("caip2", "currency", "accepted", "chosen"),
    [
        ("bsv:mainnet", "BSV", ["BTC"], "BSV"), ("bsv:mainnet", "BTC", ["ETH", "BSV"], "BSV"),
        ("eip155:1", "BTC", ["BSV", "ETH"], "ETH"), ("bsv:mainnet", "USD", ["EUR", "BSV"], "BSV"),
        ("bsv:mainnet", "USD", [], None), ("bsv:mainnet", "LTC", ["ETH"], None),
    ],
)  # fmt: skip
async def test_without_a_currency_the_quote_is_in_one_that_a_chain_here_carries(
    serve: Serve, services: AppServices, caip2: str, currency: str, accepted: list[str], chosen: str | None
) -> None:
    rates = RateTable(
        base="USD", rates=dict.fromkeys(("USD", "EUR", "BSV", "BTC", "ETH", "LTC"), Decimal(1)), source="", quoted_at=0,
        until=4 * 10**9,
    )  # fmt: skip
    client = await serve(
        changed(priced(services, caip2, currency=currency, acceptedCurrencies=accepted), exchange=exchange(rates))
    )
    answer = await get(client, "/v1/quote?id=priced")
    if chosen is None:
        assert (answer["ok"], answer["code"], "amount" in answer) == (False, "no-chain", False)
    else:
        assert (answer["currency"], answer["amount"]) == (chosen, "0.0005")


@pytest.mark.parametrize("written", ["SATS", "sats"])
async def test_sats_are_quoted_in_the_coin_of_the_chain_that_carries_the_card(
    serve: Serve, services: AppServices, written: str
) -> None:
    client = await serve(priced(services, currency=written, amount=500))
    for query in ("", "&currency=BSV", "&currency=sats"):
        answer = await get(client, f"/v1/quote?id=priced{query}")
        assert (answer["ok"], answer["currency"], answer["neededSatoshis"]) == (True, "BSV", 500)
    item = await get(client, "/v1/listings/priced")
    assert [(offer["amount"], offer["currency"]) for offer in item["offers"]] == [("500", "SATS")]
    assert "sats" in [warning["code"] for warning in item["warnings"]]
    elsewhere = await serve(priced(services, "eip155:1", currency=written, amount=500))
    assert (await get(elsewhere, "/v1/quote?id=priced"))["code"] == "no-chain"


async def test_a_search_compares_sats_as_the_coin_and_a_check_warns(serve: Serve, services: AppServices) -> None:
    [document] = engine_of(priced(services, currency="sats", amount=500)).documents
    [offer] = document.offers
    assert (offer.currency, offer.amount, offer.accepted) == ("BSV", Decimal("0.000005"), ("BSV", "SATS"))
    [document] = engine_of(priced(services, "eip155:1", currency="sats", amount=500)).documents
    assert (document.offers[0].currency, document.offers[0].amount) == ("SATS", 500)


UNPAYABLE = {"id": "p", "amount": 1, "currency": "BSV", "address": BECH32}


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ([UNPAYABLE | {"address": PAID_TO}, UNPAYABLE], ["/1"]),
        (UNPAYABLE, [""]),
        ({"x-payment": [UNPAYABLE]}, ["/x-payment/0"]),
        ({"name": "A", "url": "https://a.example", "skills": [{"id": "s"}], "x-payment-config": [UNPAYABLE]},
         ["/x-payment-config/0"]),
        ({"name": "A", "url": "https://a.example", "skills": [{"id": "s"}], "x-payment-config": UNPAYABLE},
         ["/x-payment-config"]),
        ({"mcpServers": {"a/b": {"command": "x", "x-payment-config": [UNPAYABLE]}, "c": {"command": "y"}},
          "x-payment-config": [UNPAYABLE]}, ["/mcpServers/a~1b/x-payment-config/0", "/x-payment-config/0"]),
        ([UNPAYABLE | {"acceptedCurrencies": ["BTC"]}, UNPAYABLE | {"amount": 0}], []),
    ],
)  # fmt: skip
async def test_a_check_and_its_preview_warn_of_a_price_that_nobody_can_pay(
    serve: Serve, services: AppServices, body: Any, pointers: list[str]
) -> None:
    client = await serve(services)
    async with client.post("/v1/check", json=body) as response:
        answer = await response.json()
    assert answer["ok"], answer["errors"]
    assert [one["pointer"] for one in answer["warnings"] if one["code"] == "unpayable"] == pointers
    if "name" in body:
        assert "unpayable" in [one["code"] for one in answer["preview"]["warnings"]]
