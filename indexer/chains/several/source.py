"""One of several sources: what is known of it, and since when."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from indexer.chains import Chain, SourceError, SourceUnavailableError
from indexer.chains.several.comparing import Lead
from indexer.facts import BlockRef

REMEMBERED = 100
"""Blocks that a source served bad bytes of, remembered so that it is not asked for the same again."""


class State(StrEnum):
    """`starting` has not been open yet, `ready` answers, `unreachable` will be tried again, `stopped` will not."""

    STARTING = "starting"
    READY = "ready"
    UNREACHABLE = "unreachable"
    STOPPED = "stopped"


@dataclass(slots=True, eq=False)
class Source:
    """A source and how it stands to the one that is read. `shown` is its URL with secrets masked; times are seconds of
    the monotonic clock. `trusted` is the time from which it may be preferred again; `ahead`, `apart` and `behind` since
    when it has had more work, been on another branch, or lagged far behind, None when it is not so."""

    chain: Chain
    shown: str
    state: State = State.STARTING
    error: str = ""
    is_open: bool = False
    tip: BlockRef | None = None
    trusted: float = 0.0
    lead: Lead | None = None
    against: bytes = b""
    ahead: float | None = None
    apart: float | None = None
    behind: float | None = None
    bad: deque[bytes] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def fail(self, error: SourceError) -> None:
        """It did not answer, or cannot be used."""
        self.state = State.UNREACHABLE if isinstance(error, SourceUnavailableError) else State.STOPPED
        self.error = str(error)
        self.forget_lead()

    def answer(self, now: float, steady: float) -> None:
        """It answered: after a failure, it is to prove itself for `steady` seconds before it is preferred again."""
        if self.state is State.UNREACHABLE:
            self.trusted = max(self.trusted, now + steady)
        self.state, self.error = State.READY, ""

    def doubt(self, block: bytes, until: float) -> None:
        """It served bad bytes of this block: it is not preferred again before that time."""
        self.bad.append(block)
        self.trusted = until

    def compare(self, found: Lead, current: BlockRef, far: int, now: float) -> None:
        """Note how far it is before the current source, whose tip was `current`; `far` blocks behind is a lag."""
        assert self.tip is not None  # noqa: S101 - there was something to compare
        lags = current.height - self.tip.height >= far
        self.lead, self.against = found, current.hash
        self.ahead = (self.ahead or now) if found.work > 0 else None
        self.apart = (self.apart or now) if found.is_fork else None
        self.behind = (self.behind or now) if lags else None

    def forget_lead(self) -> None:
        """Nothing is known of how it stands to the source that is read."""
        self.lead, self.against = None, b""
        self.ahead = self.apart = self.behind = None

    def row(self, *, is_current: bool) -> dict[str, Any]:
        """Its row in the status: `state` is `current` for the one that is read; the hash is in display order."""
        told: dict[str, Any] = {
            "source": self.shown,
            "state": "current" if is_current and self.state is State.READY else self.state.value,
            "height": self.tip.height if self.tip else None,
            "hash": self.tip.hash[::-1].hex() if self.tip else None,
        }
        return told | ({"error": self.error} if self.error else {})
