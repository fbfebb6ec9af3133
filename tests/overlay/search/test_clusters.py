"""Questions that are compared with the nearest clusters of vectors only."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.search import clusters
from overlay.search.clusters import Bytes, Clusters, clustered, enough, nearest_of_clusters
from overlay.search.nearest import Nearest, Vectors, inverse_lengths, nearest
from overlay.search.text_vectors import SIZE
from tests.overlay.search.test_nearest import sample


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """Clusters of any number of vectors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "LEAST", 1)
        yield


def directions(documents: int, topics: int, seed: int) -> Vectors:
    """Vectors around some directions, as texts are about topics."""
    chance = np.random.default_rng(seed)
    centres = chance.normal(size=(topics, SIZE))
    vectors = centres[chance.integers(topics, size=documents)] + chance.normal(scale=0.8, size=(documents, SIZE))
    return np.rint(vectors / np.abs(vectors).max(axis=1, keepdims=True) * 127).astype(np.int8)


def ask(vectors: Vectors, of_all: Clusters, query: Vectors, most: int, compared: int, admitted: Bytes) -> Nearest:
    return nearest_of_clusters(vectors, inverse_lengths(vectors), admitted, of_all, query, most, compared)


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(0, 12))
def test_with_all_vectors_compared_the_nearest_are_those_of_one_pass(seed: int, documents: int, most: int) -> None:
    vectors, query = sample(seed, documents), sample(seed + 1, 2)[1]
    admitted = np.random.default_rng(seed).integers(0, 2, documents, dtype=np.uint8)
    result = ask(vectors, clustered(vectors), query, most, documents, admitted)
    expected = nearest(vectors, inverse_lengths(vectors), admitted, query, most)
    assert result.cosines.tolist() == expected.cosines.tolist()
    last = expected.cosines[-1] if len(expected.cosines) else 0.0
    above = expected.cosines > last  # of equal ones at the end either may be there
    assert result.documents[: above.sum()].tolist() == expected.documents[above].tolist()


@given(st.integers(0, 2**32), st.integers(1, 400))
def test_each_vector_is_in_one_cluster(seed: int, documents: int) -> None:
    of_all = clustered(sample(seed, documents))
    assert of_all.starts[0] == 0
    assert of_all.starts[-1] == documents
    assert len(of_all.starts) == len(of_all.centres) + 1
    for start, end in zip(of_all.starts[:-1], of_all.starts[1:], strict=True):
        assert (np.diff(of_all.members[start:end].astype(np.int64)) > 0).all()
    assert sorted(of_all.members.tolist()) == list(range(documents))


def test_a_tenth_of_the_vectors_has_nearly_all_of_the_nearest() -> None:
    vectors, questions = directions(4_000, 40, 1), directions(50, 40, 1)
    of_all, admitted = clustered(vectors), np.ones(len(vectors), np.uint8)
    shares = [
        np.isin(
            nearest(vectors, inverse_lengths(vectors), admitted, query, 20).documents,
            ask(vectors, of_all, query, 20, 400, admitted).documents,
        ).mean()
        for query in questions
    ]
    assert np.mean(shares) > 0.95


def test_few_admitted_vectors_are_all_compared() -> None:
    vectors, query = directions(2_000, 20, 2), directions(1, 20, 3)[0]
    admitted = np.zeros(2_000, np.uint8)
    admitted[::97] = 1
    result = ask(vectors, clustered(vectors), query, 60, 21, admitted)
    expected = nearest(vectors, inverse_lengths(vectors), admitted, query, 60)
    assert result.documents.tolist() == expected.documents.tolist()


def test_few_vectors_are_not_clustered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "LEAST", 100)
    assert not len(clustered(sample(1, 99)).centres)
    assert len(clustered(sample(1, 100)).centres) == 10
    assert (enough(1_000), enough(1_200_000)) == (1 << 14, 100_000)
