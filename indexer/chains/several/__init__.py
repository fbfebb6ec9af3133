"""Several sources of one chain, written as one name repeated: `bsv=http://a bsv=http://b bsv=files:/path`.

One of them is read at a time: the one of most work, of equals the one that is configured first. Any of the others takes
over at once when it does not answer, in the middle of a run of blocks too. A keeper for each of the others looks at its
tip meanwhile, so that a source that lags, or is on another branch, is seen.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Literal, TypeVar, cast

from indexer.chains import (
    SNAPSHOTS,
    AuxPowOptional,
    Cautious,
    Chain,
    Follow,
    HeaderRows,
    Rules,
    SourceError,
    SourceUnavailableError,
    Sparse,
    create,
    module,
)  # fmt: skip
from indexer.chains.options import check_port
from indexer.chains.several.group import Group, Pace, partial
from indexer.chains.several.rows import SharedRows
from indexer.chains.several.source import Source, State
from indexer.facts import BlockRef
from indexer.settings import masked
from parsers.tx import Outpoint

__all__ = ["Pace", "Several", "join"]

log = logging.getLogger(__name__)

_PACE = Pace()
_Key = TypeVar("_Key", Outpoint, bytes)
_T = TypeVar("_T")


def join(name: str, urls: Sequence[str], headers: HeaderRows | None = None) -> Chain:
    """The chain that these URLs describe: of one source, itself; of more, all of them. Nothing is connected. Raises
    SourceError where a URL is wrong."""
    for url in urls:
        check_port(name, url)
    if len(urls) == 1:
        return create(name, urls[0], headers)
    if {module(name, url) for url in urls} == {SNAPSHOTS}:
        # looking at all accounts is dear: the others are asked only where the first does not answer
        return cast("Chain", import_module(SNAPSHOTS).join(name, urls, headers))
    shared = SharedRows(headers) if headers is not None else None
    sources = [(masked(url), create(name, url, shared.view() if shared else None)) for url in urls]
    for shown, chain in sources:
        if not getattr(chain, "complete", True):  # where it is not known yet, it is looked at again once it is open
            raise partial(name, shown)
    sparse = isinstance(sources[0][1], Sparse)
    return SparseSeveral(name, sources) if sparse else Several(name, sources)


class Several:
    """A `Chain` over others of the same name. `sources` are pairs of what may be shown of a source, and the source."""

    caip2: str
    network: str
    rules: Rules
    finality: int | None
    first: int
    complete: bool
    checked: str

    def __init__(
        self,
        name: str,
        sources: Iterable[tuple[str, Chain]],
        pace: Pace = _PACE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        pairs = tuple(sources)
        self._make: Callable[[], Group] = lambda: Group(name, pairs, pace, clock)
        self._group = self._make()
        self._served: list[tuple[int, Source]] = []

    @property
    def sources(self) -> list[dict[str, Any]]:
        """A row for each source, in configured order: {source, state, height, hash, error?}."""
        return self._group.rows()

    @property
    def warnings(self) -> list[str]:
        """What an operator should look at: sources that disagree with the current one, or lag far behind it, and what
        they warn of themselves."""
        told = [text for source in self._group.all if (text := self._group.warning(source))]
        own = [(source.shown, source.chain.warning) for source in self._group.all if isinstance(source.chain, Cautious)]
        return told + [f"{shown}: {text}" for shown, text in own if text]

    @property
    def headers_unproved(self) -> bool:
        """Whether one of them takes merge-mined headers without their proof of work: all share the headers."""
        chains = [source.chain for source in self._group.all]
        return any(isinstance(chain, AuxPowOptional) and chain.headers_unproved for chain in chains)

    async def open(self) -> None:
        """Open all at once, and go on with the first configured one that opens in time; the others join later.

        Raises SourceUnavailableError when none is open yet, SourceError when none can be, when two are of different
        networks, or one tells only part of each block.
        """
        try:
            await self._group.open()
        except SourceUnavailableError:
            raise
        except SourceError:
            await self.close()
            raise
        current = self._adopt()
        self.first, self.finality = current.first, current.finality

    def _adopt(self) -> Chain:
        """Be as the source that is read."""
        source = self._group.current
        assert source is not None  # noqa: S101 - it is open
        chain = source.chain
        self.caip2, self.network, self.rules, self.checked = chain.caip2, chain.network, chain.rules, chain.checked
        self.complete = chain.complete
        return chain

    async def close(self) -> None:
        """Close all of them, and forget what was known of them."""
        group, self._group = self._group, self._make()
        self._served = []
        await group.close()

    async def tip(self) -> BlockRef | None:
        """The tip of the source that is read; which one that is, is decided here."""
        self._group.check_keepers()
        self._group.reconsider()
        tip = await self._group.ask(lambda chain: chain.tip())
        if self._group.current is not None:
            self._group.current.tip = tip
            self._adopt()
        return tip

    async def ref(self, height: int) -> BlockRef | None:
        """As the current source says."""
        return await self._group.ask(lambda chain: chain.ref(height))

    async def mempool(self) -> frozenset[bytes] | None:
        """What is unconfirmed at the current source."""
        return await self._group.ask(lambda chain: chain.mempool())

    async def blocks(self, first: int, last: int) -> AsyncIterator[tuple[BlockRef, memoryview]]:
        """The current source's blocks; where it fails, another goes on if it has the same block before."""
        height, before, failed = first, b"", set[Source]()
        self._served = []
        while height <= last:
            source = next((each for each in self._group.in_turn() if each not in failed), None)
            if source is None:
                raise self._group.failure()
            self._group.use(source)
            self._served.append((height, source))
            # sources of excerpts are not taken when they open
            stream = cast("AsyncIterator[tuple[BlockRef, memoryview]]", source.chain.blocks(height, last))
            try:
                while (pair := await self._next(source, stream)) is not None:
                    if before and not self._links(pair[0], before):
                        return
                    failed.clear()
                    yield pair
                    height, before = pair[0].height + 1, pair[0].hash
            finally:
                if isinstance(stream, AsyncGenerator):
                    await stream.aclose()
            if source.state is State.READY:
                return
            failed.add(source)

    def _links(self, ref: BlockRef, before: bytes) -> bool:
        """Whether a block stands on the one of this hash, which another source may have told."""
        return ref.prev == before

    async def _next(
        self, source: Source, stream: AsyncIterator[tuple[BlockRef, memoryview]]
    ) -> tuple[BlockRef, memoryview] | None:
        """The next block, None at the end or where the source fails, which its state tells then."""
        answers = await self._group.put(source, lambda _: anext(stream, None))
        return answers[0] if answers else None

    async def values(self, outpoints: Iterable[Outpoint], before: BlockRef) -> dict[Outpoint, int]:
        """As far as any of them can tell; the next is asked only for what those before it could not tell."""
        return await self._collect(set(outpoints), lambda wanted: lambda chain: chain.values(wanted, before))

    async def ancestors(self, before: BlockRef, follow: Follow) -> None:
        """From one after the other: the next goes on where those before it have nothing more."""
        answered = False
        for source in list(self._group.in_turn()):
            if not await asyncio.to_thread(follow, {}):
                return
            answered |= bool(await self._group.put(source, lambda chain: chain.ancestors(before, follow)))
        if not answered:
            raise self._group.failure()

    async def heights(self, txids: Iterable[bytes], before: BlockRef) -> dict[bytes, int]:
        """As far as any of them can tell; the next is asked only for what those before it could not tell."""
        return await self._collect(set(txids), lambda wanted: lambda chain: chain.heights(wanted, before))

    async def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """As far as any of them can tell; the next is asked only for what those before it could not tell."""
        return await self._collect(set(txids), lambda wanted: lambda chain: chain.transactions(wanted))

    async def _collect(
        self, wanted: set[_Key], asking: Callable[[set[_Key]], Callable[[Chain], Awaitable[dict[_Key, _T]]]]
    ) -> dict[_Key, _T]:
        found: dict[_Key, _T] = {}
        answered = False
        for source in list(self._group.in_turn()):
            if answered and (found.keys() >= wanted or source.state is not State.READY):
                break
            for answer in await self._group.put(source, asking(wanted - found.keys())):
                found |= answer
                answered = True
        if not answered:
            raise self._group.failure()
        return found

    async def refuse(self, ref: BlockRef, why: str) -> None:
        """Bad bytes: read the block from another source that has it, and leave it out only when none is left."""
        giver = next((source for height, source in reversed(self._served) if height <= ref.height), None)
        if giver is not None:
            giver.doubt(ref.hash, self._group.clock() + self._group.pace.doubt)
            log.warning("%s: %s serves a bad block %d: %s", self.name, giver.shown, ref.height, why)
        having = [source for source in list(self._group.in_turn()) if await self._has(source, ref)]
        others = [source for source in having if ref.hash not in source.bad]
        if others:
            self._group.use(others[0])
        else:
            for source in having:
                await self._group.put(source, lambda chain: chain.refuse(ref, why))
        self._group.news.set()

    async def _has(self, source: Source, ref: BlockRef) -> bool:
        """Whether a source's best chain holds this block."""
        answers = await self._group.put(source, lambda chain: chain.ref(ref.height))
        return any(theirs is not None and theirs.hash == ref.hash for theirs in answers)

    async def wait(self, seconds: float) -> None:
        """Return when any of them may have something new, at the latest after `seconds`."""
        current, news = self._group.current, self._group.news
        if current is None or current.state is not State.READY:
            return  # the next question decides who is asked
        awaited = [asyncio.create_task(_quietly(what)) for what in (news.wait(), current.chain.wait(seconds))]
        try:
            await asyncio.wait(awaited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in awaited:
                task.cancel()
            ended = await asyncio.gather(*awaited, return_exceptions=True)
        news.clear()
        for error in ended:
            if isinstance(error, SourceError):
                self._group.note_failure(current, error)
            elif isinstance(error, Exception):
                raise error


class SparseSeveral(Several):
    """The same over sources that are `Sparse`. Blocks between two that are told are not linked here: the follower asks
    whether the source that is read now has the one stored before."""

    sparse: Literal[True] = True

    def _links(self, ref: BlockRef, before: bytes) -> bool:  # noqa: ARG002
        return True

    async def tip(self) -> BlockRef | None:
        """As of any several; how deep a reorganisation may go is what the source that is read says now."""
        tip = await super().tip()
        if self._group.current is not None:
            self.finality = self._group.current.chain.finality
        return tip


async def _quietly(what: Awaitable[Any]) -> None:
    """Wait for something, whatever it gives."""
    await what
