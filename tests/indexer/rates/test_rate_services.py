"""Public services of exchange rates, by servers on this machine that answer as they document, and rates in a file."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path

import pytest

from indexer.rates.feed_client import FeedClient, RatesRefusedError
from indexer.rates.feed_urls import RateFeed, rate_feeds
from indexer.rates.rate_services import SERVICES
from tests.rate_server import RateServer

ANSWERS = {
    "whatsonchain": ("BSV", "/v1/bsv/main/exchangerate", {"rate": 27.055, "time": 1_700_000_000, "currency": "USD"}),
    "coingecko": (
        "BSV",
        "/api/v3/simple/price",
        {"bitcoin-cash-sv": {"usd": 27.1, "eur": 25, "usd_24h_vol": 9, "last_updated_at": 1_700_000_001}},
    ),
    "coinbase": (
        "USD",
        "/v2/exchange-rates",
        {"data": {"currency": "USD", "rates": {"EUR": "0.95", "BTC": "0.00001", "BSV": "3", "ODD": "none"}}},
    ),
}
TABLES = {
    "whatsonchain": ({"BSV": Decimal(1), "USD": Decimal("27.055")}, 1_700_000_000),
    "coingecko": ({"BSV": Decimal(1), "USD": Decimal("27.1"), "EUR": Decimal(25)}, 1_700_000_001),
    "coinbase": ({"USD": Decimal(1), "EUR": Decimal("0.95"), "BTC": Decimal("0.00001")}, None),
}


@pytest.mark.parametrize("name", SERVICES)
async def test_a_service_is_read_as_it_documents(name: str) -> None:
    base, path, answer = ANSWERS[name]
    client = FeedClient()
    async with RateServer() as server:
        server.send(path, json.dumps(answer).encode())
        (feed,) = rate_feeds(f"{base}={name}:http://127.0.0.1:{server.port}")
        assert await client.ask(feed) == TABLES[name]
        assert not feed.pays_alone
        for lie in (b"[]", b"{}", b"null", b'{"data": {"currency": "EUR", "rates": {"USD": "1"}}}', b'{"rate": "x"}'):
            server.send(path, lie)
            with pytest.raises(RatesRefusedError):
                await client.ask(feed)
        server.send(path, b"", status=429)
        with pytest.raises(RatesRefusedError, match="status 429"):
            await client.ask(feed)
    await client.close()


def test_the_setting_of_the_documentation_names_four_feeds() -> None:
    feeds = rate_feeds("BSV=whatsonchain: BSV=coingecko: USD=coinbase: USD=file:/etc/a2b/rates.json")
    assert [feed.source for feed in feeds] == [
        "https://api.whatsonchain.com", "https://api.coingecko.com", "https://api.coinbase.com", "file",
    ]  # fmt: skip
    assert [feed.pays_alone for feed in feeds] == [False, False, False, True]
    assert "ids=bitcoin-cash-sv&" in feeds[1].url
    assert feeds[2].url == "https://api.coinbase.com/v2/exchange-rates?currency=USD"
    assert len({feed.name for feed in feeds}) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BSV=coinbase:", "coinbase has no rates of BSV; it ended BSV in January 2024"),
        ("USD=coingecko:", "coingecko has no rates of USD; it has BCH, BSV, BTC"),
        ("EUR=whatsonchain:", "whatsonchain has no rates of EUR"),
        ("USD=kraken:", "names an unknown service: write BASE=https"),
        ("USD=file:rates.json", "names no absolute path"),
        ("USD=coinbase:ftp://secret.example", "has no host or no port"),
    ],
)
def test_a_feed_that_cannot_be_is_refused_with_a_sentence(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        rate_feeds(text)
    assert "secret" not in str(refused.value)


def test_a_feed_pays_alone_that_is_signed_or_on_this_machine() -> None:
    assert [feed.pays_alone for feed in rate_feeds(f"BSV=https://a.example/#{'ab' * 32} BSV=https://a.example/")] == [
        True, False,
    ]  # fmt: skip
    assert [feed.pays_alone for feed in rate_feeds("A=http://127.0.0.1:9/ B=http://[::1]/ C=http://10.0.0.1/")] == [
        True, True, False,
    ]  # fmt: skip


async def test_a_file_has_the_time_of_its_change_where_it_states_none(tmp_path: Path) -> None:
    client, path = FeedClient(), tmp_path / "rates.json"
    feed = RateFeed("USD", "", "", path=str(path))
    with pytest.raises(RatesRefusedError, match="cannot be read: No such file"):
        await client.ask(feed)
    path.write_text('{"rates": {"EUR": "0.9"}}')
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert await client.ask(feed) == ({"USD": Decimal(1), "EUR": Decimal("0.9")}, 1_700_000_000)
    path.write_text('{"rates": {"EUR": "0.9"}, "at": 1700000005}')
    assert (await client.ask(feed)).quoted_at == 1_700_000_005
    path.write_bytes(b" " * (1024 * 1024 + 1))
    with pytest.raises(RatesRefusedError, match="more than"):
        await client.ask(feed)
    await client.close()
