"""The registrations that were written to an index before their changes were read in the outbox."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from indexer.store.outbox import Change
from overlay.engines import IndexPosition


class WrittenIds:
    """Registrations by hash, 16 bytes each, with the number of the newest change that their documents contain.
    `position` is up to where the index has read the outbox; from another one on, everything is read."""

    def __init__(self, position: IndexPosition | None = None) -> None:
        self.position = position
        self._hashes: NDArray[np.int64] = np.empty(0, np.int64)
        self._newest: NDArray[np.int64] = np.empty(0, np.int64)

    def add(self, ids: Sequence[str], newest: int) -> None:
        """Note that registrations were read when the outbox had this newest change, or later."""
        new = np.unique(_hashes(ids))
        is_other = ~np.isin(self._hashes, new, assume_unique=True)
        hashes, numbers = self._hashes[is_other], self._newest[is_other]
        positions = np.searchsorted(hashes, new)
        self._hashes, self._newest = np.insert(hashes, positions, new), np.insert(numbers, positions, newest)

    def move(self, position: IndexPosition) -> None:
        """Note that the index has read up to a position, and forget what no later change is compared with."""
        self.position = position
        is_needed = self._newest > position.seq
        self._hashes, self._newest = self._hashes[is_needed], self._newest[is_needed]

    def unwritten(self, changes: Sequence[Change]) -> list[str]:
        """The ids of changes that the written documents lack, each once."""
        if not self._hashes.size:
            return [*dict.fromkeys(change.id for change in changes)]
        hashes = _hashes([change.id for change in changes])
        rows = np.searchsorted(self._hashes, hashes).clip(max=self._hashes.size - 1)
        newest = np.where(self._hashes[rows] == hashes, self._newest[rows], -1).tolist()
        return [
            *dict.fromkeys(change.id for change, number in zip(changes, newest, strict=True) if change.seq > number)
        ]


def _hashes(ids: Iterable[str]) -> NDArray[np.int64]:
    return np.fromiter(map(hash, ids), np.int64)
