"""Compiled loops that make the rows of terms and of words of documents out of those of their compounds.

Text i has the compounds `compounds[texts[i]:texts[i + 1]]`. Field f of document d has the texts from
`fields[FIELD_COUNT * d + f]` until before the next element.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.engines.native.schema import BREAK
from overlay.search.ranker import FIELD_COUNT, SECTIONS
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
    """Copy the terms of compounds[start:stop] behind `end`; the new end."""
    for index in range(start, stop):
        compound = compounds[index]
        for token in range(tokens.offsets[compound], tokens.offsets[compound + 1]):
            target[end] = tokens.values[token]
            end += 1
    return end


@kernel("forward", "offsets", "ends")
def forward_rows(
    compounds: Numbers,
    texts: Ints,
    fields: Ints,
    terms: TokenRows,
    pairs: TokenRows,
    wholes: TokenRows,
    forward: Numbers,
    offsets: Ints,
    ends: Numbers,
) -> int:
    """Fill the forward index of each document, and the ends of its sections; its length. Those with a position first,
    with a gap between the texts of a field."""
    end = 0
    for document in range(len(offsets) - 1):
        start = end
        for field in range(FIELD_COUNT):
            begin, row = end, document * FIELD_COUNT + field
            for text in range(fields[row], fields[row + 1]):
                if end > begin:
                    for _ in range(GAP):
                        forward[end] = BREAK
                        end += 1
                end = _append(terms, compounds, texts[text], texts[text + 1], forward, end)
            ends[document * SECTIONS + field] = end - start
        for field in range(FIELD_COUNT):
            row = document * FIELD_COUNT + field
            for text in range(fields[row], fields[row + 1]):
                end = _append(pairs, compounds, texts[text], texts[text + 1], forward, end)
                end = _append(wholes, compounds, texts[text], texts[text + 1], forward, end)
            ends[document * SECTIONS + FIELD_COUNT + field] = end - start
        offsets[document + 1] = end
    return end


@compiled
def _add_new(
    words: TokenRows, compounds: Numbers, start: int, stop: int, document: int, last: Ints, target: Numbers, end: int
) -> int:
    """Copy those words of compounds[start:stop] behind `end` that the document has not yet; the new end."""
    for index in range(start, stop):
        compound = compounds[index]
        for token in range(words.offsets[compound], words.offsets[compound + 1]):
            word = words.values[token]
            if last[word] != document:
                last[word] = document
                target[end] = word
                end += 1
    return end


@kernel("last", "rows", "offsets", "firsts")
def word_rows(
    compounds: Numbers,
    texts: Ints,
    fields: Ints,
    described: Bytes,
    words: TokenRows,
    last: Ints,
    rows: Numbers,
    offsets: Ints,
    firsts: Numbers,
) -> int:
    """Fill the distinct words of each document, and how many of them, the first ones, are those of its name and its
    description, which is the first text of the last field where it is `described`; their number. `last` is -1 for each
    word."""
    end = 0
    for document in range(len(offsets) - 1):
        row = document * FIELD_COUNT
        name, last_field, after = (
            texts[fields[row]],
            fields[row + FIELD_COUNT - 1],
            texts[fields[row + FIELD_COUNT]],
        )
        end = _add_new(words, compounds, name, texts[fields[row + 1]], document, last, rows, end)
        if described[document] and last_field < fields[row + FIELD_COUNT]:
            start, stop = texts[last_field], texts[last_field + 1]
            end = _add_new(words, compounds, start, stop, document, last, rows, end)
        firsts[document] = end - offsets[document]
        end = _add_new(words, compounds, name, after, document, last, rows, end)
        offsets[document + 1] = end
    return end
