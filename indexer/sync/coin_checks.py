"""Whether the coins that submitted transactions spend are unspent: the proof of a coin does not show that, and a
transaction that no block can hold costs nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from itertools import islice

from indexer.chains import Chain
from indexer.model import BlockRef
from indexer.store.submissions import Submissions
from parsers.bitcoin.tx import Outpoint

MAX_COINS = 2_000
"""Coins that one refresh of the mempool requests from the source."""


class CoinChecks:
    """Queries a source, at each new tip, for the coins of the submitted transactions that it has not seen. `unproved`
    are the transactions that it never had in its mempool or a block, though their coins may be unspent: they cost
    nothing."""

    def __init__(self, chain: Chain, submissions: Submissions) -> None:
        self._chain, self._submissions = chain, submissions
        self.unproved: frozenset[bytes] = frozenset()
        self._checked: set[bytes] = set()
        self._coins: dict[Outpoint, bool] = {}
        self._tip = b""

    async def check(self, pending: frozenset[bytes], seen: frozenset[bytes], newest: BlockRef) -> set[bytes]:
        """The submitted transactions, of those `pending`, that spend a coin which a block has spent; `seen` are the
        transactions that the source has, or is known to have had. Raises SourceError, StoreError."""
        if newest.hash != self._tip:
            self._coins, self._checked, self._tip = {}, set(), newest.hash
        against, mined = set[bytes](), set[bytes]()
        if pending - seen - self._checked:
            spends = await asyncio.to_thread(self._submissions.spends, self._chain.name)
            if await self._ask(spends, seen, newest):
                against, mined = await asyncio.to_thread(_judged, spends, self._coins, seen)
                self._checked = set(pending) - {txid for coin, txid in spends.items() if coin not in self._coins}
        unsettled = await asyncio.to_thread(self._submissions.unsettled, self._chain.name)
        settled = {txid for txid, is_mined in unsettled.items() if is_mined or txid in seen or txid in mined}
        await asyncio.to_thread(self._submissions.settle, self._chain.name, settled)
        self.unproved = (pending & unsettled.keys()) - settled - against
        return against

    async def _ask(self, spends: Mapping[Outpoint, bytes], seen: frozenset[bytes], newest: BlockRef) -> bool:
        """Request the coins that are not known at this tip; returns whether the source answered, at this tip."""
        unknown = (coin for coin, txid in spends.items() if coin not in self._coins and txid not in seen)
        batch = list(islice(unknown, MAX_COINS))
        unspent = await self._chain.unspent(batch)
        tip = await self._chain.tip()
        if unspent is None or tip is None or tip.hash != newest.hash:
            return False
        self._coins.update((coin, coin in unspent) for coin in batch)
        return True


def _judged(
    spends: Mapping[Outpoint, bytes], coins: Mapping[Outpoint, bool], seen: Collection[bytes]
) -> tuple[set[bytes], set[bytes]]:
    verdict = Verdict(spends, coins, seen)
    return verdict.against(), verdict.mined


class Verdict:
    """The consequences of coins: `spends` has the coins that each submitted transaction spends, `coins` whether outputs
    are of a block and unspent in the chain, and `seen` the transactions that the source has in its mempool."""

    def __init__(
        self, spends: Mapping[Outpoint, bytes], coins: Mapping[Outpoint, bool], seen: Collection[bytes]
    ) -> None:
        self._coins, self._seen = coins, seen
        self._inputs: dict[bytes, list[Outpoint]] = {}
        for coin, txid in spends.items():
            self._inputs.setdefault(txid, []).append(coin)
        self.mined = self._in_blocks()

    def _in_blocks(self) -> set[bytes]:
        """The submitted transactions that a block has: an output is in the chain, or spent in the mempool; and their
        ancestors."""
        mined = {coin.txid for coin, is_unspent in self._coins.items() if is_unspent} & self._inputs.keys()
        in_mempool = [txid for txid in self._inputs if txid in self._seen]
        mined |= {parent for txid in in_mempool for parent in self._parents(txid) if parent not in self._seen}
        todo = list(mined)
        while todo:
            new = self._parents(todo.pop()) - mined
            mined |= new
            todo += new
        return mined

    def _parents(self, txid: bytes) -> set[bytes]:
        """The submitted transactions that have outputs which one spends."""
        return {coin.txid for coin in self._inputs[txid]} & self._inputs.keys()

    def _is_unmined(self, txid: bytes) -> bool:
        return txid in self._seen or (txid in self._inputs and txid not in self.mined)

    def against(self) -> set[bytes]:
        """The transactions that spend a spent coin, and are not in a block themselves."""
        return {
            txid
            for txid, coins in self._inputs.items()
            if txid not in self.mined and txid not in self._seen
            if any(self._coins.get(coin) is False and not self._is_unmined(coin.txid) for coin in coins)
        }
