"""A chain read from peers: the branch with most work by our own checked headers, and its blocks, which are checked by
merkle root and witness commitment. Peers answer no question
about a confirmed transaction."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping

from indexer.chains import BlockedBranch, Chain, HeaderStore, PeerCounts
from indexer.chains.peers.header_sync import PeerHeaderSync
from indexer.chains.peers.peer_mempool import PeerMempool
from indexer.chains.peers.pool import WINDOW, Addresses, PeerPool
from indexer.chains.peers.wire_networks import wire_network
from indexer.chains.prefetch import BLOCKS
from indexer.chains.prefetch import blocks as blocks_ahead
from indexer.chains.refused_blocks import RefusedBlocks
from indexer.errors import SourceError, SourceUnavailableError
from indexer.headers.header_chain import HeaderChain
from indexer.headers.networks import Network
from indexer.model import BlockRef
from parsers.bitcoin import tx
from parsers.errors import ParseError

log = logging.getLogger(__name__)

WAIT_SECONDS = 10.0
"""Seconds without a header after which a chain without a synchronised peer is unreachable."""


FEW_NETWORKS, MISSED_BLOCKS = 3, 6
"""A warning is due below so many networks of addresses, and after so many usual intervals without a block."""


ANNOUNCERS = 2
"""Networks of addresses with peers that announce a transaction before it counts; a node that the operator names is
enough."""

GATHER_SECONDS = 0.05
"""Transactions that arrive within these seconds cause one wake-up."""


class PeersChain(Chain):
    """A chain from `count` peers at `addresses`, with at most `budget` bytes of unconfirmed transactions a second (0:
    none)."""

    lacks_transactions = True

    def __init__(
        self,
        name: str,
        network: Network,
        options: Mapping[str, str],
        addresses: Addresses,
        count: int,
        budget: int = 0,
        store: HeaderStore | None = None,
    ) -> None:
        self.name, self._network, self._store = name, network, store
        self._addresses, self._count, self._budget = addresses, count, budget
        self.take_network(network, options)
        self._refused = RefusedBlocks(name)
        self._lookups: list[Chain] = []
        self._news, self._is_urgent = asyncio.Event(), False
        self._pool: PeerPool | None = None
        self._headers = HeaderChain(name, network, store)
        self._sync = PeerHeaderSync(name, network, self._headers, self.first)

    @property
    def checked(self) -> str:
        """Which rules of headers and blocks are checked, in words."""
        witnesses = " and the commitment to its witnesses" if self.rules.segwit else ""
        return f"{self._headers.checked}; of each block its merkle root{witnesses}"

    @property
    def silence(self) -> float:
        """The seconds without a block while one is requested."""
        return self._pool.answers.silence if self._pool is not None else 0.0

    @property
    def violation_count(self) -> int:
        """How many peers broke a rule of the protocol, or sent what cannot be true."""
        return self._pool.violation_count if self._pool is not None else 0

    @property
    def peers(self) -> PeerCounts:
        """The peers that have sent their headers."""
        pool = self._pool
        synced = sum(peer.is_synced for peer in pool.peers) if pool is not None else 0
        return PeerCounts(synced, pool.networks if pool is not None else 0)

    @property
    def warning(self) -> str:
        """Whether peers may keep blocks from this program: they are in few networks, or no block has come for long."""
        texts = []
        if self._addresses.keeps_learning and self._pool is not None and self._pool.networks < FEW_NETWORKS:
            texts.append(
                f"the peers are in {self._pool.networks} networks of addresses, and should be in {FEW_NETWORKS}: those "
                "of one operator can keep blocks back"
            )
        if (mempool := self._pool.mempool if self._pool is not None else None) is not None and mempool.unread:
            texts.append(f"{mempool.unread:,} announced transactions were not read: they exceed mempool={self._budget}")
        newest, interval = self._headers.newest(), wire_network(self._network).interval
        if newest is not None and self._network.kind == "mainnet":
            late = int(time.time()) - newest.time
            if late > MISSED_BLOCKS * interval:
                texts.append(f"the newest block is {late // 60:,} minutes old; usual are {interval / 60:g} minutes")
        return "; ".join(texts)

    @property
    def blocked(self) -> BlockedBranch | None:
        """The lowest refused block of the best chain, until it is requested again."""
        tip = self._headers.tip()
        return self._refused.blocked(self._headers, tip.hash) if tip is not None else None

    async def open(self) -> None:
        """Load the stored headers, and begin to connect to peers."""
        if self._pool is not None:
            return
        if self._headers.newest() is None:
            await asyncio.to_thread(self._headers.load)
        wire = wire_network(self._network)
        announcers = ANNOUNCERS if self._addresses.keeps_learning else 1
        mempool = PeerMempool(wire, self._budget, announcers, self._news.set) if self._budget else None
        pool = PeerPool(
            self.name, wire, self._addresses, self._count, self._sync, self._height, self._note_change, mempool
        )
        pool.start()
        self._pool = pool

    def _note_change(self) -> None:
        self._is_urgent = True
        self._news.set()

    def _height(self) -> int:
        newest = self._headers.newest()
        return newest.height if newest is not None else 0

    async def close(self) -> None:
        """End all connections."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()
        for chain in self._lookups:
            await chain.close()

    @property
    def pool(self) -> PeerPool:
        """The connected peers. Raises SourceError."""
        if self._pool is None:
            raise SourceError(f"{self.name}: the chain is not open")
        return self._pool

    # -- headers

    async def tip(self) -> BlockRef | None:
        """The newest block of the best chain, below any refused one, once a peer has sent all its headers. Raises
        SourceUnavailableError."""
        await self._reached()
        best = self._headers.tip()
        last = self._refused.last(self._headers, best.hash) if best is not None else None
        return None if best is None or last is None else self._headers.ref(last, best.hash)

    async def _reached(self) -> None:
        """Wait until a peer has sent all its headers, while more arrive. Raises SourceUnavailableError."""
        count, pool = -1, self.pool
        while not pool.is_synced:
            if self._sync.count == count:
                raise SourceUnavailableError(
                    f"{self.name}: {len(pool.peers)} peers are connected, and none has sent its headers; the last that "
                    f"was left: {pool.last_error}"
                )
            count = self._sync.count
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    while not pool.is_synced:
                        self._news.clear()
                        await self._news.wait()
            except TimeoutError:
                continue

    async def ref(self, height: int) -> BlockRef | None:
        """The best chain's block at `height`, None above the tip and from a refused block on."""
        best = self._headers.tip()
        last = self._refused.last(self._headers, best.hash) if best is not None else None
        return None if best is None or last is None or height > last else self._headers.ref(height, best.hash)

    async def wait(self, seconds: float) -> None:
        """Return when there are new headers, peers or transactions, at the latest after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return
        if not self._is_urgent:
            await asyncio.sleep(GATHER_SECONDS)
        self._is_urgent = False
        self._news.clear()

    # -- unconfirmed transactions

    async def mempool(self) -> frozenset[bytes] | None:
        """Txids of transactions that peers announced, that have arrived, and that are in no block of the best chain."""
        mempool = self.pool.mempool
        return mempool.listed(self._headers.is_best) if mempool is not None else None

    async def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """The bytes of unconfirmed transactions, as far as they are in memory; others of the sources added for that."""
        requested, mempool = set(txids), self.pool.mempool
        unconfirmed = mempool.get(requested) if mempool is not None else {}
        missing = {txid for txid in requested - unconfirmed.keys() if mempool is None or txid not in mempool}
        return unconfirmed | await self._look_up(missing)

    def add_lookup(self, chain: Chain) -> None:
        """Request confirmed transactions of this source."""
        self._lookups.append(chain)

    async def _look_up(self, missing: set[bytes]) -> dict[bytes, bytes]:
        """Transactions of the sources added, one after the other; what fails is missing."""
        results: dict[bytes, bytes] = {}
        for chain in self._lookups:
            if not (left := missing - results.keys()):
                break
            try:
                raws = await chain.transactions(left)
            except SourceError as error:
                log.warning("%s: transactions cannot be looked up: %s", self.name, error)
                continue
            results |= {txid: raw for txid, raw in raws.items() if txid in left and self._is_of(txid, raw)}
        return results

    def _is_of(self, txid: bytes, raw: bytes) -> bool:
        try:
            return tx.read_exactly(raw, segwit=self.rules.segwit).txid == txid
        except ParseError:
            return False

    # -- blocks

    async def blocks(self, first: int, last: int) -> AsyncGenerator[tuple[BlockRef, memoryview], None]:
        """Blocks of the branch that is the best now, downloaded ahead from several peers. Raises SourceError."""
        pool = self.pool
        requests = min(BLOCKS, WINDOW * max(1, len(pool.peers)))
        download = blocks_ahead(self._refs(first, last), pool.fetch, requests)
        try:
            async for ref, data in download:
                yield ref, data
        finally:
            await download.aclose()

    def _refs(self, first: int, last: int) -> Iterator[BlockRef]:
        best = self._headers.tip()
        end = self._refused.last(self._headers, best.hash) if best is not None else None
        if best is None or end is None:
            return
        for height in range(first, min(last, end) + 1):
            ref = self._headers.ref(height, best.hash)
            if ref is None:
                return
            yield ref

    async def refuse(self, ref: BlockRef, reason: str) -> None:
        """Leave out a block, of which all peers have the same bytes, and all on top of it for a minute."""
        self._refused.add(ref, reason)
