"""Text vectors: near texts have near vectors, and the reader gives what the reference gives, byte for byte."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.search import text_vectors
from overlay.search.piece_table import table_hash
from overlay.search.text_vectors import SIZE, Vector, of_question, pieces_of, vector, vectors
from parsers.cards import Skill
from tests.contracts.listed import listing

TEXTS = st.text("abcdefgh AXÉßñ_-.,!'# 4支付é\u0301ไท🔥\n\0", max_size=60)


def cosine(one: Vector, other: Vector) -> float:
    left, right = one.astype(float), other.astype(float)
    return float(left @ right / (np.linalg.norm(left) * np.linalg.norm(right)))


@pytest.fixture(scope="module")
def reference(shared: Path) -> Callable[[str], Vector]:
    """The reader that came with the table."""
    module = runpy.run_path(str(shared / "data" / "model" / "static_model.py"))
    module["_Z"].close()  # its arrays are read
    reader: Callable[[str], Vector] = module["vector"]
    return reader


def test_a_question_is_nearer_to_the_tool_that_meets_it_without_its_words() -> None:
    weather = vector("Forecast API. Temperature, rain and wind for any city")
    payments = vector("Ledger. Send and receive coins between wallets")
    question = of_question("will I need an umbrella in Paris tomorrow?")
    assert cosine(question, weather) > 0.3 > cosine(question, payments)


@given(TEXTS)
def test_any_text_has_a_vector_whose_largest_number_is_127(text: str) -> None:
    numbers = vector(text)
    assert (numbers.dtype, numbers.shape) == (np.int8, (SIZE,))
    assert np.abs(numbers.astype(int)).max() in (0, 127)
    assert numbers.any() or not any(map(str.isalnum, text))


def test_a_text_without_words_and_symbols_has_a_vector_of_zeros() -> None:
    assert not vector("").any()
    assert not vector(" \n\t").any()
    assert not of_question("").any()


def test_case_accents_and_the_order_of_words_do_not_change_a_vector() -> None:
    assert (vector("Café Zürich") == vector("cafe zurich")).all()
    assert cosine(vector("send coins"), vector("coins send")) > 0.999


def test_stop_words_of_a_question_do_not_count_unless_there_are_no_others() -> None:
    assert (of_question("please find me the rocket") == vector("find rocket")).all()
    assert (of_question("what is it") == vector("what is it")).all()


def test_a_long_word_is_read_in_linear_time_and_one_with_foreign_letters_is_unknown() -> None:
    assert vector("a" * 1_000_000).any()
    assert (vector("\U0001f916") == vector("\U0001f9ec")).all()


def test_a_listing_is_its_name_description_tags_and_skills() -> None:
    bare = listing("1", "Forecast", description="Rain in a city", tags=("weather",))
    skilled = listing(
        "2", "Forecast", description="Rain in a city", tags=("weather",), skills=(Skill("w", "Wind", "Speed of wind"),)
    )
    pieces = [pieces_of(bare), pieces_of(skilled), []]
    numbers, offsets = np.array([*pieces[0], *pieces[1]], np.uint32), np.cumsum([0, *map(len, pieces)])
    expected = ["Forecast. Rain in a city weather", "Forecast. Rain in a city weather Wind. Speed of wind", ""]
    assert vectors(numbers, offsets).tolist() == [vector(text).tolist() for text in expected]


def test_the_identity_of_the_table_is_the_hash_of_its_bytes() -> None:
    table = Path(text_vectors.__file__).with_name("model") / "static-128.npz"
    assert table_hash() == blake2b(table.read_bytes(), digest_size=16).hexdigest()


@given(text=TEXTS)
def test_any_text_has_the_vector_of_the_reference(reference: Callable[[str], Vector], text: str) -> None:
    assert_alike(text, reference(text))


def test_real_texts_have_the_vectors_of_the_reference(reference: Callable[[str], Vector], shared: Path) -> None:
    lines = (shared / "data" / "relevance-dev.jsonl").read_text().splitlines()
    for text in (json.loads(line)["query"] for line in lines):
        assert_alike(text, reference(text))


def assert_alike(text: str, expected: Vector) -> None:
    """The vector of a text is the expected one; it is rounded from exact sums, the reference from single precision."""
    difference = vector(text).astype(int) - expected
    assert np.abs(difference).max() <= 1, text
    assert np.count_nonzero(difference) <= 1, text


def test_the_table_is_the_one_that_the_notice_describes(shared: Path) -> None:
    mine, theirs = Path(text_vectors.__file__).with_name("model"), shared / "data" / "model"
    assert (mine / "static-128.npz").read_bytes() == (theirs / "static-128.npz").read_bytes()
