"""Transactions that a server delivered and could not prove yet: requested again, at growing intervals, also after a
restart."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from indexer.chains import ChainStore
from indexer.retries import Backoff

log = logging.getLogger(__name__)

CAPACITY = 10_000
"""Transactions in the queue; beyond, the oldest is dropped."""

BACKOFF = Backoff(10.0, 3_600.0)
"""The pauses between two tries."""

NAMED = 3
"""Unproved transactions that status names, at most."""


class _Retry(NamedTuple):
    due: float
    tries: int


class RetryQueue:
    """Unproved transactions by txid (internal byte order). They survive a restart if there is a `store`."""

    def __init__(self, name: str, store: ChainStore | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._store, self._clock = name, store, clock
        self._stored: set[bytes] = set()
        self._new: set[bytes] = set()
        self._retries: OrderedDict[bytes, _Retry] = OrderedDict()
        self.backoff = BACKOFF

    def __len__(self) -> int:
        return len(self._retries)

    def __contains__(self, txid: object) -> bool:
        return txid in self._retries

    def summary(self) -> str:
        """How many transactions are unproved, and the first of them."""
        count, named = len(self._retries), ", ".join(txid[::-1].hex() for txid in islice(self._retries, NAMED))
        waiting = "1 transaction waits" if count == 1 else f"{count:,} transactions wait"
        return f"{waiting} for a proof: {named}{', …' if count > NAMED else ''}"

    def load(self) -> None:
        """Schedule the transactions that an earlier run of the program stored."""
        self._stored = set(self._store.load_unproved(self._name)) if self._store else set()
        for txid in self._stored:
            self.add(txid)

    async def save_added(self) -> None:
        """Store the new entries of the queue: before the blocks that lack these transactions count as read."""
        if self._store is not None and self._new:
            added = frozenset(self._new)
            await asyncio.to_thread(self._store.update_unproved, self._name, added, ())
            self._stored |= added
            self._new -= added

    async def save_removed(self) -> None:
        """Delete the entries that have left the queue from the store: after the blocks are read again with these
        transactions."""
        removed = self._stored - self._retries.keys()
        if self._store is not None and removed:
            await asyncio.to_thread(self._store.update_unproved, self._name, (), removed)
            self._stored -= removed

    def add(self, txid: bytes) -> None:
        """Schedule the next try."""
        tries = self._retries[txid].tries + 1 if txid in self._retries else 1
        self._retries[txid] = _Retry(self._clock() + self.backoff.pause(tries), tries)
        if txid not in self._stored:
            self._new.add(txid)
        if len(self._retries) > CAPACITY:
            dropped, _ = self._retries.popitem(last=False)
            self._new.discard(dropped)
            log.warning("%s: %s is not proved and is dropped: too many wait", self._name, dropped[::-1].hex())

    def remove(self, txid: bytes) -> None:
        """Remove a transaction that is proved."""
        self._retries.pop(txid, None)
        self._new.discard(txid)

    def due(self, count: int) -> list[bytes]:
        """At most `count` txids to try now, the longest overdue first."""
        now = self._clock()
        ready = sorted((retry.due, txid) for txid, retry in self._retries.items() if retry.due <= now)
        return [txid for _, txid in ready[:count]]
