"""Pairs of words in a long question and in listings, against a count with plain lists."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.search.closeness import MOST, Closeness, brought_near, closeness, closer, said
from overlay.search.ranking import BEST
from tests.contracts.listed import listing

WORDS = ["alpha", "beta", "gamma", "delta", "the"]
sentences = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
UNIT = 1000.0


def asked(text: str) -> Closeness | None:
    """A question in which every word stands for itself."""
    return closeness([[(word,)] for word in text.split()], UNIT)


def pairs(texts: list[str]) -> set[tuple[str, str]]:
    """The pairs of different words of a text that follow each other, or with one between them, `the` left out."""
    found = set()
    for text in texts:
        words = [word for word in text.split() if word != "the"]
        for apart in (1, 2):
            found |= {(one, other) for one, other in zip(words, words[apart:], strict=False) if one != other}
    return found


@given(sentences, st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6))
def test_a_pair_adds_by_how_few_of_the_hits_have_it(question: str, listings: list[tuple[str, str]]) -> None:
    found = asked(question)
    wanted = pairs([question])
    assert (found is None) == (not wanted)
    if found is None:
        return
    held = [wanted & pairs([name, description]) for name, description in listings]
    added = closer(found, [said(listing("1", name, description=text)) for name, text in listings])
    for points, mine in zip(added, held, strict=True):
        holding = [sum(pair in each for each in held) for pair in sorted(mine)]
        expected = [0.08 * UNIT * math.log(1 + (len(held) - each + 0.5) / (each + 0.5)) for each in holding]
        assert points == pytest.approx(sum(expected), abs=len(expected))


@given(
    st.lists(st.tuples(st.integers(1, BEST), st.integers(0, 9), st.text(max_size=3)), min_size=1, max_size=9),
    st.integers(1, 10**6),
)
def test_points_are_only_added_and_never_more_than_the_best(keys: list[tuple[int, int, str]], worth: int) -> None:
    found = closeness([[("alpha",)], [("beta",)]], float(worth))
    assert found is not None
    texts = [said(listing("1", "alpha beta" if at % 2 else "beta alpha")) for at in range(len(keys))]
    turned = [(-points, -newest, id_) for points, newest, id_ in keys]
    for before, after in zip(turned, brought_near(found, turned, texts), strict=True):
        assert -BEST <= after[0] <= before[0]
        assert after[1:] == before[1:]


def test_words_of_two_texts_are_not_close() -> None:
    document = listing("1", "one alpha", description="beta two", tags=("gamma",))
    question = asked("alpha beta gamma")
    assert question is not None
    assert closer(question, [said(document)]) == [0]
    assert closer(question, [said(replace(document, name="alpha beta"))])[0] > 0


def test_what_a_word_may_mean_is_as_close_as_the_word() -> None:
    question = closeness([[("vector",), ("victor",)], [("databas",)]], UNIT)
    assert question is not None
    right, guessed, apart = (
        said(listing("1", name)) for name in ("vector databases", "a victor for databases", "databases of vectors")
    )
    assert closer(question, [right, guessed, apart])[:2] == [closer(question, [right, guessed, apart])[0]] * 2
    assert closer(question, [right, guessed, apart])[2] == 0


def test_long_listings_are_cut_and_empty_ones_say_nothing() -> None:
    assert len(said(listing("1", "x", description="many words " * 5_000))) == 4 * 512
    question = asked("alpha beta")
    assert question is not None
    assert closer(question, [b"", b""]) == [0, 0]


@pytest.mark.parametrize("number", [1, MOST])
def test_what_all_hits_say_moves_none_of_them(number: int) -> None:
    question = asked("alpha beta")
    assert question is not None
    added = closer(question, [said(listing("1", "alpha beta"))] * number)
    assert len(set(added)) == 1


@given(st.lists(st.sampled_from(["alpha", "beta"]), min_size=2, max_size=4))
def test_choices_of_several_terms_are_words_in_order(words: list[str]) -> None:
    together = closeness([[tuple(words)]], UNIT)
    apart = closeness([[(word,)] for word in words], UNIT)
    for name in (" ".join(each) for each in product(["alpha", "beta"], repeat=3)):
        texts = [said(listing("1", name))]
        assert (together and closer(together, texts)) == (apart and closer(apart, texts))
