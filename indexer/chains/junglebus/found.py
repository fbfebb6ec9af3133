"""What was found besides what is delivered: transactions that moved a registration, by the height of their block."""

from __future__ import annotations

import asyncio

from indexer.chains import FoundRows
from indexer.chains.junglebus.lies import LieError
from indexer.chains.junglebus.proving import Proven, Prover
from parsers.tx import sha256d


class Found:
    """Transactions that a subscription does not deliver. They outlive a restart where there are `rows` to keep them."""

    def __init__(self, name: str, prover: Prover, rows: FoundRows | None) -> None:
        self._name, self._prover, self._rows = name, prover, rows
        self._heights: dict[int, dict[bytes, Proven]] = {}
        self._where: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._where)

    def holds(self, proven: Proven) -> bool:
        """Whether it is told with its block already."""
        return self._where.get(proven.txid) == proven.height

    def load(self) -> list[bytes]:
        """Take what was kept, checked anew; the txids of those that no longer hold, which are dropped."""
        fallen = []
        for _, raw, path in list(self._rows.load_found(self._name)) if self._rows else ():
            txid = sha256d(raw)
            try:
                proven = self._prover.check(txid, raw, path)
            except LieError:
                proven = None
            if proven is None:
                fallen.append(txid)
            else:
                self._put(proven)
        for txid in fallen:
            if self._rows is not None:
                self._rows.drop_found(self._name, txid)
        return fallen

    async def add(self, proven: Proven) -> None:
        """Let it be told with its block from now on. Raises StoreError when it cannot be kept."""
        if self._rows is not None:
            told = proven.told
            await asyncio.to_thread(self._rows.keep_found, self._name, proven.height, told.raw, told.bump)
        self._put(proven)

    def _put(self, proven: Proven) -> None:
        former = self._where.get(proven.txid)
        if former is not None:
            del self._heights[former][proven.txid]
        self._where[proven.txid] = proven.height
        self._heights.setdefault(proven.height, {})[proven.txid] = proven

    def at(self, height: int) -> tuple[list[Proven], list[bytes]]:
        """What was found of a block of our best chain, and the txids of what is no longer part of it: dropped here,
        and from the rows when it is proved elsewhere or at the next start."""
        here = self._heights.get(height, {})
        fallen = [txid for txid, proven in here.items() if not self._prover.stands(proven)]
        for txid in fallen:
            del here[txid], self._where[txid]
        return list(here.values()), fallen
