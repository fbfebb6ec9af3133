"""Listings side by side: what decides between them, in words."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from aiohttp import ClientSession

from overlay.api.services import AppServices
from tests.overlay.calls import get, problem
from tests.overlay.fakes import FakeStore


def named(*ids: str, **terms: str) -> str:
    return urlencode([*(("id", id_) for id_ in ids), *terms.items()])


@pytest.fixture
def two(services: AppServices) -> list[str]:
    assert isinstance(services.store, FakeStore)
    agents = [id_ for id_, one in services.store.listings.items() if "#" not in id_ and one.state.kind.value == "agent"]
    return agents[:2]


async def test_listings_are_answered_in_the_order_of_the_request(client: ClientSession, two: list[str]) -> None:
    answer = await get(client, f"/v1/compare?{named(*two[::-1])}")
    assert [item["id"] for item in answer["items"]] == two[::-1]
    facts = {fact["fact"]: fact for fact in answer["facts"]}
    assert [len(fact["values"]) for fact in answer["facts"]] == [2] * len(facts)
    assert facts["owner"]["differs"] is (len({item["owner"] for item in answer["items"]}) > 1)
    assert "answers" not in facts, "nobody looked at either"
    assert "cost" not in facts, "no calls were named"


async def test_what_it_costs_for_a_use_is_computed(client: ClientSession, two: list[str]) -> None:
    answer = await get(client, f"/v1/compare?{named(*two, calls='10/day')}")
    costs = next(fact["values"] for fact in answer["facts"] if fact["fact"] == "cost")
    assert all(cost is None or cost.endswith(" a month") for cost in costs)
    assert any(costs)


@pytest.mark.parametrize("number", [0, 1, 5])
async def test_two_to_four_are_compared(client: ClientSession, number: int) -> None:
    async with client.get(f"/v1/compare?{named(*map(str, range(number)))}") as response:
        assert (await problem(response, 400))["errors"][0]["parameter"] == "id"


async def test_a_listing_that_is_not_there_is_named(client: ClientSession, two: list[str]) -> None:
    async with client.get(f"/v1/compare?{named(two[0], 'nowhere.example')}") as response:
        assert "nowhere.example" in (await problem(response, 404))["detail"]


async def test_the_page_shows_both_and_refuses_with_a_sentence(client: ClientSession, two: list[str]) -> None:
    html = {"Accept": "text/html"}
    async with client.get(f"/compare?{named(*two, calls='5/week')}", headers=html) as response:
        text = await response.text()
        assert response.status == 200
    assert text.count('<th scope="col"') == 2
    assert "For my use" in text
    async with client.get(f"/compare?{named(two[0], calls='often')}", headers=html) as response:
        assert response.status == 400
        assert "not a number of calls" in await response.text()
    async with client.get("/compare?id=a&id=b", headers=html) as response:
        assert response.status == 404
