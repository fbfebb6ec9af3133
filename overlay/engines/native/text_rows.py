"""The texts of the documents of a segment: documents are numbers of compounds (`search.lexicon`), and their rows of
terms and words are made of these in one compiled pass."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from overlay.engines.native.forward_kernels import GAP, Numbers, TokenRows, forward_rows, word_rows
from overlay.search.analysis import NO_TOKENS, tokens_of
from overlay.search.lexicon import FIELD_END, TEXT_END, lexicon
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
        counts = np.array(self.counts, np.int64)
        offsets = np.concatenate([np.zeros(1, np.int64), counts]).cumsum()
        return TokenRows.of(np.array(self.values, np.uint32), offsets)


class TextRows:
    """Collects the texts of documents; `arrays` are their rows, of terms and words that these functions number."""

    def __init__(self, term: Number, word: Number) -> None:
        self._lexicon = lexicon()
        self._kinds = tuple(map(_TokenNumbers, (term, term, term, word)))  # as `analysis.Tokens` has them
        self._compounds, self._ends = array("I"), array("q", [0])
        self._described = bytearray()

    def add(self, analysed: Analysed, *, described: bool) -> None:
        """Add a document; returns whether it is `described`: then its description is the first text of the last
        field."""
        self._compounds.extend(analysed.numbers(self._lexicon))
        self._ends.append(len(self._compounds))
        self._described.append(described)

    def _renumbered(self) -> Numbers:
        """The compounds of the documents, numbered in the order of the lexicon; the tokens of each are numbered."""
        numbers = np.frombuffer(self._compounds, np.uint32)
        occurs = np.zeros(len(self._lexicon.compounds), np.bool_)
        occurs[[TEXT_END, FIELD_END]] = True  # these keep their numbers
        occurs[numbers] = True
        for number in np.flatnonzero(occurs).tolist():
            tokens = tokens_of(self._lexicon.compounds[number]) if number not in (TEXT_END, FIELD_END) else NO_TOKENS
            for kind, texts in zip(self._kinds, tokens, strict=True):
                kind.counts.append(len(texts))
                if texts:
                    kind.values.extend(map(kind.number, texts))
        return (np.cumsum(occurs) - 1).astype(np.uint32)[numbers]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The members of documents that are made of texts. To be called once."""
        compounds, documents = self._renumbered(), np.array(self._ends, np.int64)
        count, (terms, pairs, wholes, surfaces) = len(self._described), (kind.rows() for kind in self._kinds)
        most = sum(_length(tokens, compounds) for tokens in (terms, pairs, wholes))
        most += GAP * int(np.count_nonzero(compounds == TEXT_END))
        forward, forward_offsets = np.empty(most, np.uint32), np.zeros(count + 1, np.int64)
        ends = np.empty(SECTIONS * count, np.uint32)
        size = forward_rows(compounds, documents, terms, pairs, wholes, forward, forward_offsets, ends)
        rows, offsets = np.empty(_length(surfaces, compounds), np.uint32), np.zeros(count + 1, np.int64)
        described, firsts = np.frombuffer(bytes(self._described), np.uint8), np.empty(count, np.uint32)
        last = np.full(int(surfaces.values.max(initial=0)) + 1, -1, np.int64)
        length = word_rows(compounds, documents, described, surfaces, last, rows, offsets, firsts)
        return {
            "forward": forward[:size],
            "forward_offsets": forward_offsets,
            "section_ends": ends,
            "section_ends_offsets": np.arange(0, len(ends) + 1, SECTIONS, dtype=np.int64),
            "document_surfaces": rows[:length],
            "document_surfaces_offsets": offsets,
            "text_surfaces": firsts,
        }


def _length(tokens: TokenRows, compounds: Numbers) -> int:
    return int(np.diff(tokens.offsets)[compounds].sum())
