"""What a cursor holds to while the index changes: of the listings that stay as they are none is skipped or doubled."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from overlay.api.cursors import MOST_SHOWN
from overlay.api.search_answer import next_cursor
from overlay.api.search_request import from_pairs
from overlay.engines import Cursor
from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from overlay.search.query import SORTS, Hits, StaleCursorError
from tests.contracts.listed import EPOCH, listing, price, put

LIMIT = 7
TEXTS = ("alpha", "beta alpha", "alpha beta beta", "alpha gamma delta", "beta", "alpha alpha", "gamma alpha beta")


def some(number: int, text: str, letter: str = "u") -> Document:
    """One of many listings: those of letter `u` stay as they are."""
    offers = [price(str(number * 7 % 31), "USD", ("month", "year", None)[number % 3])] if number % 4 else ()
    return listing(
        f"{number:03}{letter}", f"{text} {number}", description=f"{text} " * (number % 5), offers=offers,
        owner=f"owner {number % 9}",
    )  # fmt: skip


def pages(engine: SearchIndex, **requests: object) -> Iterator[Hits]:
    """Every page, as a client reads them."""
    cursor: str | None = ""
    while cursor is not None:
        parsed = from_pairs(
            [(name, str(value)) for name, value in {"limit": LIMIT, **requests, "cursor": cursor}.items()], {}
        )
        hits = engine.search(parsed.query)
        yield hits
        cursor = next_cursor(parsed, hits, engine.cursor())


def changes(engine: SearchIndex) -> Callable[[], None]:
    """Commits that alter how rare words are, and what stands before and after any place."""
    turn = iter(range(1, 1_000))

    def change() -> None:
        position = next(turn)
        added = [
            some(500 + 10 * position + copy, ("alpha", "beta beta", "alphabet")[position % 3], "a") for copy in range(6)
        ]
        moved = some(position, TEXTS[(position + 3) % len(TEXTS)], "m")
        gone = f"{position:03}g"
        engine.replace([gone, *(item.id for item in (*added, moved))], [*added, moved], Cursor(EPOCH, 1 + position))

    return change


@pytest.mark.parametrize("text", ["", "alpha", "alpha beta", "beta gamma delt"])
@pytest.mark.parametrize("sort", [sign + sort for sort in SORTS for sign in ("", "-")])
def test_no_unchanged_listing_is_skipped_or_doubled(engine: SearchIndex, sort: str, text: str) -> None:
    put(engine, *(some(index, TEXTS[index % len(TEXTS)], letter) for index in range(1, 25) for letter in "umg"))
    unchanged = {hit.id for hit in next(pages(engine, q=text, limit=100)).hits if hit.id.endswith("u")}
    assert len(unchanged) > 2 * LIMIT
    read: list[str] = []
    change = changes(engine)
    for page in pages(engine, q=text, sort=sort):
        read += [hit.id for hit in page.hits]
        if len(read) < 70:
            change()
    stayed = [id_ for id_ in read if id_ in unchanged]
    assert sorted(stayed) == sorted(unchanged)


def test_by_words_nothing_at_all_is_doubled(engine: SearchIndex) -> None:
    put(engine, *(some(index, TEXTS[index % len(TEXTS)], letter) for index in range(1, 15) for letter in "umg"))
    change = changes(engine)
    read: list[str] = []
    for page in pages(engine, q="alpha beta"):
        read += [hit.id for hit in page.hits]
        if len(read) < 50:
            change()
    assert len(read) == len(set(read)) > 50


def test_by_relevance_a_cursor_is_refused_where_it_cannot_lead_on(engine: SearchIndex) -> None:
    put(engine, *(listing(f"{index:04}", "alpha") for index in range(MOST_SHOWN + 200)))
    results = pages(engine, q="alpha", limit=100)
    for _ in range(MOST_SHOWN // 100 + 1):
        next(results)
    put(engine, listing("x", "alpha alpha beta"), seq=2)
    with pytest.raises(StaleCursorError):
        next(results)


def test_beyond_what_a_cursor_remembers_it_leads_on_in_an_unchanged_index(engine: SearchIndex) -> None:
    put(engine, *(listing(f"{index:04}", "alpha") for index in range(MOST_SHOWN + 150)))
    read = [hit.id for page in pages(engine, q="alpha", limit=100) for hit in page.hits]
    assert len(read) == len(set(read)) == MOST_SHOWN + 150
