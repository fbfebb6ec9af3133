"""Cluster keys of texts: near-identical texts share at least one with high probability. Pure.

MinHash (Broder, On the resemblance and containment of documents, 1997) of the set of words without digits, in eight
bands of eight rows: texts of Jaccard similarity 0.95 share a band with probability 0.9999, of 0.9 with 0.99, of 0.8
with 0.77, of 0.5 with 0.03. Texts that differ in numbers only share all bands. A text of fewer than `FEWEST_WORDS`
words has none."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from parsers.jit import kernel

FEWEST_WORDS = 12
_BANDS = _ROWS = 8
_FACTORS = np.frombuffer(blake2b(b"minhash").digest() * _ROWS, "<u8").copy()
_FACTORS = (_FACTORS * (2 * np.arange(1, _BANDS * _ROWS + 1, dtype=np.uint64) + np.uint64(1))) | np.uint64(1)
_LARGEST = np.uint64(2**64 - 1)

Hashes = npt.NDArray[np.uint64]


def bands(hashes: Hashes) -> list[bytes]:
    """The cluster keys of a set of words by their hashes (`lexicon.word_hash`), 64 bytes each; none below
    `FEWEST_WORDS`."""
    if len(hashes) < FEWEST_WORDS:
        return []
    smallest = _smallest(hashes, _FACTORS).tobytes()
    return [smallest[start : start + 8 * _ROWS] for start in range(0, len(smallest), 8 * _ROWS)]


def prepare() -> None:
    """Compile the kernel."""
    bands(np.zeros(FEWEST_WORDS, np.uint64))


def _smallest_at_once(hashes: Hashes, factors: Hashes) -> Hashes:
    """As `_smallest`, by one product."""
    return np.asarray(np.multiply.outer(hashes, factors).min(axis=0, initial=_LARGEST), np.uint64)


@kernel(interpreted=_smallest_at_once)
def _smallest(hashes: Hashes, factors: Hashes) -> Hashes:
    """The smallest product with the hashes, for each factor."""
    smallest = np.full(len(factors), _LARGEST, np.uint64)
    for value in hashes:
        for index in range(len(factors)):
            smallest[index] = min(smallest[index], value * factors[index])
    return smallest
