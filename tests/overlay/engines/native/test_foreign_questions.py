"""Questions in other languages over listings in English: found by meaning, and the words that these lack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from overlay.projection.search_index import SearchIndex
from tests.contracts.listed import ask, ids, listing, put

WEATHER = listing("1", "Forecast", description="Temperature, rain and wind for any city")
CHESS = listing("2", "Grandmaster", description="Play chess against a computer")
HOMES = listing("3", "Nest", description="Houses and apartments for sale or rent")
COINS = listing("4", "Ledger", description="Cryptocurrency prices and exchange rates in dollars")
QUESTIONS = {
    "es": ("¿Qué tiempo y temperatura hará mañana en la ciudad, y va a tener lluvia?", "1"),
    "de": ("Ich möchte mit dem Computer eine Partie Schach spielen", "2"),
    "fr": ("Trouve des maisons et des appartements à vendre dans la ville", "3"),
    "ru": ("Какая будет температура и дождь в городе завтра?", "1"),
    "zh": ("帮我查一下明天的天气和温度", "1"),
    "ja": ("コンピュータとチェスをしたい", "2"),
    "ar": ("ابحث عن اكبر المنازل المعروضة للبيع في المدينة", "3"),
    "hi": ("मुझे शहर का मौसम और तापमान बताओ", "1"),
}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SearchIndex]:
    with closing(SearchIndex(f"native:{tmp_path}/index", meaning=True)) as opened:
        put(opened, WEATHER, CHESS, HOMES, COINS)
        yield opened


@pytest.mark.parametrize("language", QUESTIONS)
def test_a_question_in_another_language_finds_the_tool_that_meets_it(index: SearchIndex, language: str) -> None:
    question, expected = QUESTIONS[language]
    assert [hit.id for hit in ask(index, question).hits][:1] == [expected]


def test_without_meaning_it_finds_nothing(index: SearchIndex, tmp_path: Path) -> None:
    with closing(SearchIndex(f"native:{tmp_path}/index", meaning=False)) as opened:
        assert ids(ask(opened, QUESTIONS["zh"][0])) == []
        assert ids(ask(opened, QUESTIONS["ru"][0])) == []


def test_what_a_listing_lacks_is_named_by_words_and_not_by_pairs_of_characters(
    index: SearchIndex, tmp_path: Path
) -> None:
    put(index, listing("5", "天气", description="城市的天气预报"), seq=2)
    hits = {hit.id: hit for hit in ask(index, "天气温度").hits}
    assert hits["5"].lacks == ("温度",)
    assert set(hits["1"].lacks) == {"天气", "温度"}
    assert hits["1"].by_meaning
    with closing(SearchIndex(f"native:{tmp_path}/index", meaning=False)) as opened:
        assert [hit.lacks for hit in ask(opened, "天气温度").hits] == [("天气温度",)]
