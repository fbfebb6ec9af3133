"""The exchange rates of a client: of a file or of two hosts that agree, and of the last hour."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from indexer.rates.feed_urls import rate_feeds
from overlay.client.hire.client_rates import MAX_AGE, ClientRates
from tests.rate_server import RateServer

NOW = 1_700_000_000


async def rates_of(file: Path, services: dict[str, tuple[str, int]], text: str = "") -> tuple[ClientRates, list[str]]:
    """The rates of services that quote dollars for BSV at a time, and the sentences about them."""
    complaints = list[str]()
    async with RateServer() as server:
        for name, (usd, quoted_at) in services.items():
            path, answer = ANSWERS[name](usd, quoted_at)
            server.send(path, json.dumps(answer).encode())
            text += f" BSV={name}:http://127.0.0.1:{server.port}"
        rates = ClientRates(rate_feeds(text.format(file=file)), lambda: NOW, complaints.append)
        await rates.rate("BSV", "USD")
    return rates, complaints


def _whatsonchain(usd: str, quoted_at: int) -> tuple[str, Any]:
    return "/v1/bsv/main/exchangerate", {"rate": float(usd), "time": quoted_at, "currency": "USD"}


def _coingecko(usd: str, quoted_at: int) -> tuple[str, Any]:
    return "/api/v3/simple/price", {"bitcoin-cash-sv": {"usd": float(usd), "last_updated_at": quoted_at}}


ANSWERS = {"whatsonchain": _whatsonchain, "coingecko": _coingecko}


@pytest.mark.parametrize(
    ("services", "expected"),
    [
        ({"whatsonchain": ("50", NOW), "coingecko": ("51", NOW)}, Decimal("0.02")),
        ({"whatsonchain": ("50", NOW), "coingecko": ("60", NOW)}, None),
        ({"whatsonchain": ("50", NOW)}, None),
        ({"whatsonchain": ("50", NOW), "coingecko": ("50", NOW - MAX_AGE - 1)}, None),
    ],
)
async def test_two_hosts_have_to_agree(
    tmp_path: Path, services: dict[str, tuple[str, int]], expected: Decimal | None
) -> None:
    rates, complaints = await rates_of(tmp_path, services)
    assert await rates.rate("USD", "BSV") == expected
    assert await rates.rate("USD", "LTC") is None
    assert [sentence for sentence in complaints if "last hour" not in sentence] == []


async def test_a_file_suffices(tmp_path: Path) -> None:
    file = tmp_path / "rates.json"
    file.write_text(json.dumps({"base": "USD", "rates": {"BSV": "0.02", "EUR": "0.9"}, "timestamp": NOW}))
    rates, _ = await rates_of(file, {"whatsonchain": ("10", NOW)}, "USD=file:{file}")
    assert await rates.rate("USD", "BSV") == Decimal("0.02")
    assert await rates.rate("EUR", "BSV") == Decimal("0.0222222222222")
