"""An answer names the phrases of a question that are preferences, with links to filter by them and without them."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import ClientSession
from yarl import URL

from overlay.api.search_request import from_pairs
from overlay.search.query import Operators
from tests.overlay.calls import get


async def answered(client: ClientSession, **parameters: str) -> dict[str, Any]:
    body = await get(client, str(URL("/v1/search").with_query(parameters)))

    return dict(body)


@pytest.mark.parametrize(
    ("q", "parameter", "filtered", "without"),
    [
        (
            "free agents for weather", "free",
            {"q": "agents for weather", "limit": "3", "free": "true"}, {"q": "agents for weather", "limit": "3"},
        ),
        (
            "weather under  5 usd", "maxPrice",
            {"q": "weather", "limit": "3", "maxPrice": "5", "priceCurrency": "USD"}, {"q": "weather", "limit": "3"},
        ),
        (
            "weather not snow", "q", {"q": "weather -snow", "limit": "3"}, {"q": "weather", "limit": "3"},
        ),
    ],
)  # fmt: skip
async def test_links_filter_by_a_phrase_and_leave_it_out(
    client: ClientSession, q: str, parameter: str, filtered: dict[str, str], without: dict[str, str]
) -> None:
    page = await answered(client, q=q, limit="3")
    (phrase,) = page["understood"]
    assert (phrase["parameter"], phrase["applied"]) == (parameter, "preferred")
    assert dict(URL(phrase["filterUrl"]).query) == filtered
    assert dict(URL(phrase["withoutUrl"]).query) == without
    for url in (phrase["filterUrl"], phrase["withoutUrl"]):
        body = await get(client, url)
        assert "understood" not in body
    async with client.get("/", params={"q": q}, headers={"Accept": "text/html"}) as response:
        text = await response.text()
        assert 'aria-label="Preferred"' in text
        assert "only these" in text


async def test_understand_false_makes_words_of_them(client: ClientSession) -> None:
    page = await answered(client, q="free agents for weather", understand="false")
    assert "understood" not in page
    query = from_pairs([("q", "free agents for weather"), ("understand", "false")], {}).query
    assert (query.text, query.preferred) == ("free agents for weather", ())


def test_generic_words_hint_at_a_kind_unless_one_is_required() -> None:
    hinting = [("q", "translation agents")]
    assert from_pairs(hinting, {}).query.hinted == "agent"
    assert from_pairs([*hinting, ("type", "tool")], {}).query.hinted == ""
    assert from_pairs([*hinting, ("understand", "false")], {}).query.hinted == ""


def test_a_filter_of_the_search_and_quotation_marks_count_instead() -> None:
    for pairs in ([("q", "free agents weather"), ("free", "false")], [("q", '"free agents" weather')]):
        assert from_pairs(pairs, {}).query.preferred == ()
    cheap = "cheapest agents weather"
    assert from_pairs([("q", cheap), ("sort", "price")], {}).query.text == cheap
    assert from_pairs([("q", cheap), ("sort", "relevance")], {}).query.text == "agents weather"
    both = from_pairs([("q", "weather -rain not snow")], {}).query
    assert both.operators == Operators(excluded=("rain",))
    assert both.preferred == (("operators", Operators(excluded=("rain", "snow"))),)
