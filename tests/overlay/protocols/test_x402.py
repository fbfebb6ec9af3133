"""The x402 Bazaar over the sample chain: recorded requests, the filter rules of its conformance vectors, and the
unmodified client of @x402/extensions."""

from __future__ import annotations

import json
import shutil
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from indexer.rates.feed_urls import ALONE
from indexer.store.rates import Quote
from overlay.pricing.exchange_rates import ExchangeRates
from overlay.systems.x402.x402_api import accepts, resource
from parsers.cards.rate_table import RateTable
from tests.conftest import missing
from tests.overlay.calls import local_http, read_json
from tests.overlay.protocols.vectors import api_page, recorded, send
from tests.waiting import PATIENCE

CLIENT = Path(__file__).parent / "x402_client"
REFUSED = ("limit=0", "limit=many", "offset=-1", "nonsense=1", "/discovery/search")


def get(url: str, path: str = "resources", **parameters: Any) -> dict[str, Any]:
    answer: dict[str, Any] = read_json(f"{url}/discovery/{path}", **parameters)
    return answer


def ids(items: list[dict[str, Any]]) -> list[str]:
    return [item["metadata"]["id"] for item in items]


def priced_in_bsv(url: str, **parameters: Any) -> list[str]:
    """The listings of the API with an offer that is priced in BSV."""
    items = api_page(url, status="live", limit=100, **parameters)["items"]
    return [item["id"] for item in items if any(offer["currency"] == "BSV" for offer in item["offers"])]


def test_recorded_requests_are_answered(overlay_url: str, shared: Path) -> None:
    for request in recorded(shared, "x402_bazaar"):
        response = send(overlay_url, request)
        if request.target.endswith(REFUSED):
            assert response.status_code == 400
            assert response.json()["error"]
        else:
            assert response.status_code == 200, response.text


def test_resources_are_the_listings_that_are_priced_in_bsv(overlay_url: str) -> None:
    answer = get(overlay_url, limit=100)
    assert answer["x402Version"] == 2
    assert sorted(ids(answer["items"])) == sorted(priced_in_bsv(overlay_url))
    assert answer["pagination"] == {"limit": 100, "offset": 0, "total": len(answer["items"])}
    for item in answer["items"]:
        listing = read_json(item["metadata"]["listing"])
        # the addresses of the sample chain have no checksums: nobody can pay them, as the quotes say
        assert item["accepts"] == []
        for offer in listing["offers"]:
            parameters = {"id": listing["id"], "configId": offer["id"], "currency": "BSV"}
            quote = local_http.get(f"{overlay_url}/v1/quote", params=parameters).json()
            assert quote["ok"] is False


def test_words_find_what_the_api_finds(overlay_url: str) -> None:
    for words in ("watchtower", "weather", "nobody"):
        answer = get(overlay_url, "search", query=words, limit=10)
        assert ids(answer["resources"]) == priced_in_bsv(overlay_url, q=words)
        assert answer["pagination"]["cursor"] is None
        assert not answer["partialResults"]
    page = get(overlay_url, "search", query="a", limit=2)
    following = get(overlay_url, "search", query="a", limit=2, cursor=page["pagination"]["cursor"])
    assert len(set(ids(page["resources"] + following["resources"]))) == 4


@pytest.mark.parametrize(
    ("name", "value", "matches"),
    [
        ("type", "http", True), ("type", "mcp", None), ("type", "ftp", False), ("scheme", "a2b", True),
        ("scheme", "batch-settlement", False), ("network", "bsv:regtest", True), ("network", "bsv:mainnet", False),
        ("network", "eip155:999999999", False), ("extensions", "payment-identifier", False),
    ],
)  # fmt: skip
def test_a_filter_holds_for_every_item(overlay_url: str, name: str, value: str, matches: bool | None) -> None:
    answer = get(overlay_url, limit=100, **{name: value})
    assert "unappliedFilters" not in answer
    assert answer["pagination"]["total"] == len(answer["items"])
    if matches is not None:
        assert bool(answer["items"]) == matches
    for item in answer["items"]:
        assert value == item["type"] if name == "type" else value in ("a2b", item["metadata"]["chain"])


def test_a_filter_that_cannot_be_applied_is_named(overlay_url: str) -> None:
    for path, more in (("resources", {}), ("search", {"query": "a"})):
        answer = get(overlay_url, path, payTo="0x0000000000000000000000000000000000000001", **more)
        assert answer["unappliedFilters"] == ["payTo"]
        assert answer.get("items", answer.get("resources"))


@pytest.mark.parametrize("query", ["network=!!!", "limit=101", "type=", "cursor=1", "offset=1.5"])
def test_bad_parameters_are_named_in_the_protocols_own_error(overlay_url: str, query: str) -> None:
    response = local_http.get(f"{overlay_url}/discovery/resources?{query}")
    assert response.status_code == 400
    assert response.json()["x402Version"] == 2
    assert query.partition("=")[0] in response.json()["error"]


