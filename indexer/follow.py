"""The loop: where do we agree? Forget above it; read and append to the tip; wait. One `Follower` a chain."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from indexer.chains import Chain, SourceError, SourceUnavailableError
from indexer.facts import BlockRef, Event, Reading
from indexer.reading import Read, read_block
from indexer.registry import Registry
from indexer.store import Store, Writer
from parsers.block import Watched
from parsers.errors import ParseError
from parsers.tx import Outpoint

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
RETRY_SECONDS = 600.0
"""Pause between attempts to find the values that undecided updates wait for."""

BATCH_BLOCKS, BATCH_EVENTS, BATCH_BYTES, BATCH_SECONDS = 256, 2_000, 64 << 20, 1.0
"""A transaction of the database ends at whichever comes first."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds between tries of a source that does not answer: doubled from the first to the longest."""


@dataclass(slots=True)
class Progress:
    """Where a follower stands, for status, logs and progress bars. `state` is starting, catching-up, following,
    unreachable or stopped; `blocks` and `bytes` count what was read since the start."""

    name: str
    caip2: str = ""
    state: str = "starting"
    height: int | None = None
    hash: bytes = b""
    tip: int | None = None
    blocks: int = 0
    bytes: int = 0
    events: int = 0
    reorgs: int = 0
    refused: int = 0
    error: str = ""


class DeepReorgError(SourceError):
    """The source contradicts blocks that were final: nothing is forgotten before someone has looked."""


@dataclass(slots=True)
class _Batch:
    """Blocks read and not yet written."""

    readings: list[Reading] = field(default_factory=list)
    said: int = 0
    bytes: int = 0
    began: float = field(default_factory=time.monotonic)

    def add(self, reading: Reading, size: int) -> None:
        self.readings.append(reading)
        self.said += len(reading.events)
        self.bytes += size

    def events(self) -> Iterator[Event]:
        return (event for reading in self.readings for event in reading.events)

    def is_full(self) -> bool:
        return (
            len(self.readings) >= BATCH_BLOCKS
            or self.said >= BATCH_EVENTS
            or self.bytes >= BATCH_BYTES
            or time.monotonic() - self.began >= BATCH_SECONDS
        )


