"""A search says what each listing costs a month for so many calls, and orders by that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from overlay.api import search_answer
from overlay.api.problems import BadRequestError
from overlay.api.search_request import from_pairs
from tests.chainkit import agent
from tests.overlay.test_unconfirmed import UnconfirmedRegistry

PRICES: dict[str, list[dict[str, Any]]] = {
    "by call": [{"id": "call", "amount": "0.01", "currency": "USD"}],
    "by month": [{"id": "month", "amount": 12, "currency": "USD", "interval": "P1M"}],
    "by year": [
        {"id": "year", "amount": 120, "currency": "USD", "interval": "P1Y"},
        {"id": "call", "amount": 1, "currency": "USD"},
    ],
    "once": [{"id": "once", "amount": 5, "currency": "USD", "interval": "P0D"}],
    "elsewhere": [{"id": "call", "amount": 1, "currency": "EUR"}],
    "unpriced": [],
}


@pytest.fixture(params=["native", "whoosh"])
async def registry(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[UnconfirmedRegistry]:
    with UnconfirmedRegistry(tmp_path, request.param) as created:
        for name, prices in PRICES.items():
            created.mine(created.kit.inscribe(agent(name, **{"x-payment-config": prices})))
        await created.look()
        yield created


def page(registry: UnconfirmedRegistry, **parameters: str) -> list[tuple[str, str]]:
    """The names of a page, each with its offer and cost."""
    search = from_pairs(parameters.items(), {})
    items = search_answer.items(registry.engine.search(search.query).hits, {})
    costs = [item.get("cost") for item in items]
    assert all(cost is None or cost["per"] == "P1M" for cost in costs)
    shown = [f"{cost['offerId']} {cost['amount']} {cost['currency']}" if cost else "" for cost in costs]
    return list(zip([item["name"] for item in items], shown, strict=True))


async def test_the_cheapest_depends_on_how_often_it_is_called(registry: UnconfirmedRegistry) -> None:
    few = page(registry, calls="5/month", sort="cost", priceCurrency="USD")
    assert few[:3] == [
        ("by call", "call 0.05 USD"), ("by year", "call 5 USD"), ("by month", "month 12 USD"),
    ]  # fmt: skip
    many = page(registry, calls="100/day", sort="cost", priceCurrency="USD")
    assert many[:3] == [
        ("by year", "year 10 USD"), ("by month", "month 12 USD"), ("by call", "call 30.436875 USD"),
    ]  # fmt: skip
    backwards = page(registry, calls="100/day", sort="-cost", priceCurrency="USD")
    assert [name for name, _ in backwards[:3]] == ["by call", "by month", "by year"]
    for rows in (few, many, backwards):
        assert {name for name, cost in rows[3:] if not cost} == {"once", "elsewhere", "unpriced"}


async def test_without_rates_each_currency_is_by_itself(registry: UnconfirmedRegistry) -> None:
    names = [name for name, _ in page(registry, calls="1/month", sort="cost")]
    assert names[:4] == ["elsewhere", "by call", "by year", "by month"]


async def test_a_filter_of_offers_holds_on_the_one_that_costs(registry: UnconfirmedRegistry) -> None:
    assert page(registry, calls="100/day", interval="none", acceptedCurrency="USD", sort="cost") == [
        ("by call", "call 30.436875 USD"), ("by year", "call 3043.6875 USD"),
    ]  # fmt: skip
    unsorted = dict(page(registry, calls="12 per year", q="month"))
    assert unsorted["by month"] == "month 12 USD"


@pytest.mark.parametrize(
    ("text", "a_year"),
    [("1/day", "365.2425"), ("2 per week", "104.355"), ("0.5/month", "6"), ("7/YEAR", "7")],
)
def test_calls_are_counted_by_the_year(text: str, a_year: str) -> None:
    assert from_pairs([("calls", text)], {}).query.calls == Decimal(a_year)


@pytest.mark.parametrize("text", ["5", "0/day", "-1/day", "5/hour", "many", "1e9/day", "1/2/day"])
def test_other_calls_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadRequestError, match="50/day"):
        from_pairs([("calls", text)], {})


def test_an_order_by_cost_needs_calls() -> None:
    with pytest.raises(BadRequestError, match="calls=50/day"):
        from_pairs([("sort", "-cost")], {})
