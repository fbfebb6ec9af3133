"""The order by relevance: what each rule changes, on every engine. How good it is on the whole: `test_relevance.py`."""

from __future__ import annotations

from collections import Counter
from itertools import chain, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.api.search_answer import explained
from overlay.projection.search_index import SearchIndex
from overlay.search.diversity import MOST, PAGE, SHARE, diversified, spread
from overlay.search.document import Document
from overlay.search.query import Hit, Lookup, shown_mark
from parsers.cards import Skill
from tests.contracts.listed import ask, ids, listing, put


def rich(id_: str, word: str) -> Document:
    """An agent whose name, tag and skills all hold a word, and that has much more to tell."""
    skills = tuple(
        Skill(f"{word.lower()}_{what}", f"{word} {what}", f"Tells the {what} of the {word.lower()} anywhere on earth.",
              (word.lower(), "nature"), (f"What is the {word.lower()} {what}?",))
        for what in ("forecast", "history", "alerts", "maps", "comparison")
    )  # fmt: skip
    text = f"An agent for travellers and farmers that answers questions about the {word.lower()} from many stations."
    return listing(id_, f"{word} Agent", description=text, tags=(word.lower(), "travel"), skills=skills)


def test_a_rich_card_does_not_fall_behind_one_line_cards_that_hold_the_word(engine: SearchIndex) -> None:
    towns = [f"{first}{last} Weather" for first in ("North", "South", "East", "West", "New") for last in (
        "ham", "ton", "field", "bury", "ford", "wick", "port", "dale", "stead", "mouth", "gate", "well")]  # fmt: skip
    put(engine, *(listing(f"1{index:02}", name) for index, name in enumerate(towns)), rich("200", "Weather"))
    assert len(towns) == 60
    for question in ("weather", "weather agent", "weather forecast", "waether"):
        assert ids(ask(engine, question))[0] == "200", question


def test_a_listing_that_holds_all_words_comes_before_those_that_hold_one_in_their_names(engine: SearchIndex) -> None:
    put(
        engine,
        *(listing(f"1{index}", "Invoice", description="invoice") for index in range(5)),
        *(listing(f"2{index}", "Translation", description="translation") for index in range(5)),
        listing("3", "Office helper", description="Makes an invoice and its translation into any language."),
    )
    hits = ask(engine, "invoice translation")
    assert ids(hits)[0] == "3"
    assert (hits.total, hits.matched) == (11, 1)
    assert ids(ask(engine, "invoice translation", sort="created", descending=False))[0] == "3"


def test_words_that_stand_together_count_more_than_the_same_words_apart(engine: SearchIndex) -> None:
    put(
        engine,
        listing("1", "One", description="A vector for each database of the customer."),
        listing("2", "Two", description="A database vector for each of the customer."),
        listing("3", "Three", description="A vector database for each of the customer."),
        *(listing(f"9{index}", "Other", description="Something else for the customer.") for index in range(9)),
    )
    assert ids(ask(engine, "vector database"))[0] == "3"


def test_the_listing_whose_name_is_the_question_comes_first_also_where_it_is_mistyped(engine: SearchIndex) -> None:
    put(
        engine,
        listing(
            "1", "Docs2Prompt server", description="docs2prompt makes prompts from docs2prompt documents", height=1
        ),
        listing("2", "Docs2Prompt", height=300),
    )
    for question in ("docs2prompt", "Docs2Prompt", "docs2propmt"):
        assert ids(ask(engine, question))[0] == "2", question


def test_of_equal_texts_verified_signed_and_older_ones_come_first_but_no_word_is_outweighed(
    engine: SearchIndex,
) -> None:
    day = 86_400
    put(
        engine,
        listing("1", "Ledger", time=1_700_000_000 + 400 * day, created_height=1),
        listing("2", "Ledger", time=1_700_000_000, created_height=1),
        listing("3", "Ledger", time=1_700_000_000 + 400 * day, signed=True, verified=True),
        listing("4", "Ledger export", time=1_700_000_000 + 400 * day),
        listing("5", "Ledger", time=1_700_000_000, verified=True, signed=True),
    )
    assert ids(ask(engine, "ledger"))[:4] == ["5", "3", "2", "1"]
    assert ids(ask(engine, "ledger export"))[0] == "4"


