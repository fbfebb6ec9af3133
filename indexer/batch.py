"""Blocks that go into the database together: several small ones, or a single large one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from indexer.facts import BlockRef, Event, Reading
from parsers.tx import Outpoint

BATCH_BLOCKS, BATCH_EVENTS, BATCH_BYTES, BATCH_SECONDS = 256, 2_000, 64 << 20, 1.0
"""A transaction of the database ends at whichever comes first."""


@dataclass(slots=True)
class Batch:
    """Blocks read and not yet written, `bytes` of them, in which `said` events stand."""

    readings: list[Reading] = field(default_factory=list)
    said: int = 0
    bytes: int = 0
    began: float = field(default_factory=time.monotonic)

    def add(self, reading: Reading, size: int) -> None:
        """Add a block of `size` bytes."""
        self.readings.append(reading)
        self.said += len(reading.events)
        self.bytes += size

    @property
    def newest(self) -> BlockRef:
        """The last block added. Raises IndexError when there is none."""
        return self.readings[-1].ref

    def events(self) -> Iterator[Event]:
        """All that the blocks say, in order."""
        return (event for reading in self.readings for event in reading.events)

    def spent(self) -> Iterator[Outpoint]:
        """Where registrations were that these blocks moved."""
        return (event.spent for event in self.events() if event.spent)

    def is_full(self) -> bool:
        """Whether it is time to write."""
        return (
            len(self.readings) >= BATCH_BLOCKS
            or self.said >= BATCH_EVENTS
            or self.bytes >= BATCH_BYTES
            or time.monotonic() - self.began >= BATCH_SECONDS
        )
