"""Searching 100,000 offers in process: `python -m tests.bench.bench_search [--offers N] [--whoosh N]`.

Both engines are built from the same listings (Whoosh from fewer) and asked the same questions: a misspelt word with two
filters, exact words, filters alone, and what else the API can ask. Times are of this thread's processor, so that what
else the machine does counts less; `wall` rows are not.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from overlay.engines import IndexPosition
from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from overlay.search.forward import Analysed
from overlay.search.query import FACETS, Query
from overlay.search.term_dictionary import TermCounts, TermDictionary
from tests.bench.listings import listings, offers_of

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("A2B_TEST_SHARED", ROOT.parent / "shared")) / "data"
BATCH = 2_000
CURRENCIES = ("USD", "BSV", "EUR", "MNEE")
INTERVALS = ("none", "P1M", "P1D")


def rss() -> float:
    """Resident memory of this process, in MB (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def timed(calls: Iterable[Callable[[], object]], clock: Callable[[], float] = time.thread_time) -> list[float]:
    """How long each call took, in milliseconds, in rising order."""
    took = []
    for call in calls:
        began = clock()
        call()
        took.append(1000 * (clock() - began))
    return sorted(took)


def row(name: str, took: list[float]) -> None:
    """A line of the table."""
    last = len(took) - 1
    p50, p90, p99 = (took[round(last * part)] for part in (0.5, 0.9, 0.99))
    print(f"  {name:<44} {p50:>9.2f} {p90:>9.2f} {p99:>9.2f} {took[-1]:>9.2f}", flush=True)


def build(engine: SearchIndex, documents: list[Document]) -> float:
    """Fill an index as the feed does; seconds."""
    began = time.monotonic()
    for first in range(0, len(documents), BATCH):
        batch = documents[first : first + BATCH]
        engine.replace([item.registration for item in batch], batch, IndexPosition("bench", 0))
    engine.replace([], [], IndexPosition("bench", len(documents)))
    return time.monotonic() - began


class Questions:
    """Endless questions in words that the listings use."""

    def __init__(self, documents: list[Document], seed: int = 7) -> None:
        self._chance = random.Random(seed)
        changes = TermCounts()
        for document in documents:
            surfaces = Analysed.of(document).surfaces
            changes.add(surfaces)
        self.vocabulary = TermDictionary([changes])
        most = max(2, len(documents) // 500)
        common = [word for word, held in changes.surfaces.items() if held >= most]
        self._words = [word for word in common if len(word) >= 5 and word.isascii() and word.isalpha()]

    def commonest(self, count: int) -> list[str]:
        """The words that most listings hold."""
        held = self.vocabulary.counts.surfaces
        return sorted(self._words, key=lambda word: -held[word])[:count]

    def word(self) -> str:
        """A word that at least one listing in 500 holds."""
        return self._chance.choice(self._words)

    def misspelt(self) -> str:
        """Such a word with two neighbours swapped or a letter left out."""
        word = self.word()
        position = self._chance.randrange(1, len(word) - 2)
        if word[position] == word[position + 1]:
            return word[:position] + word[position + 1 :]
        return word[:position] + word[position + 1] + word[position] + word[position + 2 :]

    def filters(self) -> dict[str, tuple[str, ...]]:
        """A currency and an interval."""
        return {"currencies": (self._chance.choice(CURRENCIES),), "intervals": (self._chance.choice(INTERVALS),)}

    def priced(self) -> dict[str, object]:
        """A currency and the most to pay in it."""
        currency = self._chance.choice(CURRENCIES)
        return {"currencies": (currency,), "price_currency": currency, "max_price": Decimal(5)}

    def kinds(self) -> Iterator[tuple[str, int, Callable[[], Query]]]:
        """Kinds of question, how many of each make a fair sample, and a maker of them."""
        yield "a misspelt word, currency, interval", 500, lambda: Query(text=self.misspelt(), **self.filters())
        yield "a misspelt word, currency, maxPrice", 500, lambda: Query(text=self.misspelt(), **self.priced())
        yield (
            "a misspelt and an exact word, two filters",
            500,
            lambda: Query(text=f"{self.misspelt()} {self.word()}", **self.filters()),
        )
        yield "two exact words", 500, lambda: Query(text=f"{self.word()} {self.word()}")
        yield "a misspelt word", 500, lambda: Query(text=self.misspelt())
        yield "currency and interval only", 300, lambda: Query(**self.filters())
        yield "nothing: all listings, the newest first", 50, Query
        yield "eight words", 100, lambda: Query(text=" ".join(self.word() for _ in range(8)))
        yield "thirty-two words", 30, lambda: Query(text=" ".join(self.word() for _ in range(32)))
        yield "a word, all facets", 20, lambda: Query(text=self.word(), facets=FACETS)
        yield "currency, by price", 10, lambda: Query(sort="price", price_currency="USD", currencies=("USD",))
        yield "all, by name", 20, lambda: Query(sort="name")


def measure(engine: SearchIndex, questions: Questions, share: float) -> None:
    """The table of one engine; `share` of the full number of questions."""
    print(f"  {'milliseconds':<44} {'p50':>9} {'p90':>9} {'p99':>9} {'most':>9}")
    for _ in range(20):
        engine.search(Query(text=questions.misspelt(), facets=FACETS))
    for name, number, make in questions.kinds():
        requests = [make() for _ in range(max(3, round(number * share)))]
        row(name, timed(lambda query=query: engine.search(query) for query in requests))
    begun = [questions.word()[: index % 5 + 1] for index in range(max(5, round(200 * share)))]
    row("completions of one to five letters", timed(lambda text=text: engine.suggest(text, 10) for text in begun))


def visible(engine: SearchIndex, documents: list[Document], changes: int) -> None:
    """From a changed listing to an answer that shows it, by the wall clock."""
    numbers = iter(range(changes))

    def change() -> None:
        number = next(numbers)
        changed = replace(documents[number], name=f"Changed Zzq{number}xx")
        engine.replace([changed.registration], [changed], IndexPosition("bench", number))
        assert engine.search(Query(text=f"zzq{number}xx")).hits[0].id == changed.id

    row("one listing changed until it is found (wall)", timed((change for _ in range(changes)), time.perf_counter))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--offers", type=int, default=100_000)
    parser.add_argument("--whoosh", type=int, default=5_000, help="offers for Whoosh; 0: leave it out")
    args = parser.parse_args()
    data = SHARED if SHARED.is_dir() else None
    with tempfile.TemporaryDirectory() as folder:
        for name, number, share in (("native", args.offers, 1.0), ("whoosh", args.whoosh, 0.05)):
            if number:
                bench(f"{name}:{folder}/{name}", offers_of(listings(1, data), number), number, share)


def bench(url: str, documents: list[Document], offers: int, share: float) -> None:
    """Build one index and measure it."""
    folder = Path(url.partition(":")[2])
    engine = SearchIndex(url)
    took = build(engine, documents)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    print(f"{engine.name}: {offers:,} offers in {len(documents):,} listings")
    print(f"  built in {took:.1f} s, {size:.0f} MB on disk")
    engine.close()
    before = rss()
    engine = SearchIndex(url)
    questions = Questions(documents)
    print(f"  {len(questions.vocabulary.counts.surfaces):,} words; opening adds {rss() - before:.0f} MB of memory")
    measure(engine, questions, share)
    visible(engine, documents, max(5, round(100 * share)))
    words = [questions.misspelt() for _ in range(500)]
    row(
        "the near words of a misspelt one",
        timed(lambda word=word: questions.vocabulary.similar(word, 1) for word in words),
    )
    row("the same in two edits", timed(lambda word=word: questions.vocabulary.similar(word, 2) for word in words))
    print(
        f"  {statistics.mean(len(questions.vocabulary.similar(word, 1)) for word in words):.1f} words near on average"
    )
    engine.close()


if __name__ == "__main__":
    main()
