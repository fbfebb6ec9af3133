"""How often texts share a cluster key, over random texts: what the probabilities of eight bands of eight say."""

from __future__ import annotations

from random import Random

import pytest

from overlay.duplicates.minhash import FEWEST_WORDS, bands

TEXTS = 400


@pytest.mark.parametrize(("shared", "other", "expected"), [(38, 2, 0.98), (36, 4, 0.83), (27, 27, 0.001)])
def test_near_identical_texts_share_a_key(shared: int, other: int, expected: float) -> None:
    random, hits = Random(7), 0
    for _ in range(TEXTS):
        words = [f"{random.getrandbits(64):x}" for _ in range(shared + 2 * other)]
        one, two = frozenset(words[: shared + other]), frozenset(words[:shared] + words[shared + other :])
        hits += bool(set(bands(one)) & set(bands(two)))
    similarity = shared / (shared + 2 * other)
    assert 1 - (1 - similarity**8) ** 8 == pytest.approx(expected, abs=0.03)
    assert hits / TEXTS == pytest.approx(expected, abs=0.07)


def test_short_texts_have_no_key() -> None:
    assert bands(frozenset(map(str, range(FEWEST_WORDS - 1)))) == []
    assert len(bands(frozenset(map(str, range(FEWEST_WORDS))))) == 8
