"""The sources of one chain together: opened, watched, compared, and which of them is read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from indexer.chains import Chain, SourceError, SourceUnavailableError
from indexer.chains.several.comparing import lead
from indexer.chains.several.source import Source, State

log = logging.getLogger(__name__)

_T = TypeVar("_T")


class Pace(NamedTuple):
    """Seconds, but for `far`, which is blocks.

    `grace`: what the first source gets to open before another that is open already is taken. `poll`: between two looks
    at a tip; `first_pause` and `longest_pause` between tries of a source that does not answer. `moment`: how long
    sources may disagree, or the current one be outdone, before it counts. `steady`: how long a source that is back must
    answer before it is preferred again; `doubt`: the same after it served bad bytes. `far`: a lag worth an alarm.
    """

    grace: float = 5.0
    poll: float = 1.0
    first_pause: float = 1.0
    longest_pause: float = 10.0
    moment: float = 30.0
    steady: float = 30.0
    doubt: float = 600.0
    far: int = 6


def partial(name: str, shown: str) -> SourceError:
    """Why a source of excerpts cannot be one of several."""
    return SourceError(
        f"{name}: {shown} tells only part of each block, so that nobody would know what was missed while it was read; "
        "give it a name of its own"
    )


class Group:
    """Pairs of what may be shown of a source, and the source. `current` is the one that is read, None before one is
    open; `news` is set when one of the others has another tip or another state."""

    def __init__(self, name: str, sources: Iterable[tuple[str, Chain]], pace: Pace, clock: Callable[[], float]) -> None:
        self.name, self.pace, self.clock = name, pace, clock
        self.all = [Source(chain, shown) for shown, chain in sources]
        self.current: Source | None = None
        self.news = asyncio.Event()
        self._keepers: list[asyncio.Task[None]] = []
        self._reported = asyncio.Event()
        self._closed = False

    # -- what status says

    def rows(self) -> list[dict[str, Any]]:
        """A row for each source, in configured order."""
        return [source.row(is_current=source is self.current) for source in self.all]

    def warning(self, source: Source) -> str:
        """What an operator should know of how a source stands to the current one, empty when there is nothing."""
        current, since = self.current, self.clock() - self.pace.moment
        if current is None or current.tip is None or source.tip is None or source.lead is None:
            return ""
        if source.apart is not None and source.apart <= since:
            return (
                f"the sources disagree: above block {source.lead.common:,}, {source.shown} is on another branch than "
                f"{current.shown}; its tip is block {source.tip.height:,} ({source.tip.hash[::-1].hex()})"
            )
        if source.behind is not None and source.behind <= since:
            return f"{source.shown} is {current.tip.height - source.tip.height:,} blocks behind {current.shown}"
        return ""

    # -- opening and closing

    async def open(self) -> None:
        """Open all at once, and go on with the first configured one that opens in time; the others join later."""
        if not self._keepers:
            self._keepers = [asyncio.create_task(self._keep(source)) for source in self.all]
        await self._settle()
        ready = [source for source in self.all if source.state is State.READY]
        if not ready:
            raise self.failure()
        for source in ready:
            self._check(source, ready[0])
        self.use(ready[0])
        log.info("%s: %d of %d sources are open", self.name, len(ready), len(self.all))

    async def _settle(self) -> None:
        """Wait until it is known which source to begin with."""
        end = self.clock() + self.pace.grace
        while True:
            self._reported.clear()
            self.check_keepers()
            states = [source.state for source in self.all]
            first = next((state for state in states if state in (State.STARTING, State.READY)), None)
            late, found = self.clock() >= end, State.READY in states
            if first in (State.READY, None) or (late and found):
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(None if late else end - self.clock()):
                    await self._reported.wait()

    async def close(self) -> None:
        """End the keepers, and close every source. One that fails at it is only told of in the log."""
        keepers, self._keepers, self._closed = self._keepers, [], True
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
        for source in self.all:
            try:
                await source.chain.close()
            except SourceError as error:
                log.warning("%s: %s could not be closed: %s", self.name, source.shown, error)

    def _check(self, source: Source, other: Source) -> None:
        """Raise SourceError unless one can stand in for the other."""
        if source.chain.caip2 != other.chain.caip2:
            raise SourceError(
                f"{self.name}: {other.shown} is {other.chain.caip2}, and {source.shown} is {source.chain.caip2}: "
                "sources of one name must be of one network; give one of them another name"
            )
        if not source.chain.complete:
            raise partial(self.name, source.shown)

    # -- which source is read

    def use(self, source: Source) -> None:
        """Read from this source from now on."""
        if source is self.current:
            return
        if self.current is not None:
            log.warning("%s: reading from %s, no longer from %s", self.name, source.shown, self.current.shown)
        self.current = source
        for each in self.all:
            each.forget_lead()

    def in_turn(self) -> Iterator[Source]:
        """The sources in the order in which they are asked: the current one, those that answer, those that did not."""
        current, ready = self.current, [source for source in self.all if source.state is State.READY]
        gone = [source for source in self.all if source.is_open and source.state is State.UNREACHABLE]
        if current in ready:
            yield ready.pop(ready.index(current))
        yield from sorted(ready, key=self._rank)
        yield from gone

    def _rank(self, source: Source) -> tuple[bool, int, int]:
        known = source.lead.work if source.lead else 0
        return source.trusted > self.clock(), -known, self.all.index(source)

    def reconsider(self) -> None:
        """Leave a source that another has outdone for a moment, or return to one that is preferred and back."""
        current = self.current
        if current is None or current.tip is None:
            return
        others = [each for each in self.all if each is not current and each.state is State.READY]
        for source in sorted(others, key=self._rank):
            if source.against == current.tip.hash and self._beats(source, current):
                self.use(source)
                return

    def _beats(self, source: Source, current: Source) -> bool:
        now, worth = self.clock(), source.lead.work if source.lead else -1
        if worth > 0 and source.ahead is not None and now - source.ahead >= self.pace.moment:
            return True
        return worth >= 0 and source.trusted <= now and self.all.index(source) < self.all.index(current)

    def failure(self) -> SourceError:
        """Why nothing can be answered: for now, or until somebody does something about it."""
        why = "; ".join(f"{source.shown}: {source.error}" for source in self.all if source.error)
        if all(source.state is State.STOPPED for source in self.all):
            return SourceError(f"{self.name}: none of the {len(self.all)} sources can be used: {why}")
        return SourceUnavailableError(f"{self.name}: none of the {len(self.all)} sources answers: {why or 'not open'}")

    # -- questions

    async def put(self, source: Source, question: Callable[[Chain], Awaitable[_T]]) -> list[_T]:
        """A source's answer in a list of one; an empty list where it fails, which is noted."""
        try:
            async with source.lock:
                answer = await question(source.chain)
        except SourceError as error:
            self.note_failure(source, error)
            return []
        source.answer(self.clock(), self.pace.steady)
        return [answer]

    async def ask(self, question: Callable[[Chain], Awaitable[_T]]) -> _T:
        """The answer of the current source, or of the first that takes over from it. Raises SourceError."""
        for source in list(self.in_turn()):
            for answer in await self.put(source, question):
                self.use(source)
                return answer
        raise self.failure()

    def note_failure(self, source: Source, error: SourceError) -> None:
        """A source did not answer, or cannot be used."""
        if str(error) != source.error:
            log.warning("%s: %s: %s", self.name, source.shown, error)
        source.fail(error)
        self._reported.set()

    # -- keepers

    async def _keep(self, source: Source) -> None:
        """Open a source, and look at its tip as long as it is not the one that is read."""
        pause = self.pace.first_pause
        # before Python 3.12, asyncio.wait_for may swallow a cancellation: closing is said in two ways
        while source.state is not State.STOPPED and not self._closed:
            try:
                if source is self.current and source.state is State.READY:
                    await asyncio.sleep(self.pace.poll)
                    continue
                await self._look_at(source)
                pause = self.pace.first_pause
                await source.chain.wait(self.pace.poll)
            except SourceError as error:
                self.note_failure(source, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, self.pace.longest_pause)

    async def _look_at(self, source: Source) -> None:
        async with source.lock:
            if not source.is_open:
                await source.chain.open()
                self._check(source, self.current or source)
                source.is_open = True
            tip = await source.chain.tip()
        if source.state is not State.READY or tip != source.tip:
            self.news.set()
        source.tip = tip
        source.answer(self.clock(), self.pace.steady)
        self._reported.set()
        await self._compare(source)

    async def _compare(self, source: Source) -> None:
        """See how a source stands to the current one."""
        current = self.current
        if current is None or current is source or current.tip is None or source.tip is None:
            return
        ours, theirs = current.tip, source.tip
        try:
            found = await lead(current.chain, ours, source.chain, theirs)
        except SourceError as error:
            log.info("%s: %s cannot be compared now: %s", self.name, source.shown, error)
            return
        if found is not None and current is self.current and source.tip == theirs:
            source.compare(found, ours, self.pace.far, self.clock())

    def check_keepers(self) -> None:
        """Raise what ended a keeper: not a matter of its source, such as a database that is full."""
        for keeper in self._keepers:
            if keeper.done() and not keeper.cancelled() and (error := keeper.exception()) is not None:
                raise error
