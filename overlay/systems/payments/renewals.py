"""The end of an interval, by the calendar in UTC (A2B §5.5)."""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, datetime, timedelta

from parsers.cards.intervals import duration

_MOST_DAYS = 366 * 1_000
"""Days in an interval; a longer one has no end that can be computed with."""


def end_of(started_at: int, interval: str, periods: int) -> int | None:
    """The end of a number of intervals (a canonical key) from a time, in seconds since 1970.

    Months are counted from the beginning, in a shorter month to its last day: after 31 January come 28 February and 31
    March. None for an interval without a length, or of a fraction of a month.
    """
    measure = duration(interval)
    if measure is None:
        return None
    months, days, seconds = (part * periods for part in measure)
    if months != int(months) or not (months or days or seconds) or months * 31 + days + seconds / 86_400 > _MOST_DAYS:
        return None
    start = datetime.fromtimestamp(started_at, UTC)
    year, month = divmod(start.year * 12 + start.month - 1 + int(months), 12)
    day = min(start.day, monthrange(year, month + 1)[1])
    shifted = start.replace(year=year, month=month + 1, day=day)
    return int((shifted + timedelta(seconds=float(days * 86_400 + seconds))).timestamp())
