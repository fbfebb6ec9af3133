"""Words that are near to a word in meaning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.search.analysis import stem
from overlay.search.piece_table import whole_words
from overlay.search.planner import RELATED, plan
from overlay.search.related_words import LEAST, in_use, related, with_related
from overlay.search.term_dictionary import TermCounts, TermDictionary

COUNTS = TermCounts()
COUNTS.add({"diet", "currency"})
COUNTS.add({"currencies", "dollar"})
TERMS = TermDictionary([COUNTS])


@pytest.mark.parametrize(("word", "near"), [("euros", "currency"), ("weather", "rain"), ("attorney", "lawyer")])
def test_words_of_one_topic_are_related(word: str, near: str) -> None:
    assert near in {other.word for other in related(word)}


@pytest.mark.parametrize("word", ["qwer", "", "plumbr"])
def test_a_word_that_the_table_does_not_know_whole_has_no_relations(word: str) -> None:
    assert related(word) == ()


@given(st.sampled_from(list(whole_words())))
def test_related_words_are_near_other_words_the_nearest_first(word: str) -> None:
    near = related(word)
    cosines = [other.cosine for other in near]
    assert cosines == sorted(cosines, reverse=True)
    assert all(LEAST <= cosine <= 1.001 for cosine in cosines)
    assert stem(word) not in {stem(other.word) for other in near}


def test_related_words_count_in_texts_of_three_content_words_by_their_nearness() -> None:
    wide = with_related(plan("change my euros for dollars", TERMS), TERMS)
    by_word = {
        group.word: {one.term: one for one in group.alternatives if one.match == RELATED} for group in wide.groups
    }
    assert by_word["euros"].keys() == {stem("currency"), stem("dollar")}
    one = by_word["euros"][stem("currency")]
    assert 0 < one.weight < 1
    assert 0 < one.value <= one.weight * wide.groups[1].rarity
    assert all(len(group.alternatives) <= 1 + 10 + 2 for group in wide.groups)
    short = plan("euros for dollars", TERMS)
    assert with_related(short, TERMS) == short


def test_of_related_words_those_in_use_are_proposed_each_once() -> None:
    words = [other.word for other in in_use("euros", TERMS)]
    assert sorted(map(stem, words)) == sorted({stem("currency"), stem("dollar")})
    assert [stem(other.word) for other in in_use("euros", TERMS, fewest=2)] == [stem("currency")]
