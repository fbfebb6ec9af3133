"""Phrases, exclusions and facets that show what else there is: what every engine answers."""

from __future__ import annotations

import pytest

from overlay.projection.search_index import SearchIndex
from overlay.search.analysis import sequences
from overlay.search.query import Operators
from parsers.cards import Skill
from tests.contracts.conftest import Filled
from tests.contracts.listed import ask, ids, listing, matching_ids, price, put, ranked


def with_operators(engine: SearchIndex, text: str = "", **requests: tuple[str, ...]) -> set[str]:
    """The ids found with these operators; none where the words of a phrase had to do instead."""
    hits = ask(engine, text, operators=Operators(**requests), limit=100)
    return set() if hits.phrases_dropped else set(ids(hits))


def say(engine: SearchIndex) -> None:
    """Listings of nearly the same words."""
    put(
        engine,
        listing("1", "Web search", tags=("a",)),
        listing("2", "Search the web", tags=("b",), skills=("seek",)),
        listing("3", "Websearch", owner="bob"),
        listing("4", "web_search tool", status="burned"),
        listing("5", description="searches of the Web", skills=(Skill("x", "Search", "web", ("B",), ()),)),
    )


@pytest.mark.parametrize(
    ("phrase", "meant"),
    [
        ("web search", {"1"}),
        ("Web Searches", {"1"}),  # a plural and its singular are the same word
        ("search the web", {"2"}),
        ("the web", {"2", "5"}),
        ("search web", set()),  # a phrase stands in one text: a skill's name and description are two
        ("websearch", {"3"}),
        ("search", {"1", "2", "5"}),
    ],
)
def test_a_phrase_is_matched_word_for_word_in_one_text(filled: Filled, phrase: str, meant: set[str]) -> None:
    engine = filled(say)
    assert with_operators(engine, phrases=tuple(sequences(phrase)[:1])) == meant
    assert with_operators(engine, phrase, phrases=tuple(sequences(phrase)[:1])) == meant
    every = {"1", "2", "3", "5"}
    assert with_operators(engine, excluded=tuple(sequences(phrase)[:1])) == every - meant


def say_symbols(engine: SearchIndex) -> None:
    """Listings of symbols, emoji, and words without spaces between."""
    put(engine, listing("1", "reviews C++"), listing("2", "reviews C#"), listing("3", "WIDGET™ 🔥 Maker"))
    put(engine, listing("4", "ประเทศไทย, GPT 4"), seq=2)


@pytest.mark.parametrize(
    ("phrase", "meant"),
    [("c++", {"1"}), ("reviews c#", {"2"}), ("🔥", {"3"}), ("widget maker", {"3"}), ("ไทย", {"4"}), ("gpt 4", {"4"})],
)
def test_symbols_and_emoji_are_words_of_phrases(filled: Filled, phrase: str, meant: set[str]) -> None:
    engine = filled(say_symbols)
    assert with_operators(engine, phrases=tuple(sequences(phrase)[:1])) == meant
    assert with_operators(engine, excluded=tuple(sequences(phrase)[:1])) == {*"1234"} - meant


def test_phrases_are_found_in_what_is_not_listed_any_more(engine: SearchIndex) -> None:
    say(engine)
    for phrase in ("web search", "websearch"):
        assert matching_ids(engine, statuses="burned", operators=Operators(phrases=(phrase,))) == {"4"}
        assert matching_ids(engine, statuses="burned", operators=Operators(excluded=(phrase,))) == set()


def test_han_is_compared_by_the_character(engine: SearchIndex) -> None:
    put(engine, listing("1", "支付网关"), listing("2", "网关支付"))
    assert with_operators(engine, phrases=tuple(sequences("付网"))) == {"1"}
    assert with_operators(engine, phrases=tuple(sequences("支付"))) == {"1", "2"}


def test_a_listing_that_is_or_has_what_is_excluded_is_not_found(engine: SearchIndex) -> None:
    say(engine)
    assert with_operators(engine, "web", not_tags=("b",)) == {"1", "3"}
    assert with_operators(engine, not_owners=("bob", "eve")) == {"1", "2", "5"}
    assert with_operators(engine, not_skills=("seek", "x")) == {"1", "3"}
    assert with_operators(engine, "search", phrases=("web search",), not_tags=("a",)) == set()


