"""Stage two of ranking: what each factor of the formula changes, on both engines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from overlay.document import Document
from overlay.engines import ENGINES
from overlay.index import SearchIndex, open_index
from overlay.query import Hit
from overlay.search.explaining import explained
from parsers.cards import Skill
from tests.contracts.listed import ask, ids, listing, put
from tests.opensearch_server import index_url


@pytest.fixture(params=list(ENGINES))
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SearchIndex]:
    opened = open_index(index_url(request, request.param, tmp_path))
    yield opened
    opened.close()


def rich(id_: str, word: str) -> Document:
    """An agent whose name, tag and skills all hold a word, and that has much more to tell."""
    skills = tuple(
        Skill(f"{word.lower()}_{what}", f"{word} {what}", f"Tells the {what} of the {word.lower()} anywhere on earth.",
              (word.lower(), "nature"), (f"What is the {word.lower()} {what}?",))
        for what in ("forecast", "history", "alerts", "maps", "comparison")
    )  # fmt: skip
    text = f"An agent for travellers and farmers that answers questions about the {word.lower()} from many stations."
    return listing(id_, f"{word} Agent", description=text, tags=(word.lower(), "travel"), skills=skills)


def test_a_rich_card_does_not_fall_behind_one_line_cards_that_hold_the_word(index: SearchIndex) -> None:
    towns = [f"{first}{last} Weather" for first in ("North", "South", "East", "West", "New") for last in (
        "ham", "ton", "field", "bury", "ford", "wick", "port", "dale", "stead", "mouth", "gate", "well")]  # fmt: skip
    put(index, *(listing(f"1{at:02}", name) for at, name in enumerate(towns)), rich("200", "Weather"))
    assert len(towns) == 60
    for question in ("weather", "weather agent", "weather forecast", "waether"):
        assert ids(ask(index, question))[0] == "200", question


def test_a_listing_that_holds_all_words_comes_before_those_that_hold_one_in_their_names(index: SearchIndex) -> None:
    put(
        index,
        *(listing(f"1{at}", "Invoice", description="invoice") for at in range(5)),
        *(listing(f"2{at}", "Translation", description="translation") for at in range(5)),
        listing("3", "Office helper", description="Makes an invoice and its translation into any language."),
    )
    hits = ask(index, "invoice translation")
    assert ids(hits)[0] == "3"
    assert (hits.total, hits.matched) == (11, 1)
    assert ids(ask(index, "invoice translation", sort="created", descending=False))[0] == "3"


def test_words_that_stand_together_count_more_than_the_same_words_apart(index: SearchIndex) -> None:
    put(
        index,
        listing("1", "One", description="A vector for each database of the customer."),
        listing("2", "Two", description="A database vector for each of the customer."),
        listing("3", "Three", description="A vector database for each of the customer."),
        *(listing(f"9{at}", "Other", description="Something else for the customer.") for at in range(9)),
    )
    assert ids(ask(index, "vector database"))[0] == "3"


def test_the_listing_whose_name_is_the_question_comes_first_also_where_it_is_mistyped(index: SearchIndex) -> None:
    put(
        index,
        listing(
            "1", "Docs2Prompt server", description="docs2prompt makes prompts from docs2prompt documents", height=1
        ),
        listing("2", "Docs2Prompt", height=300),
    )
    for question in ("docs2prompt", "Docs2Prompt", "docs2propmt"):
        assert ids(ask(index, question))[0] == "2", question


def test_of_equal_texts_verified_signed_and_older_ones_come_first_but_no_word_is_outweighed(index: SearchIndex) -> None:
    day = 86_400
    put(
        index,
        listing("1", "Ledger", time=1_700_000_000 + 400 * day, created_height=1),
        listing("2", "Ledger", time=1_700_000_000, created_height=1),
        listing("3", "Ledger", time=1_700_000_000 + 400 * day, signed=True, verified=True),
        listing("4", "Ledger export", time=1_700_000_000 + 400 * day),
        listing("5", "Ledger", time=1_700_000_000, verified=True, signed=True),
    )
    assert ids(ask(index, "ledger"))[:4] == ["5", "3", "2", "1"]
    assert ids(ask(index, "ledger export"))[0] == "4"


def factors(index: SearchIndex, text: str) -> list[tuple[Hit, dict[str, Any]]]:
    hits = ask(index, text, limit=100)
    return [(hit, explained(hits.plan, hit)) for hit in hits.hits]


def test_explained_factors_multiply_to_the_score(index: SearchIndex) -> None:
    put(index, rich("1", "Weather"), listing("2", "Weather", signed=True), listing("3", "Forecasts", verified=True))
    for text in ("weather", "weather forecast", "waether forecasts agent for all of us"):
        for hit, told in factors(index, text):
            total = sum(word["score"] for word in told["words"]) + told["proximity"]
            assert (
                told["score"]
                == hit.score
                == pytest.approx(total * told["coverage"] * told["exactName"] * told["staticRank"])
            )
    matches = {word["word"]: word["match"] for word in factors(index, "waether agent")[0][1]["words"]}
    assert matches == {"waether": "corrected", "agent": "exact"}


def test_beyond_the_candidates_scores_go_on_falling_in_the_order_of_the_engine(index: SearchIndex) -> None:
    put(index, *(listing(f"{at:03}", "Weather " + "town " * (at % 7), description="weather") for at in range(150)))
    whole = factors(index, "weather town")
    assert [told["stage"] for _, told in whole] == ["rerank"] * 60 + ["engine"] * 40
    assert all(one.score >= other.score for (one, _), (other, _) in pairwise(whole))
    pages = [hit.id for at in range(0, 150, 30) for hit in ask(index, "weather town", offset=at, limit=30).hits]
    assert pages[:100] == [hit.id for hit, _ in whole]
    assert sorted(pages) == [f"{at:03}" for at in range(150)]
