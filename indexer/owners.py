"""Where a source delivers only what matches, moves and burns are found by asking after the outpoints of live
registrations: the newest first, each again after a while, and never more often than a budget allows."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping

from indexer.chains import Chain, Selective, SourceError
from indexer.facts import BlockRef
from indexer.store import Store, Writer
from parsers.tx import Outpoint

log = logging.getLogger(__name__)

PER_MINUTE = 60
"""Outpoints asked for in a minute, unless a proof is about to be served: a round of 100,000 takes 28 hours."""

KEPT_BACK = 10
"""Of a minute's budget, what is left for owners that somebody asks for now."""

AGAIN_SECONDS = 300
"""An outpoint seen unspent so recently is not asked for again."""


LISTED_SECONDS = 60
"""Between two looks through the store for outpoints that are due."""


class Budget:
    """So many requests a minute, saved up for one minute at most. `clock` is in seconds."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = per_minute, clock
        self._left, self._at = float(per_minute), clock()

    def take(self, leaving: int = 0) -> bool:
        """Whether one more request is within the budget, and leaves so many."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at) * self._most / 60)
        self._at = now
        if self._left < 1 + min(leaving, self._most - 1):
            return False
        self._left -= 1
        return True


class Owners:
    """Asks a source of excerpts where registrations of its chain went, and remembers when each was last seen.

    `look` is part of the follower's loop, `still_unspent` answers anybody at any time.
    """

    def __init__(
        self,
        chain: Chain,
        source: Selective,
        store: Store,
        writer: Writer,
        *,
        per_minute: int = PER_MINUTE,
        again: int = AGAIN_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._name, self._source, self._store, self._writer = chain.name, source, store, writer
        self._budget, self._again, self._now = Budget(per_minute), again, now
        self._most = per_minute
        self._waiting: deque[Outpoint] = deque()
        self._listed = float("-inf")

    async def look(self, at: BlockRef) -> tuple[int | None, bool]:
        """Ask for as many outpoints as the budget allows; the lowest height to be read again, None when nothing was
        missed up to `at`, and whether the outbox has news. Raises SourceUnavailableError."""
        spent: dict[Outpoint, bool | None] = {}
        try:
            while await self._due() and self._budget.take(leaving=KEPT_BACK):
                outpoint = self._waiting.popleft()
                spent[outpoint] = await self._source.spent(outpoint)
        finally:
            told = await self._note(spent)
        return await self._source.look(at), told > 0

    async def _note(self, spent: Mapping[Outpoint, bool | None]) -> int:
        return await asyncio.to_thread(self._writer.note_checked, self._name, int(self._now()), spent)

    async def _due(self) -> bool:
        """Whether an outpoint is to be asked for; the store is looked through once for a whole minute's budget."""
        now = self._now()
        if not self._waiting and not 0 <= now - self._listed < LISTED_SECONDS:
            self._listed = now
            before = int(now) - self._again + 1
            self._waiting.extend(await asyncio.to_thread(self._store.due, self._name, before, self._most))
        return bool(self._waiting)

    async def still_unspent(self, outpoint: Outpoint) -> bool | None:
        """Whether the source says that an output is unspent now; None where it cannot tell, or the budget is used up.

        What spends it is read with its block soon after.
        """
        if not self._budget.take():
            return None
        try:
            spent = await self._source.spent(outpoint)
        except SourceError as error:
            log.warning("%s: whether %s is spent cannot be asked: %s", self._name, outpoint, error)
            return None
        await self._note({outpoint: spent})
        return None if spent is None else not spent
