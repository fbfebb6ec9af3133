"""Listings with more combinations of skills, currencies and prices than an index holds are filtered exactly, too."""

from __future__ import annotations

from overlay.projection.search_index import SearchIndex
from tests.contracts.listed import listing, matching_ids, price, put


def test_filters_are_exact_for_any_number_of_combinations(engine: SearchIndex) -> None:
    skills = [f"s{index}" for index in range(40)]
    currencies = [f"C{index}" for index in range(40)]
    many = price("5", "USD", "month", *currencies, skills=skills, id="many")
    put(
        engine,
        listing("1", skills=(*skills, "other"), offers=[many, price("9", "EUR", None, skills=["other"], id="x")]),
        listing("2", skills=("s1",), offers=[price("5", "USD", "month", "C1", id="y")]),
    )
    assert matching_ids(engine, skills="s1", currencies="C1") == {"1", "2"}
    assert matching_ids(engine, skills="s39", currencies="C39", max_price="5", price_currency="USD") == {"1"}
    assert matching_ids(engine, skills="s39", currencies="C39", max_price="4", price_currency="USD") == set()
    assert matching_ids(engine, skills="other", currencies="C39") == set(), "of two offers"
    assert matching_ids(engine, skills="other", currencies="EUR", intervals="none", min_price="9") == {"1"}
    assert matching_ids(engine, skills="other", intervals="P1M") == set()
    put(engine, listing("1", skills=skills), seq=2)
    assert matching_ids(engine, skills="s39", currencies="C39") == set()


def test_no_listing_is_missed_however_many_are_such(engine: SearchIndex) -> None:
    put(
        engine,
        *(
            listing(f"{index:03}", skills=("a", "b"), offers=[price("1", "USD", None, "BSV", skills=["ab"[index % 2]])])
            for index in range(60)
        ),
    )
    assert matching_ids(engine, skills="a", currencies="BSV") == {f"{index:03}" for index in range(0, 60, 2)}
    assert matching_ids(engine, skills="b", currencies="BSV", max_price="1") == {
        f"{index:03}" for index in range(1, 60, 2)
    }
