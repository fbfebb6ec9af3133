"""Searches a folder of block files backwards for transactions that blocks spend from. Blocking code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

from indexer.chains.files.block_folder import BATCH_BYTES, BlockFolder
from indexer.model import BlockRef
from parsers.bitcoin import block, tx
from parsers.bitcoin.tx import Outpoint
from parsers.errors import ParseError

BlockAncestorVisitor = Callable[[int, Mapping[bytes, bytes]], set[bytes]]
"""As `AncestorVisitor`; the first argument is the height of the block with the transactions."""


class AncestorSearch:
    """A search from block `before` backwards, within `lookback` bytes of blocks, until `stop` is set."""

    def __init__(self, folder: BlockFolder, before: BlockRef, lookback: int, stop: threading.Event) -> None:
        self._folder, self._before, self._lookback, self._stop = folder, before, lookback, stop
        self._segwit = folder.network.rules.segwit

    def values(self, outpoints: Iterable[Outpoint]) -> dict[Outpoint, int]:
        """Satoshis of the outputs that are there."""
        outpoints_of: dict[bytes, list[Outpoint]] = {}
        for outpoint in outpoints:
            outpoints_of.setdefault(outpoint.txid, []).append(outpoint)
        values: dict[Outpoint, int] = {}

        def take(_height: int, raws: Mapping[bytes, bytes]) -> set[bytes]:
            for txid, raw in raws.items():
                outputs = tx.read(raw, segwit=self._segwit).outputs
                values.update(tx.values_of(outpoints_of.pop(txid), {txid: outputs}))
            return set(outpoints_of)

        self.visit(take)
        return values

    def heights(self, txids: Iterable[bytes]) -> dict[bytes, int]:
        """Heights of the transactions that are there."""
        requested, heights = set(txids), dict[bytes, int]()

        def take(height: int, raws: Mapping[bytes, bytes]) -> set[bytes]:
            heights.update(dict.fromkeys(raws, height))
            return requested - heights.keys()

        self.visit(take)
        return heights

    def visit(self, visitor: BlockAncestorVisitor) -> None:
        """Call `visitor` with the transactions that it requested and the height of their block."""
        missing = visitor(self._before.height, {})
        for height, data in self._backwards() if missing else ():
            missing = self._in_block(height, data, missing, visitor)
            if not missing or self._stop.is_set():
                return

    def _backwards(self) -> Iterator[tuple[int, memoryview]]:
        tree, left = self._folder.tree, self._lookback
        newest = self._folder.number_of(self._before.hash)
        room = memoryview(bytearray(BATCH_BYTES))
        for number in tree.ancestors(newest) if newest is not None else ():
            left -= tree.location(number).size
            if left < 0:
                return
            try:
                data = self._folder.data(number, room)
            except ParseError:
                continue  # its bytes have changed; `BlockFolder.read` refuses it
            yield tree.height_of(number), data

    def _in_block(
        self, height: int, data: memoryview, missing: set[bytes], visitor: BlockAncestorVisitor
    ) -> set[bytes]:
        """Call `visitor` with the requested transactions of this block, again for their parents; returns the txids
        that are still missing."""
        try:
            offsets = block.tx_offsets(data, segwit=self._segwit)
            txids = list(block.txids(data, offsets, segwit=self._segwit))
            if missing.isdisjoint(txids):
                return missing
            indexes = {txid: index for index, txid in enumerate(txids)}
            while here := missing & indexes.keys():
                raws = {txid: bytes(data[offsets[indexes[txid]] : offsets[indexes[txid] + 1]]) for txid in here}
                missing = visitor(height, raws) - raws.keys()
        except ParseError:
            return missing  # the block is invalid; `BlockFolder.read` refuses it
        return missing