def test_reads_are_conditional(overlay_url: str) -> None:
    tag = local_http.get(f"{overlay_url}/discovery/resources").headers["ETag"]
    assert local_http.get(f"{overlay_url}/discovery/resources", headers={"If-None-Match": tag}).status_code == 304


OFFER = {
    "id": "a",
    "interval": None,
    "skillIds": [],
    "depositPct": None,
    "address": "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
    "acceptedCurrencies": ["BSV"],
}
ITEM = {
    "id": "x", "type": "tool", "url": "", "name": "n" * 33, "description": "", "logo": "", "caip2": "eip155:1",
    "tags": ["é", "a" * 33, *"abcdef"], "status": "live", "warnings": [], "timestamp": "2026-01-01T00:00:00Z",
}  # fmt: skip


def rates(feed: str) -> ExchangeRates:
    table = RateTable("BSV", {"BSV": Decimal(1), "USD": Decimal(50)}, "https://a.example", 0, 2**40)
    exchange = ExchangeRates(lambda: [Quote(feed=feed, rank=0, since=0, table=table)])
    exchange.refresh()
    return exchange


def test_a_converted_price_is_rounded_up_to_a_satoshi_and_paid_on_the_main_network() -> None:
    dollars = OFFER | {"amount": "5", "currency": "USD", "acceptedCurrencies": ["USD", "BSV"]}
    other = dollars | {"id": "b"}
    cheapest = {
        "offerId": "a",
        "amount": "5",
        "currency": "USD",
        "converted": {"amount": "0.1000000001", "currency": "BSV"},
    }
    shown = ITEM | {"offers": [dollars, other], "cheapest": cheapest}
    assert accepts("http://a.example", shown, rates("BSV:a")) == [], "payments are not counted by one public feed"
    [requirement] = accepts("http://a.example", shown, rates(f"BSV:a{ALONE}"))
    assert requirement["amount"] == "10000001"
    assert requirement["network"] == "bsv:mainnet"
    assert requirement["extra"]["currency"] == "USD"


@pytest.mark.parametrize(
    ("caip2", "address", "is_payable"),
    [
        ("bsv:mainnet", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", True),
        ("bsv:regtest", "mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", True),
        ("bsv:regtest", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", True),
        ("bsv:mainnet", "mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", False),
        ("bsv:mainnet", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", False),
        ("bsv:mainnet", "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy", False),
        ("bsv:mainnet", "alice@pay.example", False),
        ("bsv:mainnet", "1WatchtowerAddr", False),
        ("bsv:mainnet", "", False),
    ],
)
@pytest.mark.parametrize("priced", [{"amount": "0.0005", "currency": "BSV"}, {"amount": "50000", "currency": "SATS"}])
def test_an_address_that_no_payment_can_reach_is_not_named(
    caip2: str, address: str, is_payable: bool, priced: dict[str, str]
) -> None:
    item = ITEM | {"caip2": caip2, "offers": [OFFER | priced | {"address": address}], "cheapest": None}
    assert [accept["amount"] for accept in accepts("http://a.example", item, ExchangeRates())] == ["50000"] * is_payable


@pytest.mark.parametrize(
    ("logo", "shown"),
    [
        ("https://a.example/i.png", True), ("https://127.0.0.1/i", False), ("http://[::1]/i", False),
        ("data:image/png,", False),
        ("https://u@a.example/i", False), ("https://localhost.localdomain/i", False), ("https://2130706433/i", False),
        ("https://0x7f.1/i", False), ("https://%6cocalhost/i", False), ("http://[/", False),
    ],
)  # fmt: skip
def test_what_the_bazaar_does_not_take_is_left_out(logo: str, shown: bool) -> None:
    created = resource("http://a.example", ITEM | {"logo": logo, "offers": [], "cheapest": None}, ExchangeRates())
    assert ("iconUrl" in created) == shown
    assert "serviceName" not in created
    assert created["tags"] == list("abcde")
    assert (created["type"], created["resource"]) == ("mcp", "http://a.example/v1/listings/x")


def test_the_bazaar_client_reads_all_pages(overlay_url: str) -> None:
    if shutil.which("node") is None or not (CLIENT / "node_modules").is_dir():
        missing("@x402/extensions: run `npm ci` in tests/overlay/protocols/x402_client;")
    command = ["node", "bazaar.js", overlay_url]
    done = subprocess.run(command, cwd=CLIENT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert ids(result["paged"]) == ids(result["all"]["items"])
    assert sorted(ids(result["paged"])) == sorted(priced_in_bsv(overlay_url))
    assert ids(result["hits"]["resources"]) == priced_in_bsv(overlay_url, q="watchtower")
    assert result["payTo"]["unappliedFilters"] == ["payTo"]
    assert result["elsewhere"]["items"] == []
    assert "network" in result["refused"]
