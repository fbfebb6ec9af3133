"""Suggestions, operators and the extra members of pages, in process: `python -m tests.bench.bench_typing [--offers N]`.

Suggestions (p95 under 10 ms at 100,000 offers), phrases and exclusions, disjunctive facets, highlights, explanations,
and alternatives to a search without results. Times are of this thread's processor.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator

from overlay.api.search_answer import alternatives, extras
from overlay.api.search_request import from_pairs
from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from overlay.search.query import Query
from tests.bench.bench_search import SHARED, Questions, build, timed
from tests.bench.listings import listings, offers_of

Calls = list[Callable[[], object]]


def row(name: str, calls: Calls) -> None:
    """A line of the table."""
    took = timed(calls)
    p50, p95, p99 = (took[round((len(took) - 1) * part)] for part in (0.5, 0.95, 0.99))
    print(f"  {name:<52} {p50:>8.2f} {p95:>8.2f} {p99:>8.2f} {took[-1]:>8.2f}", flush=True)


def typed(engine: SearchIndex, questions: Questions) -> Iterator[tuple[str, Calls]]:
    """Completions."""

    def completing(text: str) -> Callable[[], object]:
        return lambda: engine.suggest(text, 8)

    yield "completions of one to eight letters", [completing(questions.word()[: index % 8 + 1]) for index in range(800)]
    two = [f"{questions.word()} {questions.word()[: index % 5 + 1]}" for index in range(400)]
    yield "completions of a word and one to five letters", [completing(text) for text in two]


def search_calls(engine: SearchIndex, questions: Questions, documents: list[Document]) -> Iterator[tuple[str, Calls]]:
    """Operators and facets."""

    def asking(q: str, **more: str) -> Callable[[], object]:
        query: Query = from_pairs([("q", q), *more.items()], {}).query
        return lambda: engine.search(query)

    word, chance = questions.word, random.Random(3)
    messages = [item.description.split() for item in chance.sample(documents, min(400, len(documents)))]
    starts = [(words, chance.randrange(max(1, len(words) - 2))) for words in messages]
    yield "two words", [asking(f"{word()} {word()}") for _ in range(300)]
    yield (
        "a phrase that a listing says",
        [asking(f'"{" ".join(words[position : position + 2])}"') for words, position in starts],
    )
    common = ('"for the"', '"and the"', '"of the"', '"to the"', '"in the"')
    yield "a phrase of the commonest words", [asking(text) for text in common * 10]
    yield "a word and -word", [asking(f"{word()} -{word()}") for _ in range(300)]
    yield "-word alone", [asking(f"-{word()}") for _ in range(100)]
    yield "a word, all facets", [asking(word(), facets="all") for _ in range(40)]
    yield (
        "a word, two filters, all facets",
        [asking(word(), facets="all", tag="payment", type="agent") for _ in range(40)],
    )


def extras_calls(engine: SearchIndex, questions: Questions) -> Iterator[tuple[str, Calls]]:
    """Calls that compute the members beside the items, without the search itself."""

    def telling(q: str, **more: str) -> Callable[[], object]:
        parsed = from_pairs([("q", q), *more.items()], {})
        hits = engine.search(parsed.query)
        return lambda: extras(engine, parsed, hits)

    def helping(q: str, **more: str) -> Callable[[], object]:
        parsed = from_pairs([("q", q), *more.items()], {})
        hits = engine.search(parsed.query)
        return lambda: alternatives(engine, parsed, hits)

    word = questions.word
    filters = {"tag": "nosuch", "acceptedCurrency": "USD", "interval": "month", "verified": "true", "owner": "nobody"}
    yield "highlights of 20 items", [telling(f"{word()} {word()}", highlight="true") for _ in range(60)]
    yield "highlights of 100 items", [telling(f"{word()} {word()}", highlight="true", limit="100") for _ in range(20)]
    yield "explanations of 20 items", [telling(f"{word()} {word()}", explain="true") for _ in range(60)]
    yield "help: which of five filters emptied it", [helping(word(), **filters) for _ in range(40)]
    yield "help: a word that nobody says", [helping(f"x{word()[::-1]}") for _ in range(40)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--offers", type=int, default=100_000)
    args = parser.parse_args()
    documents = offers_of(listings(1, SHARED if SHARED.is_dir() else None), args.offers)
    with tempfile.TemporaryDirectory() as folder:
        engine = SearchIndex(f"native:{folder}")
        build(engine, documents)
        questions = Questions(documents)
        print(f"{engine.name}: {args.offers:,} offers in {len(documents):,} listings")
        print(f"  {'milliseconds':<52} {'p50':>8} {'p95':>8} {'p99':>8} {'most':>8}")
        for _ in range(30):
            engine.suggest(questions.word()[:3], 8)
        for name, calls in (
            *typed(engine, questions), *search_calls(engine, questions, documents), *extras_calls(engine, questions)
        ):  # fmt: skip
            row(name, calls)
        engine.close()


if __name__ == "__main__":
    main()