class Follower:
    """Keeps the store in step with one chain. `changed` is called, in the event loop, after each write."""

    def __init__(self, chain: Chain, store: Store, writer: Writer, changed: Callable[[], None] = lambda: None) -> None:
        self._chain, self._store, self._writer, self._changed = chain, store, writer, changed
        self._registry = Registry(store, chain.name)
        self._watched = Watched()
        self._retried = 0.0
        self.progress = Progress(chain.name)

    async def open(self) -> None:
        """Connect to the source and take up what is stored. Raises SourceError or StoreError."""
        await self._chain.open()
        self.progress.caip2 = self._chain.caip2
        await asyncio.to_thread(self._take_up)

    def _take_up(self) -> None:
        self._writer.name_chain(self._chain.name, self._chain.caip2)
        self._watched = Watched()
        self._watched.add(self._store.seats(self._chain.name))
        self._note_newest(self._store.newest(self._chain.name))

    async def run(self) -> None:
        """Follow until cancelled, or until the source must be looked at by a person (state `stopped`)."""
        pause = FIRST_PAUSE
        while True:
            try:
                await self.catch_up()
                pause = FIRST_PAUSE
                await self._chain.wait(POLL_SECONDS)
            except SourceUnavailableError as error:
                self._say("unreachable", str(error))
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            except SourceError as error:
                self._say("stopped", str(error))
                return

    def _say(self, state: str, error: str) -> None:
        if error != self.progress.error:
            log.error("%s is %s: %s", self._chain.name, state, error)
        self.progress.state, self.progress.error = state, error

    async def catch_up(self) -> None:
        """Bring the store to the source's tip: one look at the source, and as many batches as it takes."""
        tip = await self._chain.tip()
        if tip is None:
            self.progress.state, self.progress.error = "following", ""
            return
        self.progress.tip = tip.height
        at = await self._retry_undecided(await self._agree())
        if (at.height + 1 if at else self._chain.first) <= tip.height:
            self.progress.state = "catching-up"
            await self._read(at, tip.height)
        self.progress.state, self.progress.error = "following", ""

    async def _agree(self) -> BlockRef | None:
        """The newest stored block that the source has too; what is above it is forgotten."""
        newest = await asyncio.to_thread(self._store.newest, self._chain.name)
        if newest is None:
            return None
        at: BlockRef | None = newest
        while at is not None:
            theirs = await self._chain.ref(at.height)
            if theirs is not None and theirs.hash == at.hash:
                break
            if theirs is None and await self._is_merely_behind(at):
                return newest
            self._check_final(newest.height - at.height + 1)
            at = await asyncio.to_thread(self._store.block, self._chain.name, at.height - 1)
        if at != newest:
            await self._reorganise(newest, at)
        return at

    def _check_final(self, depth: int) -> None:
        """Stop when the last `depth` stored blocks are not the source's, and that is more than may change."""
        if self._chain.finality is not None and depth > self._chain.finality:
            raise DeepReorgError(
                f"{self._chain.name}: the source contradicts more than the last {self._chain.finality:,} stored blocks,"
                " which are all that may change; if the source is right, give the chain a larger ?finality="
                " or index into a new database"
            )

    async def _is_merely_behind(self, at: BlockRef) -> bool:
        """Whether the source has no block at this height yet but agrees below: it is starting, not reorganising."""
        tip = await self._chain.tip()
        if tip is None:
            return True
        ours = await asyncio.to_thread(self._store.block, self._chain.name, tip.height)
        return tip.height < at.height and ours is not None and ours.hash == tip.hash

    async def _reorganise(self, newest: BlockRef, at: BlockRef | None) -> None:
        above = at.height if at else -1
        depth = newest.height - above
        await self._forget(at, above)
        self.progress.reorgs += 1
        log.warning("%s: %d blocks above %d are no longer in the best chain; forgotten", self._chain.name, depth, above)

    async def _forget(self, at: BlockRef | None, above: int) -> None:
        spent = await asyncio.to_thread(self._store.spent_above, self._chain.name, above)
        await asyncio.to_thread(self._writer.forget, self._chain.name, above)
        self._watched.add(spent)
        self._note_newest(at)
        self._changed()

    def _note_newest(self, ref: BlockRef | None) -> None:
        self.progress.height = ref.height if ref else None
        self.progress.hash = ref.hash if ref else b""

    async def _read(self, at: BlockRef | None, last: int) -> None:
        """Read and append what follows `at`, up to the height `last`."""
        batch = _Batch()
        try:
            async for ref, data in self._chain.blocks(at.height + 1 if at else self._chain.first, last):
                if at is not None and ref.prev != at.hash:
                    break  # the best chain has changed since it was compared
                read = await self._read_one(ref, data)
                if read is None:
                    break
                at = ref
                batch.add(read.reading, len(data))
                self._follow_seats(read.reading.events)
                if batch.is_full():
                    await self._write(batch)
                    batch = _Batch()
            await self._write(batch)
            batch = _Batch()
        finally:
            self._registry.settle()
            # what was not written has not happened: registrations are where they were
            self._watched.add(event.spent for event in batch.events() if event.spent)

    async def _read_one(self, ref: BlockRef, data: memoryview) -> Read | None:
        """Read a block, looking up the values it turns out to need; None when the block is refused."""
        try:
            read = await asyncio.to_thread(self._read_with, ref, data, {})
            values: dict[Outpoint, int] = {}
            asked: set[Outpoint] = set()
            while wanted := read.wanted - asked:
                asked |= wanted
                values |= await self._look_up(wanted, ref)
                read = await asyncio.to_thread(self._read_with, ref, data, values)
        except ParseError as error:
            self.progress.refused += 1
            log.error("%s: block %d is refused: %s", self._chain.name, ref.height, error)
            await self._chain.refuse(ref, str(error))
            return None
        return read

    def _read_with(self, ref: BlockRef, data: memoryview, values: dict[Outpoint, int]) -> Read:
        chain = self._chain
        return read_block(ref, data, chain.rules, chain.network, self._watched, self._registry, values)

    async def _look_up(self, wanted: frozenset[Outpoint] | set[Outpoint], ref: BlockRef) -> dict[Outpoint, int]:
        """Values kept from before, and then the source's; what it finds is kept."""
        values = await asyncio.to_thread(self._store.values, wanted)
        missing = [outpoint for outpoint in wanted if outpoint not in values]
        if missing:
            found = await self._chain.values(missing, ref)
            await asyncio.to_thread(self._writer.keep_values, found)
            values |= found
        return values

    def _follow_seats(self, events: tuple[Event, ...]) -> None:
        self._registry.take(events)
        self._watched.discard(event.spent for event in events if event.spent)
        self._watched.add(event.state.outpoint for event in events if event.state and event.state.outpoint)

    async def _write(self, batch: _Batch) -> None:
        if not batch.readings:
            return
        await asyncio.to_thread(self._writer.append, self._chain.name, batch.readings)
        self._registry.settle()
        self.progress.blocks += len(batch.readings)
        self.progress.bytes += batch.bytes
        self.progress.events += batch.said
        ref = batch.readings[-1].ref
        self._note_newest(ref)
        log.info(
            "%s: block %d of %d; %d blocks, %d events",
            self._chain.name, ref.height, self.progress.tip or ref.height, len(batch.readings), batch.said,
        )  # fmt: skip
        self._changed()

    async def _retry_undecided(self, at: BlockRef | None) -> BlockRef | None:
        """Law 3: ask again for the values that undecided updates wait for; with one found, read again from there.

        `at` is the newest block stored; returned is what it is then.
        """
        if at is None or (self._retried and time.monotonic() - self._retried < RETRY_SECONDS):
            return at
        self._retried = time.monotonic()
        for revision in await asyncio.to_thread(self._store.undecided, self._chain.name):
            wanted = {Outpoint.parse(text) for reason in revision.event.reasons for text in reason.detail.split()}
            ref = await asyncio.to_thread(self._store.block, self._chain.name, revision.height)
            if ref is None or len(await self._look_up(wanted, ref)) < len(wanted):
                continue
            log.info("%s: the values that block %d waited for are known; reading again", self._chain.name, ref.height)
            before = await asyncio.to_thread(self._store.block, self._chain.name, ref.height - 1)
            await self._forget(before, ref.height - 1)
            return before
        return at
