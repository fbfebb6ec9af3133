"""Listings that a question prefers come first, in every engine, and nothing is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from overlay.projection.search_index import SearchIndex
from overlay.search.preferences import understand
from tests.contracts.conftest import Filled
from tests.contracts.listed import ask, ids, listing, price, put
from tests.contracts.test_cursors import pages

FREE = {"1", "4", "7"}


def say(engine: SearchIndex) -> None:
    """Ten listings of the same words, of which some are free."""
    put(
        engine,
        *(
            listing(
                str(number),
                f"Harbor pilot {'velvet' if number == 2 else 'comet'} {'quartz' * (number % 2)}",
                offers=[price("0" if str(number) in FREE else "7", "USD" if number < 5 else "BSV")],
                more_facts=("run:docker",) if number == 3 else (),
            )
            for number in range(10)
        ),
    )


def preferring(engine: SearchIndex, text: str) -> list[str]:
    understood = understand(text)
    members = tuple(member for preference in understood.preferences for member in preference.members)
    assert members
    return ids(ask(engine, understood.text, preferred=members, limit=100))


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("free agents, harbor pilot", FREE),
        ("harbor pilot accepts BSV", {*"56789"}),
        ("harbor pilot under 5 BSV", {"7"}),
        ("harbor pilot not velvet", {*"013456789"}),
        ("harbor pilot not docker", {*"012456789"}),
        ("free tools for a harbor pilot, accepts BSV", {"7"}),
    ],
)
def test_what_meets_the_preferences_comes_first(filled: Filled, text: str, first: set[str]) -> None:
    results = preferring(filled(say), text)
    assert set(results[: len(first)]) == first
    assert set(results) == {*"0123456789"}


def test_a_result_of_twice_the_score_still_precedes(engine: SearchIndex) -> None:
    put(engine, listing("1", "Harbor pilot"), listing("2", description=" ".join(["lantern"] * 90 + ["harbor"])))
    put(engine, listing("3", description=" ".join(["lantern"] * 90), offers=[price("0")]), seq=2)
    put(engine, listing("4", description=" ".join(["walnut"] * 90 + ["harbor"]), offers=[price("0")]), seq=3)
    results = ids(ask(engine, "harbor pilot", preferred=(("free", True),)))
    assert results == ["1", "4", "2"]


def test_of_equal_results_those_of_the_hinted_kind_come_first(engine: SearchIndex) -> None:
    kinds = ["agent", "tool", "agent", "tool", "agent"]
    documents = [listing(str(number), "Harbor pilot", kind=kind) for number, kind in enumerate(kinds[:4])]
    documents.append(listing("9", "Harbor", description="pilot " + "velvet " * 90))
    items = [f'{{"id":"{document.id}","type":"{kind}"}}' for document, kind in zip(documents, kinds, strict=True)]
    put(engine, *(replace(document, item=item.encode()) for document, item in zip(documents, items, strict=True)))
    assert ids(ask(engine, "harbor pilot", hinted="agent")) == ["0", "2", "1", "3", "9"]
    assert ids(ask(engine, "harbor pilot", hinted="tool")) == ["1", "3", "0", "2", "9"]


def test_other_orders_are_as_they_are(engine: SearchIndex) -> None:
    say(engine)
    assert ids(ask(engine, "harbor", sort="name", preferred=(("free", True),))) == ids(
        ask(engine, "harbor", sort="name")
    )


def test_pages_are_of_one_order(engine: SearchIndex) -> None:
    say(engine)
    whole = preferring(engine, "free agents, harbor pilot")
    read = [hit.id for page in pages(engine, q="free agents, harbor pilot", limit=3) for hit in page.hits]
    assert read == whole
    by_offset = [
        hit
        for offset in range(0, 12, 4)
        for hit in ids(ask(engine, "agents, harbor pilot", preferred=(("free", True),), offset=offset, limit=4))
    ]
    assert by_offset == whole
