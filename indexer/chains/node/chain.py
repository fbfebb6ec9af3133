"""A node as a chain: the best branch by our own checked headers, blocks, mempool and notifications."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from indexer.chains import BlockedBranch, Chain, HeaderStore
from indexer.chains.http_client import HttpClient
from indexer.chains.node import coin_parameters
from indexer.chains.node.address import Address
from indexer.chains.node.block_download import BlockDownload
from indexer.chains.node.client import NodeClient
from indexer.chains.node.coin_parameters import COIN_PARAMETERS
from indexer.chains.node.header_sync import NodeHeaderSync
from indexer.chains.node.rest import NoBlockError, Rest
from indexer.chains.node.transactions import Transactions
from indexer.chains.node.zmq_subscriber import ZmqSubscriber
from indexer.chains.prefetch import blocks as blocks_ahead
from indexer.chains.refused_blocks import RefusedBlocks
from indexer.errors import SourceError, SourceRefusalError, SourceUnavailableError
from indexer.headers.header_chain import HeaderChain
from indexer.headers.networks import RULES, Network
from indexer.model import UNCONFIRMED, BlockRef
from parsers.bitcoin.tx import Outpoint

log = logging.getLogger(__name__)

POLL_SECONDS = 0.25
"""Seconds between two polls of a node without ZeroMQ."""

SILENT_SECONDS = 5.0
"""Seconds between two polls of a node with ZeroMQ: a message may be lost."""

GATHER_SECONDS = 0.05
"""Transactions announced within these seconds cause one wake-up."""

LISTING_FACTOR, LISTING_LONGEST = 10.0, 5.0
"""The mempool is txids again after ten times the seconds that listing took, five at most."""

MEMPOOL_BYTES = 512 << 20

MAX_ANNOUNCED = 100_000
"""Announced transactions that are added to the last list of the mempool; a new list has the others."""


class NodeChain(Chain):
    """A chain as one node has it: its best branch by our own headers, its blocks, its mempool and the messages that it
    publishes."""

    warning = ""
    headers_unproved = False
    names_network = True

    def __init__(
        self, name: str, address: Address, options: Mapping[str, str], store: HeaderStore | None = None
    ) -> None:
        self.name, self._options, self._store = name, options, store
        self._coin = coin_parameters.coin(name, options)
        self.rules = RULES[self._coin]
        parameters = self._parameters = COIN_PARAMETERS[self._coin]
        self.headers_unproved = "auxpow" in options
        if self.headers_unproved and not parameters.auxpow:
            raise SourceError(f"{name}: auxpow is an option of doge only, as only its blocks are merge-mined")
        self.client = NodeClient(address)
        self.rest = Rest(self.client)
        self._bodies = BlockDownload(self.client, self.rest, parameters)
        self._transactions = Transactions(self.client, parameters)
        self._headers: HeaderChain | None = None
        self.zmq: ZmqSubscriber | None = None
        self._best: bytes | None = None
        self._syncing = asyncio.Lock()
        self._refused = RefusedBlocks(name)
        self._download: AsyncGenerator[tuple[BlockRef, memoryview], None] | None = None
        self._mempool_list: tuple[float, frozenset[bytes]] = (0.0, frozenset())
        self._announced: set[bytes] = set()
        self._listed_after = 0
        self._polled: object = None
        self._has_tx_index: bool | None = None

    # -- connecting

    async def open(self) -> None:
        """Identify the node's network and its indexes, and load the headers. Raises SourceError."""
        network = await self._network_now()
        if self._headers is None or self.caip2 != network.caip2:
            self.take_network(network, self._options)
            self.split_blocks = coin_parameters.SplitBlocks(self.client, network)
            headers = HeaderChain(self.name, network, self._store, auxpow_unchecked=self.headers_unproved)
            await asyncio.to_thread(headers.load)
            self._upkeep = NodeHeaderSync(self.client, self.rest, headers, self._parameters)
            self._headers, self._best = headers, None
            log.info("%s: the node at %s follows %s", self.name, self.client.address.base, network)
        await self._check_tx_index()
        if "zmq" in self._options and self.zmq is None:
            zmq = ZmqSubscriber(self.name, self._options["zmq"].split(","), self._announce)
            zmq.start()
            self.zmq = zmq

    def _announce(self, raw: bytes) -> None:
        txid = self._transactions.announce(raw)
        if txid is not None and len(self._announced) < MAX_ANNOUNCED:
            self._announced.add(txid)

    async def identify(self) -> str:
        """The network by the node's genesis block now. Raises OtherNetworkError for a network that is not
        configured."""
        return (await self._network_now()).caip2

    async def _network_now(self) -> Network:
        return await coin_parameters.network(self.client, self._coin, self._options.get("network"))

    async def _check_tx_index(self) -> None:
        """Warn of a node without a transaction index, on chains where the values of outputs are looked up."""
        if self.rules.envelope is None or self._has_tx_index:
            return
        self._has_tx_index = await coin_parameters.has_tx_index(self.client, self._parameters)
        self.warning = ""
        if self._has_tx_index is False:
            self.warning = (
                "the node has no transaction index: updates whose satoshi comes after another input's stay "
                "undecided; start it with -txindex=1"
            )
            log.warning("%s: %s", self.name, self.warning)

    async def close(self) -> None:
        """Close downloads, the ZeroMQ socket and all connections."""
        download, self._download = self._download, None
        if download is not None:
            await download.aclose()
        zmq, self.zmq = self.zmq, None
        if zmq is not None:
            await zmq.close()
        await self.client.close()

    @property
    def checked(self) -> str:
        """Which header rules are checked, in words; it may change while headers are read."""
        return self._headers.checked if self._headers is not None else ""

    @property
    def _header_chain(self) -> HeaderChain:
        if self._headers is None:
            raise SourceError(f"{self.name}: the node at {self.client.address.base} is not open")
        return self._headers

    @property
    def clients(self) -> Sequence[HttpClient]:
        """The HTTP client of the node."""
        return (self.client,)

    @property
    def blocked(self) -> BlockedBranch | None:
        """The lowest refused block of the node's best chain, until it is requested again."""
        return self._refused.blocked(self._header_chain, self._best) if self._best is not None else None

    # -- headers

    async def tip(self) -> BlockRef | None:
        """The node's newest block, below any refused one; its headers have been checked. Raises SourceError."""
        async with self._syncing:
            best = await self._reach()
        if self._has_tx_index is None:
            await self._check_tx_index()
        height = self._refused.last(self._header_chain, best)
        return None if height is None else self._header_chain.ref(height, best)

    async def _reach(self) -> bytes:
        """The hash of the node's newest block, once its headers are known."""
        headers = self._header_chain
        for _ in range(3):
            answer = str(await self.client.call("getbestblockhash"))
            best = _digest(answer)
            if best is None:
                raise SourceRefusalError(f"{self.name}: getbestblockhash answers {answer[:80]!a}")
            if best == self._best:
                return best
            if await self._upkeep.reach(best, self.first):
                await self.split_blocks.check(headers.find(best) or 0)
                self._best = best
                return best
        raise SourceUnavailableError(
            f"{self.name}: the node's best chain changes faster than its headers can be fetched"
        )

    async def ref(self, height: int) -> BlockRef | None:
        """The block at `height` of the branch that ended in the node's tip when `tip` was last called."""
        best = self._best
        last = self._refused.last(self._header_chain, best) if best is not None else None
        return None if last is None or not 0 <= height <= last else self._header_chain.ref(height, best)

    # -- blocks

    async def blocks(self, first: int, last: int) -> AsyncGenerator[tuple[BlockRef, memoryview], None]:
        """Blocks of the branch that ended in the node's tip when `tip` was last called, downloaded ahead.

        Raises SourceError; for pruned blocks, one that names the first height that the node still has.
        """
        download = self._download = blocks_ahead(self._refs(first, last), self._bodies.fetch)
        try:
            async for ref, data in download:
                yield ref, data
        except NoBlockError as error:
            raise await self._no_block(str(error)) from error
        finally:
            await download.aclose()

    def _refs(self, first: int, last: int) -> Iterator[BlockRef]:
        best = self._best
        end = self._refused.last(self._header_chain, best) if best is not None else None
        for height in range(first, min(last, -1 if end is None else end) + 1):
            ref = self._header_chain.ref(height, best)
            if ref is None:
                return
            yield ref

    async def _no_block(self, message: str) -> SourceError:
        info = await coin_parameters.node_info(self.client)
        if info.pruned_below:
            return SourceRefusalError(
                f"{self.name}: the node prunes its blocks and has them from {info.pruned_below:,} on; start with "
                f"?from={info.pruned_below}, or let it keep all (-prune=0, and -reindex)"
            )
        return SourceUnavailableError(f"{self.name}: the node does not send a block of its own chain: {message}")

    async def refuse(self, ref: BlockRef, reason: str) -> None:
        """Leave out a block and all on top of it for a minute, and then request it again."""
        self._refused.add(ref, reason)

    # -- transactions

    async def send(self, raw: bytes) -> None:
        """Send a transaction through the node. Raises RefusedTransactionError, SourceError."""
        await self.client.send_transaction(raw)

    async def mempool(self) -> frozenset[bytes] | None:
        """Txids of the node's mempool. Raises SourceError."""
        until, txids = self._mempool_list
        began = time.monotonic()
        if began < until:
            # and those announced since; none after a new block: its transactions are announced, too
            return txids | self._announced if self._blocks_published() == self._listed_after else txids
        self._announced.clear()
        self._listed_after = self._blocks_published()
        answer = await self.client.fetch(list[Any], "getrawmempool", limit=MEMPOOL_BYTES)
        txids = frozenset(txid for text in answer if (txid := _digest(str(text))) is not None)
        now = time.monotonic()
        self._mempool_list = (now + min(LISTING_FACTOR * (now - began), LISTING_LONGEST), txids)
        return txids

    def _blocks_published(self) -> int:
        return self.zmq.blocks if self.zmq is not None else 0

    async def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Raw transactions by txid, unconfirmed and (with `-txindex`) confirmed ones. Raises SourceError."""
        return await self._transactions.get(txids)

    async def unspent(self, outpoints: Collection[Outpoint]) -> set[Outpoint] | None:
        """The outputs, of those passed in, that the node's set of unspent outputs has; None where the node does not
        answer `gettxout`. Raises SourceError."""
        return await self._transactions.unspent(outpoints)

    async def heights(self, txids: Iterable[bytes], _before: BlockRef) -> dict[bytes, int]:
        """Heights of transactions: by our own headers, below them by the node's. Raises SourceError."""
        heights: dict[bytes, int] = {}
        for txid, digest in (await self._transactions.blocks(txids)).items():
            height = self._header_chain.find(digest)
            if height is None:
                answer = await self.client.call("getblockheader", digest[::-1].hex(), True)
                height = answer.get("height") if isinstance(answer, dict) else None
            if isinstance(height, int) and not isinstance(height, bool) and 0 <= height < UNCONFIRMED:
                heights[txid] = height
        return heights

    # -- waiting

    async def wait(self, seconds: float) -> None:
        """Return when the node has something new, at the latest after `seconds`. Raises SourceError."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (left := end - loop.time()) > 0:
            if self.zmq is not None:
                if await self._notified(self.zmq, min(left, SILENT_SECONDS)):
                    return
            else:
                await asyncio.sleep(min(left, POLL_SECONDS))
            if end - loop.time() > 0 and await self._changed():
                return

    async def _notified(self, zmq: ZmqSubscriber, seconds: float) -> bool:
        """Whether the node published something within these seconds. A block returns at once."""
        blocks = zmq.blocks
        try:
            async with asyncio.timeout(seconds):
                await zmq.event.wait()
        except TimeoutError:
            return False
        if zmq.blocks == blocks:
            await asyncio.sleep(GATHER_SECONDS)
        zmq.event.clear()
        return True

    async def _changed(self) -> bool:
        """Whether the node's tip or the size of its mempool differs from the last call's."""
        best, pool = await self.client.batch([("getbestblockhash", ()), ("getmempoolinfo", ())])
        size = (pool.get("size"), pool.get("bytes")) if isinstance(pool, dict) else None
        before, self._polled = self._polled, (best, size)
        return before != self._polled


def _digest(text: str) -> bytes | None:
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return None
    return raw[::-1] if len(raw) == 32 else None
