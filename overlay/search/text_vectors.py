"""Text vectors: the meaning of a text as 128 numbers of eight bits. The nearer two texts are in meaning, the greater is
the cosine of their vectors.

The model is static and needs a table, but no library: a text is the sum of the rows of its word pieces (the longest
that match in BERT's uncased vocabulary), scaled to a largest number of 127. The length of a row is the weight of its
piece. `model/NOTICE` describes how the table was fitted.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from overlay.search.analysis import fold
from overlay.search.foreign_words import rows_of, sum_of, words_of
from overlay.search.memo import Memo
from overlay.search.piece_table import Vector, piece_table
from overlay.search.stop_words import content_words, is_foreign
from parsers.jit import kernel

if TYPE_CHECKING:
    from overlay.search.document import Document

SIZE = 128
"""Numbers of a vector."""

_UNKNOWN = (100,)  # the row of a word that has letters outside the vocabulary
_LARGEST = 127
_WORD = re.compile(r"\w+|[^\w\s]")
_ASCII_WORD = re.compile(r"\w+|[^\w\s\x1c-\x1f]", re.ASCII)  # a quarter faster; these four are spaces above

Vectors = npt.NDArray[np.int8]
"""Vectors in an array of shape (n, 128)."""


def vector(text: str) -> Vector:
    """The vector of a text; all zeros where it has neither words nor symbols."""
    numbers = np.array(_numbers(text), np.uint32)
    return np.asarray(vectors(numbers, np.array((0, len(numbers)), np.int64))[0])


def of_words(words: Sequence[str]) -> Vectors:
    """The vectors of words, a row for each."""
    pieces = list(map(_numbers, words))
    offsets = np.cumsum([0, *map(len, pieces)], dtype=np.int64)
    return vectors(np.array(list(chain.from_iterable(pieces)), np.uint32), offsets)


def vectors(numbers: npt.NDArray[np.uint32], offsets: npt.NDArray[np.int64]) -> Vectors:
    """The vectors of texts; text i has the word pieces `numbers[offsets[i]:offsets[i + 1]]`."""
    table, results = piece_table(), np.empty((len(offsets) - 1, SIZE), np.int8)
    _sum(table.rows, table.scales, numbers, offsets, results)
    return results


def _sum_at_once(
    rows: Vectors,
    scales: npt.NDArray[np.float32],
    numbers: npt.NDArray[np.uint32],
    offsets: npt.NDArray[np.int64],
    results: Vectors,
) -> None:
    """As `_sum`, by one product for each text: exact, too."""
    for text, (start, stop) in enumerate(pairwise(offsets.tolist())):
        pieces = numbers[start:stop]
        pieces = pieces[pieces < len(rows)]
        results[text] = _packed(scales[pieces].astype(np.float64) @ rows[pieces].astype(np.float64))


@kernel("results", interpreted=_sum_at_once)
def _sum(
    rows: Vectors,
    scales: npt.NDArray[np.float32],
    numbers: npt.NDArray[np.uint32],
    offsets: npt.NDArray[np.int64],
    results: Vectors,
) -> None:
    """Fill the vectors of texts. Numbers outside of the table are skipped. The sums are exact in double precision, so
    they are the same on every machine."""
    size = results.shape[1]
    summed = np.empty(size, np.float64)
    for text in range(len(results)):
        summed[:] = 0
        for index in range(offsets[text], offsets[text + 1]):
            row = numbers[index]
            if row < len(rows):
                scale = np.float64(scales[row])
                for number in range(size):
                    summed[number] += scale * rows[row, number]
        largest = 1e-9
        for number in range(size):
            largest = max(largest, abs(summed[number]))
        for number in range(size):
            results[text, number] = np.int8(np.rint(summed[number] / largest * _LARGEST))


def of_question(text: str) -> Vector:
    """The vector of the words of a question that are not stop words. A word in other letters than Latin ones, and each
    of a question in another language, has a row of the table of foreign words; others are as in listings."""
    words = text.split()
    content, is_other = " ".join(content_words(words)), is_foreign(words)
    if text.isascii() and not is_other:
        return vector(content)
    numbers, foreign = list[int](), list[int]()
    for word in words_of(content):
        rows = rows_of(word) if is_other or not word.text.isascii() else ()
        foreign += rows
        numbers += () if rows else _numbers(word.text)
    return _packed(sum_of(foreign) + _sum_of(numbers)) if foreign else vector(content)


def is_of_other_language(text: str) -> bool:
    """Whether words of a question are looked up in the table of foreign words: it has other letters than Latin ones, or
    function words of another language."""
    if not text.isascii() and any(letter.isalpha() and not letter.isascii() for letter in fold(text)):
        return True
    return is_foreign(text.split())


def _sum_of(numbers: list[int]) -> npt.NDArray[np.float64]:
    table = piece_table()
    return np.asarray(table.scales[numbers].astype(np.float64) @ table.rows[numbers].astype(np.float64))


def _packed(summed: npt.NDArray[np.float64]) -> Vector:
    """A sum of rows as a vector whose largest number is 127."""
    return np.rint(summed / max(1e-9, float(np.abs(summed).max())) * _LARGEST).astype(np.int8)


def pieces_of(document: Document) -> list[int]:
    """The word pieces of a listing: of its name, description and tags, and of the names and descriptions of its
    skills."""
    texts = [f"{document.name}. {document.description} {', '.join(document.tags)}"]
    texts += (f"{skill.name or skill.id}. {skill.description}" for skill in document.skills)
    return _numbers(" ".join(texts))


def _numbers(text: str) -> list[int]:
    """The rows of the word pieces of a text, in order."""
    plain, word = text.lower(), _ASCII_WORD
    if not text.isascii():
        plain, word = unicodedata.normalize("NFD", plain), _WORD
        if marks := [sign for sign in set(plain) if sign > "\x7f" and unicodedata.category(sign) == "Mn"]:
            plain = plain.translate(dict.fromkeys(map(ord, marks)))
    return list(chain.from_iterable(map(_PIECES.__getitem__, word.findall(plain.replace("_", " _ ")))))


def _pieces(word: str) -> tuple[int, ...]:
    """The rows of the longest pieces, from the start of a word on. Takes linear time."""
    table = piece_table()
    rows: list[int] = []
    start = 0
    while start < len(word):
        before = "##" if start else ""
        for end in range(min(len(word), start + table.longest), start, -1):
            number = table.numbers.get(before + word[start:end])
            if number is not None:
                rows.append(number)
                start = end
                break
        else:
            return _UNKNOWN
    return tuple(rows)


_PIECES = Memo(_pieces)
