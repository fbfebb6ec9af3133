"""Reads each block of a chain of logs a second time (law 26): nothing else shows which logs an answer left out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from enum import Enum

from indexer.chains import Chain, LogsAgain
from indexer.errors import SourceUnavailableError
from indexer.model import BlockLogs, BlockRef
from indexer.retries import Backoff
from indexer.store import Store, Writer, second_readings
from indexer.store.second_readings import FirstReading

log = logging.getLogger(__name__)

PAUSE = Backoff(2.0, 60.0)
"""Seconds between two requests, and after those that failed in a row."""

SETTLED_SECONDS = 600.0
"""How long ago a block must have been read that is never final."""

NOTED_SECONDS = 30.0
"""Seconds between two notes of the newest block."""

NOTED_FAILURES = 3
"""Failures in a row from which on they are in status: a range that is too large for the endpoint is one."""


class ReadingDifference(Enum):
    SAME, MORE, OTHER = range(3)


def compare(first: FirstReading | None, second: tuple[bytes, BlockLogs] | None) -> ReadingDifference:
    """Whether the second reading of a block has the same logs as the first, more, or others. For a block that an
    earlier version stored, the first logs are not known."""
    if second is None:
        is_empty = first is None or first.logs is None or not first.logs.total
        return ReadingDifference.SAME if is_empty else ReadingDifference.OTHER
    if first is None:
        return ReadingDifference.MORE
    hash_, logs = second
    if first.hash != hash_:
        return ReadingDifference.OTHER
    if first.logs is None or first.logs == logs:
        return ReadingDifference.SAME
    return ReadingDifference.MORE if logs.total > first.logs.total else ReadingDifference.OTHER


class SecondReader:
    """A step of a follower's loop. `height` is that up to which all blocks were read twice; `note` says why no more
    are, empty otherwise. `clock` gives monotonic seconds."""

    def __init__(self, chain: Chain, store: Store, writer: Writer, clock: Callable[[], float] = time.monotonic) -> None:
        self._chain, self._store, self._writer, self.clock = chain, store, writer, clock
        self.height, self.note = -1, ""
        self._due, self._failures = float("-inf"), 0
        self._newest_at: deque[tuple[float, int]] = deque()

    def begin(self) -> None:
        """Load how far the chain was read twice."""
        self.height = second_readings.begin(self._writer, self._chain.name)

    def roll_back(self, above: int) -> None:
        """The blocks above a height were deleted."""
        self.height = min(self.height, above)
        self._newest_at = deque((noted_at, min(height, above)) for noted_at, height in self._newest_at)

    async def look(self, newest: BlockRef) -> int | None:
        """Read a range of blocks again, if one is due; `newest` is the newest stored block. Returns the lowest height
        with logs that are new, from which blocks must be read again; None without any."""
        first, last = max(self.height + 1, self._chain.first), self._settled(newest.height)
        if first > last or self.clock() < self._due:
            return None
        self._due = self.clock() + PAUSE.first
        try:
            again = await self._chain.logs_again(first, last, self._failures)
            return None if again is None else await self._take(first, again)
        except SourceUnavailableError as error:
            log.debug("%s: blocks from %d on cannot be read a second time: %s", self._chain.name, first, error)
            self._fail("the source does not answer for the next ones", NOTED_FAILURES)
            return None

    def note_newest(self, height: int) -> None:
        """Note that all blocks up to a height are read now."""
        now, noted = self.clock(), self._newest_at
        if not noted or now - noted[-1][0] >= NOTED_SECONDS:
            noted.append((now, height))
        while len(noted) > 1 and now - noted[1][0] >= SETTLED_SECONDS:
            noted.popleft()

    def _settled(self, newest: int) -> int:
        """The height up to which blocks may be read a second time: final ones; where none is, those that were read ten
        minutes ago; all of a development network."""
        if self._chain.is_development:
            return newest
        if self._chain.finality is not None:
            return newest - self._chain.finality
        now = self.clock()
        return max((height for noted_at, height in self._newest_at if now - noted_at >= SETTLED_SECONDS), default=-1)

    async def _take(self, first: int, again: LogsAgain) -> int | None:
        """Compare a second reading with the first. Raises SourceUnavailableError."""
        chain = self._chain
        before = await asyncio.to_thread(self._store.second_readings.first_readings, chain.name, first, again.last)
        compared = {
            height: compare(before.get(height), again.blocks.get(height))
            for height in sorted(before.keys() | again.blocks.keys())
        }
        others = [height for height, result in compared.items() if result is ReadingDifference.OTHER]
        more = [height for height, result in compared.items() if result is ReadingDifference.MORE]
        if more:
            ref = await self._chain.ref(more[0])
            if ref is None or ref.hash != again.blocks[more[0]][0]:  # the source that is read lacks the block
                others, more = sorted([*others, more[0]]), []
        up_to = min([again.last + 1, *others, *more]) - 1
        if up_to > self.height:
            await asyncio.to_thread(second_readings.advance, self._writer, chain.name, up_to)
            self.height = up_to
        if others:
            self._fail(f"the source now answers otherwise for block {others[0]:,}", 1)
        else:
            self._failures, self.note = 0, ""
        if not more:
            return None
        log.warning("%s: block %d has logs that were left out; reading again from there", chain.name, more[0])
        chain.add_logs(again._replace(records={height: again.records[height] for height in more}))
        return more[0]

    def _fail(self, reason: str, noted_from: int) -> None:
        self._failures += 1
        self._due = self.clock() + PAUSE.pause(self._failures)
        if self._failures >= noted_from:
            self.note = f"blocks above {self.height:,} are not read a second time yet: {reason}"
