"""How many blocks to ask for at once: as many as the endpoint answers, found out by asking."""

from __future__ import annotations

FIRST, MOST = 1_000, 50_000
"""Blocks asked for at first, and at most."""

STEADY = 8
"""Answers in a row after which more is tried than what was once too much."""

PLENTY = 5_000
"""Logs in one answer from which on the next range is no wider: a stricter limit is 10,000."""


class Ranges:
    """A width in blocks that is halved when it was too much, and doubled again with what is answered."""

    def __init__(self) -> None:
        self.width = FIRST
        self._ceiling, self._answered = MOST, 0

    def answered(self, blocks: int, logs: int) -> None:
        """A range of so many blocks was answered with so many logs."""
        self._answered += 1
        if self._answered >= STEADY and self._ceiling < MOST:
            self._ceiling, self._answered = min(self._ceiling * 2, MOST), 0
        if blocks >= self.width and logs < PLENTY:
            self.width = min(self.width * 2, self._ceiling)

    def too_much(self, blocks: int) -> bool:
        """A range of so many blocks was too much; whether fewer can be asked for."""
        self._answered = 0
        self.width = self._ceiling = max(1, blocks // 2)
        return blocks > 1
