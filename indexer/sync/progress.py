"""The progress of a follower, for status, logs and progress bars."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class SyncProgress:
    """The progress of one follower.

    state: starting, catching-up, following, unreachable or stopped; `error` is the reason for the last two. height,
    hash: the newest stored block (hash in internal byte order); tip: the source's height. blocks, bytes, events: read
    since the start; event_counts: the events by kind. mempool: transactions in the source's mempool, None where it
    lists none. reorgs, refused: reorganisations, and blocks refused as invalid. checked: the header rules that are
    checked, empty until the source is open. note: a warning of the source; for a source of partial blocks, its meaning.
    caught: answers of this source, or ranges of its files, that were refused as impossible.
    """

    name: str
    caip2: str = ""
    state: str = "starting"
    height: int | None = None
    hash: bytes = b""
    tip: int | None = None
    mempool: int | None = None
    blocks: int = 0
    bytes: int = 0
    events: int = 0
    event_counts: Counter[str] = field(default_factory=Counter)
    reorgs: int = 0
    refused: int = 0
    error: str = ""
    checked: str = ""
    note: str = ""
    caught: int = 0

    @property
    def is_catching_up(self) -> bool:
        """Whether the chain is about to be read, or is being read up to its tip."""
        return self.state in ("starting", "catching-up")

    @property
    def lag(self) -> int | None:
        """The blocks that the source has and the store has not; None while the source's height is not known."""
        if self.tip is None:
            return None
        return max(0, self.tip - (-1 if self.height is None else self.height))
