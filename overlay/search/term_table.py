"""Sorted words in flat arrays: 40 bytes a word instead of over a hundred in a dict, and memory-mapped from a file.

Similar words are found by signatures: 64 bits that say which of 32 classes of letters a word contains once, and which
twice or more. An insertion or deletion changes at most one bit, a substitution two, a transposition none, so comparing
all signatures by vector instructions leaves a few dozen of 100,000 words to measure exactly (25 µs).
"""

from __future__ import annotations

import json
import mmap
import os
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from overlay.search.analysis import is_correctable

Counts = npt.NDArray[np.uint32]
Bits = npt.NDArray[np.uint64]
_SHORTEST, _LONGEST = 4, 26  # letters of the candidates for a mistyped word of 5 to 24
_SORTED = 64  # more words than this are partitioned by count before sorting
_EVERY = 32  # every 32nd word is sampled
_MAGIC = b"a2b terms 3\n"
_FIELDS: tuple[tuple[str, npt.DTypeLike], ...] = (
    ("starts", np.uint32),
    ("surfaces", np.uint32),
    ("terms", np.uint32),
    ("signatures", np.uint64),
    ("by_length", np.uint32),
    ("lengths", np.uint32),
    ("buckets", np.uint32),
    ("by_bucket", np.uint32),
)


def signature(word: str) -> int:
    """The classes of letters in a word: 32 bits for once, 32 for twice; 0 for a word that is no correction."""
    if not (_SHORTEST <= len(word) <= _LONGEST and is_correctable(word)):
        return 0
    once = twice = 0
    for letter in word:
        bit = 1 << (ord(letter) & 31)
        twice |= once & bit
        once |= bit
    return once | twice << 32


_AT_ONCE = 1 << 14  # words per step: their letters are counted in 4 MB


def signatures(words: Sequence[str]) -> Bits:
    """The signatures of many words, five times as fast as one by one."""
    bits_of = np.zeros(len(words), np.uint64)
    spelt = [index for index, word in enumerate(words) if _SHORTEST <= len(word) <= _LONGEST and is_correctable(word)]
    for start in range(0, len(spelt), _AT_ONCE):
        indexes = spelt[start : start + _AT_ONCE]
        some = [words[index] for index in indexes]
        letters = np.frombuffer("".join(some).encode("utf-32-le"), np.uint32) & np.uint32(31)
        owners = np.repeat(np.arange(len(some)), np.fromiter(map(len, some), np.int64, len(some)))
        counts = np.bincount(owners * 32 + letters, minlength=len(some) * 32).reshape(-1, 32)
        bits = np.packbits(np.hstack((counts > 0, counts > 1)), axis=1, bitorder="little")
        bits_of[indexes] = bits.view("<u8")[:, 0]
    return bits_of


