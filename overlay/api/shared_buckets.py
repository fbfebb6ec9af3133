"""Token buckets of clients in memory that all processes of `a2b serve --workers N` share.

A hash table of sets of WAYS slots. Processes write without a lock: two that serve one client at the same moment may
count one request instead of two, which a rate limit can bear.
"""

from __future__ import annotations

import mmap
import secrets
from hashlib import blake2b

KINDS = 8
"""Kinds of limits that there is room for."""

SETS, WAYS = 8_192, 8
"""65,536 clients for each kind: 1 MiB, of which the system provides the pages that are used."""

_TABLE = SETS * WAYS


class SharedBuckets:
    """For each kind of limit and client the time, in seconds of the monotonic clock, at which its bucket is full again.
    To be made before processes are forked."""

    def __init__(self) -> None:
        self._salt = secrets.token_bytes(16)  # so that nobody can choose addresses that share a set
        self._keys = memoryview(mmap.mmap(-1, 8 * KINDS * _TABLE)).cast("Q")
        self._times = memoryview(mmap.mmap(-1, 8 * KINDS * _TABLE)).cast("d")

    def slot(self, kind: int, client: str, now: float) -> int:
        """The slot of a client. A new client gets a free one, or that whose bucket is full again the soonest."""
        digest = int.from_bytes(blake2b(client.encode(), digest_size=8, key=self._salt).digest(), "little") or 1
        keys, times = self._keys, self._times
        first = kind * _TABLE + digest % SETS * WAYS
        for slot in range(first, first + WAYS):
            if keys[slot] == digest:
                return slot
        slot = min(range(first, first + WAYS), key=times.__getitem__)
        keys[slot], times[slot] = digest, now
        return slot

    def full_at(self, slot: int) -> float:
        """When the bucket of a slot is full again."""
        return self._times[slot]

    def set_full_at(self, slot: int, time: float) -> None:
        """Store when the bucket of a slot is full again."""
        self._times[slot] = time
