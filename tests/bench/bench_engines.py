"""Every engine side by side: `python -m tests.bench.bench_engines [--offers N]`, by the wall clock.

The same listings in the native engine and Whoosh: how long building the index takes, how large it is, and what the
same questions take.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import closing
from pathlib import Path

from overlay.engines import IN_FILES
from overlay.projection.search_index import SearchIndex
from overlay.search.query import Query
from tests.bench.bench_search import SHARED, Questions, build, row, timed
from tests.bench.listings import listings, offers_of

SHARES = {"native": 1.0, "whoosh": 0.1}
"""Of the full number of questions that each engine is asked."""


def size(url: str) -> float:
    """Megabytes that an index takes."""
    return sum(path.stat().st_size for path in Path(url.partition(":")[2]).rglob("*") if path.is_file()) / 1e6


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--offers", type=int, default=10_000)
    offers = parser.parse_args().offers
    documents = offers_of(listings(1, SHARED if SHARED.is_dir() else None), offers)
    with tempfile.TemporaryDirectory() as folder:
        for name in sorted(IN_FILES):
            url = f"{name}:{folder}/{name}"
            with closing(SearchIndex(url)) as engine:
                took = build(engine, documents)
            print(f"{name}: {offers:,} offers in {len(documents):,} listings")
            print(f"  built in {took:.1f} s, {size(url):.0f} MB")
            measure(url, Questions(documents), SHARES[name])


def measure(url: str, questions: Questions, share: float) -> None:
    """The table of one engine."""
    print(f"  {'milliseconds, by the wall clock':<44} {'p50':>9} {'p90':>9} {'p99':>9} {'most':>9}")
    with closing(SearchIndex(url)) as engine:
        for _ in range(10):
            engine.search(Query(text=questions.misspelt()))
        for name, number, make in questions.kinds():
            requests = [make() for _ in range(max(3, round(number * share)))]
            calls = (lambda query=query: engine.search(query) for query in requests)
            row(name, timed(calls, time.perf_counter))
        begun = [questions.word()[: index % 5 + 1] for index in range(max(5, round(200 * share)))]
        calls = (lambda text=text: engine.suggest(text, 10) for text in begun)
        row("completions of one to five letters", timed(calls, time.perf_counter))


if __name__ == "__main__":
    main()
