"""Words of other languages: their rows, in the space of the text vectors of listings, and the words of scripts without
spaces (`model/NOTICE` describes how the rows were made).

The table is mapped at the first question that needs it, and a row is found by the hash of its word, so that memory
holds only the pages in use.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.search.analysis import clusters_of, compounds, pieces, stem
from overlay.search.lexicon import word_hash
from overlay.search.memo import Memo

LONGEST, LONGEST_IN_RUN = 20, 10
"""Characters of the longest word of the table, and of the longest in a script without spaces."""
_SHORTEST_PREFIX, _PREFIX_SHARE = 4, 0.6
"""A word that the table does not have counts as the longest one that it begins with, of so many letters and with this
share of its letters at least: most are its inflections."""

_FOLDER = Path(__file__).with_name("model")


class _ForeignTable(NamedTuple):
    """The hashes of the words in ascending order, and for each a row of 128 numbers and its scale."""

    keys: memoryview[int]
    rows: npt.NDArray[Any]


@cache
def _table() -> _ForeignTable:
    keys = np.load(_FOLDER / "foreign-keys.npy", mmap_mode="r")
    return _ForeignTable(memoryview(keys), np.load(_FOLDER / "foreign-rows.npy", mmap_mode="r"))


class Word(NamedTuple):
    """A word of a text, folded, and whether it is a run of a script without spaces."""

    text: str
    is_run: bool


def words_of(text: str) -> Iterator[Word]:
    """The words of a text in order, and whole runs of scripts without spaces."""
    for compound in compounds(text):
        for _, piece, is_run in pieces(compound):
            yield Word(piece.casefold(), is_run)


def number_of(word: str) -> int | None:
    """The number of the row of a word, which is folded; None without one."""
    keys, key = _table().keys, word_hash(word)
    number = bisect_left(keys, key)
    return number if number < len(keys) and keys[number] == key else None


def is_known(word: str) -> bool:
    """Whether the table has a row of a word, which is folded."""
    return number_of(word) is not None


def segments(run: str, is_word: Callable[[str], bool]) -> list[str]:
    """The words of a run of a script without spaces: from its start on the longest that `is_word`; characters between
    these are a word."""
    words, start, unknown = list[str](), 0, 0
    while start < len(run):
        ends = range(min(len(run), start + LONGEST_IN_RUN), start, -1)
        end = next((end for end in ends if is_word(run[start:end])), None)
        if end is None:
            start += 1
            continue
        if unknown < start:
            words.append(run[unknown:start])
        words.append(run[start:end])
        start = unknown = end
    return [*words, run[unknown:]] if unknown < len(run) else words


def whole_words(lacks: Sequence[str], text: str, is_word: Callable[[str], bool]) -> tuple[str, ...]:
    """The words of a text that a listing lacks, with words in place of pairs of characters: those of scripts without
    spaces of which a pair is lacked; where these are only between words, the words beside them."""
    inner, across = dict[str, list[str]](), dict[str, list[str]]()
    for run in (word.text for word in words_of(text) if word.is_run):
        parts = _named(segments(run, is_word))
        for part in parts:
            for pair in _pairs(part):
                inner.setdefault(pair, []).append(part)
        for pair in set(_pairs(run)) - inner.keys():
            across[pair] = [part for part in parts if set(part) & set(pair)]
    named = [inner.get(word, [] if word in across else [word]) for word in lacks]
    if not any(named):
        named = [across[word] for word in lacks]
    return tuple(dict.fromkeys(chain.from_iterable(named)))


def _named(parts: Sequence[str]) -> list[str]:
    """Words of a run, of which neighbouring ones of a single character are one."""
    groups = groupby(parts, lambda part: len(part) == 1)
    return list(chain.from_iterable(["".join(group)] if is_single else group for is_single, group in groups))


def _pairs(run: str) -> list[str]:
    characters = clusters_of(run)
    return list(map("".join, pairwise(characters))) or characters


def rows_of(word: Word) -> tuple[int, ...]:
    """The numbers of the rows of a word, or of the words of a run; empty for an unknown one."""
    return _OF_RUNS[word.text] if word.is_run else _OF_WORDS[word.text]


def _of_run(run: str) -> tuple[int, ...]:
    numbers = map(number_of, segments(run, is_known))
    return tuple([number for number in numbers if number is not None])


def _of_word(word: str) -> tuple[int, ...]:
    for beginning in chain.from_iterable(map(_beginnings, dict.fromkeys((word, stem(word))))):
        number = number_of(beginning)
        if number is not None:
            return (number,)
    return ()


def _beginnings(word: str) -> Iterator[str]:
    """The beginnings of a word that stand for it, the longest first."""
    shortest = len(word) if len(word) < _SHORTEST_PREFIX else max(_SHORTEST_PREFIX, int(_PREFIX_SHARE * len(word)))
    return (word[:end] for end in range(min(len(word), LONGEST), shortest - 1, -1))


_OF_RUNS, _OF_WORDS = Memo(_of_run), Memo(_of_word)


def sum_of(numbers: list[int]) -> npt.NDArray[np.float64]:
    """The sum of rows, exact in double precision."""
    rows = _table().rows[numbers]
    return np.asarray(rows["scale"].astype(np.float64) @ rows["row"].astype(np.float64))
