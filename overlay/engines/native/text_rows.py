"""The texts of the documents of a segment: each distinct compound is analysed once, and documents are numbers of
compounds until their rows of terms and words are made of these in one compiled pass."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from overlay.engines.native.forward_kernels import GAP, Ints, Numbers, TokenRows, forward_rows, word_rows
from overlay.search.analysis import tokens_of
from overlay.search.ranker import SECTIONS

if TYPE_CHECKING:
    from overlay.search.forward import Analysed

Number = Callable[[str], int]
"""The number of a term or word."""


class _TokenNumbers:
    """Numbers of one kind for each compound."""

    def __init__(self, number: Number) -> None:
        self.number, self.values, self.counts = number, array("I"), array("I")

    def rows(self) -> TokenRows:
        return TokenRows.of(_numbers(self.values), _offsets(self.counts))


class _Compounds(dict[str, int]):
    """Compounds numbered by their first use, and their tokens: terms, pairs, wholes, words (`analysis.Tokens`)."""

    def __init__(self, term: Number, word: Number) -> None:
        self.kinds = tuple(map(_TokenNumbers, (term, term, term, word)))

    def __missing__(self, compound: str) -> int:
        self[compound] = number = len(self)
        for kind, texts in zip(self.kinds, tokens_of(compound), strict=True):
            kind.counts.append(len(texts))
            if texts:
                kind.values.extend(map(kind.number, texts))
        return number


class TextRows:
    """Collects the texts of documents; `arrays` are their rows."""

    def __init__(self, term: Number, word: Number) -> None:
        self._by_text = _Compounds(term, word)
        self._compounds, self._texts, self._fields = array("I"), array("I"), array("I")  # the last two are lengths
        self._described = bytearray()

    def add(self, analysed: Analysed, *, described: bool) -> None:
        """Add a document; whether it is `described`: then its description is the first text of the last field."""
        for texts in analysed.compounds:
            self._compounds.extend(map(self._by_text.__getitem__, chain.from_iterable(texts)))
            self._texts.extend(map(len, texts))
            self._fields.append(len(texts))
        self._described.append(described)

    def arrays(self, words: int) -> dict[str, npt.NDArray[Any]]:
        """The members of documents that are made of texts; there are so many distinct words."""
        compounds, texts, fields = _numbers(self._compounds), _offsets(self._texts), _offsets(self._fields)
        count, (terms, pairs, wholes, surfaces) = len(self._described), (kind.rows() for kind in self._by_text.kinds)
        most = sum(_length(tokens, compounds) for tokens in (terms, pairs, wholes)) + GAP * len(texts)
        forward, forward_offsets = np.empty(most, np.uint32), np.zeros(count + 1, np.int64)
        ends = np.empty(SECTIONS * count, np.uint32)
        size = forward_rows(compounds, texts, fields, terms, pairs, wholes, forward, forward_offsets, ends)
        rows, offsets = np.empty(_length(surfaces, compounds), np.uint32), np.zeros(count + 1, np.int64)
        described, firsts = np.frombuffer(bytes(self._described), np.uint8), np.empty(count, np.uint32)
        last = np.full(words, -1, np.int64)
        held = word_rows(compounds, texts, fields, described, surfaces, last, rows, offsets, firsts)
        return {
            "forward": forward[:size],
            "forward_offsets": forward_offsets,
            "section_ends": ends,
            "section_ends_offsets": np.arange(0, len(ends) + 1, SECTIONS, dtype=np.int64),
            "document_surfaces": rows[:held],
            "document_surfaces_offsets": offsets,
            "text_surfaces": firsts,
        }


def _length(tokens: TokenRows, compounds: Numbers) -> int:
    return int(np.diff(tokens.offsets)[compounds].sum())


def _numbers(values: array[int]) -> Numbers:
    return np.array(values, np.uint32)


def _offsets(lengths: array[int]) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.array(lengths, np.int64)]).cumsum()
