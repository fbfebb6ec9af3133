"""Periodic work of a process: what runs how often, and how its runs went."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from overlay.text.timestamps import timestamp


class Role(StrEnum):
    """Which process of an installation runs a job."""

    INDEXER = "indexer"
    """The process that writes facts."""
    SERVER = "server"
    """Every process that serves."""
    SINGLE_SERVER = "single-server"
    """The serving process that holds a lock on the database, one at a time."""


async def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicJob:
    """`run` returns the seconds until its next run, None for `every`. With `on_change` it also runs when the store may
    have changed. `close` is called once after the last run."""

    name: str
    run: Callable[[], Awaitable[float | None]]
    every: float
    role: Role
    on_change: bool = False
    close: Callable[[], Awaitable[None]] = _nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """The runs of a job in this process: when the last began (seconds since 1970, None before the first), the seconds
    that it took, how many failed since the start, the error of the last run ("" if it succeeded), and when the next is
    due (None while one is under way)."""

    name: str
    role: Role
    ran_at: float | None = None
    seconds: float | None = None
    failures: int = 0
    error: str = ""
    next_at: float | None = None

    def as_json(self) -> dict[str, Any]:
        """The member of `/v1/status`."""
        return {
            "name": self.name,
            "role": self.role.value,
            "lastRunAt": self.ran_at and timestamp(int(self.ran_at)),
            "seconds": None if self.seconds is None else round(self.seconds, 3),
            "failures": self.failures,
            "nextRunAt": self.next_at and timestamp(int(self.next_at)),
        } | ({"error": self.error} if self.error else {})
