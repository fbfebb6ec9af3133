"""The days on which a URL was checked, and on which it answered, as bits: bit 0 is the newest day that was noted."""

from __future__ import annotations

from typing import NamedTuple

DAYS = 30
DAY_MS = 86_400_000

_MASK = (1 << DAYS) - 1


class DayBits(NamedTuple):
    """`day` is the number of the newest day since 1970 (UTC) of which something was noted."""

    day: int = 0
    checked: int = 0
    answered: int = 0

    def noted(self, now: int, *, is_answered: bool) -> DayBits:
        """These days with a check at a time (milliseconds since 1970). A day on which one of several checks was
        answered is one with an answer."""
        moved = self.moved_to(now)
        return moved._replace(checked=moved.checked | 1, answered=moved.answered | is_answered)

    def moved_to(self, now: int) -> DayBits:
        """These days, where bit 0 is the day of a time (milliseconds since 1970)."""
        day = max(now // DAY_MS, self.day)
        passed = min(day - self.day, DAYS)
        return DayBits(day, self.checked << passed & _MASK, self.answered << passed & _MASK)

    @property
    def failed_days(self) -> int:
        """The checked days after the last one with an answer."""
        later = self.checked if not self.answered else self.checked & ((self.answered & -self.answered) - 1)
        return later.bit_count()

    def strip(self) -> list[bool | None]:
        """For each day, the oldest first, whether it had an answer; None where nothing was checked."""
        return [bool(self.answered >> day & 1) if self.checked >> day & 1 else None for day in range(DAYS - 1, -1, -1)]