@pytest.mark.parametrize("sort", ["relevance", "updated", "name", "price"])
def test_operators_hold_in_every_order(engine: SearchIndex, sort: str) -> None:
    say(engine)
    assert matching_ids(engine, "web", sort=sort, operators=Operators(excluded=("websearch",))) == {"1", "2", "5"}


def test_the_words_in_use_may_be_consulted(engine: SearchIndex) -> None:
    assert engine.terms().frequency("web") == 0
    say(engine)
    assert (engine.terms().listings, engine.terms().frequency("web")) == (4, 3)


def test_a_facet_is_not_narrowed_by_its_own_filter_but_by_all_others(engine: SearchIndex) -> None:
    put(
        engine,
        listing("1", "Pay", tags=("a",), kind="agent", offers=[price("1", "USD")]),
        listing("2", "Pay", tags=("b",), kind="agent", offers=[price("1", "EUR")]),
        listing("3", "Pay", tags=("a", "b"), kind="tool", offers=[price("1", "USD")]),
        listing("4", "Other", tags=("c",), kind="agent"),
    )
    facets = ("tag", "type", "acceptedCurrency")
    hits = ask(engine, "pay", tags="a", facets=facets)
    assert hits.total == 2
    assert hits.facets == {
        "tag": ranked(("a", 2), ("b", 2)),
        "type": ranked(("agent", 1), ("tool", 1)),
        "acceptedCurrency": (("USD", 2),),
    }
    hits = ask(engine, "", kind="agent", tags="c", facets=facets)
    assert hits.facets == {
        "tag": ranked(("a", 1), ("b", 1), ("c", 1)),
        "type": (("agent", 1),),
        "acceptedCurrency": (),
    }


def test_facets_of_an_empty_answer_show_what_their_filter_took_away(engine: SearchIndex) -> None:
    put(engine, listing("1", "Pay", tags=("a",)), listing("2", "Pay", tags=("b",), kind="tool"))
    hits = ask(engine, "pay", tags="none", facets=("tag", "type"))
    assert (hits.total, hits.facets) == (0, {"tag": ranked(("a", 1), ("b", 1)), "type": ()})
    hits = ask(engine, "nothing", tags="a", facets=("tag",))
    assert (hits.total, hits.facets) == (0, {"tag": ()})


def test_a_facet_counts_what_a_value_finds_also_where_only_some_of_the_words_are_held_then(engine: SearchIndex) -> None:
    put(engine, listing("1", "alpha beta"), listing("2", "alpha", tags=("x",)))
    hits = ask(engine, "alpha beta", tags="none", facets=("tag", "type"))
    assert (hits.total, hits.facets) == (0, {"tag": (("x", 1),), "type": ()})
    assert matching_ids(engine, "alpha beta", tags="x") == {"2"}
    put(engine, listing("3", "alpha beta", tags=("y",)), listing("4", "beta", tags=("y",)), seq=2)
    hits = ask(engine, "alpha beta", tags="x", facets=("tag",))
    assert (hits.total, hits.facets) == (1, {"tag": (("y", 2), ("x", 1))})
    assert matching_ids(engine, "alpha beta", tags="y") == {"3", "4"}


