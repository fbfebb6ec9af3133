"""Saved queries are met by exactly the listings that a search finds as holding all words."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from overlay.api.search_request import from_pairs
from overlay.projection.search_index import SearchIndex
from overlay.search.facts import package_fact
from overlay.search.query import Operators, Query
from overlay.systems.webhooks.matcher import Percolator
from parsers.cards import Skill
from tests.contracts.conftest import Filled
from tests.contracts.listed import listing, price, put

WEATHER = Skill("getWeather", "Weather", "Forecasts for any harbour", ("storms",), ("Will it rain tomorrow?",))
DOCUMENTS = (
    listing("a1", "Weather station", description="Storms and rain over the harbour.", tags=("Nautical",)),
    listing("a2", "web_search", description="Searches the web, node.js inside", skills=("getDexChart",)),
    listing("a3", "支付网关与发票翻译服务", owner="bob", chain="eth", caip2="eip155:1"),
    listing("a4", "Forecaster", skills=(WEATHER,), offers=(price("5"), price("1", "BSV", "P1M", "EUR"))),
    listing("a5", "Dear forecaster", skills=(WEATHER, "other"), offers=(price("50", skills=("other",)),)),
    listing("a6", "Weather tool", kind="tool", domain="a.example", verified=True),
    listing("a7", "Weather that was", status="burned"),
    listing("a8", "Weather to be", status="pending", height=None),
    listing("a9", "Weather copy", hidden_in=("", "bsv"), group="a1"),
)
QUERIES: tuple[dict[str, Any], ...] = (
    {"text": "weather"},
    {"text": "weather harbour"},
    {"text": "harbours storm rain"},
    {"text": "web search"},
    {"text": "websearch"},
    {"text": "getdexchart"},
    {"text": "dex chart"},
    {"text": "node.js"},
    {"text": "支付"},
    {"text": "发票翻译"},
    {"text": "weather", "kind": "tool"},
    {"text": "weather", "statuses": ("burned",)},
    {"text": "weather", "statuses": ()},
    {"text": "weather", "owners": ("alice",)},
    {"text": "weather", "with_duplicates": True},
    {"text": "weather", "verified": True},
    {"text": "weather", "domains": ("a.example",)},
    {"text": "weather", "chains": ("bsv",)},
    {"chains": ("eip155:1",)},
    {"owners": ("bob",)},
    {"tags": ("nautical", "storms")},
    {"skills": ("getWeather",), "max_price": Decimal(10), "price_currency": "USD"},
    {"skills": ("other",), "min_price": Decimal(10), "price_currency": "USD"},
    {"currencies": ("EUR",), "intervals": ("P1M",)},
    {"currencies": ("USD",), "intervals": ("P1M",)},
    {"max_price": Decimal(2), "price_currency": "USD", "rates": {"BSV": Decimal(3)}},
    {"max_price": Decimal(2), "price_currency": "USD", "rates": {"BSV": Decimal(1)}},
    {"text": "rain harbour", "operators": Operators(phrases=("over the harbour",))},
    {"text": "weather", "operators": Operators(excluded=("storm", "tool"))},
    {"text": "weather", "operators": Operators(not_tags=("nautical",), not_owners=("bob",))},
    {"text": "weather", "operators": Operators(not_skills=("getWeather",))},
)


def put_all(engine: SearchIndex) -> None:
    put(engine, *DOCUMENTS)


@pytest.mark.parametrize("fields", QUERIES, ids=str)
def test_a_saved_query_is_met_by_what_a_search_finds(filled: Filled, fields: dict[str, Any]) -> None:
    engine = filled(put_all)
    query = Query(**fields, sort="updated", limit=50)
    hits = engine.search(query)
    results = {hit.id for hit in hits.hits[: hits.matched]}
    percolator = Percolator([("saved", query)], engine.terms().frequency)
    assert {document.id for document in DOCUMENTS if [*percolator.matching(document)]} == results


def test_there_is_something_to_find_and_something_not_to(engine: SearchIndex) -> None:
    """Without which the test above would say nothing."""
    put(engine, *DOCUMENTS)
    counts = [engine.search(Query(**fields, sort="updated")).matched for fields in QUERIES]
    assert counts.count(0) <= 3
    assert max(counts) < len(DOCUMENTS)


def test_all_queries_that_a_listing_meets_are_named_each_once() -> None:
    queries = [(str(number), Query(**fields)) for number, fields in enumerate(QUERIES)]
    twice = Percolator([*queries, *((f"again {key}", query) for key, query in queries)])
    alone = {key: Percolator([(key, query)]) for key, query in queries}
    for document in DOCUMENTS:
        met = [key for key, percolator in alone.items() if [*percolator.matching(document)]]
        assert sorted(twice.matching(document)) == sorted([*met, *(f"again {key}" for key in met)])


def test_words_are_not_corrected_or_completed_as_that_depends_on_other_listings() -> None:
    percolator = Percolator([("typed", Query(text="weathr")), ("begun", Query(text="weat"))])
    assert [*percolator.matching(DOCUMENTS[0])] == []


def test_a_saved_search_for_what_names_a_listing_is_met_by_it() -> None:
    texts = {"host": "desk.example", "package": "@quill/sky-mcp", "words": "text-to-speech"}
    saved = [(name, from_pairs([("q", text)], {}).query) for name, text in texts.items()]
    percolator = Percolator(saved)
    by_name = {
        "host": listing("1", "Clock", domain="desk.example"),
        "package": listing("2", "Clock", more_facts=(package_fact("@quill/sky-mcp"),)),
        "words": listing("3", "Speech", description="turns text to speech"),
    }
    assert {name: list(percolator.matching(document)) for name, document in by_name.items()} == {
        name: [name] for name in texts
    }
