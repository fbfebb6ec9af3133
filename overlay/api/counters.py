"""HTTP counters in memory that all processes of `a2b serve --workers N` share, so that each can report the sum.

An observed request adds to three numbers of an anonymous memory map, without a lock: each process writes to its own
part.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from overlay.api.shared_buckets import SharedBuckets
from overlay.api.shared_load import SharedLoad

STATUSES = (101, 200, 202, 204, 206, 301, 302, 303, 304, 400, 401, 402, 403, 404, 405, 408, 409, 411, 413, 414, 415,
            416, 417, 429, 500, 501, 503)  # fmt: skip
"""Status codes with a count of their own; every other one counts as 0."""

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""Upper bounds of the latency histogram, in seconds; what takes longer is in a last one without a bound."""

ROUTES = 192
"""The most routes with counts of their own."""

GAUGES = 16
"""Single numbers, such as streams that are open."""

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
    """Counts of `processes`, of which this is number `own` after `take`, the `buckets` of the rate limits, which are
    one for all processes, and the `load` of clients. To be made before processes are forked."""

    def __init__(self, processes: int = 1) -> None:
        self._processes = processes
        self._cells = memoryview(mmap.mmap(-1, 8 * _SLOT * processes)).cast("d")
        self._base = 0
        self.buckets = SharedBuckets()
        self.load = SharedLoad(processes)

    def take(self, own: int) -> None:
        """Write to the part of process number `own` from now on."""
        self._base = own * _SLOT
        self.load.take(own)

    def observe(self, route: int, status: int, seconds: float) -> None:
        """Count one more response of a route (0 to 63), with its status and duration."""
        offset = self._base + GAUGES + route * _ROUTE + _STATUS_AT.get(status, 0) * _CELL
        cells, bucket = self._cells, 0
        for bound in BUCKETS:
            if seconds <= bound:
                break
            bucket += 1
        cells[offset + bucket] += 1.0
        cells[offset + _CELL - 1] += seconds

    def add(self, gauge: int, amount: float) -> None:
        """Add to the gauge with this number (0 to 15)."""
        self._cells[self._base + gauge] += amount

    def gauge(self, number: int) -> float:
        """The value of a gauge, summed over all processes."""
        return sum(self._cells[process * _SLOT + number] for process in range(self._processes))

    def latencies(self) -> Iterator[Latency]:
        """The counts of all processes, for every route and status that occurred."""
        for route in range(ROUTES):
            for status, number in _STATUS_AT.items():
                cell = self._sum(GAUGES + route * _ROUTE + number * _CELL)
                if any(cell[:-1]):
                    yield Latency(route, status, [int(count) for count in cell[:-1]], cell[-1])

    def _sum(self, offset: int) -> list[float]:
        parts = [
            self._cells[process * _SLOT + offset : process * _SLOT + offset + _CELL]
            for process in range(self._processes)
        ]
        return [sum(column) for column in zip(*parts, strict=True)]