def factors(engine: SearchIndex, text: str) -> list[tuple[Hit, dict[str, Any]]]:
    hits = ask(engine, text, limit=100)
    return [(hit, explained(hits.plan, hit)) for hit in hits.hits]


def test_explained_factors_multiply_to_the_score(engine: SearchIndex) -> None:
    put(engine, rich("1", "Weather"), listing("2", "Weather", signed=True), listing("3", "Forecasts", verified=True))
    for text in ("weather", "weather forecast", "waether forecasts agent for all of us"):
        for hit, explanation in factors(engine, text):
            total = sum(word["score"] for word in explanation["words"]) + explanation["proximity"]
            product = total * explanation["exactName"] * explanation["staticRank"]
            assert explanation["score"] == hit.score == pytest.approx(product)
    matches = {word["word"]: word["match"] for word in factors(engine, "waether agent")[0][1]["words"]}
    assert matches == {"waether": "corrected", "agent": "exact"}


def test_beyond_the_candidates_scores_go_on_falling_in_the_order_of_the_engine(engine: SearchIndex) -> None:
    put(
        engine,
        *(listing(f"{index:03}", "Weather " + "town " * (index % 7), description="weather") for index in range(150)),
    )
    whole = factors(engine, "weather town")
    ranked = 100 if engine.name == "native" else 60
    assert [explanation["stage"] for _, explanation in whole] == ["rerank"] * ranked + ["engine"] * (100 - ranked)
    assert all(one.score >= other.score for (one, _), (other, _) in pairwise(whole))
    pages = [hit.id for index in range(0, 150, 30) for hit in ask(engine, "weather town", offset=index, limit=30).hits]
    assert pages[:100] == [hit.id for hit, _ in whole]
    assert sorted(pages) == [f"{index:03}" for index in range(150)]


def test_of_more_words_listings_that_hold_more_come_first(engine: SearchIndex) -> None:
    put(
        engine,
        listing("1", "Alpha alpha alpha"),
        listing("2", "alpha beta gamma delta"),
        listing("3", "alpha beta gamma epsilon"),
        listing("4", "beta gamma"),
        listing("5", "omega"),
    )
    assert ids(ask(engine, "alpha beta gamma delta")) == ["2", "3", "4", "1"]


def test_a_name_says_more_than_a_tag_and_a_tag_more_than_a_description(engine: SearchIndex) -> None:
    more = "word " * 60
    put(
        engine,
        listing("1", "Other", description=f"a chess player {more}"),
        listing("2", "Other", description=more, tags=("chess",)),
        listing("3", "Chess", description=more),
    )
    assert ids(ask(engine, "chess")) == ["3", "2", "1"]


sources = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=70)


@given(sources)
def test_at_most_three_of_a_source_are_before_others_on_a_page(sources_of: list[tuple[int, int]]) -> None:
    order = diversified(sources_of, len(sources_of))
    assert sorted(order) == list(range(len(sources_of)))
    for start in range(0, len(order), PAGE):
        page, counts, follows = order[start : start + PAGE], Counter[tuple[int, int]](), False
        for result in page:
            own = [(kind, source) for kind, source in enumerate(sources_of[result]) if source]
            is_over = any(counts[source] >= MOST for source in own)
            assert is_over or not follows  # those within the limit come first
            follows = is_over
            counts.update([] if is_over else own)


def flood(number: int = 30) -> list[Any]:
    """So many listings of one owner about one word, and five of others with longer texts."""
    spam = [listing(f"1{index:03}", "Invoice", owner="mallory", tags=(f"t{index}",)) for index in range(number)]
    more = "invoice among many other words that a longer text has"
    return [*spam, *(listing(f"9{index}", "Helper", owner=f"o{index}", description=more) for index in range(5))]


