"""Times by RFC 3339, compared as instants and never as texts: `…00.500Z` sorts before `…00Z`, and is later."""

from __future__ import annotations

import re
from calendar import monthrange, timegm

_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_NANOSECONDS = 10**9


def instant(text: object) -> int | None:
    """Nanoseconds since 1970 of a time with an offset, None for other values. A leap second is the next second."""
    match = _TIME.fullmatch(text) if isinstance(text, str) and len(text) <= 40 else None
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    is_date = year and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]
    if not is_date or hour > 23 or minute > 59 or second > 60:
        return None
    fraction, sign, ahead_hours, ahead_minutes = match.groups()[6:]
    ahead = 0 if sign is None else (int(ahead_hours) * 60 + int(ahead_minutes)) * (60 if sign == "+" else -60)
    seconds = timegm((year, month, day, hour, minute, second)) - ahead
    return seconds * _NANOSECONDS + int((fraction or "").ljust(9, "0"))
