"""Words are found where they stand, whatever folding does to a text."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from overlay.search.analysis import words
from overlay.search.spans import spans


@pytest.mark.parametrize(
    ("text", "word", "where"),
    [
        ("Web search", "search", ["search"]),
        ("getDexChart, dex", "dex", ["Dex", "dex"]),
        ("getDexChart", "getdexchart", ["getDexChart"]),
        ("web_search.api", "websearchapi", ["web_search.api"]),
        ("the server's name", "servers", ["server's"]),
        ("Cafe\u0301 STRASSE straße", "cafe", ["Cafe\u0301"]),
        ("l’été à l'Oréal's", "ete", ["été"]),
        ("l’été à l'Oréal's", "lete", ["l’été"]),
        ("l’été à l'Oréal's", "oreals", ["Oréal's"]),
        ("Cafe\u0301 STRASSE straße", "strasse", ["STRASSE", "straße"]),
        ("支付网关", "付网", ["付网"]),
        ("ＦＵＬＬ ﬁne", "fine", ["ﬁne"]),
        ("ﬁne", "fine", ["ﬁne"]),
        ("\U0001f600 pay", "pay", ["pay"]),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af 한글", "한글", ["\u1112\u1161\u11ab\u1100\u1173\u11af", "한글"]),
        ("ﾀﾞﾒ", "ダメ", ["ﾀﾞﾒ"]),
        ("C++, C++20", "c++", ["C++", "C++"]),
        ("a .NET b", ".net", [".NET"]),
        ("a .NET b", "net", [".NET"]),
        ("GPT 4 GPT4", "gpt4", ["GPT 4", "GPT4"]),
        ("1,000,000 rows", "1000000", ["1,000,000"]),
        ("x ❤\ufe0f 👍\U0001f3fd", "❤", ["❤\ufe0f"]),
        ("x ❤\ufe0f 👍\U0001f3fd", "👍", ["👍\U0001f3fd"]),
        ("WIDGET™ Maker", "widget", ["WIDGET"]),
        ("พยากรณ์อากาศ", "กาศ", ["กาศ"]),
        ("圖書館", "书馆", ["書館"]),
    ],
)
def test_a_word_is_found_at_its_position(text: str, word: str, where: list[str]) -> None:
    assert [text[span.start : span.end] for span in spans(text) if span.word == word] == where


alphabet = st.characters() | st.sampled_from(
    "aZ9 -_.'·+#,/&éß支付書ガ🔥🇯🇵ไย\u0e35ខ\u17d2™\ufe0f\U0001f3fd\u0301\u3099\u1100\u1161\u11a8\u200dİﬁＡ\u0644\u064b"
)


@given(st.text(alphabet, max_size=40))
@example("A\u0300\u0301支a'b")
@example("ŉ\u0344")
@example("l'a")
def test_the_words_are_those_of_the_analyser_and_stand_in_the_text(text: str) -> None:
    results = list(spans(text))
    assert sorted(span.word for span in results) == sorted(words(text))
    assert all(0 <= span.start < span.end <= len(text) for span in results)


@given(st.text("abcXYld'_.+# 4支付éไทย🔥", max_size=40))
@example("ทaX+")
@example("l'aX")
def test_the_span_of_a_word_is_its_text(text: str) -> None:
    for span in spans(text):
        assert span.word in set(words(text[span.start : span.end]))
