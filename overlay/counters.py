"""What HTTP did, counted in memory that all processes of `a2b serve --workers N` share: any of them can tell the sum.

Counting a request adds to three numbers of an anonymous memory map, without a lock: each process has a part of its own.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

STATUSES = (101, 200, 202, 204, 206, 301, 302, 303, 304, 400, 403, 404, 405, 408, 409, 411, 413, 414, 415, 416, 417,
            429, 500, 501, 503)  # fmt: skip
"""Status codes that are told apart; every other one counts as 0."""

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""Upper bounds of the latency histogram, in seconds; what takes longer is in a last one without a bound."""

ROUTES = 64
"""Routes that can be told apart."""

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
    """Counts of `processes`, of which this is number `own` after `take`. Make it before forking."""

    def __init__(self, processes: int = 1) -> None:
        self._processes = processes
        self._cells = memoryview(mmap.mmap(-1, 8 * _SLOT * processes)).cast("d")
        self._base = 0

    def take(self, own: int) -> None:
        """Count in the part of process number `own` from now on."""
        self._base = own * _SLOT

    def observe(self, route: int, status: int, seconds: float) -> None:
        """One more request of a route (0 to 63) was answered."""
        at = self._base + GAUGES + route * _ROUTE + _STATUS_AT.get(status, 0) * _CELL
        cells, bucket = self._cells, 0
        for bound in BUCKETS:
            if seconds <= bound:
                break
            bucket += 1
        cells[at + bucket] += 1.0
        cells[at + _CELL - 1] += seconds

    def add(self, gauge: int, amount: float) -> None:
        """Change the single number `gauge` (0 to 15)."""
        self._cells[self._base + gauge] += amount

    def gauge(self, number: int) -> float:
        """A single number, of all processes."""
        return sum(self._cells[each * _SLOT + number] for each in range(self._processes))

    def latencies(self) -> Iterator[Latency]:
        """What was counted in all processes, of every route and status that was."""
        for route in range(ROUTES):
            for status, number in _STATUS_AT.items():
                cell = self._sum(GAUGES + route * _ROUTE + number * _CELL)
                if any(cell[:-1]):
                    yield Latency(route, status, [int(each) for each in cell[:-1]], cell[-1])

    def _sum(self, at: int) -> list[float]:
        parts = [self._cells[each * _SLOT + at : each * _SLOT + at + _CELL] for each in range(self._processes)]
        return [sum(column) for column in zip(*parts, strict=True)]
