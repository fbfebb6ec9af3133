"""Transactions that a server told and could not prove yet: asked for again, ever more seldom, and never counted."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

log = logging.getLogger(__name__)

MOST = 10_000
"""Transactions in doubt that are kept; the oldest are given up first."""

FIRST_PAUSE, LONGEST_PAUSE = 10.0, 3_600.0
"""Seconds between two tries: doubled from the first to the longest."""


class _Doubt(NamedTuple):
    due: float
    pause: float


class Doubts:
    """What is in doubt, by txid (internal byte order)."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock
        self._kept: OrderedDict[bytes, _Doubt] = OrderedDict()
        self.first_pause = FIRST_PAUSE

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, txid: object) -> bool:
        return txid in self._kept

    def add(self, txid: bytes) -> None:
        """Ask for this one again after a while, each time a longer one."""
        former = self._kept.get(txid)
        pause = min(former.pause * 2, LONGEST_PAUSE) if former else self.first_pause
        self._kept[txid] = _Doubt(self._clock() + pause, pause)
        if len(self._kept) > MOST:
            given_up, _ = self._kept.popitem(last=False)
            log.warning("%s: %s is not proved, and given up: too many are", self._name, given_up[::-1].hex())

    def settle(self, txid: bytes) -> None:
        """It is proved, or of no interest."""
        self._kept.pop(txid, None)

    def due(self, most: int) -> list[bytes]:
        """Those to ask for now, at most so many, the longest overdue first."""
        now = self._clock()
        ready = sorted((doubt.due, txid) for txid, doubt in self._kept.items() if doubt.due <= now)
        return [txid for _, txid in ready[:most]]
