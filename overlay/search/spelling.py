"""The compiled look for words near a mistyped one, by their signatures (`lexicon`), a bucket of alike ones at a time.

Twelve bits of a signature, of letters that nearly half of all words hold, are the key of its bucket, and where keys
differ in too many bits, so do all signatures of the bucket: of 250,000 words, 40 kB of keys are read in place of half a
megabyte, and a few thousand signatures.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from overlay.search.lexicon import Bits, Counts, key_of, keys_of
from parsers.compiled import bits_set, kernel, load64

I64 = npt.NDArray[np.int64]


@kernel
def near(
    signatures: int, keys: Bits, starts: I64, lengths: I64, length: int, bits: np.uint64, key: np.uint64, edits: int,
    found: Counts,
) -> int:  # fmt: skip
    """How many places are in `found`, which may be full: those of the words that by length and signature may be within
    `edits`. `signatures` is the address of all; those in bucket n have `keys[n]` and stand at `starts[n]` and up to the
    next; those of a length in bucket `lengths[length]` and up to the next."""
    number = 0
    for size in range(max(0, length - edits), min(length + edits, len(lengths) - 2) + 1):
        most = 2 * edits - abs(size - length)
        for bucket in range(lengths[size], lengths[size + 1]):
            if bits_set(keys[bucket] ^ key) > most:
                continue
            for at in range(starts[bucket], starts[bucket + 1]):
                if bits_set(load64(signatures + 8 * at) ^ bits) <= most:
                    if number == len(found):
                        return number
                    found[number] = at
                    number += 1
    return number


class Buckets:
    """The signatures of words in the order of `Lexicon.by_length`, by bucket."""

    def __init__(self, signatures: Bits, lengths: Counts) -> None:
        self._signatures = np.ascontiguousarray(signatures)
        self._address = self._signatures.ctypes.data
        keys, most = keys_of(signatures), len(lengths) - 1
        sizes = np.repeat(np.arange(most), lengths[1:].astype(np.int64) - lengths[:-1])
        new = np.ones(len(keys), np.bool_)
        new[1:] = (keys[1:] != keys[:-1]) | (sizes[1:] != sizes[:-1])
        starts = np.flatnonzero(new)
        self._keys, self._starts = keys[starts], np.append(starts, len(keys)).astype(np.int64)
        self._lengths = np.searchsorted(sizes[starts], np.arange(most + 1)).astype(np.int64)

    def near(self, length: int, bits: int, edits: int, most: int) -> list[int]:
        """The places, ascending by length, of at most so many words whose length and letters allow them to be within
        `edits` of a word with such a signature."""
        found = np.empty(most, np.uint32)
        number = near(
            self._address, self._keys, self._starts, self._lengths, length, np.uint64(bits), np.uint64(key_of(bits)),
            edits, found,
        )  # fmt: skip
        places: list[int] = found[:number].tolist()
        return places
