"""The overlay's own prices: in its card, and for requests beyond a rate limit."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import jsonschema
import pytest
from aiohttp import ClientSession

from indexer.errors import SourceUnavailableError
from indexer.setting_values import Quota
from indexer.settings import Settings, SettingsError
from indexer.store import Store, StoreUnavailableError, connect
from overlay.api.services import AppServices
from overlay.pricing.exchange_rates import ExchangeRates
from overlay.systems.a2a.own_card import own_card
from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.own_payments import OwnPayments
from overlay.systems.payments.store import PaymentStore
from parsers import cards
from parsers.cards import Kind
from tests.overlay.conftest import Serve
from tests.overlay.fakes import API_SYSTEMS, changed, selling
from tests.overlay.payments.fake_node import SERVER, FakeNode, address_of, claim_of, payment, price, script_of

QUOTAS = {"read": Quota(2, 3_600), "costly": None, "ingest": Quota(2, 3_600), "stream": None}


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
def payment_store(tmp_path: Path) -> Iterator[PaymentStore]:
    payment_store = PaymentStore.open(f"sqlite:///{tmp_path / 'payments.db'}")
    yield payment_store
    payment_store.close()


@pytest.fixture
async def client(serve: Serve, services: AppServices, payment_store: PaymentStore, node: FakeNode) -> ClientSession:
    gate = PaymentGate([price()], payment_store, node)
    return await serve(
        changed(services, limits=QUOTAS, brought=selling(gate, price()), systems=(*API_SYSTEMS, "a2a", "mcp"))
    )


async def status(client: ClientSession, claim: Any = None, path: str = "/v1/search?q=tower") -> int:
    headers = {} if claim is None else {"A2B-Payment": json.dumps(claim)}
    async with client.get(path, headers=headers) as response:
        body = await response.read()
        assert response.status != 200 or json.loads(body)["items"]
        assert ("Retry-After" in response.headers) == (response.status == 429)
        return response.status


async def test_a_payment_lifts_the_limit_by_what_was_paid(client: ClientSession, node: FakeNode) -> None:
    assert [await status(client) for _ in range(3)] == [200, 200, 429]
    tx = payment([node.mint(200_000)], [(100_000, script_of(SERVER))], node)
    assert await status(client, claim_of(tx)) == 200
    assert len(node.sent) == 1
    assert [await status(client) for _ in range(2)] == [200, 429]
    assert await status(client, claim_of(tx)) == 402  # it has paid already
    assert await status(client, claim_of(tx)) == 429  # attempts are limited, too
    assert len(node.sent) == 1


async def test_the_429_of_a_request_beyond_the_limit_names_what_pays_for_it(
    client: ClientSession, node: FakeNode
) -> None:
    assert [await status(client) for _ in range(2)] == [200, 200]
    url = "/v1/search?q=tower"
    async with client.get("/openapi.json") as response:
        schemas = (await response.json())["components"]["schemas"]
    async with client.get(url) as response:
        problem = await response.json()
        assert (response.status, response.content_type) == (429, "application/problem+json")
        assert int(response.headers["Retry-After"]) > 0
        required = json.loads(base64.b64decode(response.headers["PAYMENT-REQUIRED"]))
    jsonschema.validate(problem, schemas["Problem"] | {"components": {"schemas": schemas}})
    (accepted,) = problem["accepts"]
    assert (accepted["amount"], accepted["payTo"], accepted["extra"]["configId"]) == ("50000", address_of(SERVER), "p")
    assert accepted["resource"] == problem["resource"]["url"] == str(response.url)
    assert required == {"error": "PaymentMissing"} | {
        name: problem[name] for name in ("x402Version", "accepts", "resource")
    }
    tx = payment([node.mint(200_000)], [(int(accepted["amount"]), script_of(SERVER))], node)
    assert await status(client, claim_of(tx)) == 200


@pytest.mark.parametrize(
    ("claim", "code"),
    [
        ({"configId": "p"}, -32031),
        ({"stage": "final"}, -32032),
        ({"satoshis": 1}, -32033),
        ({"currency": "DOGE"}, -32034),
    ],
)
async def test_a_claim_that_does_not_suffice_is_402_with_its_code(
    client: ClientSession, node: FakeNode, claim: dict[str, Any], code: int
) -> None:
    assert [await status(client) for _ in range(3)] == [200, 200, 429]
    tx = payment([node.mint(200_000)], [(claim.get("satoshis", 50_000), script_of(SERVER))], node)
    sent = claim if "configId" in claim else claim_of(tx) | claim
    async with client.get("/v1/search?q=tower", headers={"A2B-Payment": json.dumps(sent)}) as response:
        answer = await response.json()
        assert (response.status, answer["code"], bool(answer["accepts"])) == (402, code, True)
        assert "PAYMENT-REQUIRED" in response.headers


async def test_the_429_of_a_call_of_a_protocol_names_what_pays_for_it(client: ClientSession) -> None:
    text = {"kind": "message", "role": "user", "messageId": "1", "parts": [{"kind": "text", "text": "tower"}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": text}}
    for path, headers in (("/a2a", {}), ("/mcp", {"Accept": "application/json, text/event-stream"})):
        while True:
            async with client.post(path, json=call, headers=headers) as response:
                answer = await response.json()
            if response.status == 429:
                break
        data = answer["error"]["data"]
        required = data[-1] if path == "/a2a" else data
        assert required["accepts"][0]["amount"] == "50000"
        assert "PAYMENT-REQUIRED" in response.headers


async def test_a_limit_names_no_payment_while_no_node_answers(
    serve: Serve, services: AppServices, payment_store: PaymentStore, node: FakeNode
) -> None:
    async def chain() -> NoReturn:
        calls.append(1)
        raise SourceUnavailableError("the node is down")

    calls: list[int] = []
    node.chain = chain  # type: ignore[method-assign]
    gate = PaymentGate([price()], payment_store, node)
    client = await serve(changed(services, limits=QUOTAS, brought=selling(gate, price())))
    assert [await status(client) for _ in range(3)] == [200, 200, 429]
    async with client.get("/v1/search?q=tower") as response:
        assert (response.status, "accepts" in await response.json()) == (429, False)
    assert len(calls) == 1  # as anybody may ask, not at each request


async def test_no_method_gets_around_the_limit(client: ClientSession, node: FakeNode) -> None:
    assert [await status(client) for _ in range(3)] == [200, 200, 429]
    tx = payment([node.mint(200_000)], [(50_000, script_of(SERVER))], node)
    for method in ("HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"):
        async with client.request(method, "/v1/search?q=tower", data=b"{}") as response:
            assert (response.status, await response.read()) in ((429, b""), (204, b"")) or response.status == 405
    headers = {"A2B-Payment": json.dumps(claim_of(tx))}
    async with client.options("/v1/search?q=tower", headers=headers) as response:
        assert (response.status, await response.read(), node.sent) == (204, b"", [])


async def test_the_402_is_documented(client: ClientSession, node: FakeNode) -> None:
    async with client.get("/openapi.json") as response:
        document = await response.json()
    answers = document["paths"]["/v1/search"]["get"]["responses"]
    assert "402" not in document["paths"]["/v1/stream"]["get"]["responses"]
    assert "402" in document["paths"]["/a2a"]["post"]["responses"]
    assert "application/json" in answers["503"]["content"]
    tx = payment([node.mint(200_000)], [(1, script_of(SERVER))], node)
    assert [await status(client) for _ in range(2)] == [200, 200]
    headers = {"A2B-Payment": json.dumps(claim_of(tx))}
    async with client.get("/v1/search", headers=headers) as response:
        assert response.status == 402
        assert "PAYMENT-REQUIRED" in response.headers
        [(media, content)] = answers["402"]["content"].items()
        assert (response.content_type, content) == (media, {"schema": {"$ref": "#/components/schemas/PaymentRequired"}})
        jsonschema.validate(await response.json(), document["components"]["schemas"]["PaymentRequired"])


async def test_a_payment_within_its_slippage_takes_nothing_from_the_limit(
    client: ClientSession, node: FakeNode
) -> None:
    assert [await status(client) for _ in range(3)] == [200, 200, 429]
    for satoshis, then in ((99_000, 429), (150_000, 200)):  # 1.98 and 3 requests, with this one
        tx = payment([node.mint(200_000)], [(satoshis, script_of(SERVER))], node)
        assert await status(client, claim_of(tx)) == 200
        assert await status(client) == then


@pytest.mark.parametrize("path", ["/a2a", "/mcp"])
async def test_a_claim_is_read_where_the_protocol_carries_it(client: ClientSession, node: FakeNode, path: str) -> None:
    tx = payment([node.mint(200_000)], [(50_000, script_of(SERVER))], node)
    part = {"kind": "data", "data": {"x-payment": claim_of(tx)}}
    text = {"kind": "text", "text": "tower"}
    a2a = {"message": {"kind": "message", "role": "user", "messageId": "1", "parts": [text, part]}}
    arguments = {"name": "search", "arguments": {"q": "tower"}}
    method = "message/send" if path == "/a2a" else "tools/call"
    plain = {"message": a2a["message"] | {"parts": [text]}} if path == "/a2a" else arguments
    paid = a2a if path == "/a2a" else arguments | {"_meta": {"x-payment": claim_of(tx)}}
    headers = {"Accept": "application/json, text/event-stream"}

    async def post(params: Any) -> tuple[int, Any]:
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with client.post(path, json=call, headers=headers) as response:
            return response.status, await response.json()

    while (answer := await post(plain))[0] != 429:
        assert answer[0] == 200
    code, paid_answer = await post(paid)
    assert (code, "result" in paid_answer) == (200, True), paid_answer
    assert len(node.sent) == 1


async def test_a_subscription_to_the_overlay_pays_for_requests_beyond_the_limit(
    serve: Serve, services: AppServices, payment_store: PaymentStore, node: FakeNode
) -> None:
    gate = PaymentGate([price(interval="day")], payment_store, node)
    client = await serve(
        changed(services, limits=QUOTAS, brought=selling(gate, price(interval="day")), systems=(*API_SYSTEMS, "a2a"))
    )
    assert [await status(client) for _ in range(3)] == [200, 200, 429]
    tx = payment([node.mint(200_000)], [(50_000, script_of(SERVER))], node)
    async with client.get("/v1/search?q=tower", headers={"A2B-Payment": json.dumps(claim_of(tx))}) as response:
        subscription = {"A2B-Subscription": response.headers["A2B-Subscription"]}
    for _ in range(5):
        async with client.get("/v1/search?q=tower", headers=subscription) as response:
            assert response.status == 200
    async with client.get("/v1/search?q=tower", headers={"A2B-Subscription": "of-another-server"}) as response:
        assert response.status == 402


async def test_an_unavailable_payment_store_is_503_in_the_form_of_the_api(
    serve: Serve, services: AppServices, tmp_path: Path, node: FakeNode
) -> None:
    class Broken(PaymentStore):
        def payment(self, *_key: object) -> NoReturn:
            raise StoreUnavailableError("the database is gone")

    gate = PaymentGate([price()], Broken.open(f"sqlite:///{tmp_path / 'payments.db'}"), node)
    client = await serve(
        changed(services, limits=QUOTAS, brought=selling(gate, price()), systems=(*API_SYSTEMS, "a2a"))
    )
    assert [await status(client) for _ in range(3)] == [200, 200, 429]
    tx = payment([node.mint(200_000)], [(50_000, script_of(SERVER))], node)
    async with client.get("/v1/search?q=tower", headers={"A2B-Payment": json.dumps(claim_of(tx))}) as response:
        problem = await response.json()
    assert (response.status, problem["status"], "requestId" in problem) == (503, 503, True)
    assert response.content_type == "application/problem+json"


async def test_a_request_within_the_limit_is_not_charged(client: ClientSession, node: FakeNode) -> None:
    tx = payment([node.mint(200_000)], [(100_000, script_of(SERVER))], node)
    assert await status(client, claim_of(tx)) == 200
    assert node.sent == []


async def test_a_paid_request_that_fails_is_not_charged(client: ClientSession, node: FakeNode) -> None:
    assert [await status(client) for _ in range(3)] == [200, 200, 429]
    tx = payment([node.mint(200_000)], [(50_000, script_of(SERVER))], node)
    assert await status(client, claim_of(tx), "/v1/search?limit=x") == 400
    assert node.sent == []


async def test_the_own_card_names_the_prices_also_where_a_signature_covers_them(client: ClientSession) -> None:
    async with client.get("/.well-known/agent-card.json") as response:
        card = await response.json()
    assert card["x-payment-config"] == [price()]
    assert card["capabilities"]["extensions"][0]["params"]["x-payment-config"] == [price()]
    read = cards.examine(
        json.dumps(own_card("https://a.example", "1", is_configured=True, prices=[price()])).encode(), Kind.AGENT
    )
    assert read.card is not None
    assert [offer.id for offer in read.card.offers] == ["p"]
    assert "offer-conflict" not in {reason.code for reason in read.warnings}


@pytest.mark.parametrize(
    ("text", "chains", "words"),
    [
        (None, "", "cannot be read"),
        ("{", "", "not JSON"),
        ("[]", "", "not a list of prices"),
        ('[{"id": "p", "amount": 0, "currency": "BSV"}]', "", "not a list of prices"),
        (json.dumps([price(), price(amount="much")]), "", r"prices.json: the price /1/amount cannot be read.*much"),
        (json.dumps([price(), price(depositPct=3)]), "", "the price /1/depositPct cannot be read"),
        (json.dumps([price()]), "", "needs a node"),
        (json.dumps([price()]), "bsv=http://127.0.0.1:1", ""),
    ],
)
def test_prices_that_cannot_be_taken_are_a_wrong_setting(
    tmp_path: Path, text: str | None, chains: str, words: str
) -> None:
    file = tmp_path / "prices.json"
    if text is not None:
        file.write_text(text)
    environ = {"A2B_PRICES": str(file)} | ({"A2B_CHAINS": chains} if chains else {})
    settings = Settings.load({}, environ, None)
    store = Store(connect(f"sqlite:///{tmp_path / 'a2b.db'}"))
    try:
        if words:
            with pytest.raises(SettingsError, match=words):
                OwnPayments(settings, store, ExchangeRates())
        else:
            own_payments = OwnPayments(settings, store, ExchangeRates())
            assert own_payments.gate is not None
            assert (list(own_payments.nodes), own_payments.prices) == (["BSV"], [price()])
    finally:
        store.close()


def test_prices_that_nobody_can_pay_are_named_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "prices.json"
    prices = [price(id="bech32", address="bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"), price(id="ok"), price(id="ltc")]
    prices[2] |= {"currency": "LTC", "acceptedCurrencies": []}
    file.write_text(json.dumps(prices))
    store = Store(connect(f"sqlite:///{tmp_path / 'a2b.db'}"))
    settings = Settings.load({}, {"A2B_PRICES": str(file), "A2B_CHAINS": "bsv=http://127.0.0.1:1"}, None)
    with caplog.at_level("WARNING"):
        OwnPayments(settings, store, ExchangeRates())
    store.close()
    assert [id_ for id_ in ("bech32", "ok", "ltc") if f"the price {id_} in" in caplog.text] == ["bech32", "ltc"]


def test_the_own_card_changes_no_amount(tmp_path: Path) -> None:
    amounts = ["0.1", "1e-8", "0.10000000000000000001", "12345678901234567.89", "7"]
    file = tmp_path / "prices.json"
    prices = ",".join(f'{{"id": "p{amount}", "currency": "BSV", "amount": {amount}}}' for amount in amounts)
    file.write_text(f"[{prices}]")
    store = Store(connect(f"sqlite:///{tmp_path / 'a2b.db'}"))
    try:
        settings = Settings.load({}, {"A2B_PRICES": str(file), "A2B_CHAINS": "bsv=http://127.0.0.1:1"}, None)
        own_payments = OwnPayments(settings, store, ExchangeRates())
        shown = [one["amount"] for one in json.loads(json.dumps(own_payments.prices))]
        assert [Decimal(str(amount)) for amount in shown] == [Decimal(amount) for amount in amounts]
        assert own_payments.gate is not None
        assert [offer.amount for offer in own_payments.gate.offers] == [Decimal(amount) for amount in amounts]
    finally:
        store.close()
