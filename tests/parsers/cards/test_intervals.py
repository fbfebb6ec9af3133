"""Intervals are equal by meaning (law 13)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parsers.cards.intervals import interval_key
from tests.oracles.prices import meaning

digits = st.sampled_from(["0", "1", "7", "12", "18", "24", "60", "007", "0.5", "1,5", "1.", ".5", "3600", "365"])


@st.composite
def durations(draw: st.DrawFn) -> str:
    """Texts like durations, right and nearly right."""
    date = "".join(draw(digits) + unit for unit in "YMWD" if draw(st.booleans()))
    time = "".join(draw(digits) + unit for unit in "HMS" if draw(st.integers(0, 3)) == 0)
    text = f"P{date}T{time}" if time or draw(st.integers(0, 9)) == 0 else f"P{date}"
    return draw(st.sampled_from([text, text, text, text.lower(), text + "X", " " + text, "-" + text]))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (None, "none"),
        ("", "none"),
        ("  ", "none"),
        ("day", "P1D"),
        ("Week", "P1W"),
        ("MONTH", "P1M"),
        (" year ", "P1Y"),
        ("P1M", "P1M"),
        ("P12M", "P1Y"),
        ("P18M", "P18M"),
        ("P1Y6M", "P18M"),
        ("P24M", "P2Y"),
        ("P7D", "P1W"),
        ("P1W1D", "P8D"),
        ("P30D", "P30D"),
        ("PT24H", "PT24H"),
        ("PT1440M", "PT24H"),
        ("PT3600S", "PT1H"),
        ("PT90M", "PT90M"),
        ("PT0.50S", "PT0.5S"),
        ("PT0,5H", "PT30M"),
        ("P0.5Y", "P6M"),
        ("P1M7D", "P1M7D"),
        ("P0D", "P0D"),
        ("PT0S", "P0D"),
        ("P0M", "P0D"),
        ("monthly", "P1M"),
        (" Monthly", "P1M"),
        ("yearly", "P1Y"),
        ("DAILY", "P1D"),
        ("weekly", "P1W"),
        ("per month", "P1M"),
        ("Per  Year", "P1Y"),
        ("1 month", "P1M"),
        ("every week", "P1W"),
        ("a day", "P1D"),
        ("per call", "none"),
        ("Per Call", "none"),
        ("null", "none"),
        ("None", "none"),
        ("2 months", "2 months"),
        ("daly", "daly"),
        ("dayly", "dayly"),
        ("per monthly", "per monthly"),
        ("fortnightly", "fortnightly"),
        (" fortnightly", " fortnightly"),
        ("P", "P"),
        ("PT", "PT"),
        ("P1", "P1"),
        ("P1DT", "P1DT"),
        ("P0.5Y1M", "P0.5Y1M"),
        ("p1m", "p1m"),
        ("-P1M", "-P1M"),
        ("P1M1Y", "P1M1Y"),
        ("P١M", "P١M"),
    ],
)
def test_the_key_of_an_interval(text: str | None, key: str) -> None:
    assert interval_key(text) == key


def test_a_day_is_not_twenty_four_hours_nor_a_month_thirty_days() -> None:
    assert interval_key("PT24H") != interval_key("day")
    assert interval_key("P30D") != interval_key("month")
    assert interval_key("P365D") != interval_key("year")


def test_hostile_numbers_are_exact_up_to_a_hundred_digits_and_as_written_beyond() -> None:
    most = "9" * 100
    assert interval_key(f"P{most}Y") == f"P{most}Y"
    years = int("9" * 98)
    assert interval_key(f"P{years}Y") == interval_key(f"P{12 * years}M")
    exact = interval_key(f"PT{most}.{most}S")
    assert exact == f"PT{most}.{most}S"
    assert exact != interval_key(f"PT{most}.{most[:-1]}S")
    assert interval_key("P9" + most + "Y") == "P9" + most + "Y"
    assert interval_key("P" + "9" * 8000) == "P" + "9" * 8000


phrases = st.builds(
    lambda start, word, case: case(f"{start}{word}"),
    st.sampled_from(["", "per ", "every ", "each ", "a ", "an ", "one ", "1 ", "2 ", " "]),
    st.sampled_from(["day", "week", "month", "year", "daily", "weekly", "monthly", "yearly", "call", "null", "none"]),
    st.sampled_from([str, str.upper, str.title]),
)


@given(durations() | phrases | st.text(max_size=6), durations() | phrases | st.text(max_size=6))
@example("P1Y", "P12M")
@example("PT1H", "PT60M")
@example("", "none")
def test_keys_are_equal_exactly_when_the_meaning_is(one: str, other: str) -> None:
    assert (interval_key(one) == interval_key(other)) == (meaning(one) == meaning(other))


@given(durations() | phrases | st.text(max_size=6))
def test_a_key_is_its_own_key_and_keeps_the_meaning(text: str) -> None:
    key = interval_key(text)
    assert interval_key(key) == key
    if key != "none":
        assert meaning(key) == meaning(text)
