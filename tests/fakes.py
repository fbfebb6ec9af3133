"""Stand-ins for the edges: a chain in memory that does what a test says."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Collection, Iterable

from indexer.chains import AncestorVisitor, Chain
from indexer.errors import RefusedTransactionError, SourceUnavailableError
from indexer.headers.networks import CoinRules
from indexer.model import BlockRef
from parsers.bitcoin import block
from parsers.bitcoin.tx import Outpoint, sha256d
from parsers.bitcoin.tx import read as read_tx
from tests.chainkit_blocks import Block
from tests.oracles.wire import work

RULES = {
    "bsv": CoinRules("bsv", segwit=False, envelope="output"),
    "bch": CoinRules("bch", segwit=False, envelope=None),
    "btc": CoinRules("btc", segwit=True, envelope="witness"),
    "ltc": CoinRules("ltc", segwit=True, envelope="witness"),
    "doge": CoinRules("doge", segwit=False, envelope=None),
}


class MemoryChain(Chain):
    """A `Chain` of blocks that arrive one by one, in any order. The branch of most work is best, of equals the first.

        chain = MemoryChain(*kit.blocks)
        chain.arrive(kit.mine())
        chain.prefer(kit["3a"])        # whatever the work says
        chain.down = "no route"        # SourceUnavailableError until it is "" again
        chain.hidden.add(outpoint)     # a value that this source cannot tell
        chain.lost.add(txid)           # a transaction that this source cannot fetch
        chain.unconfirmed[txid] = raw  # a transaction in the mempool, until it is deleted again
        chain.has_blocks_alone = True  # this source has no mempool, and no set of unspent outputs

    `asked` holds the outpoints whose values were asked for, `fetched` the ancestors asked for, `refused` the blocks
    that were refused, and why.
    """

    checked = "nothing"

    def __init__(
        self, *blocks: Block | bytes, name: str = "demo", coin: str = "bsv", finality: int | None = None, first: int = 0
    ) -> None:
        self.name, self.network, self.finality, self.first = name, "regtest", finality, first
        self.caip2, self.rules = f"{coin}:regtest", RULES[coin]
        self.down, self.has_blocks_alone = "", False
        self.complete = True
        self.unconfirmed: dict[bytes, bytes] = {}
        self.sent: list[bytes] = []
        self.hidden: set[Outpoint] = set()
        self.lost: set[bytes] = set()
        self.fetched: list[bytes] = []
        self.requests: list[Outpoint] = []
        self.refused: list[tuple[BlockRef, str]] = []
        self._raws: dict[bytes, bytes] = {}
        self.refs: dict[bytes, BlockRef] = {}
        self._work: dict[bytes, int] = {bytes(32): 0}
        self._waiting: dict[bytes, list[bytes]] = {}
        self._best: list[BlockRef] = []
        self._news = asyncio.Event()
        self.arrive(*blocks)

    # -- what a test says -----------------------------------------------------------------------------------------

    def arrive(self, *blocks: Block | bytes) -> None:
        """These blocks are known from now on; one whose parent is not, once that arrives."""
        for item in blocks:
            raw = item if isinstance(item, bytes) else item.raw
            self._link(raw)
        self._choose()
        self._news.set()

    def _link(self, raw: bytes) -> None:
        prev, hash_ = raw[4:36], sha256d(raw[:80])
        if prev not in self._work:
            self._waiting.setdefault(prev, []).append(raw)
            return
        height = self.refs[prev].height + 1 if prev in self.refs else 0
        time = int.from_bytes(raw[68:72], "little")
        self._raws[hash_] = raw
        self.refs[hash_] = BlockRef(self.name, height, hash_, prev, time, raw[:80])
        self._work[hash_] = self._work[prev] + work(raw)
        for child in self._waiting.pop(hash_, ()):
            self._link(child)

    def _choose(self) -> None:
        heaviest = max((ref.hash for ref in self.refs.values()), key=self._work.__getitem__, default=None)
        if heaviest is not None and (not self._best or self._work[heaviest] > self._work.get(self._best[-1].hash, -1)):
            self._best = self.branch(heaviest)

    def prefer(self, tip: Block) -> None:
        """The best chain ends in this block, whatever the work of others, until a heavier one arrives."""
        self.arrive(tip)
        self._best = self.branch(tip.hash)
        self._news.set()

    def branch(self, tip: bytes) -> list[BlockRef]:
        """The blocks from genesis to the one of this hash."""
        results = []
        while tip in self.refs:
            results.append(self.refs[tip])
            tip = self.refs[tip].prev
        return results[::-1]

    @property
    def best(self) -> list[BlockRef]:
        """The best chain, genesis first."""
        return list(self._best)

    def raw(self, ref: BlockRef) -> bytes:
        """The bytes of a block."""
        return self._raws[ref.hash]

    # -- what an indexer asks -------------------------------------------------------------------------------------

    def _answer(self) -> None:
        if self.down:
            raise SourceUnavailableError(self.down)

    async def open(self) -> None:
        self._answer()

    async def tip(self) -> BlockRef | None:
        self._answer()
        return self._best[-1] if self._best else None

    async def ref(self, height: int) -> BlockRef | None:
        self._answer()
        return self._best[height] if 0 <= height < len(self._best) else None

    async def blocks(self, first: int, last: int) -> AsyncIterator[tuple[BlockRef, memoryview]]:
        chain = self._best
        for ref in chain[first : last + 1]:
            self._answer()
            if chain is not self._best:
                return
            yield ref, memoryview(self._raws[ref.hash])

    def mined(self, before: BlockRef) -> dict[bytes, tuple[int, bytes]]:
        """Heights and raw transactions of the branch that ends in `before`, by txid."""
        results = {}
        for ref in self.branch(before.hash):
            raw = self._raws[ref.hash]
            starts = block.tx_offsets(raw, segwit=self.rules.segwit).tolist()
            for start, end in itertools.pairwise(starts):
                results[read_tx(raw, start, segwit=self.rules.segwit).txid] = ref.height, raw[start:end]
        return results

    async def values(self, outpoints: Iterable[Outpoint], before: BlockRef) -> dict[Outpoint, int]:
        self._answer()
        requested = set(outpoints)
        self.requests += requested
        created = {}
        for _, raw in self.mined(before).values():
            tx = read_tx(raw, segwit=self.rules.segwit)
            created |= {tx.outpoint(vout): output.satoshis for vout, output in enumerate(tx.outputs)}
        return {item: created[item] for item in requested if item in created and item not in self.hidden}

    async def ancestors(self, before: BlockRef, visit: AncestorVisitor) -> None:
        self._answer()
        mined, query = self.mined(before), set[bytes]()
        missing = visit({})
        while missing := missing - query:
            query |= missing
            self.fetched += missing
            missing = visit({txid: mined[txid][1] for txid in missing & mined.keys() - self.lost})

    async def heights(self, txids: Iterable[bytes], before: BlockRef) -> dict[bytes, int]:
        mined = self.mined(before)
        return {txid: mined[txid][0] for txid in set(txids) & mined.keys() - self.lost}

    async def mempool(self) -> frozenset[bytes] | None:
        self._answer()
        return None if self.has_blocks_alone else frozenset(self.unconfirmed)

    async def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        self._answer()
        return {txid: self.unconfirmed[txid] for txid in txids if txid in self.unconfirmed}

    async def unspent(self, outpoints: Collection[Outpoint]) -> set[Outpoint] | None:
        self._answer()
        return None if self.has_blocks_alone else set(outpoints) & self.coins()

    def coins(self) -> set[Outpoint]:
        """All outputs of the best chain that it has not spent."""
        created, spent = set[Outpoint](), set[Outpoint]()
        for _, raw in self.mined(self._best[-1]).values():
            tx = read_tx(raw, segwit=self.rules.segwit)
            created |= {tx.outpoint(vout) for vout in range(len(tx.outputs))}
            spent |= {item.prevout for item in tx.inputs}
        return created - spent

    async def send(self, raw: bytes) -> None:
        self._answer()
        tx = read_tx(raw)
        existing = self.unconfirmed.keys() | self.mined(self._best[-1]).keys()
        if not {spent.prevout.txid for spent in tx.inputs} <= existing:
            raise RefusedTransactionError("missing inputs")
        rivals = {spent.prevout for other in self.unconfirmed.values() for spent in read_tx(other).inputs}
        if tx.txid not in self.unconfirmed and rivals & {spent.prevout for spent in tx.inputs}:
            raise RefusedTransactionError("txn-mempool-conflict")
        self.sent.append(tx.txid)
        self.unconfirmed[tx.txid] = raw

    async def refuse(self, ref: BlockRef, why: str) -> None:
        self.refused.append((ref, why))
        bad = {hash_ for hash_ in self.refs if ref in self.branch(hash_)}
        for hash_ in bad:
            del self.refs[hash_], self._raws[hash_], self._work[hash_]
        self._best = []
        self._choose()

    async def wait(self, seconds: float) -> None:
        self._answer()
        try:
            # not wait_for, which swallows a cancellation that comes together with news
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()

    async def close(self) -> None:
        self._answer()


class Halting(MemoryChain):
    """A chain whose source fails after so many blocks of a run: each time, or once."""

    def __init__(self, *blocks: Block | bytes, once: bool = False) -> None:
        super().__init__(*blocks)
        self.after, self._once = 3, once

    async def blocks(self, first: int, last: int) -> AsyncIterator[tuple[BlockRef, memoryview]]:
        count = 0
        async for item in super().blocks(first, last):
            if count == self.after:
                self.after = 1_000_000 if self._once else self.after
                raise SourceUnavailableError("cut off")
            count += 1
            yield item
