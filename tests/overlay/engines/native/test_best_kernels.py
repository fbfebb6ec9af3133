"""The compiled selection of a search by relevance against the formula of all documents, on both sides of windows."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.engines.native.best_kernels import WINDOW, Names, Postings, select
from overlay.engines.native.posting_kernels import name_bits, term_counts, term_postings
from overlay.search.planner import Alternative, QueryPlan, TermGroup
from overlay.search.ranker import COMPOUND_FLAG, NAME_WORDS, SECTIONS, Forwards, PlanWords
from overlay.search.rerank import factors_of_all
from parsers.jit import read_only

_NO_MARKS = np.empty(0, np.uint8)
TERMS, NEWEST = 6, 5e7
SOURCES = (0, 2**63, 2**63 + 1, 2**32)
"""Sources that differ in bits that doubles, or 32 bits, do not hold."""


def group(random: Random, *, is_stop: bool) -> TermGroup:
    """A word with one to three alternatives, some of which no document contains."""
    rarity = random.randint(1, 8) / 2
    alternatives = tuple(
        Alternative(
            str(term), weight := random.choice((0.4, 0.9, 1.0)), weight * min(rarity, random.randint(1, 8) / 2), ""
        )
        for term in random.sample(range(TERMS + 1), random.choice((1, 1, 2, 3)))
    )
    return TermGroup("", alternatives, rarity, is_stop)


class Segment:
    """Documents with a name and a description, their postings, and a plan."""

    def __init__(self, random: Random) -> None:
        size = 2 * WINDOW + random.randint(1, 9)
        edges = {0, 1, WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW, size - 1}
        self.documents = np.array(sorted(edges | set(random.sample(range(size), 8))), np.int64)
        ends = np.zeros((size, SECTIONS), np.uint32)
        forward: list[int] = []
        for document in self.documents.tolist():
            name, text = (random.choices(range(TERMS), k=random.choice((0, 1, 2, 3, NAME_WORDS + 1))) for _ in "nt")
            forward += name + text
            ends[document] = [len(name)] * 2 + [len(name) + len(text)] * 4
        offsets, terms = np.array([0, *np.cumsum(ends[:, -1])], np.int64), np.array(forward, np.uint32)
        flags = np.array(random.choices((0, COMPOUND_FLAG, 4, 8, 12, 16, 28), k=size), np.uint8)
        since = np.array(random.choices((-1.0, 0.0, 1e7, NEWEST), k=size))
        self.forwards = Forwards.of(offsets, ends.reshape(-1), terms, flags, since)
        starts = term_counts(offsets, terms, TERMS)
        held, impacts = np.empty(starts[-1], np.uint32), np.empty(starts[-1], np.float32)
        term_postings(offsets, self.forwards.ends, terms, starts, held, impacts)
        self.postings = Postings.of(starts, held, impacts)
        bits = np.empty(size, np.uint64)
        name_bits(offsets, self.forwards.ends, terms, flags, bits)
        self.names = Names.of(bits, np.array(random.choices(SOURCES, k=size), np.uint64))
        self.mask = np.array(random.choices((0, 1, 1, 1), k=size), np.uint8)
        groups = [group(random, is_stop=number > 0 and random.random() < 0.3) for number in range(random.randint(1, 4))]
        random.shuffle(groups)
        self.words = PlanWords(QueryPlan(tuple(groups)))
        numbers = np.array([int(term) if int(term) < TERMS else -1 for term in self.words.terms], np.int64)
        self.plan = self.words.numbered(numbers)

    def held(self, document: int) -> list[bool]:
        """Whether a document contains an alternative of each group."""
        terms = set(self.forwards.terms[self.forwards.offsets[document] : self.forwards.offsets[document + 1]].tolist())
        numbers, starts = self.plan.numbers.tolist(), self.plan.starts.tolist()
        return [not terms.isdisjoint(numbers[start:end]) for start, end in pairwise(starts)]


@given(st.integers(0, 10**6).map(Random), st.booleans(), st.sampled_from((0, 1, 2 * WINDOW)))
def test_no_document_among_the_best_is_left_out(random: Random, all_words: bool, to_count: int) -> None:
    of, most = Segment(random), random.randint(1, 6)
    left_out = random.sample(SOURCES[1:], random.randint(0, 2))
    is_content = of.words.is_stop == 0
    held = {document: np.array(of.held(document)) for document in of.documents.tolist() if of.mask[document]}
    whole = {document for document, groups in held.items() if groups[is_content].all()}
    results = whole if all_words else {document for document, groups in held.items() if groups[is_content].any()}
    marks = np.full(random.choice((0, len(of.mask))), 7, np.uint8)
    documents, upper, least, counted, matched = select(
        of.mask, marks, 0, len(of.mask), of.postings, of.plan, of.words.is_stop, all_words, of.forwards, of.names,
        NEWEST, np.array(left_out, np.uint64), of.words.most_proximity, most, 0.0, to_count,
    )  # fmt: skip
    assert matched == len(whole)
    if len(marks):
        assert set(np.flatnonzero(marks == 3).tolist()) == whole
        assert counted == np.count_nonzero(marks)
        assert set(np.flatnonzero(marks).tolist()).issubset(results)
    assert min(len(results), to_count) <= counted <= len(results)
    allowed = np.array([one for one in sorted(results) if int(of.names.sources[one]) not in left_out], np.int64)
    scores = factors_of_all(allowed, of.forwards, of.plan, NEWEST).scores
    bounds = dict(zip(documents.tolist(), upper.tolist(), strict=True))
    assert set(allowed.tolist()).issuperset(bounds)
    assert least <= (sorted(scores, reverse=True)[most - 1] * (1 + 1e-6) if len(scores) >= most else 0.0)
    for document, score in zip(allowed.tolist(), scores.tolist(), strict=True):
        if document not in bounds:
            assert score < least * (1 + 1e-4)
        elif sum(held[document]) > 1:
            assert bounds[document] >= score
        else:  # within the margin of single precision, so that equal ones need not all be ranked
            assert bounds[document] >= score * (1 - 2e-5)


@given(st.integers(0, 10**6).map(Random))
def test_stretches_together_select_as_the_whole_does(random: Random) -> None:
    of, most, cut = Segment(random), random.randint(1, 6), random.randint(0, 2 * WINDOW)

    def selected(start: int, stop: int, least: float) -> tuple[dict[int, float], float, int, int]:
        documents, upper, *rest = select(
            of.mask, _NO_MARKS, start, stop, of.postings, of.plan, of.words.is_stop, False, of.forwards, of.names,
            NEWEST, np.empty(0, np.uint64), of.words.most_proximity, most, least, len(of.mask),
        )  # fmt: skip
        return dict(zip(documents.tolist(), upper.tolist(), strict=True)), *rest

    whole, least, total, matched = selected(0, len(of.mask), 0.0)
    first, first_least, first_total, first_matched = selected(0, cut, 0.0)
    second, second_least, second_total, second_matched = selected(cut, len(of.mask), first_least)
    assert (first_total + second_total, first_matched + second_matched) == (total, matched)
    assert max(first_least, second_least) <= least
    assert whole.items() <= (first | second).items()


def test_postings_of_no_document_select_nothing() -> None:
    of = Segment(Random(0))
    plan = of.plan._replace(numbers=read_only(np.full_like(of.plan.numbers, -1)))
    documents, _, least, total, matched = select(
        of.mask, _NO_MARKS, 0, len(of.mask), of.postings, plan, of.words.is_stop, False, of.forwards, of.names, NEWEST,
        np.empty(0, np.uint64), of.words.most_proximity, 3, 0.0, 0,
    )  # fmt: skip
    assert (len(documents), least, total, matched) == (0, pytest.approx(0.0), 0, 0)
