"""Facets of currencies where choosing one converts prices, on every engine: each counts what choosing it finds."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import pytest

from overlay.api.search_request import from_pairs
from overlay.projection.search_index import SearchIndex
from overlay.search.query import Query
from tests.contracts.conftest import Filled
from tests.contracts.listed import listing, price, put
from tests.overlay.test_exchange import exchange, table

RATES = exchange(
    table("https://a.example", "BSV", USD="50", EUR="40"), table("https://b.example", "USD", JPY="150", BSV="0.02")
)
CURRENCIES = ("BSV", "USD", "EUR", "JPY", "MNEE")


def query(*supplied: tuple[str, str]) -> Query:
    """A question as the API puts it."""
    return from_pairs(supplied, {"bsv": "bsv:mainnet"}, RATES).query


def put_priced(engine: SearchIndex) -> None:
    chance = Random(4)

    def some() -> list[object]:
        return [
            price(str(Decimal(chance.randrange(1, 400)) / 10), chance.choice(CURRENCIES), chance.choice([None, "P1M"]),
                  *chance.sample(CURRENCIES, 2), id=f"o{index}")
            for index in range(chance.randrange(3))
        ]  # fmt: skip

    put(
        engine,
        *(listing(f"{index:03}", ("alpha", "alpha beta", "beta")[index % 3], offers=some()) for index in range(120)),
    )


@pytest.mark.parametrize("more", [(), (("q", "alpha beta"),), (("interval", "month"),), (("acceptedCurrency", "EUR"),)])
@pytest.mark.parametrize("bound", [("maxPrice", "3"), ("minPrice", "20"), ("maxPrice", "0.5")])
def test_a_currency_counts_what_choosing_it_finds_converted(
    filled: Filled, more: tuple[tuple[str, str], ...], bound: tuple[str, str]
) -> None:
    priced = filled(put_priced)
    parsed = query(bound, *more, ("facets", "acceptedCurrency,interval"))
    facets = priced.search(parsed).facets or {}
    others = [item for item in more if item[0] != "acceptedCurrency"]
    results = {value: priced.search(query(bound, *others, ("acceptedCurrency", value))).total for value in CURRENCIES}
    assert dict(facets["acceptedCurrency"]) == {value: total for value, total in results.items() if total}
    assert facets["interval"] == (priced.search(parsed).facets or {})["interval"]
    assert list(facets) == ["acceptedCurrency", "interval"]
