"""The nearness of a listing to the word that it is farthest from equals a slow computation of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.search.least_word import WordRows, nearness
from overlay.search.nearest import cosines_of, inverse_lengths
from overlay.search.piece_table import piece_table, whole_words
from overlay.search.text_vectors import of_words

WORDS = ("weather", "rain", "forecast", "money", "wallet", "zqxv")
UNKNOWN = len(WORDS) - 1


def listed(documents: list[list[int]]) -> WordRows:
    """The words of documents, by their numbers in `WORDS`."""
    offsets = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    words = np.array([word for document in documents for word in document], np.uint32)
    rows = np.array([whole_words().get(word, -1) for word in WORDS], np.int32)
    return WordRows.of(offsets, words, rows)


def slow_nearness(document: list[int], held: list[bool], question: list[str]) -> float:
    """The least of the nearness to each word, one pair after the other."""
    rows = piece_table().rows

    def cosine(number: int, vector: Any) -> float:
        row = rows[whole_words()[WORDS[number]]][np.newaxis]
        return float(cosines_of(row, inverse_lengths(row), np.zeros(1, np.int64), vector)[0])

    others = [number for number in document if number != UNKNOWN]
    pairs = zip(held, of_words(question), strict=True)
    return min(
        1.0 if is_held else max([0.0, *(cosine(number, vector) for number in others)]) for is_held, vector in pairs
    )


@given(
    st.lists(st.lists(st.integers(0, UNKNOWN), max_size=6), min_size=1, max_size=6),
    st.lists(st.sampled_from([*WORDS, "storm", "currency"]), min_size=1, max_size=3),
    st.randoms(),
)
def test_it_is_the_least_of_the_greatest_cosines(documents: list[list[int]], question: list[str], random: Any) -> None:
    held = [[random.random() < 0.3 for _ in question] for _ in documents]
    order = random.sample(range(len(documents)), len(documents))
    results = nearness(
        np.array(order, np.int64),
        np.array([held[document] for document in order], np.uint8),
        listed(documents),
        of_words(question),
    )
    expected = [slow_nearness(documents[document], held[document], question) for document in order]
    assert results.tolist() == pytest.approx(expected, abs=1e-5)


def test_a_word_that_is_held_is_near_and_a_related_one_is_nearer_than_another() -> None:
    documents = listed([[0], [1], [3], []])
    held = np.array([[1], [0], [0], [0]], np.uint8)
    exact, related, other, none = nearness(np.arange(4), held, documents, of_words(["weather"])).tolist()
    assert exact == 1 > related > other > none == 0
