"""A node as a chain: its best branch by our own checked headers, its blocks, its mempool, and what it publishes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

from indexer.chains import Follow, HeaderRows, Rules, SourceError, SourceUnavailableError, ancestors
from indexer.chains.node import identity
from indexer.chains.node.address import Address
from indexer.chains.node.ahead import blocks as blocks_ahead
from indexer.chains.node.bodies import Bodies
from indexer.chains.node.client import Client
from indexer.chains.node.habits import HABITS
from indexer.chains.node.news import News
from indexer.chains.node.rest import NotThereError, Rest
from indexer.chains.node.transactions import Transactions
from indexer.chains.node.upkeep import Upkeep
from indexer.facts import BlockRef
from indexer.headers import HeaderChain
from indexer.networks import RULES
from parsers.tx import Outpoint

log = logging.getLogger(__name__)

POLL_SECONDS = 0.25
"""How often the node is asked whether there is something new, where it publishes nothing."""

SILENT_SECONDS = 5.0
"""How often it is asked although it publishes: a message may be lost."""

GATHER_SECONDS = 0.05
"""Transactions that are announced within this time are news once."""

LISTING_FACTOR, LISTING_LONGEST = 10.0, 5.0
"""The mempool is listed again after ten times the seconds that it took, five at most: a large one is not all we do."""

REFUSED_SECONDS = 60.0
"""After that a refused block is asked for again: what was wrong may have been on the way."""

MEMPOOL_BYTES = 512 << 20

MOST_ANNOUNCED = 100_000
"""Transactions published since the mempool was listed that are counted in; a new list tells of more."""


class NodeChain:
    """A chain as one node has it. `warning` says what works less well than it could with another configuration;
    `headers_unproved` whether merge-mined headers are taken without their proof of work."""

    caip2: str
    network: str
    rules: Rules
    finality: int | None
    first: int
    complete = True

    def __init__(self, name: str, address: Address, options: Mapping[str, str], rows: HeaderRows | None = None) -> None:
        self.name, self._options, self._rows = name, options, rows
        self._coin = identity.coin(name, options)
        self.rules, self.warning = RULES[self._coin], ""
        habits = self._habits = HABITS[self._coin]
        self.headers_unproved = "auxpow" in options
        if self.headers_unproved and not habits.auxpow:
            raise SourceError(f"{name}: auxpow is an option of doge only, whose blocks are merge-mined")
        self._client = Client(address)
        self._rest = Rest(self._client)
        self._bodies = Bodies(self._client, self._rest, habits)
        self._transactions = Transactions(self._client, habits)
        self._headers: HeaderChain | None = None
        self._news: News | None = None
        self._best: bytes | None = None
        self._syncing = asyncio.Lock()
        self._refused: dict[bytes, float] = {}
        self._reading: AsyncGenerator[tuple[BlockRef, memoryview], None] | None = None
        self._listing: tuple[float, frozenset[bytes]] = (0.0, frozenset())
        self._announced: set[bytes] = set()
        self._listed_after = 0
        self._seen: object = None
        self._keeps_transactions: bool | None = None

    # -- connecting

    async def open(self) -> None:
        """Find out which network the node is on and what it keeps; load the headers. Raises SourceError."""
        if self._headers is None:
            known = await identity.network(self._client, self._coin, self._options.get("network"))
            self.caip2, self.network = known.caip2, known.kind
            self.first = int(self._options.get("from", known.first))
            given = self._options.get("finality")
            self.finality = known.finality if given is None else int(given)
            self._milestones = identity.Milestones(self._client, known)
            headers = HeaderChain(self.name, known, self._rows, auxpow_unchecked=self.headers_unproved)
            await asyncio.to_thread(headers.load)
            self._upkeep = Upkeep(self._client, self._rest, headers, self._habits)
            self._headers = headers
            log.info("%s: the node at %s follows %s", self.name, self._client.address.base, known)
        await self._look_at_index()
        self._subscribe()

    def _subscribe(self) -> None:
        if "zmq" in self._options and self._news is None:
            news = News(self.name, self._options["zmq"].split(","), self._announce)
            news.start()
            self._news = news

    def _announce(self, raw: bytes) -> None:
        txid = self._transactions.announce(raw)
        if txid is not None and len(self._announced) < MOST_ANNOUNCED:
            self._announced.add(txid)

    async def _look_at_index(self) -> None:
        """Warn of a node that finds no confirmed transactions, on chains where values have to be looked up."""
        if self.rules.envelope is None or self._keeps_transactions:
            return
        self._keeps_transactions = await identity.keeps_transactions(self._client, self._habits)
        self.warning = ""
        if self._keeps_transactions is False:
            self.warning = (
                "the node has no index of transactions: updates whose satoshi stands behind another input stay "
                "undecided; start it with -txindex=1"
            )
            log.warning("%s: %s", self.name, self.warning)

    async def close(self) -> None:
        """End reading, the subscription and all connections."""
        reading, self._reading = self._reading, None
        if reading is not None:
            await reading.aclose()
        news, self._news = self._news, None
        if news is not None:
            await news.close()
        await self._client.close()

    @property
    def checked(self) -> str:
        """Which rules of headers are checked, in words; it may change with what has been read."""
        return self._headers.checked if self._headers is not None else ""

    @property
    def _known(self) -> HeaderChain:
        if self._headers is None:
            raise SourceError(f"{self.name}: the node at {self._client.address.base} is not open")
        return self._headers

    # -- where it is

    async def tip(self) -> BlockRef | None:
        """The node's newest block, below any that was refused; its headers are checked by then. Raises SourceError."""
        async with self._syncing:
            best = await self._reach()
        if self._keeps_transactions is None:
            await self._look_at_index()
        height = self._last(best)
        return None if height is None else self._known.ref(height, best)

    async def _reach(self) -> bytes:
        """The hash of the node's newest block, once its headers are known."""
        known = self._known
        for _ in range(3):
            told = str(await self._client.call("getbestblockhash"))
            best = _digest(told)
            if best is None:
                raise SourceError(f"{self.name}: getbestblockhash answers {told[:80]!a}")
            if best == self._best:
                return best
            if await self._upkeep.reach(best, self.first):
                await self._milestones.check(known.find(best) or 0)
                self._best = best
                return best
        raise SourceUnavailableError(f"{self.name}: the node's best chain changes faster than its headers are told")

    def _last(self, best: bytes) -> int | None:
        """The height of the node's tip, or below the lowest refused block of its branch."""
        now = time.monotonic()
        self._refused = {digest: until for digest, until in self._refused.items() if until > now}
        height = self._known.find(best)
        for digest in self._refused:
            at = self._known.find(digest)
            ours = self._known.ref(at, best) if at is not None else None
            if height is not None and at is not None and ours is not None and ours.hash == digest:
                height = min(height, at - 1)
        return height

    async def ref(self, height: int) -> BlockRef | None:
        """The block at `height` of the branch that ended in the node's tip when that was last asked for."""
        best = self._best
        last = self._last(best) if best is not None else None
        return None if last is None or not 0 <= height <= last else self._known.ref(height, best)

    # -- blocks

    async def blocks(self, first: int, last: int) -> AsyncIterator[tuple[BlockRef, memoryview]]:
        """Blocks of the branch that ended in the node's tip when that was last asked for, fetched ahead.

        Raises SourceError; one that names the first height to be had where the node has pruned what is asked for.
        """
        reading = self._reading = blocks_ahead(self._refs(first, last), self._bodies.fetch)
        try:
            async for ref, data in reading:
                yield ref, data
        except NotThereError as error:
            raise await self._not_there(str(error)) from error
        finally:
            await reading.aclose()

    def _refs(self, first: int, last: int) -> Iterator[BlockRef]:
        best = self._best
        end = self._last(best) if best is not None else None
        for height in range(first, min(last, -1 if end is None else end) + 1):
            ref = self._known.ref(height, best)
            if ref is None:
                return
            yield ref

    async def _not_there(self, said: str) -> SourceError:
        facts = await identity.facts(self._client)
        if facts.pruned_below:
            return SourceError(
                f"{self.name}: the node prunes its blocks and keeps them from {facts.pruned_below:,} on; start with "
                f"?from={facts.pruned_below}, or let it keep all (-prune=0, and -reindex)"
            )
        return SourceUnavailableError(f"{self.name}: the node does not give a block of its own chain: {said}")

    async def refuse(self, ref: BlockRef, why: str) -> None:
        """Leave out a block and what is on top of it for a minute, and then ask the node for it again."""
        log.error("%s: block %d is left out for %d s: %s", self.name, ref.height, REFUSED_SECONDS, why)
        self._refused[ref.hash] = time.monotonic() + REFUSED_SECONDS

    # -- transactions

    async def mempool(self) -> frozenset[bytes] | None:
        """Txids of what is unconfirmed at the node. Raises SourceError."""
        until, listed = self._listing
        began = time.monotonic()
        if began < until:
            return listed | self._since_listed()
        self._announced.clear()
        self._listed_after = self._blocks_told()
        told: Any = await self._client.call("getrawmempool", limit=MEMPOOL_BYTES)
        if not isinstance(told, list):
            raise SourceError(f"{self.name}: getrawmempool answers no list")
        listed = frozenset(txid for text in told if (txid := _digest(str(text))) is not None)
        now = time.monotonic()
        self._listing = (now + min(LISTING_FACTOR * (now - began), LISTING_LONGEST), listed)
        return listed

    def _blocks_told(self) -> int:
        return self._news.blocks if self._news is not None else 0

    def _since_listed(self) -> set[bytes]:
        """What was published since; nothing once there was a block, whose transactions are published too."""
        return self._announced if self._blocks_told() == self._listed_after else set()

    async def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Raw transactions by txid, unconfirmed and (with the node's txindex) confirmed ones. Raises SourceError."""
        return await self._transactions.get(txids)

    async def values(self, outpoints: Iterable[Outpoint], before: BlockRef) -> dict[Outpoint, int]:
        """Satoshis of outputs whose transaction the node finds; a txid commits to them. Raises SourceError."""
        del before  # what a txid says is the same at any height
        return await self._transactions.values(outpoints)

    async def ancestors(self, _before: BlockRef, follow: Follow) -> None:
        """Ancestors by txid, which commits to their bytes. Raises SourceError."""
        await ancestors.fetch(self.transactions, follow)

    async def heights(self, txids: Iterable[bytes], _before: BlockRef) -> dict[bytes, int]:
        """Heights of transactions: by our own headers, and below those as the node says. Raises SourceError."""
        found = {}
        for txid, digest in (await self._transactions.blocks(txids)).items():
            height = self._known.find(digest)
            if height is None:
                told = await self._client.call("getblockheader", digest[::-1].hex(), True)
                height = told.get("height") if isinstance(told, dict) else None
            if isinstance(height, int):
                found[txid] = height
        return found

    # -- waiting

    async def wait(self, seconds: float) -> None:
        """Return when the node has or says something new, at the latest after `seconds`. Raises SourceError."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (left := end - loop.time()) > 0:
            if self._news is not None:
                if await self._told(self._news, min(left, SILENT_SECONDS)):
                    return
            else:
                await asyncio.sleep(min(left, POLL_SECONDS))
            if end - loop.time() > 0 and await self._changed():
                return

    async def _told(self, news: News, seconds: float) -> bool:
        """Whether the node published something within these seconds. A block is news at once."""
        blocks = news.blocks
        try:
            async with asyncio.timeout(seconds):
                await news.event.wait()
        except TimeoutError:
            return False
        if news.blocks == blocks:
            await asyncio.sleep(GATHER_SECONDS)
        news.event.clear()
        return True

    async def _changed(self) -> bool:
        """Whether the node's tip or the size of its mempool is another than when this was asked last."""
        best, pool = await self._client.batch([("getbestblockhash", ()), ("getmempoolinfo", ())])
        size = (pool.get("size"), pool.get("bytes")) if isinstance(pool, dict) else None
        before, self._seen = self._seen, (best, size)
        return before != self._seen


def _digest(text: str) -> bytes | None:
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return None
    return raw[::-1] if len(raw) == 32 else None
