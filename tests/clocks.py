"""A clock for tests."""

from __future__ import annotations


class Clock:
    """Unix seconds, or seconds since anything, which pass only when a test says so."""

    def __init__(self, now: float = 1_000) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
