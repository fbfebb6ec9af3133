"""Compiled loops that derive postings, document frequencies and sorted positions from the primary arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from overlay.search.ranker import COMPOUND_FLAG, FIELD_COUNT, SATURATION, SECTIONS, counted, field_norm
from parsers.jit import kernel

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.uint64]
Impacts = npt.NDArray[np.float32]


@kernel()
def transpose(offsets: Ints, values: Numbers, size: int) -> tuple[Ints, Numbers]:
    """The rows that contain each of `size` values, in order: postings of rows without repeats. Values from `size` up
    are skipped."""
    starts = np.zeros(size + 1, np.int64)
    for value in values:
        if value < size:
            starts[value + 1] += 1
    for value in range(size):
        starts[value + 1] += starts[value]
    rows = np.empty(starts[size], np.uint32)
    free = starts[:size].copy()
    for row in range(len(offsets) - 1):
        for position in range(offsets[row], offsets[row + 1]):
            value = values[position]
            if value < size:
                rows[free[value]] = row
                free[value] += 1
    return starts, rows


@kernel()
def term_counts(offsets: Ints, forward: Numbers, size: int) -> Ints:
    """The number of documents that contain each of `size` terms, as the offsets of their postings."""
    starts = np.zeros(size + 1, np.int64)
    last = np.full(size, -1, np.int64)
    for document in range(len(offsets) - 1):
        for position in range(offsets[document], offsets[document + 1]):
            term = forward[position]
            if term < size and last[term] != document:
                last[term] = document
                starts[term + 1] += 1
    for term in range(size):
        starts[term + 1] += starts[term]
    return starts


@kernel("documents", "impacts")
def term_postings(
    offsets: Ints, ends: Numbers, forward: Numbers, starts: Ints, documents: Numbers, impacts: Impacts
) -> None:
    """Fill the postings of terms, whose offsets are `starts`: documents in order, and the impact of the term there, f /
    (f + 0.9) of its weighted and normalised frequency (`overlay.search.ranker`)."""
    size = len(starts) - 1
    free = starts[:size].copy()
    frequency = np.zeros(size, np.float64)
    for document in range(len(offsets) - 1):
        base, section_start = offsets[document], np.int64(0)
        for section in range(SECTIONS):
            norm = field_norm(ends, document * SECTIONS, section % FIELD_COUNT)
            section_end = np.int64(ends[document * SECTIONS + section])
            for position in range(base + section_start, min(base + section_end, offsets[document + 1])):
                term = forward[position]
                if term < size:
                    frequency[term] = counted(frequency[term], norm, section, position - base - section_start)
            section_start = section_end
        for position in range(base, offsets[document + 1]):
            term = forward[position]
            if term < size and frequency[term] > 0 and free[term] < starts[term + 1]:
                documents[free[term]] = document
                impacts[free[term]] = frequency[term] / (frequency[term] + SATURATION)
                free[term] += 1
                frequency[term] = 0


@kernel("of_surface", "of_term")
def listed_counts(
    offsets: Ints, surfaces: Numbers, surface_terms: Numbers, chosen: Bytes, of_surface: Numbers, of_term: Numbers
) -> int:
    """Count the chosen documents that contain each surface and each term; their number."""
    last = np.full(len(of_term), -1, np.int64)
    count = 0
    for document in range(len(offsets) - 1):
        if not chosen[document]:
            continue
        count += 1
        for position in range(offsets[document], offsets[document + 1]):
            surface = surfaces[position]
            if surface >= len(of_surface):
                continue
            of_surface[surface] += 1
            term = surface_terms[surface]
            if term < len(of_term) and last[term] != document:
                last[term] = document
                of_term[term] += 1
    return count


@kernel("bits")
def name_bits(offsets: Ints, ends: Numbers, forward: Numbers, flags: Bytes, bits: Longs) -> None:
    """Fill a bit for each term of a document's name by its number modulo 64: a name whose bits are all of terms of a
    query may consist of these terms only. There is none where the name is one compound, which other terms match, too.
    """
    for document in range(len(flags)):
        bits[document] = 0
        if not flags[document] & COMPOUND_FLAG:
            start = offsets[document]
            for position in range(start, start + np.int64(ends[document * SECTIONS])):
                bits[document] |= np.uint64(1) << np.uint64(forward[position] & 63)
