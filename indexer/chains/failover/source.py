"""One of several sources of a chain: its state, and how its branch compares with that of the current source."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from indexer.chains.source import Chain
from indexer.errors import SourceError, SourceUnavailableError
from indexer.headers.proof_of_work import work
from indexer.model import BlockRef

BAD_BLOCKS = 100
"""Blocks with bad bytes, stored so that they are not requested from that source again."""

SUMMED_BLOCKS = 2016
"""Blocks of a branch that are summed one by one; a longer branch counts with the work of its tip for every block."""


class Lead(NamedTuple):
    """The lead of one source over another: `work` in hashes, negative when it has less, or in blocks on a chain without
    work; `common` the height of the last block they share (-1: none); `is_fork`: they are on different branches above
    it."""

    work: int
    common: int
    is_fork: bool


class SourceState(StrEnum):
    """`starting`: not opened yet; `ready`: answers; `unreachable`: will be tried again; `stopped`: will not."""

    STARTING = "starting"
    READY = "ready"
    UNREACHABLE = "unreachable"
    STOPPED = "stopped"


@dataclass(slots=True, eq=False)
class Source:
    """A source. `shown` is its kind and its position in the setting; times are seconds of the monotonic clock.

    `moved_at` is when its tip last changed. From `preferable_from` on it may be preferred again; `lead` is that over
    the source with the tip `compared_tip`; `ahead_since`, `forked_since` and `behind_since` are when it was first seen
    with more work, on another branch, or lagging far behind, else None.
    """

    chain: Chain
    shown: str
    state: SourceState = SourceState.STARTING
    error: str = ""
    is_open: bool = False
    tip: BlockRef | None = None
    moved_at: float = float("-inf")
    preferable_from: float = 0.0
    lead: Lead | None = None
    compared_tip: bytes = b""
    ahead_since: float | None = None
    forked_since: float | None = None
    behind_since: float | None = None
    bad_blocks: deque[bytes] = field(default_factory=lambda: deque(maxlen=BAD_BLOCKS))
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def record_failure(self, error: SourceError) -> None:
        """Record that the source did not answer, or cannot be used."""
        self.state = SourceState.UNREACHABLE if isinstance(error, SourceUnavailableError) else SourceState.STOPPED
        self.error = str(error)
        self.clear_lead()

    def record_tip(self, tip: BlockRef | None, now: float) -> None:
        """Record that the source answered that this is its tip."""
        if tip != self.tip:
            self.tip, self.moved_at = tip, now

    def record_answer(self, now: float, probation: float) -> None:
        """Record that the source answered: after a failure it is not preferred again for `probation` seconds."""
        if self.state is SourceState.UNREACHABLE:
            self.preferable_from = max(self.preferable_from, now + probation)
        self.state, self.error = SourceState.READY, ""

    def distrust(self, block: bytes, until: float) -> None:
        """Record that the source served bad bytes of this block: it is not preferred before that time."""
        self.bad_blocks.append(block)
        self.preferable_from = until

    def record_lead(self, lead: Lead, current: BlockRef, lag_blocks: int, now: float) -> None:
        """Record a comparison with the current source, at the tip `current`; the source lags when `lag_blocks` are
        missing."""
        assert self.tip is not None  # noqa: S101 - it was compared
        lags = current.height - self.tip.height >= lag_blocks
        self.lead, self.compared_tip = lead, current.hash
        self.ahead_since = (self.ahead_since or now) if lead.work > 0 else None
        self.forked_since = (self.forked_since or now) if lead.is_fork else None
        self.behind_since = (self.behind_since or now) if lags else None

    def clear_lead(self) -> None:
        """Drop the comparison."""
        self.lead, self.compared_tip = None, b""
        self.ahead_since = self.forked_since = self.behind_since = None

    def row(self, *, is_current: bool) -> dict[str, Any]:
        """The row of the source in the status: `state` is `current` for the one that is read; the hash is in display
        order."""
        row: dict[str, Any] = {
            "source": self.shown,
            "state": "current" if is_current and self.state is SourceState.READY else self.state.value,
            "height": self.tip.height if self.tip else None,
            "hash": self.tip.hash[::-1].hex() if self.tip else None,
        }
        return row | ({"error": self.error} if self.error else {})


async def compare(ours: Chain, our_tip: BlockRef, theirs: Chain, their_tip: BlockRef) -> Lead | None:
    """The lead of `theirs` over `ours`; None when one of them changed meanwhile. Raises SourceError."""
    lower = min(our_tip.height, their_tip.height)
    common = await _last_common(ours, theirs, lower)
    if not ours.has_work:
        return Lead(their_tip.height - our_tip.height, common, common < lower)
    our_work, their_work = await _work_above(ours, our_tip, common), await _work_above(theirs, their_tip, common)
    if our_work is None or their_work is None:
        return None
    return Lead(their_work - our_work, common, common < lower)


async def _last_common(ours: Chain, theirs: Chain, height: int) -> int:
    """The greatest height up to `height` at which both have the same block, -1 for none: by exponential search."""
    different, step = height + 1, 1
    while height >= 0 and not await _agree(ours, theirs, height):
        different, height, step = height, height - step, step * 2
    common = max(height, -1)
    while different - common > 1:
        middle = (different + common) // 2
        if await _agree(ours, theirs, middle):
            common = middle
        else:
            different = middle
    return common


async def _agree(ours: Chain, theirs: Chain, height: int) -> bool:
    """Whether both chains have the same block at a height, or one has none there because it starts later than
    genesis."""
    our_ref, their_ref = await ours.ref(height), await theirs.ref(height)
    return our_ref is None or their_ref is None or our_ref.hash == their_ref.hash


async def _work_above(chain: Chain, tip: BlockRef, common: int) -> int | None:
    """The work of a chain's blocks above height `common`, None when the chain does not end in `tip` any more."""
    if tip.height - common > SUMMED_BLOCKS:
        return (tip.height - common) * _block_work(tip)
    total, expected = 0, tip.hash
    for height in range(tip.height, common, -1):
        ref = await chain.ref(height)
        if ref is None or ref.hash != expected:
            return None
        total, expected = total + _block_work(ref), ref.prev
    return total


def _block_work(ref: BlockRef) -> int:
    """The work of a block in hashes."""
    return work(int.from_bytes(ref.header[72:76], "little"))
