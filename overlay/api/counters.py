"""Numbers in memory that all processes of `a2b serve --workers N` share: HTTP counters, the token buckets of rate
limits, the calls of clients that are under way, the ids of messages that are taken once, and the requests of named
clients and askers of words (`shared_tables`).

An observed request adds to three numbers of an anonymous memory map, without a lock: each process writes to its own
part. Buckets are one table for all: two processes that serve one client at the same moment may count one request
instead of two, which a rate limit can bear.
"""

from __future__ import annotations

import mmap
import secrets
import time
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from overlay.api.shared_tables import DAY_SECONDS, SharedCounts, WordAskers

_CELLS = 65_536
"""Cells of each process: 128 KiB, for which the system provides memory as pages are used."""


class SharedLoad:
    """Calls under way by key, for example a kind of call and a client. Create it before processes are forked.

    Two processes that admit a client at the same moment may admit one call more than its share. Counts are 16-bit
    numbers in a table of cells. Two keys share a cell by chance (0.3 % at 200 calls under way); then a call may be
    refused too early. A worker that ends ends the others, so no count remains.
    """

    def __init__(self, processes: int = 1) -> None:
        self._processes, self._base = processes, 0
        self._salt = secrets.token_bytes(16)  # so that a client cannot choose addresses that share a cell
        self._cells = memoryview(mmap.mmap(-1, 2 * _CELLS * processes)).cast("H")

    def take(self, number: int) -> None:
        """Write to the part of the process with this number from now on."""
        self._base = number * _CELLS

    def add(self, key: str, calls: int) -> None:
        """Add to the calls of this process."""
        self._cells[self._base + self._cell(key)] += calls

    def count(self, key: str) -> int:
        """The calls of all processes."""
        cell = self._cell(key)
        return sum(self._cells[process * _CELLS + cell] for process in range(self._processes))

    def _cell(self, key: str) -> int:
        digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=2, key=self._salt).digest()
        return int.from_bytes(digest, "little")


KINDS = 8
"""Kinds of limits that there is room for."""

SETS, WAYS = 8_192, 8
"""65,536 clients for each kind: 1 MiB, for which the system provides memory as pages are used."""

_TABLE = SETS * WAYS


class SharedBuckets:
    """The time at which the bucket of each kind of limit and client is full again, in seconds of the monotonic clock,
    in a hash table of sets of WAYS slots. To be made before processes are forked."""

    def __init__(self, kinds: int = KINDS) -> None:
        self._salt = secrets.token_bytes(16)  # so that a client cannot choose addresses that share a set
        self._keys = memoryview(mmap.mmap(-1, 8 * kinds * _TABLE)).cast("Q")
        self._times = memoryview(mmap.mmap(-1, 8 * kinds * _TABLE)).cast("d")

    def slot(self, kind: int, client: str, now: float) -> int:
        """The slot of a client. A new client gets a free one, or the one with the bucket that is full again first."""
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


STATUSES = (101, 200, 202, 204, 206, 301, 302, 303, 304, 400, 401, 402, 403, 404, 405, 408, 409, 411, 413, 414, 415,
            416, 417, 429, 451, 500, 501, 503)  # fmt: skip
"""Status codes with a count of their own; every other one counts as 0."""

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""Upper bounds of the latency histogram, in seconds; what takes longer is in a last one without a bound."""

ROUTES = 192
"""The most routes with counts of their own."""

GAUGES = 16
"""Single numbers, for example of open streams."""

_STATUS_AT = {status: number for number, status in enumerate((0, *STATUSES))}
_CELL = len(BUCKETS) + 2
_ROUTE = _CELL * len(_STATUS_AT)
_SLOT = GAUGES + ROUTES * _ROUTE


class Latency(NamedTuple):
    """Requests of one route and status: how many took up to each bound of BUCKETS (and longer), and seconds in all."""

    route: int
    status: int
    counts: Sequence[int]
    seconds: float


class Counters:
    """Counts of `processes`; the `buckets` of the rate limits, shared by all processes; the `load` of clients; the
    requests of `named` clients; the `askers` of words; and `messages`, the ids of the latest 65,536 messages that are
    accepted once, as buckets that are full again when an id expires. Create it before processes are forked."""

    def __init__(self, processes: int = 1) -> None:
        self._processes = processes
        self._cells = memoryview(mmap.mmap(-1, 8 * _SLOT * processes)).cast("d")
        self._base = 0
        self.buckets, self.messages = SharedBuckets(), SharedBuckets(kinds=1)
        self.load = SharedLoad(processes)
        self.named = SharedCounts(processes)
        self.askers = WordAskers(secrets.token_bytes(32), int(time.time()) // DAY_SECONDS, processes)

    def take(self, number: int) -> None:
        """Write to the part of the process with this number from now on."""
        self._base = number * _SLOT
        for part in (self.load, self.named, self.askers):
            part.take(number)

    def observe(self, route: int, status: int, seconds: float) -> None:
        """Count one more response of a route (0 to ROUTES - 1), with its status and duration."""
        offset = self._base + GAUGES + route * _ROUTE + _STATUS_AT.get(status, 0) * _CELL
        cells, bucket = self._cells, 0
        for bound in BUCKETS:
            if seconds <= bound:
                break
            bucket += 1
        cells[offset + bucket] += 1.0
        cells[offset + _CELL - 1] += seconds

    def add(self, gauge: int, amount: float) -> None:
        """Add to the gauge with this number (0 to GAUGES - 1)."""
        self._cells[self._base + gauge] += amount

    def gauge(self, number: int) -> float:
        """The value of a gauge, summed over all processes."""
        return sum(self._cells[process * _SLOT + number] for process in range(self._processes))

    def latencies(self) -> Iterator[Latency]:
        """The counts of all processes, for every route and status that occurred."""
        for route in filter(self._has_counts, range(ROUTES)):
            for status, number in _STATUS_AT.items():
                cell = self._sum(GAUGES + route * _ROUTE + number * _CELL)
                if any(cell[:-1]):
                    yield Latency(route, status, [int(count) for count in cell[:-1]], cell[-1])

    def _has_counts(self, route: int) -> bool:
        """Whether a route was requested; most were not, and a scrape need not read their cells one by one."""
        starts = (process * _SLOT + GAUGES + route * _ROUTE for process in range(self._processes))
        return any(self._cells[start : start + _ROUTE].tobytes().strip(b"\0") for start in starts)

    def _sum(self, offset: int) -> list[float]:
        parts = [
            self._cells[process * _SLOT + offset : process * _SLOT + offset + _CELL]
            for process in range(self._processes)
        ]
        return [sum(column) for column in zip(*parts, strict=True)]
