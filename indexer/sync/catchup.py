"""Reads the blocks after the newest stored one and writes them in batches.

A pipeline of three stages: the source fetches ahead, blocks are read in chain order, and one batch is written while
the next is read. An interruption at any point loses only what was not written.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ParamSpec, TypeVar

from indexer.chains import BlockData, BlockEvents, Chain, DeferredEvents, PartialBlock
from indexer.errors import FailedBlockError, SourceError, SourceUnavailableError
from indexer.failures import is_of_machine
from indexer.model import BlockFacts, BlockRef, Event
from indexer.resolution.block_proofs import MAX_RAW
from indexer.resolution.block_reader import BlockReader, PartialBlockReader
from indexer.resolution.origins import HOPS, OriginTracer
from indexer.resolution.registration_lookup import RegistrationLookup
from indexer.resolution.session import Origin
from indexer.resolution.transaction_reader import ReadResult
from indexer.spill import folder
from indexer.store import Store, Writer, block_writer, contents
from indexer.sync.progress import SyncProgress
from parsers.bitcoin import block, tx
from parsers.bitcoin.block import WatchedOutpoints
from parsers.bitcoin.tx import Outpoint
from parsers.errors import ParseError

log = logging.getLogger(__name__)

SMALL = 2 << 20
"""Blocks up to this many bytes are searched in the event loop: 0.1 ms a megabyte, less than switching to a thread
takes; 10 ms where every transaction is a candidate."""

BATCH_BLOCKS, BATCH_EVENTS, BATCH_BYTES, BATCH_SECONDS = 256, 2_000, 64 << 20, 1.0
"""A transaction of the database ends at whichever comes first."""

HELD_SECONDS, HOLD_PAUSE = 20.0, 0.5
"""How long a batch waits at most for readers of the store to follow, and the pause between two looks at them."""

MOST_UNWRITTEN = 50_000
"""Events of a block up to which the next block is read while this one is written: 1.1 kB of memory each."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


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


