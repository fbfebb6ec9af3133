"""How near a listing comes to the word of a question that it is farthest from.

A word that the listing has, also as a correction or joined with another, is as near as 1; another one is as near as the
greatest cosine of its text vector and the rows of the words of the listing that the table knows whole. Of listings
with the rarest word of a question, those precede that have something like each of its further words.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.search.nearest import Vectors, inverse_length, inverse_lengths, product
from overlay.search.piece_table import inverse_row_lengths, piece_table
from parsers.jit import kernel, read_only

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Held = npt.NDArray[np.uint8]


class WordRows(NamedTuple):
    """The words of documents, read-only: those of document i are `words[offsets[i]:offsets[i + 1]]`; `rows` has the row
    of each word in the table of text vectors, -1 for one that it does not know whole."""

    offsets: Ints
    words: npt.NDArray[np.uint32]
    rows: npt.NDArray[np.int32]

    @classmethod
    def of(cls, offsets: Ints, words: npt.NDArray[np.uint32], rows: npt.NDArray[np.int32]) -> WordRows:
        """An object over these arrays, made read-only."""
        return cls(read_only(offsets), read_only(words), read_only(rows))


def nearness(documents: Ints, held: Held, listed: WordRows, vectors: Vectors) -> npt.NDArray[np.float64]:
    """How near each document is to the word that it is farthest from, from 0 to 1. The words of the question have these
    text vectors; `held` has a row per document and a column per word, not 0 where the document has it."""
    results = np.empty(len(documents), np.float64)
    table, inverse = piece_table().rows, inverse_row_lengths()
    _fill(documents, held, listed, table, inverse, vectors.astype(np.int16), results)
    return results


def _fill_at_once(
    documents: Ints,
    held: Held,
    listed: WordRows,
    table: Vectors,
    inverse: Floats,
    words: npt.NDArray[np.int16],
    results: npt.NDArray[np.float64],
) -> None:
    """As `_fill`, by one product for each document."""
    lengths = inverse_lengths(words.astype(np.int8))
    for index, document in enumerate(documents.tolist()):
        rows = listed.rows[listed.words[listed.offsets[document] : listed.offsets[document + 1]]]
        rows = rows[rows >= 0]
        cosines = (table[rows].astype(np.float32) * inverse[rows, np.newaxis]) @ words.T.astype(np.float32) * lengths
        results[index] = min(1.0, np.where(held[index], 1, cosines.max(0, initial=0.0)).min())


@kernel("results", interpreted=_fill_at_once)
def _fill(
    documents: Ints,
    held: Held,
    listed: WordRows,
    table: Vectors,
    inverse: Floats,
    words: npt.NDArray[np.int16],
    results: npt.NDArray[np.float64],
) -> None:
    """Fill the least of the greatest cosines of each word. A row of the table is compared once with a word, also where
    several documents have it."""
    results[:] = 1.0
    cosines, compared = np.empty(len(table), np.float32), np.zeros(len(table), np.uint8)
    for word in range(len(words)):
        compared[:], length = 0, inverse_length(words[word])
        for index in range(len(documents)):
            if not held[index, word]:
                most, document = np.float32(0), documents[index]
                for position in range(listed.offsets[document], listed.offsets[document + 1]):
                    row = listed.rows[listed.words[position]]
                    if row >= 0:
                        if not compared[row]:
                            cosines[row] = product(table, row, words[word]) * inverse[row] * length
                            compared[row] = 1
                        most = max(most, cosines[row])
                results[index] = min(results[index], most)


def prepare() -> None:
    """Compile the kernel."""
    numbers = np.zeros(1, np.int64)
    listed = WordRows.of(np.array((0, 1)), np.zeros(1, np.uint32), np.zeros(1, np.int32))
    nearness(numbers, np.zeros((1, 1), np.uint8), listed, np.ones((1, 128), np.int8))
