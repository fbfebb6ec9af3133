"""The dry run of a payment claim: by the API, by the command, with a node and without."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path
from time import time
from typing import Any

import pytest
from aiohttp import ClientSession

from indexer.settings import Settings
from indexer.store import connect
from indexer.store.rates import Quote, Quotes
from overlay.api.services import AppServices
from overlay.api.shared_services import PAYMENTS, Payments
from overlay.systems.payments.checking import PaymentSources, check_claim, check_inputs, offers_in
from parsers.bitcoin.address import PREFIXES, address
from parsers.bitcoin.script import push
from parsers.bitcoin.tx import TxOutput
from parsers.cards.rate_table import RateTable
from parsers.claims.amount_due import PaymentRefusedError
from parsers.claims.payment import PaymentTerms, UtxoChain, read_payment
from tests.overlay.calls import TOWER, problem
from tests.overlay.conftest import Serve
from tests.overlay.fakes import changed, priced
from tests.overlay.payments.fake_node import (
    CHAIN,
    PAYER,
    SERVER,
    FakeNode,
    address_of,
    claim_of,
    payment,
    price,
    script_of,
)

NOT_RESERVED = "not-reserved"


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


def paid(node: FakeNode, satoshis: int = 50_000, **members: Any) -> dict[str, Any]:
    """A claim that pays so much, from a new coin."""
    tx = payment([node.mint(90_000)], [(satoshis, script_of(SERVER)), (39_000, script_of(PAYER))], node)
    return claim_of(tx, **members)


async def check(claim: Any, node: FakeNode | None, **members: Any) -> dict[str, Any]:
    sources = PaymentSources(chains={"BSV": CHAIN}, nodes={"BSV": node} if node else {})
    return await check_claim(claim, offers_in(price(**members)), sources)


async def test_a_claim_that_would_be_taken_reserves_and_sends_nothing(node: FakeNode) -> None:
    claim = paid(node)
    for _ in range(2):
        answer = await check(claim, node)
        assert (answer["ok"], answer["reasons"]) == (True, [])
        assert [one["code"] for one in answer["unchecked"]] == [NOT_RESERVED]
        assert (answer["neededSatoshis"], answer["leastSatoshis"], answer["paidSatoshis"]) == (50_000, 49_500, 50_000)
    assert not node.sent
    assert not node.mempool


async def test_a_claim_may_come_in_its_data_part(node: FakeNode) -> None:
    claim = {"x-payment": paid(node)}
    for wrapped in (claim, {"type": "data", "data": claim}):
        assert (await check(wrapped, node))["ok"] is True
    assert (await check({"type": "data", "data": {}}, node))["code"] == -32031


async def test_without_a_node_the_answer_says_what_is_not_checked(node: FakeNode) -> None:
    assert [one["code"] for one in (await check(paid(node), None))["unchecked"]] == ["no-node", NOT_RESERVED]
    node.down = True
    answer = await check(paid(node), node)
    assert (answer["ok"], answer["unchecked"][0]["code"]) == (True, "node-unreachable")


async def test_a_claim_for_a_price_in_sats_of_a_listing_is_checked_in_the_coin(
    serve: Serve, services: AppServices, node: FakeNode
) -> None:
    address = address_of(SERVER)
    client = await serve(priced(services, "bsv:regtest", currency="sats", amount=50_000, address=address))
    async with client.post("/v1/pay/check", json={"id": "priced", "claim": paid(node)}) as response:
        answer = await response.json()
    assert (answer["ok"], answer["neededSatoshis"], answer["paidSatoshis"]) == (True, 50_000, 50_000)


async def test_an_input_that_is_spent_unknown_or_of_another_key_is_refused(node: FakeNode) -> None:
    async def reason(claim: Any) -> tuple[int, str]:
        answer = await check(claim, node)
        assert answer["ok"] is False
        return answer["code"], answer["reasons"][0]["code"]

    coin = node.mint(90_000)
    claim = claim_of(payment([coin], [(50_000, script_of(SERVER))], node))
    node.double_spend(coin)
    assert await reason(claim) == (-32031, "input-spent")
    claim = paid(node)
    node.coins.popitem()
    assert await reason(claim) == (-32031, "input-spent")
    wrong = payment([node.mint(90_000)], [(50_000, script_of(SERVER))], node, SERVER)
    assert await reason(claim_of(wrong)) == (-32031, "script-failed")
    more = payment([node.mint(49_999)], [(50_000, script_of(SERVER))], node)
    assert await reason(claim_of(more)) == (-32031, "values")


@pytest.mark.parametrize("network", ["bsv", "ltc"])
async def test_a_script_other_than_p2pkh_is_refused_where_nothing_can_run_it(
    node: FakeNode, network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    coin = node.mint(90_000)
    claim = claim_of(payment([coin], [(50_000, script_of(SERVER))], node))
    created = read_payment(claim, PaymentTerms(offers=offers_in(price()), chains={"BSV": CHAIN}))
    monkeypatch.setitem(sys.modules, "bitcoinx", None)
    spent = TxOutput(90_000, push(b"x") + b"\x75\x51")
    with pytest.raises(PaymentRefusedError, match="other than P2PKH") as caught:
        check_inputs(created._replace(chain=UtxoChain(network, "regtest")), [spent])
    assert caught.value.reason == "script-not-checkable"


async def test_the_amounts_are_given_when_too_little_is_paid(node: FakeNode) -> None:
    answer = await check(paid(node, 49_499), node)
    assert (answer["ok"], answer["code"], answer["error"]) == (False, -32033, "AmountInsufficient")
    assert (answer["neededSatoshis"], answer["paidSatoshis"]) == (50_000, 49_499)


async def post(client: ClientSession, body: Any, status: int = 200) -> Any:
    async with client.post("/v1/pay/check", json=body) as response:
        if status != 200:
            return await problem(response, status)
        assert response.status == 200
        return await response.json()


async def test_the_route_answers_200_for_what_it_refuses(serve: Serve, services: AppServices, node: FakeNode) -> None:
    client = await serve(
        changed(services, chains=lambda: {"demo": "bsv:regtest"}, brought={PAYMENTS: Payments(nodes={"BSV": node})})
    )
    taken = await post(client, {"claim": paid(node), "config": price()})
    assert (taken["ok"], taken["configId"], taken["stage"]) == (True, "p", "full")
    missing = await post(client, {"claim": None, "config": [price()]})
    assert (missing["ok"], missing["code"], missing["error"]) == (False, -32030, "PaymentMissing")
    assert (missing["neededSatoshis"], missing["paidSatoshis"]) == (None, None)
    assert await post(client, {"config": [price()]}) == missing
    final = await post(client, {"claim": paid(node, stage="final"), "config": price(), "state": "pending"})
    assert (final["code"], final["error"]) == (-32032, "StageMismatch")
    for state in ("running", "completed", "failed"):
        refused = await post(client, {"claim": paid(node), "config": price(), "state": state})
        assert refused["code"] == -32032
        assert f"a task that is {state} takes no payment" in refused["detail"]
    unpayable = await post(client, {"claim": paid(node), "config": price(acceptedCurrencies=[], currency="EUR")})
    assert unpayable["code"] == -32034
    listed = await post(client, {"claim": paid(node, configId="wt-basic"), "id": TOWER})
    assert (listed["code"], listed["error"]) == (-32034, "AddressMismatch")
    assert not node.sent


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ([], 400, "a JSON object"),
        ({}, 400, "either id is needed"),
        ({"claim": None}, 400, "either id is needed"),
        ({"claim": None, "id": TOWER, "config": {}}, 400, "either id is needed"),
        ({"claim": None, "id": 5}, 400, "/id': input should be a valid string"),
        ({"claim": None, "id": TOWER, "state": "paid"}, 400, "/state': input should be 'pending', 'running'"),
        ({"claim": None, "id": TOWER, "more": 1}, 400, "/more': extra inputs are not permitted"),
        ({"claim": None, "id": "nobody"}, 404, "no listing has the id"),
    ],
)
async def test_a_body_of_another_form_is_a_problem_that_names_it(
    client: ClientSession, body: Any, status: int, words: str
) -> None:
    assert words in (await post(client, body, status))["detail"]


async def test_a_price_that_cannot_be_read_is_a_problem_that_names_it(client: ClientSession) -> None:
    body = {"claim": None, "config": [price(), price(amount="much")]}
    (fault,) = (await post(client, body, 400))["errors"]
    assert (fault["code"], fault["pointer"]) == ("offer-amount", "/config/1/amount")
    assert "much" in fault["detail"]


def test_the_command_names_a_price_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from overlay import cli

    card, claim = tmp_path / "card.json", tmp_path / "claim.json"
    card.write_text(json.dumps({"x-payment-config": [price(currency=None)]}))
    claim.write_text("{}")
    with pytest.raises(SystemExit) as ended:
        cli.main(["pay-check", str(claim), "--card", str(card), "--data", str(tmp_path)])
    assert ended.value.code == 2
    assert "card.json: the price /x-payment-config/0/currency cannot be read" in capsys.readouterr().err


async def test_a_body_that_is_no_json_is_a_problem(client: ClientSession) -> None:
    async with client.post("/v1/pay/check", data=b'{"claim": ' + b"[" * 500) as response:
        assert (await problem(response, 400))["errors"][0]["code"] == "not-json"
    async with client.post(
        "/v1/pay/check", data=b'{"claim": {"rawTx": "00", "rawTx": "01"}, "config": {}}'
    ) as response:
        assert (await problem(response, 400))["errors"][0]["code"] == "repeated"


def test_the_command_converts_a_cards_price_by_the_stored_rates(
    tmp_path: Path, node: FakeNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from indexer.chains.node import payment_node
    from overlay import cli

    monkeypatch.setattr(payment_node, "nodes_of", lambda _sources: {"BSV": node})
    now = int(time())
    rates = RateTable(base="BSV", rates={"BSV": Decimal(1), "USD": Decimal(50)}, source="", quoted_at=now,
                      until=now + 3600)  # fmt: skip
    engine = connect(Settings.load({"data": str(tmp_path)}).database)
    Quotes(engine).store([Quote(feed="f!alone", rank=0, since=0, table=rates)])
    engine.dispose()
    (tmp_path / "card.json").write_text(
        json.dumps(price(currency="USD", amount="0.025", acceptedCurrencies=["USD", "BSV"]))
    )
    (tmp_path / "claim.json").write_text(json.dumps(paid(node)))
    command = ["pay-check", str(tmp_path / "claim.json"), "--card", str(tmp_path / "card.json"), "--json"]
    with pytest.raises(SystemExit) as ended:
        cli.main([*command, "--data", str(tmp_path)])
    answer = json.loads(capsys.readouterr().out)
    assert (ended.value.code, answer["neededSatoshis"], answer["rate"]) == (0, 50_000, "0.02")


def test_the_command_checks_a_claim_against_a_card(
    tmp_path: Path, node: FakeNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from indexer.chains.node import payment_node
    from overlay import cli

    monkeypatch.setattr(payment_node, "nodes_of", lambda _sources: {"BSV": node})
    files = {name: tmp_path / f"{name}.json" for name in ("claim", "card")}
    files["card"].write_text(json.dumps([price()]))
    files["claim"].write_text(json.dumps(paid(node)))
    arguments = ["pay-check", str(files["claim"]), "--card", str(files["card"])]
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 0
    assert "would be taken" in capsys.readouterr().out
    files["claim"].write_text(json.dumps(paid(node, 1)))
    with pytest.raises(SystemExit) as ended:
        cli.main([*arguments, "--json"])
    assert ended.value.code == 1
    assert json.loads(capsys.readouterr().out)["code"] == -32033
    monkeypatch.setattr(payment_node, "nodes_of", lambda _sources: {})
    on_mainnet = str(address(script_of(SERVER), PREFIXES["bsv"]["mainnet"]))
    files["card"].write_text(json.dumps([price(address=on_mainnet)]))
    files["claim"].write_text(json.dumps(paid(node)))
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 0, "without a node, addresses are those of main networks"
    files["claim"].write_text("{")
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