class Catchup:
    """Reads blocks of one chain into the store. `watched` holds the outpoints of registrations, and perhaps more;
    `changed` is called, in the event loop, after each write. While `is_held`, the next batch waits for a while."""

    def __init__(
        self, chain: Chain, store: Store, writer: Writer, progress: SyncProgress, changed: Callable[[], None]
    ) -> None:
        self._chain, self._store, self._writer = chain, store, writer
        self._progress, self._changed = progress, changed
        self._sparse = chain.sparse
        self._registry = RegistrationLookup(store.registrations, chain.name)
        self._writing: asyncio.Task[None] | None = None
        self._batch, self._sealed = Batch(), Batch()
        self._is_late = False
        self._single_until = -1
        self._submitted: dict[Outpoint, bytes] = {}
        self.origins = OriginTracer(chain, store, writer)
        self.watched = WatchedOutpoints()
        self.is_held: Callable[[], bool] = lambda: False

    def watch(self) -> None:
        """Watch the outpoints of the stored registrations; those where they were before are spent, and do no harm."""
        self.watched = WatchedOutpoints()
        for packed in self._store.registrations.outpoints(self._chain.name):
            self.watched.add_packed(packed)

    async def read(self, newest: BlockRef | None, last: int) -> None:
        """Read and append the blocks after `newest`, up to the height `last`.

        Ends early when the best chain changes meanwhile or a block is refused. Blocks below one that fails are written.
        Raises SourceError or StoreError, and FailedBlockError where neither source nor database failed.
        """
        self._is_late = await asyncio.to_thread(self.origins.is_late)
        self._submitted = await asyncio.to_thread(self._store.submissions.spends, self._chain.name)
        self.watched.add(self._submitted)
        stream = self._chain.blocks(newest.height + 1 if newest else self._chain.first, last)
        self._batch = Batch()
        try:
            try:
                await self._read_stream(stream, newest)
            except Exception as error:
                if not is_of_machine(error):
                    await self._hand_over()
                    await self._written()
                raise
            await self._hand_over()
            await self._written()
        finally:
            # what was not written is read again: registrations are still where the store has them
            self.watched.add(self._batch.spent())
            self.watched.add(self._sealed.spent())
            await stream.aclose()  # the source fetches ahead no more
            if self._writing is not None:
                await asyncio.wait([self._writing])
                self._writing.exception()  # raised already, or superseded by the error on its way
                self._writing = None
            self._sealed = Batch()
            self._registry.clear()

    async def _read_stream(
        self, stream: AsyncGenerator[tuple[BlockRef, BlockData], None], newest: BlockRef | None
    ) -> None:
        """Read the blocks of a stream, and write them in batches but for the last."""
        stored = newest
        async for ref, data in stream:
            with self._failing(ref.height):
                if self._sparse and newest is not None:
                    # to the stored block, if the source still has that; it checks the others itself
                    before = await self._chain.ref(newest.height) if newest is stored else newest
                    ref = replace(ref, prev=before.hash if before else b"")
                if newest is not None and ref.prev != newest.hash:
                    return  # the best chain changed meanwhile
                read = await self._read_one(ref, data)
            if read is None:
                return
            newest = ref
            reading = replace(read.reading, source=self._chain.served_by(ref.height))
            self._batch.add(reading, len(data))
            is_large = len(reading.events) > MOST_UNWRITTEN
            if not is_large:  # a large block is written before the next is read
                self._registry.take(reading.events)
            self.watched.discard(event.spent for event in reading.events if event.spent)
            states = (event.state for event in reading.events if event.state)
            self.watched.add(state.outpoint for state in states if state.outpoint)
            if is_large or self._batch.is_full() or ref.height <= self._single_until:
                await self._hand_over()
            if is_large:
                await self._written()

    @contextmanager
    def _failing(self, height: int) -> Iterator[None]:
        """Raise FailedBlockError for an error in the work on a block, unless its source, the database, the disk or the
        memory failed."""
        try:
            yield
        except Exception as error:
            if isinstance(error, SourceError) or is_of_machine(error):
                raise
            text = f"{self._chain.name}: block {height:,} cannot be read ({type(error).__name__}: {error})"
            raise FailedBlockError(text) from error

    # -- reading

    async def _read_one(self, ref: BlockRef, data: BlockData) -> ReadResult | None:
        """Read a block, looking up the output values and origins that it needs; None when the block is refused."""
        match data:
            case DeferredEvents():
                stored = await asyncio.to_thread(self._store.registrations.newest_events, self._chain.name, data.ids)
                resolved = await asyncio.to_thread(self._chain.resolve, data, self._registry.newest(stored))
                self._registry.note(resolved.events)
                return ReadResult(BlockFacts(ref, resolved.events, dict(resolved.cards), logs=data.logs), frozenset())
            case BlockEvents():
                return ReadResult(BlockFacts(ref, data.events, dict(data.cards), logs=data.logs), frozenset())
            case PartialBlock(transactions=()):
                # a filtering source sends thousands of blocks without a transaction for each with one: no thread for
                # those
                return ReadResult(BlockFacts(ref, (), {}), frozenset())
        try:
            reader: BlockReader | PartialBlockReader
            if isinstance(data, PartialBlock):
                reader = PartialBlockReader(ref, data, self._chain.rules, self._chain.network)
            else:
                reader = await self._whole_reader(ref, data)
            if reader.is_silent:
                return ReadResult(BlockFacts(ref, (), {}), frozenset())
            return await self._settled(ref, reader)
        except ParseError as error:
            self._progress.refused += 1
            log.error("%s: block %d is refused: %s", self._chain.name, ref.height, error)
            await self._chain.refuse(ref, str(error))
            return None

    async def _whole_reader(self, ref: BlockRef, data: memoryview) -> BlockReader:
        """The reader of the bytes of a block, which are searched once for all that is looked for in them. Submitted
        transactions that a transaction of the block contradicts are deleted, with their descendants."""
        make = partial(BlockReader, ref, data, self._chain.rules, self._chain.network, self.watched)
        if len(data) > SMALL or not block.is_prepared():
            reader = await _to_its_end(make)
        else:
            await asyncio.sleep(0)
            reader = make()
        against = await asyncio.to_thread(reader.contradicted, self._submitted) if self._submitted else set()
        if against:
            count = await asyncio.to_thread(self._store.submissions.drop, self._chain.name, against)
            log.warning("%s: %d submitted transactions contradict a block; dropped", self._chain.name, count)
        return reader

    async def _settled(self, ref: BlockRef, reader: BlockReader | PartialBlockReader) -> ReadResult:
        values: dict[Outpoint, int] = {}
        origins: dict[Outpoint, Origin] | None = {} if self._is_late else None
        requested: set[Outpoint] = set()
        while True:
            session = await _to_its_end(self._spilling, ref, reader.session, self._registry, values, origins)
            unknown_values = session.missing_values - requested
            if not unknown_values and not session.untraced:
                break
            requested |= unknown_values
            values |= await self.look_up(unknown_values, ref)
            if origins is not None:
                traced = await self.origins.find(session.untraced, ref)
                origins |= traced
                values |= {outpoint: value for origin in traced.values() for outpoint, value in origin.values.items()}
        read = await _to_its_end(self._spilling, ref, reader.result, session)
        used = {outpoint.txid for outpoint in requested if outpoint in values}
        return replace(read, reading=replace(read.reading, parents=await self._parents(used, ref)))

    def _spilling(self, ref: BlockRef, work: Callable[_P, _R], *arguments: _P.args, **named: _P.kwargs) -> _R:
        """Work on a block with events that may be written to files."""
        try:
            return work(*arguments, **named)
        except OSError as error:
            raise SourceUnavailableError(
                f"{self._chain.name}: the events of block {ref.height:,} cannot be written to {folder()}: "
                f"{error.strerror}; make room there, or name another folder in TMPDIR"
            ) from error

    async def look_up(self, outpoints: frozenset[Outpoint] | set[Outpoint], before: BlockRef) -> dict[Outpoint, int]:
        """Values of outputs in satoshis, from the store and then from the source; those of the source are stored.
        Outputs that neither has are left out. Raises SourceError or StoreError."""
        values = await asyncio.to_thread(self._store.content.output_values, outpoints)
        missing = [outpoint for outpoint in outpoints if outpoint not in values]
        if missing:
            fetched = await self._chain.values(missing, before)
            await asyncio.to_thread(contents.store_output_values, self._writer, fetched)
            values |= fetched
        return values

    async def _parents(self, txids: set[bytes], before: BlockRef) -> dict[bytes, bytes]:
        """Raw transactions by txid with used output values that are not stored, as far as the source has
        them."""
        missing = txids.difference(await asyncio.to_thread(self._store.content.parents, txids)) if txids else set()
        fetched: dict[bytes, bytes] = {}

        def take(raws: Mapping[bytes, bytes]) -> set[bytes]:
            fetched.update(raws)
            return missing - fetched.keys()

        if missing:
            await self._chain.ancestors(before, take)
        return {txid: raw for txid, raw in fetched.items() if len(raw) <= MAX_RAW}

    async def is_traced(self, card: Outpoint, ref: BlockRef) -> bool:
        """Whether the origin of a card in the stored block `ref` can be traced, with twice the usual hops."""
        stored = await asyncio.to_thread(self._store.proofs.get, self._chain.name, card.txid)
        if stored is None:
            return False
        transaction = tx.read_exactly(stored.proof.raw, segwit=self._chain.rules.segwit)
        origins = await self.origins.find({card: transaction}, ref, rounds=2 * HOPS)
        return origins[card].unknown is None

    # -- writing

    async def _hand_over(self) -> None:
        """Start writing the batch that was read once the one before it is written, and begin the next."""
        await self._written()
        until = time.monotonic() + HELD_SECONDS
        while self.is_held() and time.monotonic() < until:  # noqa: ASYNC110  a number that is looked at has no event
            await asyncio.sleep(HOLD_PAUSE)
        batch, self._batch = self._batch, Batch()
        if batch.readings:
            self._registry.seal()
            self._sealed = batch
            self._writing = asyncio.create_task(self._write(batch))

    async def _written(self) -> None:
        """Wait for the batch that is being written. Raises StoreError when that failed, and FailedBlockError as
        `_failing`: the blocks of this batch are then read and written one by one."""
        if self._writing is None:
            return
        await asyncio.wait([self._writing])
        with self._failing(self._sealed.newest.height):
            try:
                self._writing.result()
            except Exception:
                self._single_until = self._sealed.newest.height
                raise
        self._writing, self._sealed = None, Batch()
        self._registry.settle()

    async def _write(self, batch: Batch) -> None:
        await asyncio.to_thread(
            block_writer.append, self._writer, self._chain.name, batch.readings, sparse=self._sparse
        )
        progress, newest = self._progress, batch.newest
        progress.blocks += len(batch.readings)
        progress.bytes += batch.bytes
        progress.events += batch.event_count
        progress.event_counts.update(event.kind.value for event in batch.events())
        progress.height, progress.hash = newest.height, newest.hash
        progress.last_block_at, progress.error, progress.fault = int(time.time()), "", ""
        log.info(
            "%s: block %d of %d; %d blocks, %d events",
            self._chain.name, newest.height, progress.tip or newest.height, len(batch.readings), batch.event_count,
        )  # fmt: skip
        self._changed()


async def _to_its_end(work: Callable[_P, _R], *arguments: _P.args, **named: _P.kwargs) -> _R:
    """Do work in a thread; when cancelled, wait until the thread has released the block that it reads."""
    thread = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **named))
    try:
        await asyncio.wait([thread])
    except asyncio.CancelledError:
        await asyncio.wait([thread])
        raise
    return thread.result()
