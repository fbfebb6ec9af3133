"""Words of other languages: the longest match in scripts without spaces, rows of words, and the words that `lacks`
names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.search import foreign_words
from overlay.search.foreign_words import (
    LONGEST,
    LONGEST_IN_RUN,
    Word,
    is_known,
    rows_of,
    segments,
    sum_of,
    whole_words,
    words_of,
)
from overlay.search.text_vectors import Vector, of_question, vector

RUNS = st.text("天气预报支付", max_size=14)
TABLES = st.frozensets(st.text("天气预报支付", min_size=1, max_size=LONGEST_IN_RUN + 2), max_size=12)


def longest_match(run: str, table: frozenset[str]) -> list[str]:
    """The oracle: one character after the other, marked by whether it is of a word of the table."""
    if not run:
        return []
    beginnings = [word for word in table if run.startswith(word) and len(word) <= LONGEST_IN_RUN]
    first = max(beginnings, key=len, default="")
    if first:
        return [first, *longest_match(run[len(first) :], table)]
    stop = next((n for n in range(1, len(run)) if any(run.startswith(word, n) for word in table
                                                      if len(word) <= LONGEST_IN_RUN)), len(run))  # fmt: skip
    return [run[:stop], *longest_match(run[stop:], table)]


@given(RUNS, TABLES)
def test_the_words_of_a_run_are_the_longest_of_the_table_and_what_is_between_them(
    run: str, table: frozenset[str]
) -> None:
    words = segments(run, table.__contains__)
    assert "".join(words) == run
    assert words == longest_match(run, table)


@given(RUNS, TABLES, st.data())
def test_what_a_listing_lacks_is_named_by_words_of_the_run(
    run: str, table: frozenset[str], data: st.DataObject
) -> None:
    pairs = sorted({run[n : n + 2] for n in range(max(1, len(run) - 1))} if run else set())
    lacks = data.draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    words = whole_words(lacks, run, table.__contains__)
    assert all(word in run for word in words)
    assert bool(words) == bool(lacks)


def test_words_beside_a_run_are_named_as_they_are() -> None:
    table = frozenset(("天气", "预报")).__contains__
    assert whole_words(("tokyo", "气预", "预报"), "Tokyo 天气预报", table) == ("tokyo", "预报")
    assert whole_words(("气预",), "天气预报", table) == ("天气", "预报")
    assert whole_words(("weather",), "weather report", table) == ("weather",)


def test_an_inflected_word_counts_as_the_longest_word_that_it_begins_with() -> None:
    assert is_known("прогноз")
    assert rows_of(Word("прогнозыы", is_run=False)) == rows_of(Word("прогноз", is_run=False)) != ()
    assert rows_of(Word("прогнозыыыыыыыыыыыыыыыы", is_run=False)) == ()
    assert rows_of(Word("ъ" * 10_000, is_run=False)) == ()
    assert rows_of(Word("天" * 10 * LONGEST, is_run=True))


@pytest.mark.parametrize(
    ("foreign", "english"),
    [
        ("wie wird das wetter für den flug nach Madrid und wo ist das hotel", "weather flight Madrid hotel"),
        ("погоды рейс отель", "weather flight hotel"),
        ("天气航班酒店", "weather flight hotel"),
        ("मौसम उड़ान होटल", "weather flight hotel"),
        ("الطقس رحلة فندق", "weather flight hotel"),
    ],
)
def test_a_question_is_near_to_the_same_one_in_english(foreign: str, english: str) -> None:
    assert cosine(of_question(foreign), vector(english)) > 0.4
    assert cosine(of_question(foreign), vector("chess puzzle")) < 0.3


def test_an_english_question_reads_no_foreign_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(foreign_words, "number_of")
    assert (of_question("rates of die hotel") == vector("rates die hotel")).all()
    assert (of_question("a café in Zürich") == vector("café Zürich")).all()


@given(st.text("abé 天气дом\u0301ไท!'", max_size=40))
def test_any_text_has_a_vector(text: str) -> None:
    numbers = of_question(text)
    assert np.abs(numbers.astype(int)).max() in (0, 127)
    assert "".join(word.text for word in words_of(text)).strip() or not any(map(str.isalnum, text))


def test_a_sum_of_rows_is_exact() -> None:
    numbers = [number for word in ("погоды", "рейс") for number in rows_of(Word(word, is_run=False))]
    assert sum_of(numbers).tolist() == (sum_of(numbers[:1]) + sum_of(numbers[1:])).tolist()
    assert max(map(len, ("погоды", "рейс"))) <= LONGEST


def cosine(one: Vector, other: Vector) -> float:
    left, right = one.astype(float), other.astype(float)
    return float(left @ right / (np.linalg.norm(left) * np.linalg.norm(right)))
