"""How long changes have been stored that the search index has not read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic

MOST_SECONDS = 600
"""How far an index may be behind in seconds while its server is ready."""

_EVERY, _MOST = 10.0, 1_000

PACE_SECONDS = 60.0
"""Seconds over which a pace is measured."""


class IndexLag:
    """The numbers of the newest change, and when each was the newest: at most 1,000, one for every 10 seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._newest: deque[tuple[float, int]] = deque()

    def add(self, newest: int, unread: int) -> float:
        """Note the newest change now, and how many the index has not read; returns the seconds for which the oldest of
        these has been stored, as far as this was called since then, and at most 10 more."""
        now, read = self._clock(), newest - unread
        while self._newest and self._newest[0][1] <= read:
            self._newest.popleft()
        if unread:
            is_due = not self._newest or now - self._newest[-1][0] >= _EVERY
            since = now if is_due and len(self._newest) < _MOST else self._newest.pop()[0]
            self._newest.append((since, newest))
        return now - self._newest[0][0] if self._newest else 0.0


class GrowthRate:
    """How fast a number grows, by looks of the last minute."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._looks: deque[tuple[float, int]] = deque()

    def add(self, number: int) -> None:
        """Note the number now; one that is smaller than the last begins again."""
        now = self._clock()
        if self._looks and number < self._looks[-1][1]:
            self._looks.clear()
        while len(self._looks) > 1 and now - self._looks[1][0] >= PACE_SECONDS:
            self._looks.popleft()
        if not self._looks or now - self._looks[-1][0] >= 1.0:
            self._looks.append((now, number))

    def a_second(self) -> float:
        """By how much it grew in a second; 0 where it did not, or was seen once only."""
        if len(self._looks) < 2:
            return 0.0
        (began, first), (ended, last) = self._looks[0], self._looks[-1]
        return (last - first) / (ended - began)
