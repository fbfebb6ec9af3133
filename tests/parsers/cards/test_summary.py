"""The summary of a description is its first sentence, at most 160 characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.cards import summary


@pytest.mark.parametrize(
    ("description", "text"),
    [
        ("", ""),
        ("One sentence", "One sentence"),
        ("First. Second.", "First."),
        ("Really?! Yes.", "Really?!"),
        ('He said "go." Then left.', 'He said "go."'),
        ("Uses Node.js v1.2 well. More.", "Uses Node.js v1.2 well."),
        ("Reads formats, e.g. PDF and i.e. text. More.", "Reads formats, e.g. PDF and i.e. text."),
        ("By J. R. Smith et al. and others. More.", "By J. R. Smith et al. and others."),
        ("Costs approx. 5 USD. More.", "Costs approx. 5 USD."),
        ("Line one\nline two. More", "Line one line two."),
        ("# Title\n\nText follows here. More", "# Title"),
        ("天気を教えます。予報もします。", "天気を教えます。"),
        ("「天気です。」と言う。次", "「天気です。」"),
        ("你好！再见", "你好！"),
        ("ما هو الطقس؟ نعم", "ما هو الطقس؟"),
        ("मौसम बताता है। और", "मौसम बताता है।"),
        ("  spaced \t out.  Then.", "spaced out."),
        ("It waits… Then goes.", "It waits…"),
    ],
)
def test_the_summary_ends_with_the_first_sentence(description: str, text: str) -> None:
    assert summary(description) == text


def test_a_long_sentence_is_cut_after_a_word_with_an_ellipsis() -> None:
    assert summary("word " * 100) == "word " * 31 + "word…"
    assert summary("w" * 80 + " " + "x" * 100) == "w" * 80 + " " + "x" * 78 + "…"
    assert summary("w" * 120 + ", " + "x" * 100) == "w" * 120 + "…"
    assert summary("x" * 160) == "x" * 160
    assert summary("x" * 161) == "x" * 159 + "…"
    assert summary("国" * 300) == "国" * 159 + "…"


def test_a_cut_does_not_part_what_is_one_character() -> None:
    family = "👩\u200d👩\u200d👧"
    assert summary("x" * 157 + family + "x" * 9) == "x" * 157 + "…"
    assert summary("x" * 158 + "e\u0301" + "x" * 9) == "x" * 158 + "…"


@given(st.text(max_size=400) | st.text(alphabet='ab. 。\n!"e\u0301\u200d', max_size=900))
def test_a_summary_is_short_and_the_beginning_of_its_description(description: str) -> None:
    text = summary(description)
    assert len(text) <= 160
    assert "\n" not in text
    collapsed = " ".join(description.split())
    assert collapsed.startswith(text) or (text.endswith("…") and collapsed.startswith(text[:-1]))
    assert bool(text) == bool(collapsed)
