"""Compounds as numbers: each distinct one is analysed once, and texts are arrays of numbers, from which compiled passes
make the rows of an index and the keys by which duplicates meet."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from hashlib import blake2b
from itertools import filterfalse

import numpy as np
import numpy.typing as npt

from overlay.search.analysis import has_digit, tokens_of
from parsers.jit import kernel

Numbers = npt.NDArray[np.uint32]
Hashes = npt.NDArray[np.uint64]

TEXT_END, FIELD_END = 0, 1
"""The numbers between two texts of a field, and after each field."""

ENDS = "\0", "\1"
"""The characters between two texts of a field, and after each field, in texts that are joined; no compound contains
them."""

MOST = 2 << 20
"""Characters of compounds, with 16 for each of their words, in the lexicon in use: some 80,000 compounds of 400 bytes.
Another one follows it."""


class Lexicon(dict[str, int]):
    """Compounds numbered by their first use, and for duplicates their words without digits, numbered too. A number
    holds as long as the lexicon. Safe from several threads."""

    def __init__(self) -> None:
        super().__init__(zip(ENDS, (TEXT_END, FIELD_END), strict=True))
        self.compounds = [*ENDS]
        """The compounds by number."""
        self.size = 0
        """The size, in the unit of `MOST`."""
        self._lock = threading.Lock()
        self._words: dict[str, int] = {}
        self._spelt: list[str] = []
        self._hashes, self._last = array("Q"), array("q")
        self._rows, self._ends = array("I"), array("q", [0, 0, 0])
        self._calls = 0

    def __missing__(self, compound: str) -> int:
        with self._lock:
            number = self.get(compound)
            if number is None:
                words = plain_words(compound)
                for word in words:
                    word_number = self._words.setdefault(word, len(self._words))
                    if word_number == len(self._spelt):
                        self._spelt.append(word)
                        self._hashes.append(word_hash(word))
                        self._last.append(0)
                    self._rows.append(word_number)
                self._ends.append(len(self._rows))
                self.size += len(compound) + 16 * len(words)
                number = len(self.compounds)
                self.compounds.append(compound)
                self[compound] = number  # last: other threads look it up without the lock
        return number

    def plain_words(self, numbers: Sequence[int]) -> tuple[list[str], Hashes]:
        """The distinct words without digits of compounds, and their hashes, in order of their first use."""
        with self._lock:
            self._calls += 1
            rows, ends = np.frombuffer(self._rows, np.uint32), np.frombuffer(self._ends, np.int64)
            last = np.frombuffer(self._last, np.int64)
            words = _distinct(np.array(numbers, np.uint32), ends, rows, last, self._calls)
            hashes = np.frombuffer(self._hashes, np.uint64)[words]
            del rows, ends, last  # arrays cannot grow while there are views of them
            return list(map(self._spelt.__getitem__, words.tolist())), hashes


def plain_words(compound: str) -> tuple[str, ...]:
    """The words of a compound before stemming without those that contain a digit."""
    return tuple(filterfalse(has_digit, tokens_of(compound).surfaces))


def word_hash(word: str) -> int:
    """64 bits of BLAKE2b of a word."""
    return int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


_lexicon = Lexicon()


def lexicon() -> Lexicon:
    """The lexicon in use; a full one stays with those that hold it."""
    global _lexicon  # noqa: PLW0603
    if _lexicon.size >= MOST:
        _lexicon = Lexicon()
    return _lexicon


def prepare() -> None:
    """Compile the kernel."""
    Lexicon().plain_words((TEXT_END,))


@kernel("last")
def _distinct(
    numbers: Numbers, ends: npt.NDArray[np.int64], rows: Numbers, last: npt.NDArray[np.int64], call: int
) -> Numbers:
    """The distinct words of compounds, in order: `last` holds the call that each word was met in last."""
    size = 0
    for number in numbers:
        size += ends[number + 1] - ends[number]
    words, size = np.empty(size, np.uint32), 0
    for number in numbers:
        for index in range(ends[number], ends[number + 1]):
            word = rows[index]
            if last[word] != call:
                last[word] = call
                words[size] = word
                size += 1
    return words[:size]
