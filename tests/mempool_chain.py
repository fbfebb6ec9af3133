"""A chain that is minted with ChainKit, and its mempool."""

from __future__ import annotations

from tests.chainkit import ChainKit, Minable
from tests.fakes import MemoryChain


class MempoolChain:
    """A mint, and its chain with a mempool: transactions are announced, evicted, and mined."""

    def __init__(self, coin: str = "bsv") -> None:
        self.kit = ChainKit(coin)
        self.chain = MemoryChain(*self.kit.blocks, coin=coin)

    def announce(self, *what: Minable) -> None:
        for item in what:
            self.chain.unconfirmed[self.kit.tx(item).txid] = self.kit.raw(item)

    def evict(self, *what: Minable) -> None:
        for item in what:
            del self.chain.unconfirmed[self.kit.tx(item).txid]

    def mine(self, *what: Minable) -> None:
        """A block with these, which leave the mempool."""
        for item in what:
            self.chain.unconfirmed.pop(self.kit.tx(item).txid, None)
        self.chain.arrive(self.kit.mine(*what))
