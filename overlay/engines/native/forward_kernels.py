"""Compiled loops that make the rows of terms and of words of documents from the rows of their compounds.

Document d has the numbers `compounds[documents[d]:documents[d + 1]]`: those of its compounds, `TEXT_END` between the
texts of a field, and `FIELD_END` after each field (`search.lexicon`), which have no tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.engines.native.schema import BREAK
from overlay.search.lexicon import FIELD_END, TEXT_END
from overlay.search.ranker import SECTIONS
from parsers.jit import compiled, kernel, read_only

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]

GAP = 2
"""As `overlay.search.forward.GAP`."""


class TokenRows(NamedTuple):
    """The terms of one kind of each compound: those of compound i are `values[offsets[i]:offsets[i + 1]]`."""

    values: Numbers
    offsets: Ints

    @classmethod
    def of(cls, values: Numbers, offsets: Ints) -> TokenRows:
        """Rows to be read by kernels."""
        return cls(read_only(values), read_only(offsets))


@compiled
def _append(tokens: TokenRows, compounds: Numbers, start: int, stop: int, target: Numbers, end: int) -> int:
    """Copy the terms of compounds[start:stop] behind `end`; returns the new end."""
    for index in range(start, stop):
        compound = compounds[index]
        for token in range(tokens.offsets[compound], tokens.offsets[compound + 1]):
            target[end] = tokens.values[token]
            end += 1
    return end


@kernel("forward", "offsets", "ends")
def forward_rows(
    compounds: Numbers,
    documents: Ints,
    terms: TokenRows,
    pairs: TokenRows,
    wholes: TokenRows,
    forward: Numbers,
    offsets: Ints,
    ends: Numbers,
) -> int:
    """Fill the forward index of each document, and the ends of its sections; returns the length of the index. Terms
    with a position come first, with a gap between the texts of a field."""
    end = 0
    for document in range(len(offsets) - 1):
        start, begin, section = end, end, document * SECTIONS
        for index in range(documents[document], documents[document + 1]):
            if compounds[index] == FIELD_END:
                ends[section] = end - start
                begin, section = end, section + 1
            elif compounds[index] == TEXT_END and end > begin:
                for _ in range(GAP):
                    forward[end] = BREAK
                    end += 1
            else:
                end = _append(terms, compounds, index, index + 1, forward, end)
        first = documents[document]
        for index in range(documents[document], documents[document + 1]):
            if compounds[index] == TEXT_END or compounds[index] == FIELD_END:
                end = _append(pairs, compounds, first, index, forward, end)
                end = _append(wholes, compounds, first, index, forward, end)
                first = index
            if compounds[index] == FIELD_END:
                ends[section] = end - start
                section += 1
        offsets[document + 1] = end
    return end


@compiled
def _add_new(
    words: TokenRows, compounds: Numbers, start: int, stop: int, document: int, last: Ints, target: Numbers, end: int
) -> int:
    """Copy the words of compounds[start:stop] that the document does not have yet behind `end`; returns the new end."""
    for index in range(start, stop):
        compound = compounds[index]
        for token in range(words.offsets[compound], words.offsets[compound + 1]):
            word = words.values[token]
            if last[word] != document:
                last[word] = document
                target[end] = word
                end += 1
    return end


@compiled
def _end_of_text(compounds: Numbers, start: int) -> int:
    while compounds[start] != TEXT_END and compounds[start] != FIELD_END:
        start += 1
    return start


@kernel("last", "rows", "offsets", "firsts")
def word_rows(
    compounds: Numbers,
    documents: Ints,
    described: Bytes,
    words: TokenRows,
    last: Ints,
    rows: Numbers,
    offsets: Ints,
    firsts: Numbers,
) -> int:
    """Fill the distinct words of each document, and the number of the first ones that are of its name and its
    description, which is the first text of the last field where it is `described`. Returns the number of words. `last`
    is -1 for each word."""
    end = 0
    for document in range(len(offsets) - 1):
        start, stop = documents[document], documents[document + 1]
        end = _add_new(words, compounds, start, _end_of_text(compounds, start), document, last, rows, end)
        if described[document]:
            text = stop - 1
            while compounds[text - 1] != FIELD_END:
                text -= 1
            end = _add_new(words, compounds, text, _end_of_text(compounds, text), document, last, rows, end)
        firsts[document] = end - offsets[document]
        end = _add_new(words, compounds, start, stop, document, last, rows, end)
        offsets[document + 1] = end
    return end
