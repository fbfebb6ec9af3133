"""A chain read from several sources of the same name."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterable
from typing import Any, TypeVar

from indexer.chains.failover.group import Pace, SourceGroup
from indexer.chains.failover.source import Source, SourceState
from indexer.chains.source import (
    AncestorVisitor,
    BlockData,
    BlockedBranch,
    BlockEvents,
    Chain,
    DeferredEvents,
    LogsAgain,
    NewestEvents,
    PeerCounts,
)
from indexer.errors import SourceError, SourceUnavailableError
from indexer.model import BlockRef
from parsers.bitcoin.tx import Outpoint

log = logging.getLogger(__name__)

_PACE = Pace()
_Key = TypeVar("_Key", Outpoint, bytes)
_T = TypeVar("_T")


class FailoverChain(Chain):
    """A `Chain` over others of the same name. `sources` are pairs of a public name and a chain: the URL of a source is
    not shown."""

    def __init__(
        self,
        name: str,
        sources: Iterable[tuple[str, Chain]],
        pace: Pace = _PACE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        pairs = tuple(sources)
        self.sparse, self.has_work = pairs[0][1].sparse, pairs[0][1].has_work
        self.contract, self.is_read_twice = pairs[0][1].contract, pairs[0][1].is_read_twice
        self._new_group: Callable[[], SourceGroup] = lambda: SourceGroup(name, pairs, pace, clock)
        self.group = self._new_group()
        self.served: list[tuple[int, Source]] = []

    @property
    def checked(self) -> str:
        """Which header rules the current source checks, in words."""
        return self.group.current.chain.checked if self.group.current else ""

    @property
    def sources(self) -> list[dict[str, Any]]:
        """A row for each source, in configured order: {source, state, height, hash, error?}."""
        return self.group.rows()

    @property
    def warnings(self) -> list[str]:
        """Sources that disagree with the current one or lag far behind it, and each source's own warning."""
        group = self.group
        texts = [text for source in group.sources for text in (group.disagreement(source), group.lag(source)) if text]
        return texts + [f"{source.shown}: {source.chain.warning}" for source in group.sources if source.chain.warning]

    @property
    def disagreement(self) -> str:
        """The first one, of a source in configured order."""
        return next(filter(None, map(self.group.disagreement, self.group.sources)), "")

    @property
    def source_number(self) -> int:
        """The number of the current source; 1 before there is one."""
        current = self.group.current
        return self._number(current) if current is not None else 1

    def _number(self, source: Source) -> int:
        return self.group.sources.index(source) + 1

    def served_by(self, height: int) -> int:
        """The source that served a block."""
        server = self._server_of(height)
        return self._number(server) if server is not None else self.source_number

    def _server_of(self, height: int) -> Source | None:
        return next((source for first, source in reversed(self.served) if first <= height), None)

    @property
    def blocked(self) -> BlockedBranch | None:
        """The blocked branch of the current source."""
        current = self.group.current
        return current.chain.blocked if current is not None else None

    @property
    def silence(self) -> float:
        """The silence of the current source; before there is one, the least of all sources."""
        current = self.group.current
        return current.chain.silence if current else min(source.chain.silence for source in self.group.sources)

    @property
    def names_network(self) -> bool:  # type: ignore[override]
        """Whether a source names its network."""
        return any(source.chain.names_network for source in self.group.sources)

    async def identify(self) -> str:
        """The network of the current source."""
        return await self.group.request(lambda chain: chain.identify())

    @property
    def peers(self) -> PeerCounts | None:
        """The peers of the first source that has some."""
        return next((counts for source in self.group.sources if (counts := source.chain.peers) is not None), None)

    @property
    def violation_count(self) -> int:
        """The violations of all sources together."""
        return sum(source.chain.violation_count for source in self.group.sources)

    @property
    def headers_unproved(self) -> bool:
        """Whether a source accepts merge-mined headers without proof of work: all share the stored headers."""
        return any(source.chain.headers_unproved for source in self.group.sources)

    async def open(self) -> None:
        """Open all at once, and start with the first configured one that opens in time; the others join later.

        Raises SourceUnavailableError when none is open yet, SourceError when none can be, when two are of different
        networks, or when one delivers only parts of blocks.
        """
        try:
            await self.group.open()
        except SourceUnavailableError:
            raise
        except SourceError:
            await self.close()
            raise
        current = self._copy_attributes()
        self.first, self.finality = current.first, current.finality

    def _copy_attributes(self) -> Chain:
        """Take over the attributes of the current source."""
        source = self.group.current
        assert source is not None  # noqa: S101 - it is open
        chain = source.chain
        self.caip2, self.network, self.rules, self.complete = chain.caip2, chain.network, chain.rules, chain.complete
        return chain

    async def close(self) -> None:
        """Close all sources, and drop their states."""
        group, self.group = self.group, self._new_group()
        self.served = []
        await group.close()

    async def tip(self) -> BlockRef | None:
        """The tip of the current source, which is selected here. The finality of a sparse chain is that of the current
        source. Raises SourceError."""
        self.group.check_monitors()
        self.group.reconsider()
        tip = await self.group.request(lambda chain: chain.tip())
        if self.group.current is not None:
            self.group.current.record_tip(tip, self.group.clock())
            current = self._copy_attributes()
            if self.sparse:
                self.finality = current.finality
        return tip

    async def ref(self, height: int) -> BlockRef | None:
        """The current source's block at `height`. Raises SourceError."""
        return await self.group.request(lambda chain: chain.ref(height))

    async def mempool(self) -> frozenset[bytes] | None:
        """The mempool of the current source. Raises SourceError."""
        return await self.group.request(lambda chain: chain.mempool())

    async def unspent(self, outpoints: Collection[Outpoint]) -> set[Outpoint] | None:
        """The answer of the current source. Raises SourceError."""
        return await self.group.request(lambda chain: chain.unspent(outpoints))

    async def send(self, raw: bytes) -> None:
        """Send a transaction through the current source. Raises RefusedTransactionError, SourceError."""
        await self.group.request(lambda chain: chain.send(raw))

    async def blocks(self, first: int, last: int) -> AsyncGenerator[tuple[BlockRef, BlockData], None]:
        """The current source's blocks; when it fails, another continues if its next block links to the last one, or on
        a sparse chain, if it has the last one."""
        height, prev, failed = first, b"", set[Source]()
        self.served = []
        while height <= last:
            source = next((source for source in self.group.by_preference() if source not in failed), None)
            if source is None:
                raise self.group.failure()
            self.group.switch_to(source)
            self.served.append((height, source))
            if prev and self.sparse and not await self._has(source, BlockRef(self.name, height - 1, prev, b"", 0, b"")):
                return
            stream = source.chain.blocks(height, last)
            try:
                while (pair := await self._next(source, stream)) is not None:
                    if prev and not self.sparse and pair[0].prev != prev:
                        return
                    failed.clear()
                    yield pair
                    height, prev = pair[0].height + 1, pair[0].hash
            finally:
                await stream.aclose()
            if source.state is SourceState.READY:
                return
            failed.add(source)

    async def _next(
        self, source: Source, stream: AsyncIterator[tuple[BlockRef, BlockData]]
    ) -> tuple[BlockRef, BlockData] | None:
        """The next block, None at the end or when the source fails, as its state shows then."""
        results = await self.group.try_source(source, lambda _: anext(stream, None))
        return results[0] if results else None

    async def logs_again(self, first: int, last: int, attempt: int) -> LogsAgain | None:
        """The logs that a source other than the current one reads again, with each attempt the next source, the current
        one last. Raises SourceError."""
        answering = [source for source in self.group.by_preference() if source.state is SourceState.READY]
        if not answering:
            raise self.group.failure()
        source = (*answering[1:], answering[0])[attempt % len(answering)]
        results = await self.group.try_source(source, lambda chain: chain.logs_again(first, last, attempt))
        if not results:
            raise SourceUnavailableError(f"{source.shown}: {source.error}")
        return results[0]

    def add_logs(self, again: LogsAgain) -> None:
        """Add the logs to all sources: any of them may be read next."""
        for source in self.group.sources:
            source.chain.add_logs(again)

    def resolve(self, deferred: DeferredEvents, newest: NewestEvents) -> BlockEvents:
        """The events of deferred records, resolved by a source: all sources resolve events alike."""
        return self.group.sources[0].chain.resolve(deferred, newest)

    async def values(self, outpoints: Iterable[Outpoint], before: BlockRef) -> dict[Outpoint, int]:
        """The values of outputs, from one source after the other, each for the values that are still missing. Raises
        SourceError."""
        return await self._collect(set(outpoints), lambda missing: lambda chain: chain.values(missing, before))

    async def ancestors(self, before: BlockRef, visit: AncestorVisitor) -> None:
        """The ancestors, from one source after the other, each for the ones that are still missing. Raises
        SourceError."""
        answered = False
        for source in list(self.group.by_preference()):
            if not await asyncio.to_thread(visit, {}):
                return
            answered |= bool(await self.group.try_source(source, lambda chain: chain.ancestors(before, visit)))
        if not answered:
            raise self.group.failure()

    async def heights(self, txids: Iterable[bytes], before: BlockRef) -> dict[bytes, int]:
        """The heights, from one source after the other, each for the ones that are still missing. Raises
        SourceError."""
        return await self._collect(set(txids), lambda missing: lambda chain: chain.heights(missing, before))

    async def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """The transactions, from one source after the other, each for the ones that are still missing. Raises
        SourceError."""
        return await self._collect(set(txids), lambda missing: lambda chain: chain.transactions(missing))

    async def _collect(
        self, keys: set[_Key], request_for: Callable[[set[_Key]], Callable[[Chain], Awaitable[dict[_Key, _T]]]]
    ) -> dict[_Key, _T]:
        collected: dict[_Key, _T] = {}
        answered = False
        for source in list(self.group.by_preference()):
            if answered and (collected.keys() >= keys or source.state is not SourceState.READY):
                break
            for result in await self.group.try_source(source, request_for(keys - collected.keys())):
                collected |= result
                answered = True
        if not answered:
            raise self.group.failure()
        return collected

    async def refuse(self, ref: BlockRef, reason: str) -> None:
        """Read the block from another source that has it; leave it out only when no other is left."""
        server = self._server_of(ref.height)
        if server is not None:
            server.distrust(ref.hash, self.group.clock() + self.group.pace.penalty)
            log.warning("%s: %s serves a bad block %d: %s", self.name, server.shown, ref.height, reason)
        holders = [source for source in list(self.group.by_preference()) if await self._has(source, ref)]
        others = [source for source in holders if ref.hash not in source.bad_blocks]
        if others:
            self.group.switch_to(others[0])
        else:
            for source in holders:
                await self.group.try_source(source, lambda chain: chain.refuse(ref, reason))
        self.group.changed.set()

    async def _has(self, source: Source, ref: BlockRef) -> bool:
        """Whether a source's best chain holds this block."""
        results = await self.group.try_source(source, lambda chain: chain.ref(ref.height))
        return any(theirs is not None and theirs.hash == ref.hash for theirs in results)

    async def wait(self, seconds: float) -> None:
        """Return when any source may have something new, at the latest after `seconds`. Raises SourceError."""
        current, changed = self.group.current, self.group.changed
        if current is None or current.state is not SourceState.READY:
            return  # the next request selects another source
        waits = [asyncio.create_task(_ignore_result(wait)) for wait in (changed.wait(), current.chain.wait(seconds))]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            results = await asyncio.gather(*waits, return_exceptions=True)
        changed.clear()
        for error in results:
            if isinstance(error, SourceError):
                self.group.record_failure(current, error)
            elif isinstance(error, Exception):
                raise error


async def _ignore_result(awaitable: Awaitable[Any]) -> None:
    await awaitable
