"""The compiled pass over text vectors equals a slow one."""

from __future__ import annotations

from math import isclose, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.search.nearest import cosines_of, inverse_lengths, nearest, prepare
from overlay.search.text_vectors import SIZE

Vectors = npt.NDArray[np.int8]


def slow_nearest(vectors: Vectors, admitted: Any, query: Vectors, most: int) -> list[tuple[int, float]]:
    """Documents and cosines, by one sort of all."""
    inverse = inverse_lengths(vectors)
    scored = [
        (document, np.float32(sum(int(one) * int(other) for one, other in zip(row, query, strict=True))) * scale)
        for document, (row, scale) in enumerate(zip(vectors, inverse, strict=True))
        if admitted[document]
    ]
    best = sorted((one for one in scored if one[1] > 0), key=lambda one: (-one[1], one[0]))[:most]
    return [(document, cosine * inverse_lengths(query[np.newaxis])[0]) for document, cosine in best]


def exact_cosine(one: Vectors, other: Vectors) -> float:
    product, *squares = (sum(int(a) * int(b) for a, b in pairs) for pairs in (
        zip(one, other, strict=True), zip(one, one, strict=True), zip(other, other, strict=True)))  # fmt: skip
    return product / sqrt(squares[0] * squares[1]) if all(squares) else 0.0


def sample(seed: int, documents: int) -> Vectors:
    """Vectors of which some are equal, some of zeros."""
    chance = np.random.default_rng(seed)
    vectors = chance.integers(-127, 128, (documents, SIZE), dtype=np.int8)
    for row in range(0, documents, 3):
        vectors[row] = vectors[int(chance.integers(documents))] if row % 2 else 0
    return vectors


@given(st.integers(0, 2**32), st.integers(0, 40), st.integers(0, 12))
def test_the_nearest_are_those_of_a_sort_of_all(seed: int, documents: int, most: int) -> None:
    vectors, query = sample(seed, documents), sample(seed + 1, 2)[1]
    admitted = np.random.default_rng(seed).integers(0, 2, documents, dtype=np.uint8)
    result = nearest(vectors, inverse_lengths(vectors), admitted, query, most)
    slow = slow_nearest(vectors, admitted, query, most)
    assert result.documents.tolist() == [document for document, _ in slow]
    assert result.cosines.tolist() == pytest.approx([cosine for _, cosine in slow], rel=1e-6)


@given(st.integers(0, 2**32), st.lists(st.integers(-3, 25), max_size=20))
def test_cosines_of_some_documents_are_exact_but_for_rounding(seed: int, documents: list[int]) -> None:
    vectors, query = sample(seed, 20), sample(seed + 1, 2)[1]
    cosines = cosines_of(vectors, inverse_lengths(vectors), np.array(documents, np.int64), query)
    for document, cosine in zip(documents, cosines.tolist(), strict=True):
        expected = exact_cosine(vectors[document], query) if 0 <= document < 20 else 0.0
        assert isclose(cosine, expected, rel_tol=1e-5, abs_tol=1e-6)


def test_the_largest_products_are_exact() -> None:
    extreme = np.full((1, SIZE), -127, np.int8)
    assert nearest(extreme, inverse_lengths(extreme), np.ones(1, np.uint8), extreme[0], 1).cosines == pytest.approx(1)


def test_a_question_without_a_vector_is_near_to_nothing() -> None:
    vectors, nothing = sample(1, 9), np.zeros(SIZE, np.int8)
    inverse, admitted = inverse_lengths(vectors), np.ones(9, np.uint8)
    assert not len(nearest(vectors, inverse, admitted, nothing, 5).documents)
    assert not cosines_of(vectors, inverse, np.arange(9), nothing).any()


def test_vectors_in_read_only_memory_are_read_by_the_same_kernels() -> None:
    prepare()
    vectors = sample(2, 9)
    mapped = np.frombuffer(vectors.tobytes(), np.int8).reshape(-1, SIZE)
    arguments = inverse_lengths(vectors), np.ones(9, np.uint8), vectors[1], 4
    assert nearest(mapped, *arguments).documents.tolist() == nearest(vectors, *arguments).documents.tolist()
