"""Blocks that go into the database together: several small ones, or a single large one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from indexer.model import BlockFacts, BlockRef, Event
from parsers.bitcoin.tx import Outpoint

BATCH_BLOCKS, BATCH_EVENTS, BATCH_BYTES, BATCH_SECONDS = 256, 2_000, 64 << 20, 1.0
"""A transaction of the database ends at whichever comes first."""


@dataclass(slots=True)
class Batch:
    """Blocks read and not yet written, `bytes` of them, with `event_count` events."""

    readings: list[BlockFacts] = field(default_factory=list)
    event_count: int = 0
    bytes: int = 0
    began: float = field(default_factory=time.monotonic)

    def add(self, reading: BlockFacts, size: int) -> None:
        """Add a block of `size` bytes."""
        self.readings.append(reading)
        self.event_count += len(reading.events)
        self.bytes += size

    @property
    def newest(self) -> BlockRef:
        """The last block added. Raises IndexError for an empty batch."""
        return self.readings[-1].ref

    def events(self) -> Iterator[Event]:
        """The events of the blocks, in order."""
        return (event for reading in self.readings for event in reading.events)

    def spent(self) -> Iterator[Outpoint]:
        """The outpoints of registrations that these blocks spent."""
        return (event.spent for event in self.events() if event.spent)

    def is_full(self) -> bool:
        """Whether the batch is to be written now."""
        return (
            len(self.readings) >= BATCH_BLOCKS
            or self.event_count >= BATCH_EVENTS
            or self.bytes >= BATCH_BYTES
            or time.monotonic() - self.began >= BATCH_SECONDS
        )
