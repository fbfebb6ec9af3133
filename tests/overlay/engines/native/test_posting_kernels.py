"""The compiled loops that derive arrays against slow twins, on small random arrays."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.engines.native import posting_kernels as kernels
from overlay.engines.native.schema import BREAK
from tests.overlay.engines.native.test_search_kernels import SEEDS, bytes_of, rows

FIELDS = ((3.0, 0.6, 3), (1.0, 0.3, 4), (1.0, 0.5, 22))
"""Weight, share of the length, and mean length of each field."""


@given(SEEDS, st.integers(0, 6))
def test_rows_are_transposed(random: Random, size: int) -> None:
    lists, offsets, values = rows(random, 7, 6)  # values from `size` up are skipped
    starts, numbers = kernels.transpose(offsets, values, size)
    postings = [numbers[start:end].tolist() for start, end in pairwise(starts)]
    assert postings == [[row for row in range(7) if value in lists[row]] for value in range(size)]


@given(SEEDS)
def test_postings_have_the_impact_of_each_term(random: Random) -> None:
    size = 4
    terms = [*range(size), BREAK]
    texts = [[[random.choice(terms) for _ in range(random.randint(0, 4))] for _ in range(6)] for _ in range(5)]
    forward = np.array([term for one in texts for section in one for term in section], np.uint32)
    ends = np.array([end for one in texts for end in np.cumsum([len(section) for section in one])], np.uint32)
    offsets = np.array([0, *np.cumsum([sum(map(len, one)) for one in texts])], np.int64)
    starts = kernels.term_counts(offsets, forward, size)
    documents, impacts = np.empty(starts[-1], np.uint32), np.empty(starts[-1], np.float32)
    kernels.term_postings(offsets, ends, forward, starts, documents, impacts)
    for term in range(size):
        holding = [number for number, one in enumerate(texts) if any(term in section for section in one)]
        assert documents[starts[term] : starts[term + 1]].tolist() == holding
        for number, impact in zip(holding, impacts[starts[term] : starts[term + 1]].tolist(), strict=True):
            frequency = frequency_of(term, texts[number])
            assert impact == pytest.approx(frequency / (frequency + 0.9), rel=1e-6)


def frequency_of(term: int, sections: list[list[int]]) -> float:
    """The weighted frequency of a term: in a name, repeats count no more than a name of the term alone."""
    frequency = 0.0
    for number, section in enumerate(sections):
        weight, share, mean = FIELDS[number % 3]
        norm = weight / (1 - share + share * len(sections[number % 3]) / mean)
        for _ in range(section.count(term)):
            most = max(frequency, FIELDS[0][0] / (1 - FIELDS[0][1] + FIELDS[0][1] / FIELDS[0][2]))
            frequency = frequency + norm if number % 3 else min(frequency + norm, most)
    return frequency


@given(SEEDS)
def test_documents_are_counted_by_surface_and_term(random: Random) -> None:
    lists, offsets, values = rows(random, 7, 6)  # the last surface is outside
    of_surface, of_term, chosen = np.zeros(5, np.uint32), np.zeros(3, np.uint32), bytes_of(random, 7)
    terms = [random.choice((0, 1, 2, BREAK)) for _ in range(5)]
    count = kernels.listed_counts(offsets, values, np.array(terms, np.uint32), chosen, of_surface, of_term)
    listed = [row for row in range(7) if chosen[row]]
    assert count == len(listed)
    assert of_surface.tolist() == [sum(surface in lists[row] for row in listed) for surface in range(5)]
    assert of_term.tolist() == [
        sum(any(surface < 5 and terms[surface] == term for surface in lists[row]) for row in listed)
        for term in range(3)
    ]