@dataclass(slots=True)
class TermTable:
    """Words in code point order and their columns. `starts` are offsets into `blob` (UTF-8, each word ends in LF).

    `by_length` lists the words that have a signature, shortest first, and `signatures` are in the same order;
    `lengths[n]` is the number of them that are shorter than n. The words in bucket b (CRC-32 modulo the number of
    buckets, a power of two) are `by_bucket[buckets[b]:buckets[b + 1]]`.
    """

    listings: int
    blob: bytes
    starts: memoryview  # of uint32: reading one number is four times as fast as from an array
    surfaces: Counts
    terms: Counts
    signatures: Bits
    by_length: Counts
    lengths: Counts
    buckets: memoryview  # of uint32, as the next
    by_bucket: memoryview
    _sample: list[bytes] = field(default_factory=list)

    @classmethod
    def build(cls, words: Sequence[str], columns: npt.NDArray[np.uint32], bits: Bits, listings: int) -> TermTable:
        """From words in code point order, their counts as rows of (surfaces, terms), and their signatures."""
        encoded = [word.encode() for word in words]
        starts = np.zeros(len(words) + 1, np.uint32)
        np.cumsum([len(word) + 1 for word in encoded], out=starts[1:])
        sizes = np.fromiter(map(len, words), np.uint32, len(words))
        spelt = np.flatnonzero(bits)
        by_length = spelt[np.argsort(sizes[spelt], kind="stable")].astype(np.uint32)
        lengths = np.searchsorted(sizes[by_length], np.arange(_LONGEST + 4)).astype(np.uint32)
        number = 1 << len(words).bit_length()
        bucket = np.fromiter(map(crc32, encoded), np.uint32, len(words)) & np.uint32(number - 1)
        by_bucket = np.argsort(bucket, kind="stable")
        buckets = np.searchsorted(bucket[by_bucket], np.arange(number + 1)).astype(np.uint32)
        return cls(
            listings,
            b"".join(word + b"\n" for word in encoded),
            starts.data,
            columns[:, 0].copy(),
            columns[:, 1].copy(),
            bits[by_length],
            by_length,
            lengths,
            buckets.data,
            by_bucket.astype(np.uint32).data,
        )

    def merged(self, words: list[str], rows: list[list[int]], listings: int) -> TermTable:
        """A table with more words (sorted, none of them in this one) and their rows; words of no listing are left
        out."""
        mine = np.column_stack((self.surfaces, self.terms))
        more = np.array([row[:2] for row in rows], np.uint32).reshape(-1, 2)
        counts = np.concatenate((mine, more))
        bits = np.zeros(len(counts), np.uint64)
        bits[self.by_length] = self.signatures
        bits[len(mine) :] = [row[2] for row in rows]
        every = self.strings() + words
        used = (counts[:, 0] + counts[:, 1]).tolist()
        order = sorted((index for index in range(len(every)) if used[index]), key=every.__getitem__)
        return TermTable.build([every[index] for index in order], counts[order], bits[order], listings)

    def strings(self) -> list[str]:
        """All words, in order."""
        return bytes(self.blob[: int(self.starts[-1])]).decode().split("\n")[:-1]

    def word(self, index: int) -> str:
        """The word at an index."""
        return self.blob[self.starts[index] : self.starts[index + 1] - 1].decode()

    def _raw(self, index: int) -> bytes:
        """A word in UTF-8, which sorts as code points do."""
        return self.blob[self.starts[index] : self.starts[index + 1] - 1]

    def _insertion_index(self, raw: bytes) -> int:
        """The index where a word is or belongs: a search in the sample, which needs no key function, then between
        two."""
        if not self._sample:
            self._sample = [self._raw(index) for index in range(0, len(self.surfaces), _EVERY)]
        high = bisect_left(self._sample, raw) * _EVERY
        low = max(0, high - _EVERY)
        return bisect_left(range(len(self.surfaces)), raw, low, min(high, len(self.surfaces)), key=self._raw)

    def find(self, word: str) -> int | None:
        """The index of a word, None when it is absent."""
        raw, starts, buckets = word.encode(), self.starts, self.buckets
        bucket = crc32(raw) & (len(buckets) - 2)
        for index in self.by_bucket[buckets[bucket] : buckets[bucket + 1]]:
            if self.blob[starts[index] : starts[index + 1] - 1] == raw:
                return index
        return None

    def add(self, index: int, surface: int, term: int) -> None:
        """Change the counts of a word in memory (never below 0); the file stays as it is."""
        self.surfaces[index] = max(0, int(self.surfaces[index]) + surface)
        self.terms[index] = max(0, int(self.terms[index]) + term)

    def near(self, length: int, bits: int, edits: int, limit: int) -> list[str]:
        """Words whose length and signature allow them to be within `edits` of a word with signature `bits`: an edit
        that changes the length changes at most one bit, any other two."""
        most = len(self.lengths) - 1
        low, high = self.lengths[min(max(0, length - edits), most)], self.lengths[min(length + edits + 1, most)]
        differing = np.bitwise_count(self.signatures[low:high] ^ np.uint64(bits))
        near = np.flatnonzero(differing <= 2 * edits)
        sizes = np.searchsorted(self.lengths, near + low, "right") - 1
        close = near[differing[near] <= 2 * edits - np.abs(sizes - length)]
        return list(map(self.word, self.by_length[low:high][close[:limit]].tolist()))

    def beginning(self, prefix: str, limit: int) -> list[tuple[int, str]]:
        """(count, word) of the most frequent surfaces with a prefix; equally frequent ones in code point order."""
        low, high = self._insertion_index(prefix.encode()), self._insertion_index(prefix.encode() + b"\xff")
        counts = self.surfaces[low:high]
        if len(counts) > max(_SORTED, limit):
            least = max(1, np.partition(counts, -limit)[-limit])
            indexes = (counts >= least).nonzero()[0].tolist()
        else:
            indexes = range(len(counts))
        pairs = zip(counts.take(indexes).tolist() if indexes else (), indexes, strict=True)
        best = sorted((-count, index) for count, index in pairs if count)[:limit]
        return [(-count, self.word(low + index)) for count, index in best]

    def save(self, path: Path) -> None:
        """Write a new file and sync it to disk. Raises OSError."""
        arrays = [np.asarray(getattr(self, name), kind) for name, kind in _FIELDS]
        text = bytes(self.blob[: int(self.starts[-1])])
        sizes = [len(text), *(len(array) for array in arrays)]
        head = _MAGIC + json.dumps({"listings": self.listings, "sizes": sizes}).encode() + b"\n"
        with path.open("wb") as file:
            for part in (head.ljust(512, b" "), _padded(text), *(_padded(array.tobytes()) for array in arrays)):
                file.write(part)
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def load(cls, path: Path) -> TermTable:
        """Map a file that `save` wrote. Raises OSError when it is unreadable, ValueError when it is another file."""
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if mapped[: len(_MAGIC)] != _MAGIC:
            raise ValueError(f"{path} does not hold words")
        head: dict[str, Any] = json.loads(mapped[len(_MAGIC) : 512])
        offset, size = 512, head["sizes"][0]
        blob = mapped[offset : offset + size]
        offset += -(-size // 8) * 8
        columns: dict[str, Any] = {}
        for (name, kind), count in zip(_FIELDS, head["sizes"][1:], strict=True):
            array = np.frombuffer(mapped, kind, count, offset)
            columns[name] = array.copy() if name in {"surfaces", "terms"} else array
            offset += -(-array.nbytes // 8) * 8
        columns |= {name: columns[name].data for name in ("starts", "buckets", "by_bucket")}
        return cls(listings=head["listings"], blob=blob, **columns)


def empty() -> TermTable:
    """A table without words."""
    return TermTable.build([], np.zeros((0, 2), np.uint32), np.zeros(0, np.uint64), 0)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)
