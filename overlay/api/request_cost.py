"""The cost of a request: the processor time of its handler, and of the threads that work for it.

A rate limit counts requests that take about as long as most. What a request takes beyond that is charged to its client
while it is spent, also after its client has given up, or was refused for the time that it took: a search may take a
hundred times as long as most.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextvars import ContextVar
from time import thread_time
from types import coroutine
from typing import Any, TypeVar

from overlay.api.rate_limits import RateLimit

_T = TypeVar("_T")


class RequestCost:
    """The processor time of a request within a limit, in seconds. Threads that add to it at the same moment may lose
    some of it."""

    def __init__(self, limit: RateLimit, client: str) -> None:
        self._limit, self._client = limit, client
        self._charged = limit.included_seconds
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Add to the time, and charge the excess over the time that the request includes."""
        self.seconds += seconds
        more = self.seconds - self._charged
        if more > 0:
            self._charged = self.seconds
            self._limit.charge(self._client, more / self._limit.included_seconds)

    def headers(self, taken: Mapping[str, str]) -> Mapping[str, str]:
        """The headers of the limit: as they were when the request was counted, unless it was charged for more."""
        return self._limit.headers(self._client) if self.seconds > self._limit.included_seconds else taken


COST: ContextVar[RequestCost | None] = ContextVar("request cost", default=None)
"""The cost of the request that is being answered, None where no limit counts it."""


@coroutine
def measured(work: Coroutine[Any, Any, _T], cost: RequestCost) -> Generator[Any, Any, _T]:
    """The result of a coroutine, whose steps are measured. Raises its errors."""
    step: Callable[[Any], Any] = work.send
    value: Any = None
    while True:
        began = thread_time()
        try:
            pending = step(value)
        except StopIteration as end:
            result: _T = end.value
            return result
        finally:
            cost.add(thread_time() - began)
        try:
            value = yield pending
            step = work.send
        except BaseException as error:  # also of a client that is gone, for the coroutine to end as it must
            step, value = work.throw, error


def measured_call(work: Callable[..., _T], *args: Any) -> _T:
    """The result of a call in a thread, measured for the request that it is made for. Raises its errors."""
    cost = COST.get()
    if cost is None:
        return work(*args)
    began = thread_time()
    try:
        return work(*args)
    finally:
        cost.add(thread_time() - began)


async def in_thread(work: Callable[..., _T], *args: Any) -> _T:
    """`asyncio.to_thread`, measured for the request that it is made for."""
    return await to_thread(measured_call, work, *args)
