"""How much meaning counts in the order of results, and what it adds."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.api.search_request import from_pairs
from overlay.search.meaning import FINDING, REORDERING, floor, latin_share, weight
from overlay.search.nearest import FAR, fused
from overlay.search.planner import plan
from overlay.search.query import Lookup, Operators, Query
from overlay.search.term_dictionary import TermCounts, TermDictionary

COUNTS = TermCounts()
COUNTS.add({"turn", "meeting", "recordings", "into", "short", "minutes"})
TERMS = TermDictionary([COUNTS])


def weigh(text: str, **more: Any) -> float:
    return weight(Query(text=text, **more), plan(text, TERMS))


def finds(text: str, matched: int) -> bool:
    planned = plan(text, TERMS)
    return planned._replace(meaning=weight(Query(text=text), planned)).finds_by_meaning(matched)


def test_meaning_counts_more_in_questions_of_more_than_four_words_that_are_no_stop_words() -> None:
    assert weigh("turn meeting recordings minutes") == REORDERING
    assert weigh("turn meeting recordings into short minutes") == FINDING
    assert not finds("turn the meeting recordings into minutes", matched=1)
    assert finds("turn the meeting recordings into minutes", matched=0)
    assert finds("turn the meeting recordings into short clear minutes", matched=1)


def test_corrected_words_and_letters_of_unknown_scripts_lessen_the_weight_of_meaning() -> None:
    assert weigh("turn meeting recordigns minutes") == pytest.approx(REORDERING * 3 / 4)
    assert weigh("ᎠᎡ minutes") == pytest.approx(REORDERING * 7 / 9)
    assert weigh("ᎠᎡᎢᎣ") == 0
    assert weigh("会议 minutes") == weigh("会议记录") == weigh("прогноз") == REORDERING


def test_words_that_nobody_knows_have_no_meaning() -> None:
    assert weigh("meeting qwer") == REORDERING
    assert weigh("meeting qwer zxcv") == 0
    assert weigh("puedes darme el precio de la criptomoneda binance") == FINDING, "a sentence is of another language"


def test_the_floor_rises_with_the_number_of_listings_of_which_some_are_near_by_chance() -> None:
    assert [floor(listings) for listings in (0, 1, 200, 2_000, 20_000)] == pytest.approx([0.25, 0.25, 0.25, 0.3, 0.35])


@pytest.mark.parametrize(
    "query",
    [
        Query(text="meeting minutes", operators=Operators(phrases=("meet minut",))),
        Query(text="meeting minutes", operators=Operators()),  # after its phrases were dropped
        Query(text="meeting minutes", sort="name"),
        Query(text="meeting minutes", sort="price", max_price=Decimal(1)),
        Query(text="meeting minutes", descending=False),
        Query(text="meeting minutes", lookups=(Lookup("package", ("fact",), leads=True),)),
        Query(text=""),
        Query(text="!?"),
        Query(text="2024"),
    ],
)
def test_meaning_does_not_count(query: Query) -> None:
    assert weight(query, plan(query.text, TERMS)) == 0


def test_filters_leave_the_weight_as_it_is() -> None:
    query = from_pairs([("q", "meeting minutes tag:work"), ("type", "tool")], {}).query
    assert weight(query, plan(query.text, TERMS)) == REORDERING


def test_the_share_of_latin_letters_counts_no_digits_and_no_accents() -> None:
    assert latin_share("Zürich 2024!") == 1
    assert latin_share("ab支付") == 0.5
    assert latin_share("42 ...") == 0


def fused_scores(scores: Mapping[Any, float], cosines: Mapping[Any, float], share: float) -> dict[Any, float]:
    """The scores of the results, by id."""
    ids = list(dict.fromkeys((*scores, *cosines)))
    columns = [np.array([of.get(id_, 0.0) for id_ in ids]) for of in (scores, cosines)]
    results = dict(zip(ids, fused(*columns, share).tolist(), strict=True))
    return {id_: score for id_, score in results.items() if id_ in scores or score > 0}


def scaled(cosine: float, greatest: float) -> float:
    """How much of the share of meaning a cosine has."""
    return (cosine / greatest - FAR) / (1 - FAR)


def test_a_listing_without_words_of_the_question_comes_among_the_others() -> None:
    results = fused_scores({"both": 10.0, "words": 8.0}, {"both": 0.5, "meaning": 0.9, "far": 0.1}, 0.4)
    assert results == pytest.approx({"both": 6.0 + 4 * scaled(0.5, 0.9), "words": 4.8, "meaning": 4.0})


def test_without_results_by_words_the_nearest_are_the_results() -> None:
    assert fused_scores({}, {"far": 0.1, "near": 0.5, "nearer": 0.9}, 0.4) == pytest.approx(
        {"near": 0.4 * scaled(0.5, 0.9), "nearer": 0.4}
    )
    assert fused_scores({}, {}, 0.4) == {}


def test_a_single_cosine_is_the_greatest_and_adds_all() -> None:
    results = fused_scores({"one": 3.0, "other": 3.0}, {"other": 0.2}, 0.2)
    assert results == pytest.approx({"one": 0.8 * 3.0, "other": 3.0})
    assert fused_scores({}, {"other": 0.2}, 0.4) == {"other": 0.4}


IDS = st.integers(0, 9)
SCORES = st.dictionaries(IDS, st.floats(1e-9, 1e6))


@given(SCORES, st.dictionaries(IDS, st.floats(-1, 1)), st.floats(0, 1))
def test_all_results_by_words_stay_and_no_score_is_above_the_greatest_by_words(
    scores: dict[int, float], cosines: dict[int, float], share: float
) -> None:
    results = fused_scores(scores, cosines, share)
    assert scores.keys() <= results.keys() <= scores.keys() | cosines.keys()
    greatest = max(scores.values(), default=1.0)
    assert all(0 <= score <= greatest * (1 + 1e-9) for score in results.values())


@given(SCORES, st.dictionaries(IDS, st.floats(-1, 1), min_size=1))
def test_of_listings_with_equal_scores_the_nearer_has_the_greater_one(
    scores: dict[int, float], cosines: dict[int, float]
) -> None:
    results = fused_scores(dict.fromkeys(scores, 1.0), cosines, 0.2)
    order = sorted(scores.keys() & cosines.keys(), key=lambda id_: cosines[id_])
    assert [results[id_] for id_ in order] == sorted(results[id_] for id_ in order)


@given(SCORES, st.dictionaries(IDS, st.floats(-1, 1)))
def test_without_weight_the_scores_by_words_stay(scores: dict[int, float], cosines: dict[int, float]) -> None:
    results = fused_scores(scores, cosines, 0.0)
    assert {id_: results[id_] for id_ in scores} == scores
    assert results.keys() == scores.keys()
