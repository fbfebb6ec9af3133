"""How often a price is paid, as people say it."""

from __future__ import annotations

import pytest

from overlay.text.interval_words import per


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        ("none", "per call"), ("P1D", "per day"), ("P1W", "per week"), ("P1M", "per month"), ("P1Y", "per year"),
        ("PT1H", "per hour"), ("PT1M", "per minute"), ("P18M", "per 18 months"), ("P2W", "per 2 weeks"),
        ("PT24H", "per 24 hours"), ("PT90S", "per 90 seconds"), ("P1Y6M", "per P1Y6M"), ("P0D", "per P0D"),
        ("fortnight", "per fortnight"), ("", "per "), ("P1M\n", "per P1M\n"), ("P٣M", "per P٣M"),
    ],
)  # fmt: skip
def test_an_interval_in_the_words_of_a_price(interval: str, words: str) -> None:
    assert per(interval) == words
