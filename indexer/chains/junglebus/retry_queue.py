"""Transactions that a server delivered and could not prove yet: requested again, at growing intervals."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

log = logging.getLogger(__name__)

CAPACITY = 10_000
"""Transactions in the queue; beyond, the oldest is dropped."""

FIRST_PAUSE, LONGEST_PAUSE = 10.0, 3_600.0
"""Seconds between two tries: doubled from the first to the longest."""


class _Retry(NamedTuple):
    due: float
    pause: float


class RetryQueue:
    """Unproved transactions by txid (internal byte order)."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock
        self._retries: OrderedDict[bytes, _Retry] = OrderedDict()
        self.first_pause = FIRST_PAUSE

    def __len__(self) -> int:
        return len(self._retries)

    def __contains__(self, txid: object) -> bool:
        return txid in self._retries

    def add(self, txid: bytes) -> None:
        """Schedule the next try, after twice the previous pause."""
        previous = self._retries.get(txid)
        pause = min(previous.pause * 2, LONGEST_PAUSE) if previous else self.first_pause
        self._retries[txid] = _Retry(self._clock() + pause, pause)
        if len(self._retries) > CAPACITY:
            dropped, _ = self._retries.popitem(last=False)
            log.warning("%s: %s is not proved and is dropped: too many wait", self._name, dropped[::-1].hex())

    def remove(self, txid: bytes) -> None:
        """It is proved."""
        self._retries.pop(txid, None)

    def due(self, count: int) -> list[bytes]:
        """At most `count` txids to try now, the longest overdue first."""
        now = self._clock()
        ready = sorted((retry.due, txid) for txid, retry in self._retries.items() if retry.due <= now)
        return [txid for _, txid in ready[:count]]