def test_one_owner_does_not_fill_the_first_page(engine: SearchIndex) -> None:
    put(engine, *flood())
    results = ids(ask(engine, "invoice", limit=20))
    assert [id_[0] for id_ in results] == ["1"] * 3 + ["9"] * 5 + ["1"] * 12


def test_one_verified_domain_shares_no_places_with_strangers_that_name_it(engine: SearchIndex) -> None:
    strangers = [listing(f"1{index}", "Invoice", owner=f"s{index}", domain="api.v.example") for index in range(8)]
    more = "invoice and what else is said of it in a longer text"
    victim = listing("9", "Helper", owner="v", domain="v.example", verified=True, description=more)
    others = [listing(f"8{index}", "Office", owner=f"o{index}", description=more) for index in range(3)]
    put(engine, *strangers, victim, *others)
    results = ids(ask(engine, "invoice"))
    assert set(results[3:7]) == {"9", "80", "81", "82"}


@pytest.mark.parametrize("number", [100, 700])
def test_a_flood_that_has_all_candidates_leaves_others_their_places_too(engine: SearchIndex, number: int) -> None:
    put(engine, *flood(number))
    results = ids(ask(engine, "invoice", limit=20))
    assert [id_[0] for id_ in results] == ["1"] * 3 + ["9"] * 5 + ["1"] * 12
    total = number + 5
    numbered = [id_ for offset in range(0, total, 15) for id_ in ids(ask(engine, "invoice", limit=15, offset=offset))]
    assert numbered[:100] == ids(ask(engine, "invoice", limit=100))
    assert len(set(numbered)) == len(numbered) == total
    assert len(ids(ask(engine, "invoice", limit=20, owners="mallory"))) == 20


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=130), st.integers(1, 70))
def test_candidates_of_a_flood_are_spread_over_sources(sources_of: list[tuple[int, int]], count: int) -> None:
    order = spread(sources_of, count)
    assert sorted(order) == list(range(len(sources_of)))
    first, rest = order[:count], order[count:]
    assert first == sorted(first)
    assert rest == sorted(rest)
    counts = Counter((kind, source) for index in first for kind, source in enumerate(sources_of[index]) if source)
    if any(number > SHARE for number in counts.values()):  # then no other has room left
        assert all(
            any(counts[kind, source] >= SHARE for kind, source in enumerate(sources_of[index])) for index in rest
        )


@pytest.mark.parametrize("descending", [None, False])
@pytest.mark.parametrize("limit", [1, 7, 20])
@pytest.mark.parametrize("spam", [30, 80])
def test_pages_by_number_and_by_cursor_agree(
    engine: SearchIndex, limit: int, descending: bool | None, spam: int
) -> None:
    put(engine, *flood(spam))
    whole = ask(engine, "invoice", limit=100, descending=descending)
    keys = [hit.sort_key for hit in whole.hits]
    assert keys == sorted(keys, reverse=descending is False)
    assert len(set(keys)) == whole.total == spam + 5
    numbered, after, shown, followed = [], None, b"", []
    for offset in range(0, spam + 5, limit):
        numbered += ids(ask(engine, "invoice", limit=limit, offset=offset, descending=descending))
        page = ask(engine, "invoice", limit=limit, after=after, shown=shown, descending=descending)
        followed += ids(page)
        shown += b"".join(map(shown_mark, ids(page)))
        after = page.hits[-1].sort_key
    assert numbered == followed == ids(whole)


def test_a_listing_that_a_lookup_places_first_is_on_no_other_page(engine: SearchIndex) -> None:
    """It is far beyond the candidates of the words."""
    others = [listing(f"{number:03}", "Alpha", owner=f"owner {number}") for number in range(149)]
    last = listing("149", "Another", owner="last", description="one " * 200 + "alpha", more_facts=("package:x",))
    put(engine, *others, last)
    lookup = Lookup("package", ("package:x",), leads=True)
    pages = [ids(ask(engine, "alpha", lookups=(lookup,), limit=30, offset=offset)) for offset in range(0, 150, 30)]
    shown = list(chain.from_iterable(pages))
    assert shown[0] == "149"
    assert sorted(shown) == sorted({document.id for document in (*others, last)})