def test_a_facet_of_offers_counts_those_whose_one_offer_meets_all(engine: SearchIndex) -> None:
    both = [price("5", "USD", "month", "EUR", skills=["a"]), price("100", "USD", "year", "BSV", skills=["b"])]
    put(
        engine,
        listing("1", "Pay", skills=("a", "b", "c"), offers=both),
        listing("2", "Pay", skills=("a", "d"), offers=[price("7", "USD", "year")]),
        listing("3", "Pay", skills=("e",)),
    )
    facets = ("interval", "acceptedCurrency", "skillId")
    parsed = ask(engine, "pay", max_price="10", price_currency="USD", facets=facets)
    assert (parsed.total, parsed.facets) == (2, {
        "interval": ranked(("P1M", 1), ("P1Y", 1)),
        "acceptedCurrency": (("USD", 2), ("EUR", 1)),
        "skillId": (("a", 2), ("d", 1)),
    })  # fmt: skip
    for interval, id_ in (("P1M", "1"), ("P1Y", "2")):
        assert matching_ids(engine, "pay", max_price="10", price_currency="USD", intervals=interval) == {id_}
    parsed = ask(engine, "", skills="b", facets=facets)
    assert (parsed.total, parsed.facets) == (1, {
        "interval": (("P1Y", 1),),
        "acceptedCurrency": ranked(("BSV", 1), ("USD", 1)),
        "skillId": ranked(("a", 2), ("b", 1), ("c", 1), ("d", 1), ("e", 1)),
    })  # fmt: skip
    parsed = ask(engine, "", intervals="P1Y", currencies="BSV", facets=facets)
    assert (parsed.total, parsed.facets) == (1, {
        "interval": (("P1Y", 1),),
        "acceptedCurrency": (("USD", 2), ("BSV", 1)),
        "skillId": (("b", 1),),
    })  # fmt: skip


def test_facets_count_by_the_words_as_the_answer_took_them(engine: SearchIndex) -> None:
    """Whichever words a result holds."""
    put(
        engine,
        listing("1", "alpha beta", tags=("x",)),
        listing("2", "alpha", tags=("y",)),
        listing("3", "beta", tags=("y", "z")),
    )
    assert ask(engine, "alpha beta", facets="tag").facets == {"tag": ranked(("y", 2), ("x", 1), ("z", 1))}
    hits = ask(engine, "alpha beta", tags="y", facets="tag")
    assert (hits.total, hits.facets) == (2, {"tag": ranked(("y", 2), ("x", 1), ("z", 1))})


def test_a_currency_that_was_chosen_for_the_bounds_too_gives_way_to_others_with_them(engine: SearchIndex) -> None:
    put(
        engine,
        listing("1", "Pay", offers=[price("4", "USD"), price("9", "EUR")]),
        listing("2", "Pay", offers=[price("3", "EUR")]),
        listing("3", "Pay", offers=[price("2", "EUR"), price("2", "USD")]),
    )
    facets = ("acceptedCurrency",)
    hits = ask(
        engine, "pay", currencies="USD", max_price="5", price_currency="USD", priced_by_filter=True, facets=facets
    )
    assert (hits.total, hits.facets) == (2, {"acceptedCurrency": ranked(("EUR", 2), ("USD", 2))})
    assert matching_ids(engine, "pay", currencies="EUR", max_price="5", price_currency="EUR") == {"2", "3"}
    hits = ask(engine, "pay", currencies="USD", max_price="5", price_currency="USD", facets=facets)
    assert hits.facets == {"acceptedCurrency": (("USD", 2),)}, "where the bounds stay in USD"


def test_values_that_choosing_does_not_find_hide_none_that_it_does(engine: SearchIndex) -> None:
    dear = [f"s{index:03}" for index in range(210)]
    offers = [price("100", "USD", skills=dear), price("5", "USD", skills=["a"])]
    put(
        engine,
        *(listing(f"1{index}", "Pay", skills=("a", *dear), offers=offers) for index in range(3)),
        *(listing(f"2{index}", "Pay", skills=("zz",), offers=[price("5", "USD", skills=["zz"])]) for index in range(2)),
    )
    hits = ask(engine, "pay", max_price="10", price_currency="USD", facets=("skillId",))
    assert (hits.total, hits.facets) == (5, {"skillId": (("a", 3), ("zz", 2))})


def test_another_status_widens_its_facet_and_the_usual_ones_do_not(engine: SearchIndex) -> None:
    put(engine, listing("1", "Pay"), listing("2", "Pay", status="burned"), listing("3", "Pay", status="pending"))
    usual = ranked(("live", 1), ("pending", 1))
    assert ask(engine, "pay", facets="status").facets == {"status": usual}
    assert ask(engine, "pay", statuses="live", facets="status").facets == {"status": ranked(("burned", 1), *usual)}
