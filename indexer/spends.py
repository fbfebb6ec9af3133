"""Which unconfirmed transaction spends an outpoint: fingerprints in columns, so that their bytes need not be kept."""

from __future__ import annotations

from collections.abc import Iterable, KeysView, Sequence

import numpy as np
import numpy.typing as npt

from parsers.watched import Watched

_CHUNKS = 64


class Spends:
    """Transactions that were looked at, by txid, and what they spend: 16 bytes an input, about 150 a transaction.

    All sets of outpoints asked about must have the same `key`.
    """

    def __init__(self, key: int) -> None:
        self.key = key
        self._numbers: dict[bytes, int] = {}
        self._txids: list[bytes] = []
        self._chunks: list[tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]] = []

    def __contains__(self, txid: bytes) -> bool:
        return txid in self._numbers

    def txids(self) -> KeysView[bytes]:
        """All that were looked at and have not left."""
        return self._numbers.keys()

    def add(self, txids: Sequence[bytes], marks: npt.NDArray[np.uint64], owners: npt.NDArray[np.int64]) -> None:
        """Add transactions; `marks` and `owners` (numbers in `txids`) are what `block.inputs` tells of them."""
        first = len(self._txids)
        self._numbers |= {txid: first + number for number, txid in enumerate(txids)}
        self._txids += txids
        self._chunks.append((marks, owners + first))
        if len(self._chunks) > _CHUNKS:
            self._chunks = [
                (np.concatenate([m for m, _ in self._chunks]), np.concatenate([o for _, o in self._chunks]))
            ]

    def discard(self, txids: Iterable[bytes]) -> None:
        """Forget these transactions."""
        for txid in txids:
            self._numbers.pop(txid, None)
        if len(self._txids) > 2 * len(self._numbers) + _CHUNKS:
            self._compact()

    def _compact(self) -> None:
        """Drop the columns' entries of those that left."""
        moved = np.full(len(self._txids), -1, np.int64)
        for number, (txid, old) in enumerate(self._numbers.items()):
            moved[old] = number
            self._numbers[txid] = number
        self._txids = list(self._numbers)
        kept = []
        for marks, owners in self._chunks:
            owners = moved[owners]
            kept.append((marks[owners >= 0], owners[owners >= 0]))
        self._chunks = kept

    def of(self, outpoints: Watched) -> list[bytes]:
        """The txids of those that spend one of these outpoints."""
        found: dict[bytes, None] = {}
        for marks, owners in self._chunks if len(outpoints) else ():
            for number in owners[outpoints.holding(marks)].tolist():
                txid = self._txids[number]
                if self._numbers.get(txid) == number:
                    found[txid] = None
        return list(found)
