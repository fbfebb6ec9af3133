"""A stream of JungleBus as a chain: our own headers, and partial blocks of matching and extra transactions."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress

from indexer.chains import AncestorVisitor, Chain, ChainStore, PartialBlock
from indexer.chains.http_client import HttpClient, gather
from indexer.chains.junglebus.client import JungleBusClient
from indexer.chains.junglebus.header_sync import JungleBusHeaderSync
from indexer.chains.junglebus.proving import ExtraTransactions, Proven, Prover
from indexer.chains.junglebus.retry_queue import RetryQueue
from indexer.chains.junglebus.stream import JungleBusStream
from indexer.chains.junglebus.tracing import Tracer
from indexer.chains.junglebus.violations import ViolationError, Violations
from indexer.chains.source import fetch_ancestors
from indexer.errors import SourceError, SourceUnavailableError
from indexer.headers.header_chain import HeaderChain
from indexer.headers.networks import Network
from indexer.model import PARTIAL, BlockRef
from parsers.bitcoin.tx import Outpoint

log = logging.getLogger(__name__)

POLL_SECONDS = 10.0
"""Seconds between two requests of the server's tip, and of the newest blocks again."""

OVERLAP = 6
"""Newest blocks that are requested again: a server may have a block before it has matched its transactions."""

RETRIES = 16
"""Unproved transactions that are tried again in one recheck."""

MAX_PARENTS = 256
"""Transactions fetched at once for the values of their outputs; the others are fetched the next time."""


