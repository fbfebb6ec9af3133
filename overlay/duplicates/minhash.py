"""Cluster keys of texts: near-identical texts share at least one with high probability. Pure.

MinHash (Broder, On the resemblance and containment of documents, 1997) of the set of words without digits, in eight
bands of eight rows: texts of Jaccard similarity 0.95 share a band with probability 0.9999, of 0.9 with 0.99, of 0.8
with 0.77, of 0.5 with 0.03. Texts that differ in numbers only share all bands. A text of fewer than `FEWEST_WORDS`
words has none."""

from __future__ import annotations

from collections.abc import Set
from hashlib import blake2b

import numpy as np

from overlay.search.memo import Memo

FEWEST_WORDS = 12
_BANDS = _ROWS = 8
_FACTORS = np.frombuffer(blake2b(b"minhash").digest() * _ROWS, "<u8").reshape(1, -1).copy()
_FACTORS = (_FACTORS * (2 * np.arange(1, _BANDS * _ROWS + 1, dtype=np.uint64) + np.uint64(1))) | np.uint64(1)


def bands(text_words: Set[str]) -> list[bytes]:
    """The cluster keys of a set of words, 64 bytes each; none below `FEWEST_WORDS`."""
    if len(text_words) < FEWEST_WORDS:
        return []
    hashes = np.frombuffer(b"".join(map(_HASHES.__getitem__, text_words)), "<u8").reshape(-1, 1)
    smallest = np.minimum.reduce(hashes * _FACTORS).tobytes()
    return [smallest[start : start + 8 * _ROWS] for start in range(0, len(smallest), 8 * _ROWS)]


_HASHES = Memo(lambda word: blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest())
