"""Any text that is typed into the search field is understood."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from overlay.api.search_request import from_pairs
from overlay.search.query import Operators
from overlay.search.query_syntax import ParsedText, operators, read


@pytest.mark.parametrize(
    ("text", "understood"),
    [
        ("", {"text": ""}),
        (" * ", {"text": ""}),
        ("* trams", {"text": "* trams"}),
        ("web search", {"text": "web search"}),
        ('"web search" api', {"text": "web search api", "phrases": ("web search",)}),
        ("\u201cweb search\u201d", {"text": "web search", "phrases": ("web search",)}),  # as telephones type it
        ('web -search -"per call"', {"text": "web", "excluded": ("search", "per call")}),
        ("tag:pay Owner:1Bo skill:a.b", {"text": "", "tags": ("pay",), "owners": ("1Bo",), "skills": ("a.b",)}),
        ('tag:"two words" x', {"text": "x", "tags": ("two words",)}),
        (
            "-tag:a -owner:b -skill:c -tag:d",
            {"text": "", "not_tags": ("a", "d"), "not_owners": ("b",), "not_skills": ("c",)},
        ),
        ("tag:a:b", {"text": "", "tags": ("a:b",)}),
        ('"a" "b"c', {"text": "a b c", "phrases": ("a", "b")}),
        # what begins no word is not an operator
        ("getDexChart-v2 a:b http://x", {"text": "getDexChart-v2 a:b http://x"}),
        ('a 55" b', {"text": 'a 55" b'}),
        ("-- npx --yes - x", {"text": "-- npx --yes - x"}),
        ("mytag:x tags:x", {"text": "mytag:x tags:x"}),
        ("\u017fkill:x", {"text": "\u017fkill:x"}),  # a long s is not a s
        # what is not finished says nothing
        ('web "sea', {"text": 'web "sea'}),
        ('"', {"text": ""}),
        ("-", {"text": ""}),
        (' \u201c -- "', {"text": ""}),
        ('tag:pay "', {"text": "", "tags": ("pay",)}),
        ("-tag:pay x -", {"text": "x", "not_tags": ("pay",)}),
        ('web "" x', {"text": "web x"}),
        ('-"" x', {"text": "x"}),
        ("tag: x", {"text": "x"}),
        ('-skill: tag:" x', {"text": "x"}),
    ],
)
def test_a_text_is_understood(text: str, understood: dict[str, Any]) -> None:
    assert read(text) == ParsedText(**understood)


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(['"', "-", "tag:", "SKILL:", "a", "é", "支", " ", "\u201d"])).map("".join)
)
@example("\u212a")
def test_every_text_is_a_question(text: str) -> None:
    understood = read(text)
    message = " ".join(item for group in (understood.phrases, understood.excluded, understood.tags) for item in group)
    assert set(understood.text) | set(message) <= set(text) | {" "}
    results = operators(understood)
    assert results != Operators()
    assert results is None or all(all(phrase.split(" ")) for phrase in (*results.phrases, *results.excluded))


@given(st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8), min_size=1, max_size=20))
def test_words_alone_are_left_as_they_are(words: list[str]) -> None:
    text = " ".join(words)
    assert read(text) == ParsedText(text=text)


def test_many_operators_take_no_longer_for_each() -> None:
    """No part of a text is looked at again and again: this would take minutes if any were."""
    for piece in ('"a ', "-", ' "', "tag:", '-"', "tag:tag:", " tag:", '-tag:"'):
        assert read(piece * 200_000).text is not None


def test_phrases_are_compared_by_their_terms_and_what_is_excluded_in_every_spelling() -> None:
    assert operators(read('"Web Searches" -getDexCharts -"a, b" -支付 "!!"')) == Operators(
        phrases=("web search",), excluded=("get dex chart", "getdexchart", "a b", "支 付")
    )


def test_values_in_the_text_join_those_of_the_parameters() -> None:
    given_pairs = [("q", "Tower tag:PAY owner:0xABCDEF0123456789abcdef0123456789ABCDEF01 skill:x -tag:Ä"), ("tag", "b")]
    parsed = from_pairs([*given_pairs, ("skillId", "y")], {})
    query = parsed.query
    assert (parsed.text, query.text) == (given_pairs[0][1], "Tower")
    assert (query.tags, query.skills) == (("b", "pay"), ("y", "x"))
    assert query.owners == ("0xabcdef0123456789abcdef0123456789abcdef01",)
    assert query.operators == Operators(not_tags=("ä",))
    assert from_pairs([("q", "tower-block")], {}).query.operators is None


def test_owners_are_excluded_in_any_spelling_of_their_letters() -> None:
    parsed = from_pairs([("q", "-owner:0xABCDEF0123456789abcdef0123456789ABCDEF01")], {})
    assert parsed.query.operators == Operators(not_owners=("0xabcdef0123456789abcdef0123456789abcdef01",))


SENTENCE = 'Please "summarise this" for me -- and send the -result- to my "inbox" tag:mail'


def test_quotation_marks_and_hyphens_of_a_sentence_are_punctuation() -> None:
    understood = read(SENTENCE)
    assert understood.is_sentence
    assert understood.tags == ("mail",)
    assert (understood.phrases, understood.excluded) == ((), ())
    assert understood.text == SENTENCE.removesuffix(" tag:mail")
    assert not read('one two three four five six "seven eight"').is_sentence
    assert read('one two three four five six seven "eight nine"').is_sentence
    assert not read("one two three four five six seven eight nine tag:x").is_sentence  # no such operator


def test_of_a_long_text_the_content_words_are_read() -> None:
    words = [f"w{number}" for number in range(1, 120)]
    text = " ".join(f"please the {word}, and" for word in words)
    understood = read(text)
    assert understood.text.split() == [f"{word}," for word in words[:96]]
    assert understood.left_out.split() == [f"{word}," for word in words[96:]]
    assert read(" ".join(words[:96])) == ParsedText(" ".join(words[:96]))


def test_at_most_2_kilobytes_of_a_text_are_read() -> None:
    words = ["abcdefgh" * 8] * 50
    understood = read(" ".join(words))
    assert len(understood.text) <= 2_048 < len(understood.text) + 65
    assert understood.text.split() + understood.left_out.split() == words


def test_a_long_text_without_spaces_is_cut_between_characters() -> None:
    text = "支付网关" * 300
    understood = read(text)
    assert understood.text + understood.left_out == text
    assert 2_045 < len(understood.text.encode()) <= 2_048


@given(st.text(max_size=4_000))
def test_what_is_read_of_any_text_is_bounded(text: str) -> None:
    understood = read(text)
    assert len(understood.text.encode("utf-8", "surrogatepass")) <= 2_048
    assert len(understood.text.split()) <= 96
