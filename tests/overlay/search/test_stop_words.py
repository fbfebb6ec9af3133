"""Stop words: which words of a question do not search, in which language, and when they do."""

from __future__ import annotations

import pytest

from overlay.search.planner import plan, required_terms
from overlay.search.stop_words import ENGLISH, stop_words
from overlay.search.term_dictionary import TermDictionary

NO_TERMS = TermDictionary()


def content(text: str) -> list[str]:
    return [group.word for group in plan(text, NO_TERMS).content]


def stop(text: str) -> list[str]:
    return [group.word for group in plan(text, NO_TERMS).stop]


@pytest.mark.parametrize(
    ("text", "words", "stop_words"),
    [
        ("launch a rocket", ["launch", "rocket"], ["a"]),
        ("The Graph", ["graph"], ["the"]),
        ("I am", ["i", "am"], []),  # nothing else is left
        ("can you help me", ["can", "you", "help", "me"], []),
        ("what's new", ["new"], ["whats"]),
        ("map directions between two addresses", ["map", "directions", "addresses"], ["between", "two"]),
        ("3 agents, 12 tools", ["3", "12"], ["agents", "tools"]),  # digits are no number words
        ("MCP server for Jira", ["jira"], ["mcp", "server", "for"]),
        ("agent tool", ["agent", "tool"], []),
        ("find me a good tool with an api that translates contracts and letters",
         ["find", "good", "translates", "contracts", "letters"], ["tool", "api"]),
        ("twelve", ["twelve"], []),
        ("go-to market", ["go", "to", "market"], []),  # parts of a compound are words of a name
        ("IT support for US firms", ["it", "support", "us", "firms"], ["for"]),
        ("LAUNCH A ROCKET TO IT", ["launch", "rocket"], ["a", "to", "it"]),  # all in capitals: no names among them
        # more than six words: the stop words are dropped
        ("I'm looking for something that turns a meeting recording into minutes",
         ["turns", "meeting", "recording", "minutes"], []),
        ("Could you please make some of that for me", ["could", "you", "please", "make", "some", "of", "that", "for",
                                                       "me"], []),
    ],
)  # fmt: skip
def test_words_of_a_text_and_its_stop_words(text: str, words: list[str], stop_words: list[str]) -> None:
    assert content(text) == words
    assert stop(text) == stop_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ich suche einen Agenten, der für mich die Rechnungen übersetzt",
         ["suche", "agenten", "rechnungen", "ubersetzt"]),
        ("Busco una herramienta que traduzca los documentos de mi empresa",
         ["busco", "herramienta", "traduzca", "documentos", "empresa"]),
        ("Je cherche un outil pour traduire des factures pour mon entreprise",
         ["cherche", "outil", "traduire", "factures", "entreprise"]),
        ("мне нужен агент который переводит все документы для меня", ["нужен", "агент", "которыи", "переводит",
                                                                      "документы"]),
    ],
)  # fmt: skip
def test_the_function_words_of_another_language(text: str, words: list[str]) -> None:
    assert set(content(text)) <= set(words)
    assert len(content(text)) >= len(words) - 1


@pytest.mark.parametrize("text", ["translate die cut images", "der die das", "a tool to die for in the bar and more"])
def test_english_is_assumed_where_no_other_language_is_certain(text: str) -> None:
    is_german = text == "der die das"
    assert (stop_words(text.split()) is ENGLISH) is not is_german


def test_a_saved_search_requires_its_content_words() -> None:
    launch, rocket = required_terms("launch a rocket")
    assert ("launch" in launch, "rocket" in rocket) == (True, True)
    assert len(required_terms("the")) == 1
    assert [{"launch", "start"} <= terms for terms in required_terms("launch OR start the big rocket")] == [
        True,
        False,
        False,
    ]
