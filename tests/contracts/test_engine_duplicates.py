"""Of identical listings the first alone is found, by every engine; what tells them apart finds the others too."""

from __future__ import annotations

from typing import Any

import pytest

from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from overlay.search.facts import HERE
from tests.contracts.listed import ask, count, ids, listing, matching_ids, price, put

SAME: dict[str, Any] = {
    "name": "Payment gateway", "tags": ("pay",), "skills": ("refund",), "offers": (price("2", "USD"),),
    "domain": "a.example",
}  # fmt: skip


def duplicates() -> list[Document]:
    """`1` is first of all, `2` behind it; `3` is first on another chain, `4` in another domain; `5` is unlike them."""
    return [
        listing("1", **SAME),
        listing("2", **SAME, hidden_in=("", "bsv", HERE), owner="bob"),
        listing("3", **SAME, hidden_in=("",), chain="ltc", caip2="bip122:12a7"),
        listing("4", **SAME | {"domain": "b.example"}, hidden_in=("", "bsv")),
        listing("5", "Payments of others"),
    ]


@pytest.mark.parametrize("text", ["", "payment", "paymet", "payment gateway", "gateway nonsense words here"])
def test_the_first_is_found_however_it_is_requested(engine: SearchIndex, text: str) -> None:
    put(engine, *duplicates())
    assert matching_ids(engine, text) - {"5"} == {"1"}
    assert matching_ids(engine, text, kind="agent", tags="pay") == {"1"}
    assert matching_ids(engine, text, skills="refund") == {"1"}
    assert matching_ids(engine, text, max_price="3", price_currency="USD") == {"1"}
    assert matching_ids(engine, text, statuses=("live", "pending", "burned")) - {"5"} == {"1"}


@pytest.mark.parametrize("text", ["", "payment", "payment gateway"])
def test_what_tells_them_apart_finds_the_others(engine: SearchIndex, text: str) -> None:
    put(engine, *duplicates())
    requests: list[tuple[dict[str, Any], set[str]]] = [
        ({"chains": "bsv"}, {"1"}),
        ({"chains": "ltc"}, {"3"}),
        ({"chains": "bip122:12a7"}, {"3"}),
        ({"chains": ("bsv", "ltc")}, {"1", "3"}),
        ({"domains": "a.example"}, {"1", "3"}),
        ({"domains": "b.example"}, {"4"}),
        ({"domains": "a.example", "chains": "ltc"}, {"3"}),
        ({"owners": "bob"}, {"2"}),
        ({"verified": False}, {"1", "2", "3", "4"}),
        ({"updated_since": 1}, {"1", "2", "3", "4"}),
        ({"with_duplicates": True}, {"1", "2", "3", "4"}),
        ({"with_duplicates": True, "chains": "bsv"}, {"1", "2", "4"}),
        ({"height_chain": "bsv", "from_height": 102, "to_height": 102}, {"2"}),
        ({"statuses": ("pending",)}, set()),
    ]
    for query, meant in requests:
        assert matching_ids(engine, text, **query) - {"5"} == meant, query


@pytest.mark.parametrize("sort", ["relevance", "updated", "created", "name", "price"])
def test_totals_and_facets_count_what_is_found(engine: SearchIndex, sort: str) -> None:
    put(engine, *duplicates())
    for query, total in (({}, 1), ({"chains": "ltc"}, 1), ({"owners": "bob"}, 1), ({"verified": False}, 4)):
        hits = ask(engine, "gateway", sort=sort, facets=("tag", "acceptedCurrency", "status"), **query)
        assert (hits.total, len(hits.hits)) == (total, total)
        assert hits.facets == {
            "tag": (("pay", total),), "acceptedCurrency": (("USD", total),), "status": (("live", total),),
        }  # fmt: skip


def test_words_of_duplicates_count_once_and_they_are_not_proposed(engine: SearchIndex) -> None:
    put(engine, *duplicates())
    assert [item.id for item in engine.suggest("payment g", 8) if item.kind == "listing"] == ["1"]


def test_a_listing_that_becomes_first_is_found_from_then_on(engine: SearchIndex) -> None:
    put(engine, *duplicates())
    put(engine, listing("1", "Something else"), listing("2", **SAME, owner="bob"), seq=2)
    assert ids(ask(engine, "gateway")) == ["2"]
    assert count(engine) == 5
    assert engine.get("4") is not None
