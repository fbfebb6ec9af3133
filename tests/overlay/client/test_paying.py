"""Claims that the client builds: what is due to the proven address, within the bound, and nothing else."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from overlay.client import AsyncOverlayClient, NotVerifiedError, calls
from overlay.client.payment_claims import build_claim, choose_offer
from overlay.publish.coins import Coin, CoinsError, from_file
from overlay.publish.keys import PublisherKey
from overlay.publish.relay_policy import RELAYED
from overlay.verify.trusted_source import open_source
from parsers.bitcoin.address import PREFIXES, address, key_hash
from parsers.bitcoin.script import p2pkh
from parsers.bitcoin.sighash import p2pkh_error
from parsers.bitcoin.tx import Outpoint, TxOutput
from parsers.cards import AgentCard, read
from parsers.cards.offers import Offer
from parsers.claims.amount_due import PaymentRefusedError
from parsers.claims.payment import UtxoChain
from tests.chainkit import agent
from tests.overlay.client.world import BASIC, BUYER, DOLLARS, MONTH, PAYEE, PAYER, PLACEHOLDER, PaidRegistry
from tests.overlay.forging_server import FakeSource

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
        (BASIC, replace(PAYER, network="mainnet"), "names no P2PKH address of BSV mainnet"),
        (BASIC | {"currency": "LTC", "acceptedCurrencies": ["LTC"]}, PAYER, "does not accept 'BSV', only 'LTC'"),
    ],
)
def test_what_cannot_be_paid_is_not_signed(price: dict[str, Any], key: PublisherKey, complaint: str) -> None:
    with pytest.raises(PaymentRefusedError, match=complaint):
        build_claim(offer(price), key, COINS, most_satoshis=10**8)


@pytest.mark.parametrize("coin", sorted(RELAYED))
@pytest.mark.parametrize("network", ["mainnet", "testnet", "regtest"])
def test_each_coin_that_a_gate_takes_is_paid_and_relayed(coin: str, network: str) -> None:
    currency, (a_byte, dust) = coin.upper(), RELAYED[coin]
    to = address(PAYEE.script, PREFIXES[coin][network]) or ""
    price = BASIC | {"currency": currency, "amount": 0.05, "acceptedCurrencies": [currency], "address": to}
    listed = [Coin(Outpoint(sha256(bytes((number,))).digest(), 0), 20_000_000) for number in range(3)]
    claim = build_claim(offer(price), PAYER, listed, most_satoshis=5_000_000, currency=currency, network=network)
    tx = claim.payment.tx
    assert (claim.payment.paid, claim.payment.chain) == (5_000_000, UtxoChain(coin, network))
    spent = {coin.outpoint: TxOutput(coin.satoshis, PAYER.script) for coin in listed}
    for vin, tx_input in enumerate(tx.inputs):
        assert p2pkh_error(tx, vin, spent[tx_input.prevout], forkid=coin in ("bsv", "bch")) is None
    assert claim.fee >= a_byte * tx.size * (0.05 if coin == "bsv" else 1)
    assert all(output.satoshis >= dust for output in tx.outputs)


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


OFFER: dict[str, Any] = {"config_id": "wt-basic", "most_satoshis": 10**8, "expected": "bsv:regtest"}
ANY = {"newest_unchecked": True}


async def test_an_address_that_is_not_proved_is_not_paid(registry: PaidRegistry) -> None:
    coins = from_file(registry.home / "coins.json")
    async with AsyncOverlayClient(registry.url, transport=LyingTransport()) as overlay:
        assert (await overlay.quote(registry.id, "wt-basic")).address == PAYER.address
        with pytest.raises(NotVerifiedError, match="is not proved: ") as caught:
            await overlay.pay(registry.id, PAYER, coins, **OFFER, **ANY)
    assert caught.value.report is not None
    assert "card" in caught.value.report.missing or "answer" in caught.value.report.missing
    async with AsyncOverlayClient(registry.url) as overlay:
        with pytest.raises(NotVerifiedError):
            await overlay.pay(registry.id, PAYER, coins, **{**OFFER, "expected": "bsv:mainnet"}, **ANY)
        claim = await overlay.pay(registry.id, PAYER, coins, **OFFER, **ANY)
        review = await overlay.pay_check({"claim": claim.value, "id": registry.id, "skillId": "echo"})
    assert (review.ok, review.paid_satoshis, review.needed_satoshis) == (True, 50_000, 50_000)


async def test_a_price_in_dollars_needs_a_rate(registry: PaidRegistry) -> None:
    coins = from_file(registry.home / "coins.json")
    before = list(coins)
    async with AsyncOverlayClient(registry.url) as overlay:
        with pytest.raises(PaymentRefusedError, match="there is no usable exchange rate"):
            await overlay.pay(registry.id, PAYER, coins, **{**OFFER, "config_id": "wt-usd"}, **ANY)
    assert coins == before


# -- the newest revision -----------------------------------------------------------------------------------------------


async def test_nothing_is_paid_before_another_source_confirms_the_newest_revision(
    registry: PaidRegistry, mirror: str
) -> None:
    coins = from_file(registry.home / "coins.json")
    async with AsyncOverlayClient(registry.url) as overlay:
        refused: list[tuple[dict[str, Any], str]] = [
            ({}, r"trusted=SOURCE.*against=\[URL, …\].*newest_unchecked=True"),
            (
                {"trusted": open_source(str(registry.home / "headers.bin"))},
                "nothing shows that this revision is the new",
            ),
            ({"trusted": FakeSource(True, unspent=None)}, "nothing shows"),
            ({"trusted": FakeSource(True, unspent=False)}, "is not proved: newest"),
            ({"against": [registry.url, f"{registry.url}/v1/"]}, "nothing shows"),
            ({"against": ["http://127.0.0.1:9"]}, "http://127.0.0.1:9 does not confirm it: cannot query"),
            ({"against": ["http://127.0.0.1:9"], "trusted": FakeSource(True, unspent=False)}, "is not proved: newest"),
        ]
        for sources, complaint in refused:
            with pytest.raises(NotVerifiedError, match=complaint):
                await overlay.pay(registry.id, PAYER, coins, **OFFER, **sources)
        confirming: list[dict[str, Any]] = [
            {"trusted": FakeSource(True, unspent=True)},
            {"against": [mirror]},
            {"against": ["http://127.0.0.1:9", mirror]},
            {"trusted": open_source(str(registry.home / "headers.bin")), "against": [mirror]},
        ]
        for sources in confirming:
            listed = list(coins)
            claim = await overlay.pay(registry.id, PAYER, listed, **OFFER, **sources)
            assert claim.payment.paid == 50_000


async def test_an_overlay_that_is_out_of_date_does_not_have_the_previous_owner_paid(
    registry: PaidRegistry, mirror: str, after_sale: str
) -> None:
    """The registry and its mirror stopped before the sale; what they serve is proved, and was true."""
    coins = from_file(registry.home / "coins.json")
    async with AsyncOverlayClient(registry.url) as overlay:
        for others in ([after_sale], [mirror, after_sale]):
            with pytest.raises(NotVerifiedError, match="may have a newer revision") as caught:
                await overlay.pay(registry.id, PAYER, coins, **OFFER, against=others)
            assert after_sale in str(caught.value)
    async with AsyncOverlayClient(after_sale) as overlay:
        with pytest.raises(NotVerifiedError, match="nothing shows") as caught:
            await overlay.pay(registry.id, PAYER, coins, **OFFER, against=[mirror])
        assert f"{mirror} has outpoint" in str(caught.value)
        claim = await overlay.pay(
            registry.id, PAYER, coins, **OFFER, trusted=FakeSource(True, unspent=True), against=[mirror]
        )
    payee = key_hash(BUYER.address)
    assert payee is not None
    assert claim.payment.tx.outputs[0].script == p2pkh(payee)


async def test_a_burned_listing_is_not_paid(registry: PaidRegistry, after_sale: str) -> None:
    coins = from_file(registry.home / "coins.json")
    async with AsyncOverlayClient(after_sale) as overlay:
        (gone,) = (await overlay.search(status="burned")).items
        with pytest.raises(NotVerifiedError, match="is burned, and only a live listing is paid"):
            await overlay.pay(gone.id, PAYER, coins, **OFFER, **ANY)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"cardSha256": "ab" * 32}, "may have a newer revision: .* has cardSha256 'abab"),
        ({"status": "burned"}, "may have a newer revision: .* has status 'burned', and not 'live'"),
        ({"outpoint": "\x1b[2J"}, r"has outpoint '\\x1b\[2J'"),
        ({"outpoint": ["x"]}, "may have a newer revision"),
        ({"id": "other.example"}, "nothing shows.* it answers about another listing"),
        (None, "nothing shows.* it answers about another listing"),
    ],
)
async def test_another_overlays_answer_is_read_with_suspicion(
    registry: PaidRegistry, changed: dict[str, Any] | None, complaint: str
) -> None:
    async with AsyncOverlayClient(registry.url) as overlay:
        item = await overlay.ask(calls.get(registry.id))

        async def answer(_: web.Request) -> web.Response:
            return web.json_response([item] if changed is None else item | changed)

        app = web.Application()
        app.router.add_get("/v1/listings/{id}", answer)
        async with TestServer(app) as other:
            with pytest.raises(NotVerifiedError, match=complaint):
                await overlay.pay(registry.id, PAYER, list(COINS), **OFFER, against=[str(other.make_url("/"))])


# -- coins -------------------------------------------------------------------------------------------------------------


async def test_coins_that_a_claim_spends_are_replaced_by_its_change(registry: PaidRegistry, tmp_path: Path) -> None:
    file, link = tmp_path / "coins.json", tmp_path / "wallet.json"
    entries = json.loads((registry.home / "coins.json").read_text())[:1]
    file.write_text(json.dumps([{**entries[0], "note": "the first"}, {**entries[0], "vout": 9, "satoshis": 1}]))
    link.symlink_to(file)
    listed = from_file(file)
    async with AsyncOverlayClient(registry.url) as overlay:
        for coins in (link, listed):
            first = await overlay.pay(registry.id, PAYER, coins, **{**OFFER, "config_id": "wt-basic"}, **ANY)
            before = file.read_bytes(), list(listed)
            with pytest.raises(CoinsError, match=r"[0-9,]+ satoshis in 1 coins do not suffice"):
                await overlay.pay(registry.id, PAYER, coins, **OFFER, **ANY)
            assert (file.read_bytes(), listed) == before
            left = from_file(file) if coins is link else listed
            change = Coin(first.payment.tx.outpoint(1), 50_000 - first.fee)
            assert [coin.satoshis for coin in left] == [1, change.satoshis]
            assert left[1] == change
    assert link.is_symlink()


async def test_two_claims_at_once_spend_different_coins(registry: PaidRegistry, tmp_path: Path) -> None:
    file = tmp_path / "coins.json"
    rows = [{"outpoint": str(coin.outpoint), "satoshis": coin.satoshis} for coin in COINS]
    file.write_text(json.dumps(rows))
    async with AsyncOverlayClient(registry.url) as overlay:
        paying = [overlay.pay(registry.id, PAYER, file, **OFFER, **ANY) for _ in range(3)]
        claims = await asyncio.gather(*paying)
    spent = [tx_input.prevout for claim in claims for tx_input in claim.payment.tx.inputs]
    assert sorted(spent) == sorted(coin.outpoint for coin in COINS)
