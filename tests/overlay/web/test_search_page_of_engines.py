"""Questions to the real engines: every answer is a page, and pages lead through everything once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overlay.api.parameters import SEARCH, pairs
from overlay.api.problems import BadRequestError
from overlay.api.search_answer import page
from overlay.api.search_request import from_pairs
from overlay.engines import ENGINES, IndexPosition
from overlay.projection.search_index import SearchIndex
from tests.opensearch_server import index_url
from tests.overlay.fakes import CAIP2, CHAIN, FakeEngine, sample_services

CHAINS = {CHAIN: CAIP2}


@pytest.fixture(scope="module", params=[name for name, module in ENGINES.items() if find_spec(module)])
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, sample: Path
) -> Iterator[SearchIndex]:
    search_index = SearchIndex(index_url(request, request.param, tmp_path_factory.mktemp("index")))
    fake = sample_services(sample).engine
    assert isinstance(fake, FakeEngine)
    search_index.replace(
        [document.registration for document in fake.documents], fake.documents, IndexPosition("epoch", 1)
    )
    yield search_index
    search_index.close()


def ask(engine: SearchIndex, query_string: str) -> dict[str, Any]:
    parsed = from_pairs(pairs(query_string), CHAINS)
    body: dict[str, Any] = json.loads(
        b"".join(page(parsed, engine.search(parsed.query), engine.position(), {CHAIN: 125}))
    )
    return body


@pytest.mark.parametrize(
    "sort", ["relevance", "price", "-price", "updated", "-updated", "created", "-created", "name", "-name"]
)
@pytest.mark.parametrize("question", ["", "q=the", "acceptedCurrency=BSV&maxPrice=100000", "status=all"])
def test_cursors_and_offsets_lead_through_everything_once(engine: SearchIndex, sort: str, question: str) -> None:
    whole = [item["id"] for item in ask(engine, f"{question}&sort={sort}&limit=100")["items"]]
    assert len(whole) == len(set(whole)) == ask(engine, question)["total"]
    by_cursor: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        parsed = ask(engine, f"{question}&sort={sort}&limit=7&cursor={cursor}")
        by_cursor += [item["id"] for item in parsed["items"]]
        cursor = parsed["nextCursor"]
    assert by_cursor == whole
    by_offset = [
        item["id"]
        for start in range(0, len(whole) + 7, 7)
        for item in ask(engine, f"{question}&sort={sort}&limit=7&offset={start}")["items"]
    ]
    assert by_offset == whole


def test_every_item_meets_the_filters_requested(engine: SearchIndex) -> None:
    parsed = ask(engine, "acceptedCurrency=bsv&maxPrice=0.01&type=agent&limit=100")
    assert parsed["items"]
    for item in parsed["items"]:
        assert item["type"] == "agent"
        assert item["cheapest"]["currency"] == "BSV"
        assert float(item["cheapest"]["amount"]) <= 0.01
        assert any(offer["id"] == item["cheapest"]["offerId"] for offer in item["offers"])


names = st.sampled_from(list(SEARCH.names))
texts = st.text(max_size=30) | st.sampled_from(
    ["1", "-1", "1e9", "all", "agent", "tool", "P1M", "none", "2025-01-31", "true", "price", "-name", "BSV", "0.5",
     "bsv:regtest", "bsv-regtest", "security", "weather oracle", "wether", "\0", "\u202e", "(.*)+", "a:b^2~", '"',
     "AND NOT", "*", "[* TO *]"]
)  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(names, texts), max_size=6))
def test_any_parameters_give_a_page_or_a_problem(engine: SearchIndex, given_pairs: list[tuple[str, str]]) -> None:
    try:
        parsed = from_pairs(given_pairs, CHAINS)
    except BadRequestError:
        return
    hits = engine.search(parsed.query)
    body = json.loads(b"".join(page(parsed, hits, engine.position(), {CHAIN: 125})))
    assert len(body["items"]) <= parsed.query.limit
    assert body["total"] >= len(body["items"])
