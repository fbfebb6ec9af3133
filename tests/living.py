"""A small world for state machines: blocks and transactions, and nodes that each know some of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable

from indexer.chains.failover import Pace
from indexer.errors import SourceUnavailableError
from indexer.model import BlockRef
from indexer.retries import Backoff
from parsers.bitcoin.tx import Outpoint, Transaction
from tests.chainkit import Block
from tests.fakes import MemoryChain
from tests.strategies import Dig, Scribe, Spend

PACE = Pace(grace=60, poll=0.001, backoff=Backoff(0.001, 0.002), tolerance=30, probation=30, penalty=600, lag_blocks=3)
"""Keepers are in a hurry, while judgements wait for the clock of the test."""


class Node(MemoryChain):
    """A source with a mempool that a node might have, and a disk that loses bits.

    `spoiled` are hashes of blocks that are served with a wrong last byte, `evicted` transactions it does not take back.
    It fails once after `cut` more blocks, when that is set, and tells no mempool while it is `busy`. While `listed` is
    set, that is what it lists as its mempool. `then` happens once, after it has listed its mempool.
    """

    def __init__(self, *blocks: Block) -> None:
        super().__init__(*blocks)
        self.spoiled: set[bytes] = set()
        self.evicted: set[bytes] = set()
        self.cut: int | None = None
        self.busy = False
        self.listed: dict[bytes, bytes] | None = None
        self.then: Callable[[], None] = _nothing

    async def mempool(self) -> frozenset[bytes] | None:
        if self.busy:
            raise SourceUnavailableError("busy")
        answer = await super().mempool() if self.listed is None else frozenset(self.listed)
        then, self.then = self.then, _nothing
        then()
        return answer

    async def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        results = await super().transactions(txids)
        return results | {txid: raw for txid, raw in (self.listed or {}).items() if txid in set(txids)}

    async def blocks(self, first: int, last: int) -> AsyncIterator[tuple[BlockRef, memoryview]]:
        async for ref, data in super().blocks(first, last):
            if self.cut == 0:
                self.cut = None
                raise SourceUnavailableError("cut off")
            self.cut = self.cut and self.cut - 1
            yield ref, memoryview(bytes(data[:-1]) + b"\x99") if ref.hash in self.spoiled else data


def _nothing() -> None:
    """All is said."""


class World:
    """All blocks there are, and what is unspent after each."""

    def __init__(self) -> None:
        self.scribe = Scribe()
        self.kit = self.scribe.kit

    def dig(self, plan: Dig) -> list[Block]:
        """Mine as planned; the new blocks."""
        before = len(self.kit.blocks)
        self.scribe.dig(plan)
        return self.kit.blocks[before:]

    def coins(self, node: Node) -> dict[Outpoint, bool]:
        """The unspent outputs of a node's best chain."""
        return dict(self.scribe.views[node.best[-1].hash])

    def announce(self, node: Node, plan: Spend, *, conflicting: bool) -> None:
        """A new transaction reaches a node; `conflicting`: it may spend what others in the mempool spend, and wins."""
        coins = self.coins(node)
        if not conflicting:
            self._fitting(node.unconfirmed, coins)
        tx = self.scribe.spend(plan, coins)
        if tx is None:
            return
        raw = {tx.txid: self.kit.raw(tx.outpoint(0))}
        node.unconfirmed = raw | node.unconfirmed if conflicting else node.unconfirmed | raw
        self.settle(node)

    def settle(self, node: Node) -> None:
        """After anything changed: keep in a node's mempool what fits on its best chain, and take back what was mined on
        branches it has left."""
        here = {txid for block in self.kit.branch(self._tip(node)) for txid in block.txids}
        others = {txid: self.kit.raw(tx.outpoint(0)) for txid, tx in self.scribe.mined.items()}
        unmined = {
            txid: raw
            for txid, raw in (node.unconfirmed | others).items()
            if txid not in here and txid not in node.evicted
        }
        node.unconfirmed = self._fitting(unmined, self.coins(node))

    def mine(self, node: Node) -> Block:
        """Mine a node's mempool on its tip."""
        coins = self.coins(node)
        created = [self._tx(txid) for txid in self._fitting(node.unconfirmed, coins)]
        block = self.kit.mine(*(item.outpoint(0) for item in created), parent=self._tip(node))
        self.scribe.mined.update({item.txid: item for item in created})
        self.scribe.views[block.hash] = coins
        return block

    def _fitting(self, raws: dict[bytes, bytes], coins: dict[Outpoint, bool]) -> dict[bytes, bytes]:
        """The transactions, of those passed in, that can be mined, in this order of preference; `coins` are without the
        outputs that they spend afterwards."""
        results: dict[bytes, bytes] = {}
        waiting = list(raws)
        while ready := next((item for item in waiting if self._can_spend(self._tx(item), coins)), None):
            waiting.remove(ready)
            self.scribe.book(self._tx(ready), coins)
            results[ready] = raws[ready]
        return results

    @staticmethod
    def _can_spend(tx: Transaction, coins: Iterable[Outpoint]) -> bool:
        return all(spent.prevout in coins for spent in tx.inputs)

    def _tx(self, txid: bytes) -> Transaction:
        return self.kit.tx(Outpoint(txid, 0))

    def _tip(self, node: Node) -> Block:
        return next(block for block in self.kit.blocks if block.hash == node.best[-1].hash)
