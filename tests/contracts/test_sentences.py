"""Questions in sentences: which words find a listing, which it lacks, and what is corrected, in every engine."""

from __future__ import annotations

import pytest

from overlay.api.search_request import from_pairs
from overlay.projection.search_index import SearchIndex
from overlay.search.query import Hits
from tests.contracts.listed import listing, price, put

SORTS = ("relevance", "price", "updated", "name")


def ask_in(engine: SearchIndex, text: str, **parameters: str) -> Hits:
    return engine.search(from_pairs([("q", text), *parameters.items()], {}).query)


def ids_in(engine: SearchIndex, text: str, **parameters: str) -> list[str]:
    return [hit.id for hit in ask_in(engine, text, **parameters).hits]


def fill(engine: SearchIndex) -> None:
    put(
        engine,
        listing("1", "Satellite Desk", description="a calendar for the launch of satellites"),
        listing("2", "Plain Desk", description="a desk for the many, and one that is in the way"),
        listing("3", "The Graph", description="indexes of a chain"),
        listing("4", "Graph Paper", description="paper with the lines for a graph, graph and graph"),
        listing("5", "I am", description="says who is who"),
        listing("6", "Minutes", description="turns the recording of a meeting into minutes", offers=(price("2"),)),
        listing("7", "Contract Audit", description="an audit of contracts", offers=(price("9"),)),
        listing("8", "Audio Notes", description="audio to text", offers=(price("1"),)),
    )


@pytest.mark.parametrize("sort", SORTS)
def test_a_stop_word_alone_finds_nothing_beside_other_words(engine: SearchIndex, sort: str) -> None:
    fill(engine)
    assert ids_in(engine, "launch a rocket", sort=sort) == ["1"]
    assert ids_in(engine, "a rocket", sort=sort) == []
    assert ids_in(engine, "I am looking for something like a rocket or the way to it", sort=sort) == []
    assert set(ids_in(engine, "a", sort=sort)) == {"1", "2", "3", "4", "6"}


def test_names_of_stop_words_are_found(engine: SearchIndex) -> None:
    fill(engine)
    assert ids_in(engine, "The Graph")[0] == "3"
    assert ids_in(engine, "graph the")[0] == "3"
    assert ids_in(engine, "I am")[0] == "5"


def test_a_sentence_finds_what_it_describes(engine: SearchIndex) -> None:
    fill(engine)
    hits = ask_in(engine, 'I\'m looking for something that turns a "meeting recording" into minutes, please')
    assert hits.hits[0].id == "6"
    assert (hits.matched, hits.hits[0].lacks) == (1, ())


@pytest.mark.parametrize("sort", SORTS)
def test_what_a_listing_lacks_is_named(engine: SearchIndex, sort: str) -> None:
    fill(engine)
    hits = ask_in(engine, "contract desk for the audit", sort=sort)
    assert {hit.id: hit.lacks for hit in hits.hits} == {
        "7": ("desk",), "1": ("contract", "audit"), "2": ("contract", "audit"),
    }  # fmt: skip
    assert hits.matched == 0
    assert hits.plan.share(("contract", "desk", "audit")) == pytest.approx(0)
    assert hits.plan.share(()) == 1
    assert 0.5 < hits.plan.share(("desk",)) < 1


@pytest.mark.parametrize("sort", SORTS)
def test_a_word_that_a_listing_contains_is_not_corrected(engine: SearchIndex, sort: str) -> None:
    fill(engine)
    assert ids_in(engine, "audit", sort=sort) == ["7"]
    hits = ask_in(engine, "audti", sort=sort)
    assert [hit.id for hit in hits.hits] == ["7"]
    assert hits.plan.corrected == (("audti", "audit"),)
    assert ask_in(engine, "audit", sort=sort).plan.corrected == ()
