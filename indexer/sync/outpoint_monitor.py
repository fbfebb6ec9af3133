"""Checks whether the outpoints of live registrations were spent, at sources that deliver only matching transactions:
the newest first, each at intervals, within a budget of requests."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping

from indexer.chains import Chain
from indexer.errors import SourceError
from indexer.model import BlockRef
from indexer.store import Store, Writer, spend_checks
from parsers.bitcoin.tx import Outpoint

log = logging.getLogger(__name__)

PER_MINUTE = 60
"""Outpoints checked a minute, besides those of proofs being served: a round of 100,000 takes 28 hours."""

RESERVED = 10
"""Requests of a minute's budget that are reserved for proofs being served."""

AGAIN_SECONDS = 300
"""Seconds after which an outpoint that was unspent is checked again."""


LISTED_SECONDS = 60
"""Seconds between two queries of the store for outpoints that are due."""


class RequestBudget:
    """A token bucket: `per_minute` requests, of which at most one minute's are saved up. `clock` is in seconds."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = per_minute, clock
        self.left, self._refilled_at = float(per_minute), clock()

    def take(self, leaving: int = 0) -> bool:
        """Take one request, if `leaving` others remain after it; returns whether it was taken."""
        now = self._clock()
        self.left = min(self._most, self.left + (now - self._refilled_at) * self._most / 60)
        self._refilled_at = now
        if self.left < 1 + min(leaving, self._most - 1):
            return False
        self.left -= 1
        return True


class OutpointMonitor:
    """Checks the outpoints of a chain's registrations at a filtered source, and stores when each was last unspent.

    `look` is a step of the follower's loop; `still_unspent` may be called at any time.
    """

    def __init__(
        self,
        chain: Chain,
        store: Store,
        writer: Writer,
        *,
        per_minute: int = PER_MINUTE,
        again: int = AGAIN_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._name, self._source, self._store, self._writer = chain.name, chain, store, writer
        self.budget, self._again, self.now = RequestBudget(per_minute), again, now
        self._most = per_minute
        self._waiting: deque[Outpoint] = deque()
        self._listed = float("-inf")

    async def look(self, newest: BlockRef) -> tuple[int | None, bool]:
        """Check as many outpoints as the budget allows. Returns the lowest height to be read again (None when nothing
        was missed up to `newest`), and whether the outbox has changes. Raises SourceUnavailableError."""
        spent: dict[Outpoint, bool | None] = {}
        try:
            while await self._due() and self.budget.take(leaving=RESERVED):
                outpoint = self._waiting.popleft()
                spent[outpoint] = await self._source.is_spent(outpoint)
        finally:
            changes = await self._note(spent)
        return await self._source.recheck(newest), changes > 0

    async def _note(self, spent: Mapping[Outpoint, bool | None]) -> int:
        return await asyncio.to_thread(spend_checks.record, self._writer, self._name, int(self.now()), spent)

    async def _due(self) -> bool:
        """Whether an outpoint is due; the store is queried once for a whole minute's budget."""
        now = self.now()
        if not self._waiting and not 0 <= now - self._listed < LISTED_SECONDS:
            self._listed = now
            before = int(now) - self._again + 1
            self._waiting.extend(await asyncio.to_thread(self._store.spend_checks.due, self._name, before, self._most))
        return bool(self._waiting)

    async def still_unspent(self, outpoint: Outpoint) -> bool | None:
        """Whether an output is unspent now at the source; None where that is unknown, or the budget is used up.

        A spending transaction is read soon after, with its block.
        """
        if not self.budget.take():
            return None
        try:
            spent = await self._source.is_spent(outpoint)
        except SourceError as error:
            log.warning("%s: whether %s is spent cannot be checked: %s", self._name, outpoint, error)
            return None
        await self._note({outpoint: spent})
        return None if spent is None else not spent
