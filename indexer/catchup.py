"""Read what follows the newest stored block and write it, several blocks at a time.

A pipeline of three: the source fetches ahead, blocks are read in the order of the chain, and one batch of them is
written while the next is read. What is not written has not happened, whenever this is interrupted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

from indexer.batch import Batch
from indexer.chains import Chain, Data, Excerpt, Sayings, Sequel, SourceUnavailableError, Sparse
from indexer.facts import BlockRef, Event, Reading
from indexer.origins import HOPS, Origins
from indexer.progress import Progress
from indexer.proving import MAX_RAW
from indexer.reading import Read, is_silent, read_block
from indexer.registry import Registry
from indexer.session import Origin
from indexer.spill import folder
from indexer.store import Store, Writer
from indexer.store.proofs import proof
from parsers import tx
from parsers.block import Watched
from parsers.errors import ParseError
from parsers.tx import Outpoint

log = logging.getLogger(__name__)

SMALL = 2 << 20
"""Bytes up to which a block is looked through in the event loop: 0.1 ms a megabyte, less than a thread's turn takes;
where all of it looks as if it were ours, 10 ms."""

MOST_UNWRITTEN = 50_000
"""Events of a block, of 1.1 kB each as registrations are held, up to which the next one is read while it is written."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Catchup:
    """Takes the blocks of one chain into the store. `watched` holds the outpoints where registrations are, and perhaps
    more; `changed` is called, in the event loop, after each write."""

    def __init__(
        self, chain: Chain, store: Store, writer: Writer, progress: Progress, changed: Callable[[], None]
    ) -> None:
        self._chain, self._store, self._writer = chain, store, writer
        self._progress, self._changed = progress, changed
        self._sparse = isinstance(chain, Sparse)
        self._registry = Registry(store, chain.name)
        self._writing: asyncio.Task[None] | None = None
        self._sealed = Batch()
        self._is_compiled = self._is_late = False
        self.origins = Origins(chain, store, writer)
        self.watched = Watched()

    def watch(self) -> None:
        """Watch the outpoints where the store says that registrations are, and no others."""
        self.watched = Watched()
        self.watched.add(self._store.seats(self._chain.name))

    async def read(self, at: BlockRef | None, last: int) -> None:
        """Read and append what follows `at`, up to the height `last`.

        Ends early when the best chain changes meanwhile or a block is refused. Raises SourceError or StoreError.
        """
        batch = Batch()
        self._is_late = await asyncio.to_thread(self.origins.is_late)
        stream = self._chain.blocks(at.height + 1 if at else self._chain.first, last)
        try:
            async for ref, data in stream:
                if self._sparse:
                    ref = await self._linked(ref, at)
                if at is not None and ref.prev != at.hash:
                    break  # the best chain has changed since it was compared
                read = await self._read_one(ref, data)
                if read is None:
                    break
                at = ref
                batch.add(read.reading, len(data))
                is_large = len(read.reading.events) > MOST_UNWRITTEN
                self._follow_seats(read.reading.events, until_written=not is_large)
                if is_large or batch.is_full():
                    await self._hand_over(batch)
                    batch = Batch()
                if is_large:
                    await self._written()
            await self._hand_over(batch)
            batch = Batch()
            await self._written()
        finally:
            # what was not written has not happened: registrations are where they were
            self.watched.add(batch.spent())
            self.watched.add(self._sealed.spent())
            await _close(stream)
            await self._drop()

    # -- reading

    async def _linked(self, ref: BlockRef, at: BlockRef | None) -> BlockRef:
        """A block of a sparse chain, whose `prev` is what is stored before it, as long as the source has that too."""
        if at is None:
            return ref
        theirs = await self._chain.ref(at.height)
        return replace(ref, prev=theirs.hash if theirs else b"")

    async def _read_one(self, ref: BlockRef, data: Data) -> Read | None:
        """Read a block, looking up the values it turns out to need; None when the block is refused."""
        if isinstance(data, Sequel):
            stored = await asyncio.to_thread(self._store.newest_of, self._chain.name, data.ids)
            data = await asyncio.to_thread(data.say, self._registry.newest(stored))
            self._registry.note(data.events)
        if isinstance(data, Sayings):
            return Read(Reading(ref, data.events, dict(data.cards)), frozenset())
        if isinstance(data, Excerpt) and not data.transactions:
            # one in thousands holds anything of ours where a source tells excerpts: no thread for the others
            return Read(Reading(ref, (), {}), frozenset())
        try:
            if await self._is_silent(data):
                return Read(Reading(ref, (), {}), frozenset())
            values: dict[Outpoint, int] = {}
            origins: dict[Outpoint, Origin] | None = {} if self._is_late else None
            read = await _to_its_end(self._read_with, ref, data, values, origins)
            self._is_compiled = True
            asked: set[Outpoint] = set()
            while (wanted := read.wanted - asked) or read.untraced:
                asked |= wanted
                values |= await self.look_up(wanted, ref)
                if origins is not None:
                    found = await self.origins.find(read.untraced, ref)
                    origins |= found
                    values |= {at: value for origin in found.values() for at, value in origin.values.items()}
                read = await _to_its_end(self._read_with, ref, data, values, origins)
            used = {outpoint.txid for outpoint in asked if outpoint in values}
            read = replace(read, reading=replace(read.reading, parents=await self._parents(used, ref)))
        except ParseError as error:
            self._progress.refused += 1
            log.error("%s: block %d is refused: %s", self._chain.name, ref.height, error)
            await self._chain.refuse(ref, str(error))
            return None
        return read

    async def _is_silent(self, data: memoryview | Excerpt) -> bool:
        """Whether a small block holds nothing of ours. Raises BlockError."""
        if isinstance(data, Excerpt) or len(data) > SMALL or not self._is_compiled:
            return False
        await asyncio.sleep(0)
        return is_silent(data, self._chain.rules, self.watched)

    def _read_with(
        self, ref: BlockRef, data: memoryview | Excerpt, values: dict[Outpoint, int],
        origins: dict[Outpoint, Origin] | None,
    ) -> Read:  # fmt: skip
        chain = self._chain
        try:
            return read_block(ref, data, chain.rules, chain.network, self.watched, self._registry, values, origins)
        except OSError as error:
            raise SourceUnavailableError(
                f"{chain.name}: what block {ref.height:,} says cannot be kept in {folder()}: {error.strerror}; "
                "make room there, or name another folder in TMPDIR"
            ) from error

    async def look_up(self, wanted: frozenset[Outpoint] | set[Outpoint], before: BlockRef) -> dict[Outpoint, int]:
        """Satoshis of outputs: values kept from earlier, and then the source's; what it finds is kept."""
        values = await asyncio.to_thread(self._store.values, wanted)
        missing = [outpoint for outpoint in wanted if outpoint not in values]
        if missing:
            found = await self._chain.values(missing, before)
            await asyncio.to_thread(self._writer.keep_values, found)
            values |= found
        return values

    async def _parents(self, txids: set[bytes], before: BlockRef) -> dict[bytes, bytes]:
        """Transactions whose outputs' values were used and that are not stored, as far as the source has them."""
        missing = txids.difference(await asyncio.to_thread(self._store.parents, txids)) if txids else set()
        found: dict[bytes, bytes] = {}

        def take(raws: Mapping[bytes, bytes]) -> set[bytes]:
            found.update(raws)
            return missing - found.keys()

        if missing:
            await self._chain.ancestors(before, take)
        return {txid: raw for txid, raw in found.items() if len(raw) <= MAX_RAW}

    async def is_traced(self, card: Outpoint, ref: BlockRef) -> bool:
        """Whether the origin of a card in the stored block `ref` is known, after a long look for it."""
        found = await asyncio.to_thread(proof, self._store.engine, self._chain.name, card.txid)
        if found is None:
            return False
        transaction = tx.read_exactly(found.proof.raw, segwit=self._chain.rules.segwit)
        origins = await self.origins.find({card: transaction}, ref, rounds=2 * HOPS)
        return origins[card].unknown is None

    def _follow_seats(self, events: Iterable[Event], *, until_written: bool) -> None:
        """Watch where these events leave registrations, which are looked up in the registry `until_written`."""
        if until_written:
            self._registry.take(events)
        self.watched.discard(event.spent for event in events if event.spent)
        self.watched.add(event.state.outpoint for event in events if event.state and event.state.outpoint)

    # -- writing

    async def _hand_over(self, batch: Batch) -> None:
        """Have a batch written; the one before it has to be written first."""
        await self._written()
        if batch.readings:
            self._registry.seal()
            self._sealed = batch
            self._writing = asyncio.create_task(self._write(batch))

    async def _written(self) -> None:
        """Wait for the batch that is being written. Raises StoreError when it was not."""
        if self._writing is None:
            return
        await asyncio.wait([self._writing])
        self._writing.result()
        self._writing, self._sealed = None, Batch()
        self._registry.settle()

    async def _drop(self) -> None:
        """Wait for what cannot be interrupted, and forget what was read and not written."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
            self._writing.exception()  # it has been raised, or something else is on its way
            self._writing = None
        self._sealed = Batch()
        self._registry.clear()

    async def _write(self, batch: Batch) -> None:
        await asyncio.to_thread(self._writer.append, self._chain.name, batch.readings, sparse=self._sparse)
        progress, newest = self._progress, batch.newest
        progress.blocks += len(batch.readings)
        progress.bytes += batch.bytes
        progress.events += batch.said
        progress.said.update(event.kind.value for event in batch.events())
        progress.height, progress.hash = newest.height, newest.hash
        log.info(
            "%s: block %d of %d; %d blocks, %d events",
            self._chain.name, newest.height, progress.tip or newest.height, len(batch.readings), batch.said,
        )  # fmt: skip
        self._changed()


async def _close(stream: AsyncIterator[Any]) -> None:
    """Have a source stop fetching ahead."""
    if isinstance(stream, AsyncGenerator):
        await stream.aclose()


async def _to_its_end(work: Callable[_P, _R], *arguments: _P.args, **named: _P.kwargs) -> _R:
    """Do work in a thread; when cancelled, wait until the thread has let go of the block it reads."""
    thread = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **named))
    try:
        await asyncio.wait([thread])
    except asyncio.CancelledError:
        await asyncio.wait([thread])
        raise
    return thread.result()
