"""How long a server is waited for: a chain whose source does not answer says so while the request goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SILENT_SECONDS = 30.0
"""Seconds without a whole answer, or beyond the time that the bytes of one take at SLOWEST, that count as silence."""

SLOWEST = 16 << 10
"""Bytes per second of an answer at least, on average."""


class AnswerClock:
    """The seconds that a server was waited for since its last whole answer. `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pending, self._since, self._waited, self._received = 0, 0.0, 0.0, 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The server is waited for. Of requests that overlap, the time counts once."""
        if not self._pending:
            self._since = self._clock()
        self._pending += 1
        try:
            yield
        finally:
            self._pending -= 1
            if not self._pending:
                self._waited += self._clock() - self._since

    def receive(self, size: int) -> None:
        """So many bytes of an answer arrived."""
        self._received += size

    def answer(self) -> None:
        """An answer is whole."""
        self._since, self._waited, self._received = self._clock(), 0.0, 0

    @property
    def silence(self) -> float:
        """The seconds without an answer, less the time that what arrived of one takes at SLOWEST; 0 while nothing is
        waited for."""
        if not self._pending:
            return 0.0
        return max(0.0, self._waited + self._clock() - self._since - self._received / SLOWEST)