class JungleBusChain(Chain):
    """A chain read through a stream of JungleBus: partial blocks of proven transactions; some transactions may be
    missing.

    A transaction counts when its bytes hash to its txid and its merkle path ends at one of our headers. One without a
    valid proof is left out and retried; when it is proved later, its block is read again with it.
    """

    complete = False
    filtered = True

    def __init__(
        self,
        name: str,
        subscription_id: str,
        server: str,
        network: Network,
        options: Mapping[str, str],
        store: ChainStore | None,
    ) -> None:
        self.name = name
        self.take_network(network, options)
        self.violations = Violations(name)
        self.clock = time.monotonic
        self.retries = RetryQueue(name, store, self._now)
        self.poll_seconds = POLL_SECONDS
        self.client = JungleBusClient(name, server, self.violations, options.get("token", ""))
        self.headers = HeaderChain(name, network, store)
        self.prover = Prover(self.client, self.headers, self.violations)
        self.stream = JungleBusStream(self.client, name, subscription_id, self.violations)
        self._extra = ExtraTransactions(name, self.prover, store)
        self._tracer = Tracer(self.prover, self._extra, self.retries, self._now)
        self._sync: JungleBusHeaderSync | None = None
        self._delivered: dict[int, frozenset[bytes]] = {}
        self._unread: dict[bytes, int] = {}
        self._reread: set[tuple[bytes, bytes]] = set()
        self._tip_time = self._recheck_time = -POLL_SECONDS
        self._refused: set[bytes] = set()

    @property
    def checked(self) -> str:
        """Which rules of headers and transactions are checked, in words."""
        return f"{self.headers.checked}; of each transaction, its merkle path"

    @property
    def warning(self) -> str:
        """The limits of this source, and which transactions are unproved or left out."""
        notes = [self.retries.summary()] if len(self.retries) else []
        if self._refused:
            notes.append(f"the transactions of {len(self._refused):,} blocks are left out, as they cannot be read")
        return "; ".join([PARTIAL, *notes])

    @property
    def clients(self) -> Sequence[HttpClient]:
        """The HTTP client of its server."""
        return (self.client,)

    @property
    def violation_count(self) -> int:
        """How many of the server's responses were refused; `violations` counts them by kind."""
        return self.violations.total

    def _now(self) -> float:
        return self.clock()

    # -- headers

    async def open(self) -> None:
        """Load the stored headers, update them to the server's tip, and verify the stored transactions again."""
        self._sync = JungleBusHeaderSync(self.client, self.headers, self.violations, self.first)
        if self.headers.tip() is None:
            await asyncio.to_thread(self.headers.load)
        await self._refresh()
        await asyncio.to_thread(self.retries.load)
        for txid in await asyncio.to_thread(self._extra.load):
            self.retries.add(txid)

    async def _refresh(self) -> None:
        if self._sync is None:
            raise SourceError(f"{self.name}: not open")
        await self._sync.refresh()
        self._tip_time = self.clock()

    async def tip(self) -> BlockRef | None:
        """The newest block of our best chain; the server's headers are fetched every `poll_seconds`."""
        if self.clock() - self._tip_time >= self.poll_seconds:
            await self._refresh()
        return self.headers.tip()

    async def ref(self, height: int) -> BlockRef | None:
        """The best chain's block at `height`."""
        return self.headers.ref(height)

    # -- blocks

    async def blocks(self, first: int, last: int) -> AsyncGenerator[tuple[BlockRef, PartialBlock], None]:
        """Partial blocks of the best chain; ends early, after the last complete block, when the server fails."""
        height = first
        proven_by_height: dict[int, dict[bytes, Proven]] = {}
        try:
            async with aclosing(self.stream.pages(first, last)) as pages:
                async for page in pages:
                    for proven in await self._tracer.admit(page.matches):
                        proven_by_height.setdefault(proven.height, {})[proven.txid] = proven
                    while height <= page.complete and (ref := self.headers.ref(height)) is not None:
                        partial_block = self._partial_block(ref, proven_by_height.pop(height, {}))
                        await self.retries.save_added()
                        yield ref, partial_block
                        height += 1
        except SourceUnavailableError as error:
            if height == first:
                raise
            log.warning("%s: stopped before block %d: %s", self.name, height, error)

    def _partial_block(self, ref: BlockRef, matching: dict[bytes, Proven]) -> PartialBlock:
        """The matching and extra transactions of a block that are still part of the best chain."""
        extra, removed = self._extra.of_block(ref.height)
        here = matching | {proven.txid: proven for proven in extra}
        for txid in [*removed, *(txid for txid, proven in here.items() if not self.prover.is_current(proven))]:
            here.pop(txid, None)
            self.retries.add(txid)
        self._delivered[ref.height] = frozenset(here)
        self._delivered.pop(ref.height - 2 * OVERLAP, None)
        if ref.hash in self._refused or not here:
            return PartialBlock()
        return PartialBlock(tuple(sorted(proven.transaction for proven in here.values())))

    # -- transactions delivered late, or not at all

    async def recheck(self, newest: BlockRef) -> int | None:
        """Request the newest blocks again, and retry unproved transactions; the lowest height to read again."""
        if not self._unread:
            await self.retries.save_removed()
        if self.clock() - self._recheck_time >= self.poll_seconds:
            self._recheck_time = self.clock()
            await self._recheck_newest(newest.height)
        for txid in self.retries.due(RETRIES):
            proven = await self._tracer.prove(txid)
            if proven is not None:
                await self._extra.add(proven)
                self._unread[txid] = proven.height
        await self.retries.save_added()
        return self._lowest_unread(newest.height)

    def _lowest_unread(self, stored: int) -> int | None:
        """The lowest stored block that was read without one of its transactions; each causes one reread, or more where
        the newest blocks are known to lack it."""
        unread, self._unread = self._unread, {}
        late = {
            (txid, ref.hash): height
            for txid, height in unread.items()
            if height <= stored and txid not in self._delivered.get(height, ()) and (ref := self.headers.ref(height))
        }
        fresh = {key for key, height in late.items() if key not in self._reread or height in self._delivered}
        self._reread |= fresh
        return min((late[key] for key in fresh), default=None)

    async def _recheck_newest(self, height: int) -> None:
        """Request the newest blocks again: there may be matches that were not delivered before."""
        async for page in self.stream.pages(max(self.first, height - OVERLAP + 1), height):
            fresh = [match for match in page.matches if match.txid not in self._delivered.get(match.height, ())]
            for proven in await self._tracer.admit(fresh):
                if proven.height in self._delivered:  # the next page may lack it, as the one did that was read
                    await self._extra.add(proven)
                self._unread[proven.txid] = proven.height

    async def is_spent(self, outpoint: Outpoint) -> bool | None:
        """Whether an output is spent; the spending transaction is part of its block from then on."""
        spender = await self._tracer.spender(outpoint)
        if isinstance(spender, Proven):
            self._unread[spender.txid] = spender.height
            return True
        return spender

    # -- transactions by txid

    async def values(self, outpoints: Iterable[Outpoint], before: BlockRef) -> dict[Outpoint, int]:
        """Satoshis of outputs, from at most MAX_PARENTS transactions."""
        requested = list(outpoints)
        parents = set(list(dict.fromkeys(outpoint.txid for outpoint in requested))[:MAX_PARENTS])
        return await super().values((outpoint for outpoint in requested if outpoint.txid in parents), before)

    async def ancestors(self, _before: BlockRef, visit: AncestorVisitor) -> None:
        """Ancestors by txid, which commits to their bytes; at most MAX_PARENTS."""
        left = MAX_PARENTS

        async def fetch(txids: set[bytes]) -> dict[bytes, bytes]:
            nonlocal left
            chosen = sorted(txids)[:left]
            left -= len(chosen)
            return await self.transactions(chosen)

        await fetch_ancestors(fetch, visit)

    async def heights(self, txids: Iterable[bytes], _before: BlockRef) -> dict[bytes, int]:
        """Heights of transactions with a merkle path to one of our headers."""
        proven = await gather(self._prove_or_none(txid) for txid in txids)
        return {result.txid: result.height for result in proven if result is not None}

    async def _prove_or_none(self, txid: bytes) -> Proven | None:
        with suppress(ViolationError):
            return await self.prover.prove(txid)
        return None

    async def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Raw transactions by txid, confirmed or not, as far as the server has them."""
        return await self.prover.raws(txids)

    async def refuse(self, ref: BlockRef, reason: str) -> None:
        """Deliver this block without transactions from now on."""
        log.error("%s: the transactions of block %d are left out: %s", self.name, ref.height, reason)
        self._refused.add(ref.hash)

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()
