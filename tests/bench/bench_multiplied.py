"""Searches beside what strangers can multiply: `python -m tests.bench.bench_multiplied [--mb N]`.

Realistic listings are searched alone, and beside N MB of cards, each with 64 prices of 64 currencies that no other card
has. Times are medians of this thread's processor in milliseconds, and the ratio of both.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from itertools import count, islice
from pathlib import Path
from statistics import median

from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from overlay.search.query import Query
from parsers import cards
from parsers.cards import AgentCard
from tests.bench.bench_search import SHARED, build, timed
from tests.bench.listings import listings
from tests.contracts.listed import listing

LISTINGS, ROUNDS = 10_000, 200
RATES = {"EUR": Decimal("1.08"), "BSV": Decimal(40), "USDC": Decimal(1)}


def card(number: int) -> bytes:
    """A card of 64 prices with 64 accepted currencies each, all of its own."""
    names = (f"C{number * 4_096 + index:X}" for index in count())
    prices = [
        {"id": f"p{n}", "currency": next(names), "amount": n, "acceptedCurrencies": list(islice(names, 63))}
        for n in range(64)
    ]
    shown = {"name": f"Agent {number}", "url": f"https://a{number}.example", "skills": [{"id": "s", "name": "S"}]}
    return json.dumps(shown | {"x-payment-config": prices}, separators=(",", ":")).encode()


def hostile(megabytes: float) -> Iterator[Document]:
    """Listings of so many MB of cards."""
    size = 0
    for number in count():
        body = card(number)
        size += len(body)
        if size > megabytes * 1e6:
            return
        read = cards.read(body)
        assert isinstance(read, AgentCard)
        yield listing(f"9{number:07}", read.name, skills=read.skills, offers=read.offers)


QUERIES: dict[str, Callable[[], Query]] = {
    "words": lambda: Query("invoice payment"),
    "price bound": lambda: Query(max_price=Decimal(5), price_currency="USD", rates=RATES),
    "price bound, words": lambda: Query("invoice", max_price=Decimal(5), price_currency="USD", rates=RATES),
    "order of prices": lambda: Query(sort="price", price_currency="USD", rates=RATES),
    "facets": lambda: Query("invoice", facets=("acceptedCurrency", "skillId", "tag")),
}


def measured(engine: SearchIndex) -> dict[str, float]:
    """The median of each query, the first ones left out."""
    return {
        name: median(timed([partial(engine.search, query()) for _ in range(ROUNDS)])[ROUNDS // 10 :])
        for name, query in QUERIES.items()
    }


def main() -> None:
    """Print a row for each query."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=float, default=13)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        engine = SearchIndex(f"native:{Path(folder, 'index')}")
        build(engine, list(islice(listings(1, SHARED if SHARED.exists() else None), LISTINGS)))
        alone = measured(engine)
        build(engine, list(hostile(args.mb)))
        beside = measured(engine)
        engine.close()
    for name in QUERIES:
        print(f"{name:<24}{alone[name]:>9.2f} ms{beside[name]:>9.2f} ms{beside[name] / alone[name]:>9.2f} ×")


if __name__ == "__main__":
    main()
