"""Tied phrases of a question are preferences; what describes the goods stays a word."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.search.preferences import CURRENCIES, hinted_kind, understand
from overlay.search.query import Operators, Query


@pytest.mark.parametrize(
    ("text", "words", "phrase", "parameters"),
    [
        ("free agents for translation", "agents for translation", "free agents", {"free": "true"}),
        ("a Free MCP server for email", "a MCP server for email", "Free MCP server", {"free": "true"}),
        ("cheapest translation agent free tool", "cheapest translation agent tool", "free tool", {"free": "true"}),
        ("cheapest tool for maps", "tool for maps", "cheapest tool", {"sort": "price"}),
        ("pay-per-call speech to text", "speech to text", "pay-per-call", {"interval": "none"}),
        ("taxes, billed per month", "taxes", "billed per month", {"interval": "P1M"}),
        ("translator paid in BSV", "translator", "paid in BSV", {"acceptedCurrency": "BSV"}),
        ("maps accepts usdc payments", "maps", "accepts usdc payments", {"acceptedCurrency": "USDC"}),
        ("images under 5 USD", "images", "under 5 USD", {"maxPrice": "5", "priceCurrency": "USD"}),
        (
            "images at most $0.5 per call",
            "images",
            "at most $0.5 per call",
            {"maxPrice": "0.5", "priceCurrency": "USD", "interval": "none"},
        ),
        ("crypto wallet not ethereum", "crypto wallet", "not ethereum", {"q": "-ethereum"}),
        ("search other than Tavily", "search", "other than Tavily", {"q": "-Tavily"}),
    ],
)
def test_a_tied_phrase_is_a_preference(text: str, words: str, phrase: str, parameters: dict[str, str]) -> None:
    understood = understand(text)
    assert understood.text == words
    (preference,) = understood.preferences
    assert (preference.phrase, dict(preference.parameters)) == (phrase, parameters)
    if "q" not in parameters:  # a filter of the search counts instead
        assert understand(text, parameters) == (text, ())


@pytest.mark.parametrize(
    "text",
    [
        "affordable flats", "weather without api key", "free weather api", "cheap hotels in Paris", "accepts PDF files",
        "is it free", "to be or not to be", "not ethereum", "gluten-free agents", "hotels under 5 stars",
        "under 5 USD", "not for the", "what is not",
        "show me the best attractions of a city that nobody should not miss",
    ],
)  # fmt: skip
def test_other_words_are_words(text: str) -> None:
    assert understand(text) == (text, ())


def test_a_question_has_several() -> None:
    understood = understand("cheap ai tools for maps, paid per call under 3 eur")
    assert understood.text == "ai tools for maps"
    assert [preference.phrase for preference in understood.preferences] == [
        "cheap ai tools", "paid per call", "under 3 eur",
    ]  # fmt: skip
    assert dict(member for preference in understood.preferences for member in preference.members) == {
        "has_price": True, "intervals": ("none",), "max_price": Decimal(3), "price_currency": "EUR",
    }  # fmt: skip
    excluded = understand("wallet not ethereum").preferences[0]
    assert excluded.members == (("operators", Operators(excluded=("ethereum",))),)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("MCP server for jira", "tool"), ("translation agents", "agent"), ("agent with tools", ""), ("weather api", "")],
)
def test_generic_words_hint_at_a_kind(text: str, kind: str) -> None:
    assert hinted_kind(text) == kind


WORDS = st.sampled_from(
    ["free", "cheap", "agents", "mcp", "server", "not", "except", "under", "5", "$", "€2", "per", "call", "month",
     "paid", "in", "accepts", *CURRENCIES[:2], "the", "map", ",", "-", "É"]
)  # fmt: skip


@given(st.lists(WORDS | st.text(max_size=5), max_size=9).map(" ".join))
def test_any_text_is_understood_and_names_members_of_a_query(text: str) -> None:
    understood = understand(text)
    assert bool(understood.preferences) or understood.text == text
    assert bool(understood.text.strip()) or not text.strip()
    for preference in understood.preferences:
        assert preference.phrase in " ".join(text.split())
        assert Query()._replace(**dict(preference.members)) != Query()
        assert hash(preference.members)
