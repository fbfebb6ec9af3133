"""The terms for the words of a question, and their weights."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from overlay.search.analysis import words
from overlay.search.planner import ALL, MAX_UNKNOWN, TermGroup, plan, required_terms
from overlay.search.term_dictionary import TermCounts, TermDictionary


def dictionary(*texts: str) -> TermDictionary:
    """The words of listings with these texts."""
    counts = TermCounts()
    for text in texts:
        counts.add(set(words(text)))
    return TermDictionary([counts])


COMMON = (
    ["payment gateway"] * 30
    + ["weather forecast"] * 40
    + ["qrcode reader", "things3 tasks", "4K net", "Zed Quill", "GPT4 relay"]
    + ["api"] * 25
)
TERMS = dictionary(*COMMON)


def groups(text: str, terms: TermDictionary = TERMS) -> tuple[TermGroup, ...]:
    return plan(text, terms).groups


def matches(group: TermGroup) -> dict[str, str]:
    return {alternative.term: alternative.match for alternative in group.alternatives}


@pytest.mark.parametrize(
    ("text", "term", "match"),
    [
        ("payments", "payment", "exact"),
        ("paymnet", "payment", "corrected"),
        ("gatewya", "gateway", "corrected"),
        ("weatherapi", "weather", "split"),
        ("weatherapi", "api", "split"),
        ("qr code", "qrcode", "joined"),
        ("qrCode", "qrcode", "joined"),
        ("things 3", "things3", "joined"),
        ("4 k", "4k", "joined"),
        (".quill", "quill", "joined"),
        ("zedquill", "quill", "split"),
        ("gpt4relay", "gpt4", "split"),
        ("weat", "weather", "completed"),
        ("thigns3", "things3", "corrected"),
    ],
)
def test_terms_that_stand_for_a_word(text: str, term: str, match: str) -> None:
    assert any(matches(group).get(term) == match for group in groups(text)), groups(text)


@pytest.mark.parametrize("text", ["paymnet2", "PAYMNT", "thigns4", "payment", "deadbeef"])
def test_ids_tickers_other_digits_and_common_words_are_not_corrected(text: str) -> None:
    assert "corrected" not in {match for group in groups(text) for match in matches(group).values()}


def test_only_the_last_word_of_a_short_question_is_completed() -> None:
    assert "completed" in matches(groups("forecast weat")[-1]).values()
    assert "completed" not in matches(groups("weat forecast")[0]).values()
    assert "completed" not in matches(groups("a b c d weat")[-1]).values()


def test_nothing_is_worth_more_than_the_word_itself() -> None:
    for text in ("qr code", "paymnet", "weat", "weatherapi gateway"):
        for group in groups(text):
            values = [alternative.value for alternative in group.alternatives]
            assert max(values) <= group.rarity + 1e-9


def test_in_a_sentence_a_word_of_four_letters_may_have_lost_one_but_is_no_other_word() -> None:
    terms = dictionary(*["bark"] * 5, *["brook"] * 3, *["hotel"] * 3)
    assert matches(groups("brok hotel lisbon travel week budget", terms)[0]) == {"brok": "exact", "brook": "corrected"}
    assert matches(groups("brok hotel", terms)[0]) == {"brok": "exact"}


def test_dotnet_is_no_net() -> None:
    assert matches(groups(".net")[0]) == {"dotnet": "exact"}


def test_a_stop_word_that_was_dropped_still_separates_its_neighbours() -> None:
    terms = dictionary("qrcode", "qr", "code")
    assert "qrcode" in matches(groups("a qr code printed in every city of all countries", terms)[0])
    assert "qrcode" not in matches(groups("a qr or code printed in every city of all countries", terms)[0])


@pytest.mark.parametrize("text", ["cheap", "cancer", "lawyer", "guitar", "parcel", "book in a sentence of many words"])
def test_a_right_word_that_no_listing_has_is_neither_corrected_nor_split(text: str) -> None:
    terms = dictionary(*["cheat cancel layer gui tar par cel brook"] * 5)
    assert matches(groups(text, terms)[0]).keys() == {groups(text, terms)[0].alternatives[0].term}
    assert not groups(text, terms)[0].is_unknown


@given(
    st.lists(st.sampled_from(["OR", "it", "IT", "jira", "web-search", "the", "tool", "支付"]), max_size=9).map(" ".join)
)
@example("it OR IT OR jira")
def test_any_words_with_or_between_them_have_a_plan(text: str) -> None:
    assert plan(text, TERMS).finds_nothing or len(plan(text, TERMS).content) > 0 or not text.strip()
    assert len(required_terms(text)) == len(plan(text, TERMS).content)


def test_a_word_in_use_is_corrected_where_a_neighbour_is_fifty_times_as_frequent() -> None:
    terms = dictionary(*["postgres"] * 100, *["postgress"] * 2, *["postgrex"] * 3, "postgret postgxrex")
    (group,) = groups("postgress", terms)
    assert matches(group) == {"postgress": "exact", "postgr": "corrected"}
    assert plan("postgress", terms).corrected == (("postgress", "postgres"),)
    assert group.alternatives[0].value > group.alternatives[1].value
    assert matches(groups("postgrex", terms)[0]) == {"postgrex": "exact"}
    assert matches(groups("postgxrex", terms)[0]) == {"postgxrex": "exact"}


def test_a_name_before_a_generic_ending_is_corrected() -> None:
    terms = dictionary(*["github repositories"] * 9, "mcp server")
    (group,) = groups("githbmcp", terms)
    assert matches(group) == {"githbmcp": "exact", "github": "corrected"}
    assert matches(groups("zqxvmcp", terms)[0]) == {"zqxvmcp": "exact"}


def test_or_in_capitals_between_two_words_makes_them_one() -> None:
    terms = dictionary(*["jira"] * 3, *["linear"] * 9, *["asana", "issues"] * 2, "or tools", "jiralinear")
    (group,) = groups("jira OR linear OR asana", terms)
    assert group.word == "jira OR linear OR asana"
    assert matches(group) == {"jira": "exact", "linear": "exact", "asana": "exact"}
    assert max(other.value for other in group.alternatives) == group.rarity
    assert [group.word for group in groups("issues jira OR the linear", terms)] == ["issues", "jira OR linear", "the"]
    assert [group.word for group in groups("jira or linear", terms) if not group.is_stop] == ["jira", "linear"]
    assert [group.word for group in groups("jira OR jira", terms)] == ["jira"]
    assert [group.word for group in groups("OR tools", terms)] == ["or", "tools"]
    assert [group.word for group in groups("or-tools OR jira", terms)] == ["or", "tools", "jira"]


def test_a_word_of_no_listing_and_no_language_is_unknown() -> None:
    assert [group.word for group in groups("weather qwer zxcv cheap forecsat") if group.is_unknown] == ["qwer", "zxcv"]


def test_an_empty_text_asks_for_everything_and_punctuation_for_nothing() -> None:
    assert plan("", TERMS) == plan("  ", TERMS) == ALL
    assert plan("!!!", TERMS).finds_nothing


@pytest.mark.parametrize("texts", [COMMON, COMMON[::-1]])
def test_the_order_of_listings_changes_no_plan(texts: Iterable[str]) -> None:
    assert groups("weathr qr code paymnt", dictionary(*texts)) == groups("weathr qr code paymnt")


@pytest.mark.parametrize(("text", "stop"), [("point-of-sale", ["of"]), ("top-to-do 3", ["to", "do"]), ("how-to", [])])
def test_stop_words_inside_a_compound_find_nothing(text: str, stop: list[str]) -> None:
    assert [group.word for group in groups(text) if group.is_stop] == stop


def test_parts_of_a_word_are_not_cut_inside_a_number() -> None:
    terms = dictionary("2031", "2030", "abc20", "314")
    assert {"split"}.isdisjoint(match for group in groups("20312030", terms) for match in matches(group).values())
    assert {"split"}.isdisjoint(match for group in groups("abc20314", terms) for match in matches(group).values())


def test_of_unknown_words_the_first_eight_are_corrected_or_split(monkeypatch: pytest.MonkeyPatch) -> None:
    dictionary, compared = TermDictionary(), list[str]()
    monkeypatch.setattr(dictionary, "similar", lambda word, _: compared.append(word) or [])
    unknown = [f"{letter * 3}unknown" for letter in "bcdfghjklm"]
    plan(" ".join(unknown), dictionary)
    assert compared == unknown[:MAX_UNKNOWN]
