"""The compiled ranker against the formula, slow and obvious."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overlay.search.forward import Analysed, decoded, encode, number
from overlay.search.planner import plan
from overlay.search.ranker import PlanWords
from overlay.search.related_words import with_related
from overlay.search.rerank import Bounded, factors, factors_of_best
from overlay.search.term_dictionary import TermCounts, TermDictionary
from tests.contracts.listed import listing
from tests.overlay.search import slow_factors as slow

WORDS = st.sampled_from(
    ("pay", "payments", "qr", "code", "qrcode", "Docs2Prompt", "docs", "prompt", "the", "3d", "推論")
)
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)


@st.composite
def listings(draw: st.DrawFn) -> Any:
    texts: dict[str, Any] = {name: draw(TEXTS) for name in ("name", "description")}
    tags = tuple(draw(st.lists(TEXTS.filter(bool), max_size=3)))
    time = draw(st.sampled_from((None, 1_600_000_000, 1_601_000_000, 1_700_000_000)))
    flags = {name: draw(st.booleans()) for name in ("verified", "signed", "deprecated")}
    return listing("1", **texts, tags=tags, **flags, time=time)


@given(st.lists(listings(), min_size=1, max_size=6), TEXTS.filter(bool))
def test_factors_are_those_of_the_formula(documents: list[Any], text: str) -> None:
    counts = TermCounts()
    for one in documents:
        counts.add(Analysed.of(one).surfaces)
    planned = plan(text, TermDictionary([counts]))
    blobs = [encode(Analysed.of(one), one) for one in documents]
    fast, twin = factors(planned, blobs), slow.factors(planned, blobs)
    for name, column, expected in zip(fast._fields, fast, twin, strict=True):
        np.testing.assert_allclose(column, expected, rtol=1e-12, err_msg=name)


@given(st.lists(listings(), min_size=1, max_size=6))
def test_related_words_count_neither_for_neighbours_nor_for_names(documents: list[Any]) -> None:
    counts = TermCounts()
    for one in documents:
        counts.add(Analysed.of(one).surfaces)
    terms = TermDictionary([counts])
    planned = with_related(plan("salary documents code", terms), terms)
    blobs = [encode(Analysed.of(one), one) for one in documents]
    fast, twin = factors(planned, blobs), slow.factors(planned, blobs)
    for name, column, expected in zip(fast._fields, fast, twin, strict=True):
        np.testing.assert_allclose(column, expected, rtol=1e-12, err_msg=name)


@given(st.lists(listings(), min_size=1, max_size=12), TEXTS.filter(bool), st.integers(1, 4), st.randoms())
def test_the_best_are_found_by_bounds_of_their_scores(documents: list[Any], text: str, most: int, random: Any) -> None:
    counts = TermCounts()
    for one in documents:
        counts.add(Analysed.of(one).surfaces)
    planned = plan(text, TermDictionary([counts]))
    blobs = [encode(Analysed.of(one), one) for one in documents]
    full, forwards, words = factors(planned, blobs), decoded(blobs), PlanWords(planned)
    numbered = words.numbered(np.array(list(map(number, words.terms)), np.int64))
    order, ranks = random.sample(range(len(blobs)), len(blobs)), random.sample(range(len(blobs)), len(blobs))
    upper = np.array([full.scores[one] * random.choice((1.0, 1.2, 2.0)) for one in order])
    newest = float(forwards.since.max(initial=0.0))
    chosen, best = factors_of_best(
        Bounded(np.array(order), upper, 0.0), np.array(ranks, np.uint64), most, 100, forwards, numbered, newest
    )
    ranked = [order[index] for index in chosen.tolist()]
    assert best.scores.tolist() == full.scores[ranked].tolist()
    assert len(set(ranked)) == len(ranked)
    first = sorted(range(len(blobs)), key=lambda one: (-full.scores[one], ranks[one]))[:most]
    lowest = full.scores[first[-1]]
    assert {one for one in first if full.scores[one] > lowest} <= set(ranked)
    if (upper == full.scores[order]).all():  # then equal ones are ranked in the order of their ranks
        assert set(first) <= set(ranked)
