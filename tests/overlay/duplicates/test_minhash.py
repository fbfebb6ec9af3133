"""How often texts share a cluster key, over random texts: what the probabilities of eight bands of eight say."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.duplicates.minhash import _FACTORS, FEWEST_WORDS, Hashes, bands
from overlay.search.lexicon import word_hash

TEXTS = 400


def hashes(words: Iterable[str]) -> Hashes:
    return np.array(list(map(word_hash, words)), np.uint64)


@pytest.mark.parametrize(("shared", "other", "expected"), [(38, 2, 0.98), (36, 4, 0.83), (27, 27, 0.001)])
def test_near_identical_texts_share_a_key(shared: int, other: int, expected: float) -> None:
    random, hits = Random(7), 0
    for _ in range(TEXTS):
        words = [f"{random.getrandbits(64):x}" for _ in range(shared + 2 * other)]
        one, two = words[: shared + other], words[:shared] + words[shared + other :]
        hits += bool(set(bands(hashes(one))) & set(bands(hashes(two))))
    similarity = shared / (shared + 2 * other)
    assert 1 - (1 - similarity**8) ** 8 == pytest.approx(expected, abs=0.03)
    assert hits / TEXTS == pytest.approx(expected, abs=0.07)


def test_short_texts_have_no_key() -> None:
    assert bands(hashes(map(str, range(FEWEST_WORDS - 1)))) == []
    assert len(bands(hashes(map(str, range(FEWEST_WORDS))))) == 8


@given(st.sets(st.text(min_size=1), min_size=FEWEST_WORDS, max_size=40))
def test_a_key_holds_the_smallest_products_of_the_hashes_of_words(words: set[str]) -> None:
    digests = [blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest() for word in words]
    numbers = np.frombuffer(b"".join(digests), "<u8").reshape(-1, 1)
    smallest = np.minimum.reduce(numbers * _FACTORS.reshape(1, -1)).tobytes()
    assert b"".join(bands(hashes(words))) == smallest
