"""What a word says about a listing, and what does not make it say more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.document import Document
from overlay.search.ranking import (
    BEST,
    DESCRIPTION,
    EXAMPLE,
    LEVELS,
    NAME,
    NAMING,
    QUARTERS,
    QUIET,
    TAG,
    USUAL_NAME,
    USUAL_TAGS,
    names,
    points,
    rarity,
    standing,
    texts,
    unit,
    weigh,
)
from overlay.search.text import stem
from tests.contracts.listed import listing


def level(word: str, name: str = "Nameless", **more: object) -> int:
    """How loudly a listing says a word."""
    return weigh(listing("1", name, **more))[0].get(stem(word), 0)


def test_a_word_that_is_said_fifty_times_is_no_louder_than_in_a_good_listing() -> None:
    honest = level("payment", "Payment gateway", description="Takes a payment by card or coin")
    assert honest == LEVELS - 1
    assert level("payment", "payment " * 50) <= honest
    assert level("payment", "Payment", description="payment " * 200) <= honest
    assert level("payment", "Payment", tags=("payment",) * 64) <= honest


def test_who_lists_all_words_says_each_of_them_quietly() -> None:
    every = " ".join(f"keyword{at}" for at in range(400))
    assert level("keyword7", "Great", description=every) == 1
    assert level("keyword7", "Keyword7", description=every) <= 2
    assert level("keyword7", "Keyword7 services", description="About keyword7") == LEVELS - 1


TRADE = tuple(f"trade{at}" for at in range(90))


@pytest.mark.parametrize("more", [{}, {"verified": True}, {"age": 2, "signed": True}], ids=["new", "verified", "old"])
@pytest.mark.parametrize(
    "said",
    [{"name": " ".join(TRADE[:60])}, {"name": "-".join(TRADE[:60])}, {"tags": TRADE[:60]},
     {"tags": (" ".join(TRADE[:60]),)}, {"tags": tuple(map(" ".join, zip(TRADE[:30], TRADE[30:60], strict=True)))},
     {"name": " ".join(TRADE[:60]), "tags": TRADE[:60]}],
    ids=["name", "compound", "tags", "one tag", "tags of two", "both"],
)  # fmt: skip
def test_a_name_or_tags_that_list_all_words_say_each_of_them_quietly(
    said: dict[str, object], more: dict[str, object]
) -> None:
    levels, _ = weigh(listing("1", **{"name": "Great", **said}, **more))
    assert {levels[word] for word in TRADE[:60]} <= set(range(1, QUIET + 1))


@pytest.mark.parametrize(
    "name",
    ["Weather", " ".join(TRADE[:USUAL_NAME]), "@weather-agents/get_weather-server mcpForAll",
     "企业微信机器人消息推送服务", "국민건강보험공단 병원 정보 조회"],
)  # fmt: skip
def test_names_and_tags_of_a_usual_length_weigh_all_that_they_can(name: str) -> None:
    found = list(texts(listing("1", name, description="Tells the weather", tags=TRADE[:USUAL_TAGS])))
    assert [weight for weight, _ in found] == [NAME, DESCRIPTION, *[TAG] * USUAL_TAGS]


@given(st.integers(1, 80), st.integers(1, 80), st.sampled_from(["name", "tags", "one tag"]))
def test_more_words_in_a_name_or_in_tags_never_make_another_louder_nor_weigh_more_than_usual_ones(
    some: int, more: int, where: str
) -> None:
    def said(count: int) -> Document:
        every = TRADE[:count]
        placed = {"name": {"name": " ".join(every)}, "tags": {"tags": every}, "one tag": {"tags": (" ".join(every),)}}
        return listing("1", **placed[where])

    fewer, several = (weigh(said(min(count, len(TRADE))))[0] for count in (some, some + more))
    assert all(several[word] <= fewer[word] for word in TRADE[:some])
    best = NAME * USUAL_NAME if where == "name" else TAG * USUAL_TAGS
    weighed = [weight for weight, text in texts(said(some)) for word in text.split() if word in TRADE]
    assert sum(weighed) <= max(best, EXAMPLE * some)


@given(st.integers(1, 60), st.integers(0, 80))
def test_more_of_other_words_never_raise_one(times: int, others: int) -> None:
    said = "word " * times
    assert level("word", "x", description=f"{said}{'other ' * others}") <= level("word", "x", description=said)


def test_a_verified_listing_stands_one_level_higher_and_an_unconfirmed_one_lower() -> None:
    plain, verified, pending = (
        listing("1", "Payment"), listing("2", "Payment", verified=True), listing("3", "Payment", status="pending")
    )  # fmt: skip
    found = [standing(each) / QUARTERS for each in (pending, plain, verified)]
    assert found == [LEVELS - 2, LEVELS - 1, LEVELS]
    levels = [weigh(each)[0]["payment"] for each in (pending, plain, verified)]
    assert levels == sorted(levels)
    assert levels[0] < levels[2]


def test_age_raises_a_listing_by_half_a_level_at_most_and_a_signature_by_a_quarter_with_it() -> None:
    asked: dict[float, dict[str, object]] = {
        0: {"signed": True}, 0.25: {"age": 1}, 0.5: {"age": 1, "signed": True}, 0.75: {"age": 2, "signed": True},
    }  # fmt: skip
    for more, said in asked.items():
        assert standing(listing("1", **said)) / QUARTERS == LEVELS - 1 + more
    assert standing(listing("1", age=2, signed=True, verified=True)) / QUARTERS == LEVELS
    raised = [level("payment", "Payment gateway", age=age) - level("payment", "Payment gateway") for age in (1, 2)]
    assert raised == sorted(raised)
    assert max(raised) <= 1


def test_every_word_of_one_that_is_crowded_is_at_the_lowest_level() -> None:
    for more in ({}, {"verified": True, "age": 2}, {"status": "pending"}):
        said = listing("1", "Payment gateway", description="for coins", crowded=True, **more)
        assert set(weigh(said)[0].values()) == {1}


def test_quiet_words_of_a_name_count_less_and_others_as_before() -> None:
    whole = dict(weigh(listing("1", "Payment gateway", description="for a payment"))[0])
    quiet = dict(weigh(listing("1", "Payment gateway", description="for a payment", quiet=("payment", "absent")))[0])
    assert quiet.pop("payment") <= QUIET < whole.pop("payment")
    assert quiet == whole


@pytest.mark.parametrize(
    ("name", "told"),
    [("The Weather-Agents 2 of X", ["weather", "agent", "weatherag"]), ("Weather x8f3k2", ["weather"]),
     ("p-a-y 3", ["pay"]),
     ("天气", ["天", "气"]), ("1234", []), ("", []), ("weather WEATHER", ["weather"])],
)  # fmt: skip
def test_the_terms_that_tell_a_name_from_others(name: str, told: list[str]) -> None:
    assert names(name) == told


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**6))
def test_rarer_words_say_more_and_words_of_names_too(holding: int, more: int, listings: int) -> None:
    rare, common = sorted((min(holding, listings), min(more, listings)))
    assert rarity(rare, 0, listings) >= rarity(common, 0, listings) > 0
    assert rarity(common, common, listings) >= rarity(common, 0, listings)


@given(st.lists(st.floats(0.01, 20), min_size=1, max_size=64))
def test_all_words_at_the_highest_level_make_the_best_points(best: list[float]) -> None:
    each = unit(best)
    assert sum(points(gain * each)[-1] for gain in best) <= BEST
    assert all(made == sorted(made) and made[0] >= 1 for made in (points(gain * each) for gain in best))


def test_terms_of_a_name_are_counted_as_such() -> None:
    _, surfaces = weigh(listing("1", "Payment gateways", description="for coins"))
    assert {word for word in surfaces if word.startswith(NAMING)} == {f"{NAMING}payment", f"{NAMING}gateway"}


@pytest.mark.parametrize(
    ("one", "other"),
    [("integrate", "integrations"), ("k8s", "Kubernetes"), ("db", "databases"), ("analysis", "analyzing"),
     ("repo", "repository"), ("configs", "configuration")],
)  # fmt: skip
def test_forms_of_a_word_meet(one: str, other: str) -> None:
    assert stem(one) == stem(other.lower())


@pytest.mark.parametrize(
    ("one", "other"),
    [("customer", "custom"), ("conversion", "conversation"), ("business", "busy"), ("organization", "organ"),
     ("general", "generate"), ("universal", "university"), ("product", "productivity"), ("ios", "io")],
)  # fmt: skip
def test_words_that_mean_something_else_are_kept_apart(one: str, other: str) -> None:
    assert stem(one) != stem(other)
