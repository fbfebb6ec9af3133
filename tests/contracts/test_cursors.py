"""The contract of a cursor while the index changes: no listing that stays as it is is skipped or doubled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.api.cursors import MOST_SHOWN
from overlay.api.search_answer import next_cursor
from overlay.api.search_request import from_pairs
from overlay.engines import IndexPosition
from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from overlay.search.query import SORTS, Hits, Query, StaleCursorError
from tests.contracts.conftest import Filled
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
            [
                (name, str(value))
                for name, value in {"limit": LIMIT, "calls": "9/day", **requests, "cursor": cursor}.items()
            ],
            {},
        )
        hits = engine.search(parsed.query)
        yield hits
        cursor = next_cursor(parsed, hits, engine.position())


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
        engine.replace(
            [gone, *(item.id for item in (*added, moved))], [*added, moved], IndexPosition(EPOCH, 1 + position)
        )

    return change


@pytest.mark.parametrize(("sign", "text"), [("", ""), ("", "alpha beta"), ("-", "alpha"), ("-", "beta gamma delt")])
@pytest.mark.parametrize("sort", SORTS)
def test_no_unchanged_listing_is_skipped_or_doubled(engine: SearchIndex, sort: str, sign: str, text: str) -> None:
    put(engine, *(some(index, TEXTS[index % len(TEXTS)], letter) for index in range(1, 25) for letter in "umg"))
    unchanged = {hit.id for hit in next(pages(engine, q=text, limit=100)).hits if hit.id.endswith("u")}
    assert len(unchanged) > 2 * LIMIT
    read: list[str] = []
    change = changes(engine)
    for page in pages(engine, q=text, sort=sign + sort):
        read += [hit.id for hit in page.hits]
        if len(read) < 70:
            change()
    stayed = [id_ for id_ in read if id_ in unchanged]
    assert sorted(stayed) == sorted(unchanged)


CALLS = Decimal(3_652)
RATES = {"USD": Decimal(1), "EUR": Decimal("1.25"), "BSV": Decimal(40)}


def put_in_segments(engine: SearchIndex) -> None:
    for start in (0, 200, 260, 280):
        put(engine, *(varied(start + number) for number in range(20 if start else 200)), seq=1 + start)
    engine.replace(["010v", "270v"], [], IndexPosition(EPOCH, 500))


@pytest.mark.parametrize("currency", [None, "USD"])
@pytest.mark.parametrize("descending", [None, True])
@pytest.mark.parametrize("sort", SORTS)
def test_a_page_at_any_position_is_that_part_of_the_order(
    filled: Filled, sort: str, descending: bool | None, currency: str | None
) -> None:
    """By its position as by the key before it."""
    engine = filled(put_in_segments)
    rates = {} if currency is None else {name: rate for name, rate in RATES.items() if name != currency}
    query = Query(text="alpha beta", sort=sort, descending=descending, price_currency=currency, rates=rates, limit=300)
    query = query._replace(calls=CALLS)
    whole = engine.search(query).hits
    assert len(whole) > 150
    for position in (0, 1, 63, 64, 65, 66, 100, 137, len(whole) - 3):
        expected = [hit.id for hit in whole[position : position + 7]]
        assert [hit.id for hit in engine.search(query._replace(offset=position, limit=7)).hits] == expected
        if position and sort != "relevance":
            following = query._replace(after=whole[position - 1].sort_key, limit=7)
            assert [hit.id for hit in engine.search(following).hits] == expected


COMMIT = st.lists(st.tuples(st.integers(0, 59), st.integers(0, 5)), max_size=12)
"""Listings that a commit adds or changes by number, and removes where the second number is 0."""


@settings(max_examples=25, deadline=None)
@given(
    start=st.sets(st.integers(0, 59), min_size=20),
    commits=st.lists(COMMIT, min_size=1, max_size=6),
    sort=st.sampled_from([sort for sort in SORTS if sort != "relevance"]),
    descending=st.sampled_from((None, True, False)),
    text=st.sampled_from(("", "alpha", "beta")),
)
def test_paging_through_an_index_that_changes_loses_and_repeats_nothing(
    start: set[int], commits: list[list[tuple[int, int]]], sort: str, descending: bool | None, text: str
) -> None:
    """Each page follows the key of the last result, without the memory of what was shown. A word is in the name of
    every listing, so that none changes between those with all words and the others."""
    with TemporaryDirectory() as folder, closing(SearchIndex(f"native:{folder}")) as engine:
        put(engine, *(held(number, 0) for number in start))
        touched = {number for commit in commits for number, _ in commit}
        query = Query(text=text, sort=sort, descending=descending, calls=CALLS, limit=5)
        read, turns = list[str](), iter(commits)
        expected = [hit.id for hit in engine.search(query._replace(limit=100)).hits if int(hit.id[:3]) not in touched]
        while page := engine.search(query).hits:
            read += [hit.id for hit in page]
            query = query._replace(after=page[-1].sort_key)
            for number, version in next(turns, ()):
                documents = [held(number, version)] if version else []
                engine.replace([f"{number:03}v"], documents, IndexPosition(EPOCH, 2))
        assert [id_ for id_ in read if int(id_[:3]) not in touched] == expected


def held(number: int, version: int) -> Document:
    """A version of a listing with both words."""
    changed = varied(number + 7 * version)
    return replace(changed, id=f"{number:03}v", registration=f"{number:03}v", name=f"alpha beta {version}")


def varied(number: int) -> Document:
    """One of many listings with equal names, times, ratings and prices in several currencies."""
    offers = [
        price(str(number * 7 % 5), ("USD", "EUR", "BSV", "XYZ")[number % 4], ("month", "day", None)[number % 3]),
        price(str(1 + number % 3), ("BSV", "USD")[number % 2]),
    ]
    return replace(
        listing(
            f"{number * 37 % 1000:03}v", TEXTS[number % len(TEXTS)], offers=offers[: number % 3], height=1 + number % 5
        ),
        rating=(None, 0, 500)[number % 3],
    )


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


def on_two_chains() -> list[Document]:
    return [
        replace(some(number, "alpha"), chain=chain, item=json.dumps({"id": f"{number} on {chain}"}).encode())
        for number in range(1, 41)
        for chain in ("bsv", "bch")
    ]


def put_on_two_chains(engine: SearchIndex) -> None:
    put(engine, *on_two_chains())


@pytest.mark.parametrize("text", ["", "alpha"])
@pytest.mark.parametrize("sort", [sign + sort for sort in SORTS for sign in ("", "-")])
def test_one_id_on_two_chains_is_two_listings_also_at_the_border_of_pages(filled: Filled, sort: str, text: str) -> None:
    """A transaction may be valid on chains that split from each other."""
    engine = filled(put_on_two_chains)
    limit = 3 if text else 1
    read = [bytes(hit.item) for page in pages(engine, q=text, sort=sort, limit=limit) for hit in page.hits]
    assert sorted(read) == sorted(bytes(document.item) for document in on_two_chains())
