"""From feeds of exchange rates to answers over HTTP: converted, failed over, altered to; also where others ask them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from overlay import cli
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.journey.test_pending import meets
from tests.overlay.calls import get
from tests.rate_server import RateServer
from tests.serving import new_app, serving
from tests.waiting import until_told

QUESTION = "priceCurrency=usd&sort=price&limit=100"


def priced(name: str, amount: float, currency: str, interval: str | None = None, **more: Any) -> dict[str, Any]:
    return agent(name, **{"x-payment-config": [{
        "id": "p", "currency": currency, "amount": amount, "interval": interval,
        "acceptedCurrencies": [currency, "USD"], **more,
    }]})  # fmt: skip


CARDS = (
    priced("Dollars", 3, "USD", "month"), priced("Coins", 0.05, "BSV", depositPct=0.2),
    priced("Euros", 9, "EUR", "P1D"), priced("Odd", 1, "ODD"), agent("Free to ask"),
)  # fmt: skip


def chain() -> MemoryChain:
    kit = ChainKit()
    kit.mine(*(kit.inscribe(card) for card in CARDS))
    return MemoryChain(*kit.blocks, name="live")


def names(result: Any) -> list[str]:
    return [item["name"] for item in result["items"]]


def compared(item: Any) -> Decimal:
    cheapest = item["cheapest"]
    converted = cheapest.get("converted")
    if converted is None:
        assert cheapest["currency"] == "USD"
        return Decimal(cheapest["amount"])
    assert converted["currency"] == "USD"
    assert Decimal(converted["amount"]) == Decimal(cheapest["amount"]) * Decimal(converted["rate"])
    return Decimal(converted["amount"])


async def test_prices_are_compared_in_any_currency_that_a_feed_quotes(tmp_path: Path) -> None:
    async with RateServer() as server:
        server.tell("/a", {"USD": "50", "EUR": "40"}, sign=True)
        feed = f"BSV=http://127.0.0.1:{server.port}/a#{server.public}"
        async with serving(new_app(tmp_path, chain(), rates_every=1, rates=feed)) as session:
            result = await until_told(session, f"/v1/search?{QUESTION}", lambda page: "rates" in page)
            meets(result, "Page")
            assert names(result) == ["Coins", "Dollars", "Euros", "Free to ask", "Odd"]
            assert result["rates"]["source"] == f"http://127.0.0.1:{server.port}"
            assert result["items"][2]["cheapest"]["converted"] == {
                "amount": "11.25", "currency": "USD", "rate": "1.25", "perDay": "11.25",
            }  # fmt: skip
            for bounds, expected in (
                ("maxPrice=11.25", ["Coins", "Dollars", "Euros"]),
                ("maxPrice=11.2499999", ["Coins", "Dollars"]),
                ("minPrice=2.51", ["Dollars", "Euros"]),
                ("maxPrice=2.5&acceptedCurrency=usd", ["Coins"]),
                ("maxPrice=2.5&acceptedCurrency=eur&priceCurrency=eur", []),
            ):
                query = bounds if "priceCurrency" in bounds else f"{bounds}&priceCurrency=usd"
                page = await get(session, f"/v1/search?{query}&sort=price")
                assert names(page) == expected, query
                name, _, bound = bounds.partition("&")[0].partition("=")
                for price in map(compared, page["items"]):
                    assert price <= Decimal(bound) if name == "maxPrice" else price >= Decimal(bound)
            quote = await get(session, f"/v1/quote?id={result['items'][0]['id']}&currency=usd")
            assert (quote["stage"], quote["amount"], quote["rate"]) == ("deposit", "0.5", "50")
            meets(quote, "Quote")
            status = await get(session, "/v1/status")
            meets(status, "Status")
            assert [item["usable"] for item in status["rates"]["feeds"]] == [True]


async def test_a_feed_that_fails_is_replaced_by_the_next_and_false_rates_change_nothing(tmp_path: Path) -> None:
    async with RateServer() as server:
        server.tell("/a", {"USD": 50})
        server.tell("/b", {"USD": 51})
        base = f"http://127.0.0.1:{server.port}"
        feeds = f"BSV={base}/a#{server.public} BSV={base}/b"
        async with serving(new_app(tmp_path, chain(), rates_every=1, rates=feeds)) as session:
            result = await until_told(session, "/v1/search?priceCurrency=usd&q=coins", lambda page: "rates" in page)
            assert result["items"][0]["cheapest"]["converted"]["rate"] == "51", "the first is not signed"
            server.tell("/a", {"USD": 50}, sign=True)
            query = "/v1/search?priceCurrency=usd&q=coins"
            await until_told(session, query, lambda page: page["items"][0]["cheapest"]["converted"]["rate"] == "50")
            server.tell("/a", {"USD": 5000}, sign=True)
            status = await until_told(
                session, "/v1/status", lambda answer: answer["rates"]["feeds"][0].get("code") == "outlier"
            )
            assert "other feeds contradict it" in status["rates"]["feeds"][0]["error"]
            item = (await get(session, query))["items"][0]
            assert item["cheapest"]["converted"]["rate"] == "50"
            path = f"/v1/quote?id={item['id']}&currency=usd"
            quote = await until_told(session, path, lambda answer: "notes" in answer)
            meets(quote, "Quote")
            assert (quote["error"], quote["rate"]) == ("unpayable", "50")  # no address of the listing takes dollars
            assert [note["code"] for note in quote["notes"]] == ["refused-quote"]
            assert "other feeds contradict it" in quote["notes"][0]["detail"]


async def test_of_two_feeds_that_contradict_each_other_no_price_is_quoted_and_the_reason_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with RateServer() as server:
        server.tell("/a", {"USD": 50, "EUR": 40})
        server.tell("/b", {"USD": 260, "EUR": 41})
        base = f"http://127.0.0.1:{server.port}"
        why = "other feeds contradict it, and no majority agrees with it"
        refused = [{"code": "contradicted", "detail": why, "currencies": ["USD"]}]
        app = new_app(tmp_path, chain(), rates_every=1, rates=f"BSV={base}/a BSV={base}/b")
        async with serving(app) as session:
            status = await until_told(
                session, "/v1/status", lambda answer: "refused" in ((answer["rates"] or {}).get("feeds") or [{}])[0]
            )
            meets(status, "Status")
            assert [feed["refused"] for feed in status["rates"]["feeds"]] == [refused, refused]
            await contradicted(session, why)
        async with serving(new_app(tmp_path, follow=False)) as session:  # what only serves says the same
            status = await until_told(session, "/v1/status", lambda answer: answer["rates"])
            assert [feed["refused"] for feed in status["rates"]["feeds"]] == [refused, refused]
            await contradicted(session, why)
        monkeypatch.setenv("A2B_DATA", str(tmp_path / "data"))
        with pytest.raises(SystemExit):
            cli.main(["status"])
        assert f"not counted: USD: {why}" in capsys.readouterr().out


async def contradicted(session: Any, why: str) -> None:
    """Quotes and searches where the feeds contradict each other in dollars."""
    page = await get(session, "/v1/search?q=coins&maxPrice=99&priceCurrency=usd")
    assert page["notes"][0]["code"] == "refused-quote"
    item = (await get(session, "/v1/search?q=coins"))["items"][0]
    quote = await get(session, f"/v1/quote?id={item['id']}&currency=usd")
    meets(quote, "Quote")
    assert (quote["ok"], quote.get("amount")) == (False, None)
    assert quote["detail"] == (
        "there is no usable exchange rate from 'BSV' to 'USD': the current quotes of 'USD' are refused: " + why
    )


async def test_questions_ask_no_feed_and_nobody_asks_the_one_that_a_publisher_names(tmp_path: Path) -> None:
    async with RateServer() as server:
        base = f"http://127.0.0.1:{server.port}"
        for path in ("/a", "/theirs"):
            server.tell(path, {"USD": 50})
        kit = ChainKit()
        kit.mine(kit.inscribe(priced("Own", 1, "BSV", priceFeedUrl=f"{base}/theirs")))
        chain = MemoryChain(*kit.blocks, name="live")
        async with serving(new_app(tmp_path, chain, rates=f"BSV={base}/a")) as session:
            result = await until_told(session, f"/v1/search?{QUESTION}", lambda page: "rates" in page and page["items"])
            item = result["items"][0]
            assert item["offers"][0]["priceFeedUrl"] == f"{base}/theirs"
            for _ in range(3):
                for path in (f"/v1/search?{QUESTION}", f"/v1/quote?id={item['id']}&currency=usd", "/v1/status"):
                    await get(session, path)
        assert server.requests == {"/a": 1}


async def test_a_process_that_only_serves_uses_what_another_one_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with RateServer() as server:
        server.tell("/a", {"USD": 50})
        feed = f"BSV=http://127.0.0.1:{server.port}/a"
        async with serving(new_app(tmp_path, chain(), rates_every=1, rates=feed)) as session:
            await until_told(session, "/v1/search?priceCurrency=usd", lambda page: "rates" in page)
        query = server.requests["/a"]
        async with serving(new_app(tmp_path, follow=False)) as session:
            result = await until_told(
                session, "/v1/search?maxPrice=2.5&priceCurrency=usd", lambda page: "rates" in page
            )
            assert names(result) == ["Coins"]
            status = await get(session, "/v1/status")
            assert status["rates"]["source"] == f"http://127.0.0.1:{server.port}"
        assert server.requests["/a"] == query, "nothing was asked by the process that serves"
    monkeypatch.setenv("A2B_DATA", str(tmp_path / "data"))
    for arguments, line in (
        (["search", "--max-price", "2.5", "--price-currency", "usd"], "from 0.05 BSV per call (about 2.5 USD)"),
        (["status"], "rates: http://127.0.0.1"),
    ):
        with pytest.raises(SystemExit):
            cli.main(arguments)
        assert line in capsys.readouterr().out
