"""The sources of one chain: opening, monitoring and comparing them, and selecting the one that is read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from indexer.chains.failover.source import Source, SourceState, compare
from indexer.chains.source import Chain
from indexer.errors import PROGRAM_ERRORS, OtherNetworkError, SourceError, SourceUnavailableError
from indexer.retries import Backoff

log = logging.getLogger(__name__)

_T = TypeVar("_T")


def _as_source_error(error: Exception) -> SourceError:
    """A failure of the requested source: an error of the source, or of the program about its answer. Raises any other
    error, as of the database or the disk."""
    if isinstance(error, SourceError):
        return error
    if not isinstance(error, PROGRAM_ERRORS):
        raise error
    log.error("a source fails: %s", error, exc_info=error)
    return SourceUnavailableError(f"its answer cannot be processed ({type(error).__name__}: {error})")


class Pace(NamedTuple):
    """Durations in seconds, and a lag in blocks.

    `grace`: how long the first source may take to open before another open one is used. `poll`: between two requests of
    a monitored tip; `backoff`: between tries of a source that does not answer. `tolerance`: how long sources may
    disagree, or the current one have less work, before it counts. `probation`: how long a source that is back must
    answer before it is preferred again; `penalty`: the same after it served bad bytes. `stall`: how long a source
    without proof of work may have no new tip while another one has. `lag_blocks`: a lag that is reported.
    """

    grace: float = 5.0
    poll: float = 1.0
    backoff: Backoff = Backoff(1.0, 10.0)
    tolerance: float = 30.0
    probation: float = 30.0
    penalty: float = 600.0
    stall: float = 600.0
    lag_blocks: int = 6


def partial_source_error(name: str, shown: str) -> SourceError:
    """The error for a source of partial blocks among several sources."""
    return SourceError(
        f"{name}: {shown} delivers only part of each block, so missed data could not be detected; name either it "
        "or the other sources"
    )


class SourceGroup:
    """`sources` are pairs of a source's name and its chain. `current` is the source that is read, None before one is
    open; `changed` is set when another source has a new tip or a new state."""

    def __init__(self, name: str, sources: Iterable[tuple[str, Chain]], pace: Pace, clock: Callable[[], float]) -> None:
        self.name, self.pace, self.clock = name, pace, clock
        self.sources = [Source(chain, shown) for shown, chain in sources]
        for source in self.sources:
            for client in source.chain.clients:
                client.has_substitute = partial(self._has_substitute, source)
        self.current: Source | None = None
        self.changed = asyncio.Event()
        self.monitors: list[asyncio.Task[None]] = []
        self._reported = asyncio.Event()
        self._closed = False

    def _has_substitute(self, source: Source) -> bool:
        """Whether another source answers."""
        return any(other.state is SourceState.READY for other in self.sources if other is not source)

    # -- status

    def rows(self) -> list[dict[str, Any]]:
        """A row for each source, in configured order."""
        return [source.row(is_current=source is self.current) for source in self.sources]

    def disagreement(self, source: Source) -> str:
        """How a source disagrees with the current one: about final blocks, or for longer than `tolerance`; empty when
        it does not."""
        current = self.current
        if current is None or current.tip is None or source.tip is None or source.lead is None:
            return ""
        since, finality = source.forked_since, current.chain.finality
        if since is None:
            return ""
        is_final = finality is not None and source.lead.common < current.tip.height - finality
        if not is_final and self.clock() - since < self.pace.tolerance:
            return ""
        return (
            f"the sources disagree: above block {source.lead.common:,}, {source.shown} is on another branch than "
            f"{current.shown}; its tip is block {source.tip.height:,} ({source.tip.hash[::-1].hex()})"
        )

    def lag(self, source: Source) -> str:
        """The lag of a source behind the current one that has lasted longer than `tolerance`, in words; empty for a
        source without one, or on another branch."""
        current, since = self.current, source.behind_since
        if current is None or current.tip is None or source.tip is None or source.forked_since is not None:
            return ""
        if since is None or self.clock() - since < self.pace.tolerance:
            return ""
        return f"{source.shown} is {current.tip.height - source.tip.height:,} blocks behind {current.shown}"

    # -- opening and closing

    async def open(self) -> None:
        """Open all at once, and select the first configured one that opens in time. Raises SourceError."""
        if not self.monitors:
            self.monitors = [asyncio.create_task(self._monitor(source)) for source in self.sources]
        await self._wait_for_first()
        ready = [source for source in self.sources if source.state is SourceState.READY]
        if not ready:
            raise self.failure()
        for source in ready:
            try:
                self._check(source, ready[0])
            except OtherNetworkError as error:
                self.record_failure(source, error)
        self.switch_to(ready[0])
        log.info("%s: %d of %d sources are open", self.name, len(ready), len(self.sources))

    async def _wait_for_first(self) -> None:
        """Wait until the first usable source is ready, or another is and the grace period is over."""
        end = self.clock() + self.pace.grace
        while True:
            self._reported.clear()
            self.check_monitors()
            states = [source.state for source in self.sources]
            first = next((state for state in states if state in (SourceState.STARTING, SourceState.READY)), None)
            is_late, is_any_ready = self.clock() >= end, SourceState.READY in states
            if first in (SourceState.READY, None) or (is_late and is_any_ready):
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(None if is_late else end - self.clock()):
                    await self._reported.wait()

    async def close(self) -> None:
        """Stop monitoring and close every source; a source that fails to close is logged."""
        monitors, self.monitors, self._closed = self.monitors, [], True
        for monitor in monitors:
            monitor.cancel()
        await asyncio.gather(*monitors, return_exceptions=True)
        for source in self.sources:
            try:
                await source.chain.close()
            except SourceError as error:
                log.warning("%s: %s could not be closed: %s", self.name, source.shown, error)

    def _check(self, source: Source, other: Source) -> None:
        """Raise SourceError unless one can replace the other."""
        if source.chain.caip2 != other.chain.caip2:
            raise OtherNetworkError(
                f"{self.name}: {other.shown} is {other.chain.caip2}, and {source.shown} is {source.chain.caip2}: "
                "sources of one name must be of one network; give one of them another name"
            )
        if not source.chain.complete:
            raise partial_source_error(self.name, source.shown)

    # -- selecting the current source

    def switch_to(self, source: Source) -> None:
        """Read from this source from now on."""
        if source is self.current:
            return
        if self.current is not None:
            log.warning("%s: reading from %s, no longer from %s", self.name, source.shown, self.current.shown)
        self.current = source
        for other in self.sources:
            other.clear_lead()

    def by_preference(self) -> Iterator[Source]:
        """The sources in the order in which they are used: the current one, ready ones, unreachable ones."""
        current, ready = self.current, [source for source in self.sources if source.state is SourceState.READY]
        unreachable = [source for source in self.sources if source.is_open and source.state is SourceState.UNREACHABLE]
        if current in ready:
            yield ready.pop(ready.index(current))
        yield from sorted(ready, key=self._rank)
        yield from unreachable

    def _rank(self, source: Source) -> tuple[bool, int, int]:
        lead = source.lead.work if source.lead and source.chain.has_work else 0
        return source.preferable_from > self.clock(), -lead, self.sources.index(source)

    def reconsider(self) -> None:
        """Switch to a source that has had more work for a while, or back to one configured earlier."""
        current = self.current
        if current is None or current.tip is None:
            return
        others = [source for source in self.sources if source is not current and source.state is SourceState.READY]
        for source in sorted(others, key=self._rank):
            # without work nothing depends on a comparison, which the current source could prevent
            is_compared = source.compared_tip == current.tip.hash or not source.chain.has_work
            if is_compared and self._is_better(source, current):
                self.switch_to(source)
                return

    def _is_better(self, source: Source, current: Source) -> bool:
        now, lead = self.clock(), source.lead.work if source.lead else -1
        is_earlier = self.sources.index(source) < self.sources.index(current)
        if not source.chain.has_work:
            moves = source.preferable_from <= now and not self._is_stalled(source)
            return moves and (is_earlier or self._is_stalled(current))
        if lead > 0 and source.ahead_since is not None and now - source.ahead_since >= self.pace.tolerance:
            return True
        return lead >= 0 and source.preferable_from <= now and is_earlier

    def _is_stalled(self, source: Source) -> bool:
        """Whether a source had no new tip for `stall` seconds while another one had."""
        others = (other.moved_at for other in self.sources if other.state is SourceState.READY and other is not source)
        return max(others, default=source.moved_at) - source.moved_at > self.pace.stall

    def failure(self) -> SourceError:
        """The error when no source answers: SourceUnavailableError unless all are stopped."""
        reasons = "; ".join(f"{source.shown}: {source.error}" for source in self.sources if source.error)
        count = len(self.sources)
        if all(source.state is SourceState.STOPPED for source in self.sources):
            return SourceError(f"{self.name}: none of the {count} sources can be used: {reasons}")
        return SourceUnavailableError(f"{self.name}: none of the {count} sources answers: {reasons or 'not open'}")

    # -- requests

    async def try_source(self, source: Source, request: Callable[[Chain], Awaitable[_T]]) -> list[_T]:
        """A source's result in a list of one; an empty list when it fails, which is recorded: also by an exception that
        its answer causes."""
        try:
            async with source.lock:
                result = await request(source.chain)
        except Exception as error:
            self.record_failure(source, _as_source_error(error))
            return []
        source.record_answer(self.clock(), self.pace.probation)
        return [result]

    async def request(self, request: Callable[[Chain], Awaitable[_T]]) -> _T:
        """The result of the current source, or of the first that takes over from it. Raises SourceError."""
        for source in list(self.by_preference()):
            for result in await self.try_source(source, request):
                self.switch_to(source)
                return result
        raise self.failure()

    def record_failure(self, source: Source, error: SourceError) -> None:
        """A source did not answer, or cannot be used."""
        if str(error) != source.error:
            log.warning("%s: %s: %s", self.name, source.shown, error)
        source.record_failure(error)
        self._reported.set()

    # -- monitoring

    async def _monitor(self, source: Source) -> None:
        """Open a source, and poll its tip while it is not the current one."""
        failures = 0
        # before Python 3.12, asyncio.wait_for may swallow a cancellation: hence the second condition
        while source.state is not SourceState.STOPPED and not self._closed:
            try:
                if source is self.current and source.state is SourceState.READY:
                    await asyncio.sleep(self.pace.poll)
                    continue
                await self.poll(source)
                failures = 0
                await source.chain.wait(self.pace.poll)
            except Exception as error:
                self.record_failure(source, _as_source_error(error))
                failures += 1
                await asyncio.sleep(self.pace.backoff.pause(failures))

    async def poll(self, source: Source) -> None:
        async with source.lock:
            if not source.is_open:
                await source.chain.open()
                self._check(source, self.current or source)
                source.is_open = True
            tip = await source.chain.tip()
        if source.state is not SourceState.READY or tip != source.tip:
            self.changed.set()
        source.record_tip(tip, self.clock())
        source.record_answer(self.clock(), self.pace.probation)
        self._reported.set()
        await self._compare(source)

    async def _compare(self, source: Source) -> None:
        """Compare a source with the current one."""
        current = self.current
        if current is None or current is source or current.tip is None or source.tip is None:
            return
        ours, theirs = current.tip, source.tip
        try:
            lead = await compare(current.chain, ours, source.chain, theirs)
        except SourceError as error:
            log.info("%s: %s cannot be compared now: %s", self.name, source.shown, error)
            return
        if lead is not None and current is self.current and source.tip == theirs:
            source.record_lead(lead, ours, self.pace.lag_blocks, self.clock())

    def check_monitors(self) -> None:
        """Restart a monitor that an exception ended, and raise the exception: it is not an error of its source, but for
        example a full database."""
        for number, monitor in enumerate(self.monitors):
            if monitor.done() and not monitor.cancelled() and (error := monitor.exception()) is not None:
                self.monitors[number] = asyncio.create_task(self._monitor(self.sources[number]))
                raise error
