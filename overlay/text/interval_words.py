"""How often a price is paid, in words."""

from __future__ import annotations

import re

_SINGULAR = {
    "none": "call", "P1D": "day", "P1W": "week", "P1M": "month", "P1Y": "year", "PT1H": "hour", "PT1M": "minute",
}  # fmt: skip
_SOME = re.compile(r"P(?:([1-9][0-9]{0,4})([DWMY])|T([1-9][0-9]{0,4})([HMS]))")
_IN_TEXT = re.compile(r"\bper (P[0-9TDWMYHS]{2,8})(?![0-9A-Za-z])")
_UNITS = {"D": "days", "W": "weeks", "M": "months", "Y": "years", "TH": "hours", "TM": "minutes", "TS": "seconds"}


def per(interval: str) -> str:
    """An interval's canonical key (law 13) in the words of a price: `per month`, `per 18 months`; `none` is per call.
    Any other text than a duration of a single unit is not changed."""
    if interval in _SINGULAR:
        return f"per {_SINGULAR[interval]}"
    some = _SOME.fullmatch(interval)
    if some is None:
        return f"per {interval}"
    days, unit, seconds, short = some.groups()
    return f"per {days or seconds} {_UNITS[unit or f'T{short}']}"


def in_words(text: str) -> str:
    """A sentence with its intervals in words: `per P1M` is `per month`."""
    return _IN_TEXT.sub(lambda match: per(match[1]), text)
