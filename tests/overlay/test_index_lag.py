"""How long an index has not read what is stored: by all numbers that were seen, in a law."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlay.app.index_lag import PACE_SECONDS, GrowthRate, IndexLag

LOOKS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5), st.integers(0, 12)), max_size=60)
"""Seconds that pass, changes that are stored, and changes that the index reads, before the next look."""


@given(LOOKS)
def test_a_lag_is_as_old_as_the_oldest_look_that_showed_a_change_not_read_yet(
    looks: list[tuple[int, int, int]],
) -> None:
    """At most ten seconds more, as not every look is remembered."""
    now, newest, read = 0.0, 0, 0
    seen: list[tuple[float, int]] = []
    lag = IndexLag(lambda: now)
    for seconds, stored, indexed in looks:
        now, newest = now + seconds, newest + stored
        read = min(newest, read + indexed)
        seen.append((now, newest))
        expected = now - next((time for time, number in seen if number > read), now)
        assert expected <= lag.add(newest, newest - read) <= expected + 10


def test_an_index_that_goes_on_is_never_far_behind_and_one_that_stops_is() -> None:
    """Also where there is always something that it has not read."""
    now = 0.0
    lag = IndexLag(lambda: now)
    for second in range(10_000):
        now = float(second)
        assert lag.add(second, min(second, 5)) <= 15
    for second in range(10_000, 20_000):
        now = float(second)
        waited = lag.add(second, second - 9_994)
    assert 9_999 <= waited <= 10_015


def test_a_restored_database_is_one_that_was_not_read() -> None:
    now = 0.0
    lag = IndexLag(lambda: now)
    assert lag.add(100, 0) == 0
    assert lag.add(40, 40) == 0
    now = 30.0
    assert lag.add(40, 40) == 30
    assert lag.add(40, 0) == 0


@given(LOOKS)
def test_a_pace_is_that_of_the_last_minute(looks: list[tuple[int, int, int]]) -> None:
    now, number = 0.0, 0
    pace, seen = GrowthRate(lambda: now), list[tuple[float, int]]()
    for seconds, grown, _ in looks:
        now, number = now + seconds + 1, number + grown
        pace.add(number)
        seen.append((now, number))
        first = [look for look in seen if now - look[0] >= PACE_SECONDS][-1:] or seen[:1]
        (began, least) = first[0]
        assert pace.a_second() == ((number - least) / (now - began) if now > began else 0.0)
    pace.add(-1)
    assert pace.a_second() == 0.0, "another index"
