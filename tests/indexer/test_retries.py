"""One back-off, and one reader of Retry-After, for every loop and client."""

from __future__ import annotations

import ast
from datetime import UTC, datetime
from email.utils import format_datetime, formatdate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.retries import Backoff, retry_after

ROOT = Path(__file__).parents[2]


@given(first=st.floats(0.001, 100), times=st.floats(1, 1_000), factor=st.floats(1, 10), failures=st.integers(1, 200))
def test_a_pause_is_the_one_before_times_the_factor_up_to_the_longest(
    first: float, times: float, factor: float, failures: int
) -> None:
    longest = first * times
    pause = first
    for _ in range(failures - 1):
        pause = min(pause * factor, longest)
    assert Backoff(first, longest, factor).pause(failures) == pytest.approx(min(pause, longest))


def test_ten_thousand_failures_wait_for_the_longest_pause() -> None:
    backoff = Backoff(60, 43_200)
    assert [backoff.pause_ms(failures) for failures in (0, 1, 2, 10_000)] == [60_000, 60_000, 120_000, 43_200_000]
    assert Backoff(0.25, 4.0, factor=4.0).pauses(4) == (0.25, 1.0, 4.0, 4.0)


@given(st.integers(0, 4_000_000_000), st.integers(0, 2_000_000_000))
def test_a_date_in_each_form_means_the_time_until_then(until: int, now: int) -> None:
    forms = (
        formatdate(until, usegmt=True),
        formatdate(until),  # "-0000": no zone, which is UTC
        format_datetime(datetime.fromtimestamp(until, UTC)),
    )
    assert {retry_after(f" {form} ", 1e12, now) for form in forms} == {float(max(until - now, 0))}


@pytest.mark.parametrize(
    ("text", "expected"), [("30", 30.0), ("0", 0.0), (" 7 ", 7.0), ("9" * 40, 3_600.0), ("", None), ("soon", None),
                           ("-1", None), ("1.5", None), ("٣", None), ("Fri, 99 Nov 1999 00:00:00 GMT", None)]
)  # fmt: skip
def test_a_number_means_seconds_up_to_the_longest_and_nonsense_means_nothing(text: str, expected: float | None) -> None:
    assert retry_after(text, 3_600.0) == expected


def test_no_other_module_computes_growing_pauses_or_reads_http_dates_of_retry_after() -> None:
    offenders = []
    for path in (*ROOT.glob("indexer/**/*.py"), *ROOT.glob("overlay/**/*.py")):
        tree = ast.parse(path.read_text())
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        growing = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Pow, ast.LShift))
            and any(word in ast.unparse(node) for word in ("tries", "failures", "attempt", "pause"))
        ]  # fmt: skip
        if path.name != "retries.py" and ("parsedate_to_datetime" in names or growing):
            offenders.append((path.name, [ast.unparse(node) for node in growing]))
    assert offenders == []
