"""Transactions of a block that must be parsed, by position, and an index of which transaction spends an outpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

from parsers.bitcoin import block_loop as loop
from parsers.bitcoin.outpoint_table import fingerprint_all
from parsers.bitcoin.tx import Outpoint
from parsers.bitcoin.watched_outpoints import WatchedOutpoints, address, batches

ROWS = 4096
"""Candidates that are created or unpacked in one step."""


class TxCandidate(NamedTuple):
    """A transaction of a block: `offset` and `size` in bytes, `tx_index` from 0, the coinbase."""

    offset: int
    size: int
    tx_index: int


class TxCandidates(Sequence[TxCandidate]):
    """Transactions worth parsing, in block order: 24 bytes each until one is accessed."""

    __slots__ = ("_rows",)

    def __init__(self, rows: npt.NDArray[np.int64]) -> None:
        self._rows = rows

    @classmethod
    def from_numbers(cls, numbers: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]) -> TxCandidates:
        """The transactions with these numbers of a block of n transactions with byte `offsets` (n + 1)."""
        starts = offsets[numbers]
        return cls(np.column_stack((starts, offsets[numbers + 1] - starts, numbers)))

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The `tx_index` of every transaction."""
        return self._rows[:, 2]

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> TxCandidate: ...
    @overload
    def __getitem__(self, index: slice) -> TxCandidates: ...
    def __getitem__(self, index: int | slice) -> TxCandidate | TxCandidates:
        if isinstance(index, slice):
            return TxCandidates(self._rows[index])
        return TxCandidate(*self._rows[index].tolist())

    def __iter__(self) -> Iterator[TxCandidate]:
        for start in range(0, len(self._rows), ROWS):
            yield from map(TxCandidate._make, self._rows[start : start + ROWS].tolist())


_NONE = np.empty(0, np.int64)


class SpenderIndex:
    """An index over the inputs of a block of n transactions, to follow outpoints that are created in the block.

    `offsets` (n + 1) are the byte offsets of the transactions and of the end of the last one; `direct_spenders` are the
    numbers of the transactions that spend one of the outpoints passed to the constructor. Memory: 8 bytes an input and
    9 a transaction; a block of 4 GB with 8 million transactions and 16 million inputs takes 200 MB. An entry is the
    upper bits of an input's fingerprint (see `WatchedOutpoints`) over the number of its transaction: at that size 41
    bits, which makes one look-up in 130,000 name a wrong transaction; without the key, an attacker cannot provoke that.
    """

    __slots__ = ("_entries", "_key", "_low", "_sorted", "direct_spenders", "offsets")

    def __init__(
        self, base: int, size: int, offsets: npt.NDArray[np.int64], options: int, new_outpoints: WatchedOutpoints
    ) -> None:
        """Index the inputs of the transactions at these offsets of a block of `size` bytes in memory at `base`."""
        count = len(offsets) - 1
        self.offsets = offsets
        self._key = new_outpoints.arrays[0]
        self._low = np.uint64((1 << (count + 1).bit_length()) - 1)
        # as many as fit into the block; the system allocates only the pages that are written
        entries, direct = np.empty(size // 41 + 1, np.uint64), np.zeros(count, np.bool_)
        used = loop.spends(base, offsets, options, new_outpoints.arrays, self._low, entries, direct)
        self._entries, self._sorted = entries[:used], False
        self.direct_spenders: npt.NDArray[np.int64] = np.flatnonzero(direct)

    def with_descendants(
        self, flagged: TxCandidates, outpoints_of: Callable[[TxCandidate], Iterable[Outpoint]]
    ) -> TxCandidates:
        """These transactions and all their descendants within the block, in block order.

        `outpoints_of` returns the outpoints of a transaction that are followed; the index was built with those of
        `flagged`.
        """
        is_flagged = np.zeros(len(self.offsets) - 1, np.bool_)
        is_flagged[flagged.numbers] = True
        unseen = self.direct_spenders[~is_flagged[self.direct_spenders]]
        while len(unseen):
            is_flagged[unseen] = True
            generation = TxCandidates.from_numbers(unseen, self.offsets)
            children = self.spending(outpoint for candidate in generation for outpoint in outpoints_of(candidate))
            unseen = children[~is_flagged[children]]
        return TxCandidates.from_numbers(np.flatnonzero(is_flagged), self.offsets)

    def spending(self, outpoints: Iterable[Outpoint]) -> npt.NDArray[np.int64]:
        """The numbers of the transactions that spend one of these outpoints, in block order.

        Transactions that an earlier call returned may be left out: all calls together take time linear in the inputs of
        the block.
        """
        numbers = [self._spending_packed(packed) for packed in batches(outpoints)]
        return np.unique(np.concatenate(numbers)) if numbers else _NONE

    def _spending_packed(self, packed: bytes) -> npt.NDArray[np.int64]:
        if not self._sorted:
            self._entries.sort()
            self._sorted = True
        data, base = address(packed)
        fingerprints = np.empty(len(packed) // 36, np.uint64)
        fingerprint_all(base, self._key, fingerprints)
        del data
        tags = np.unique(fingerprints & ~self._low)
        first = np.searchsorted(self._entries, tags)
        # an entry without a number marks spenders that an earlier call returned
        last = np.searchsorted(self._entries, tags | self._low, side="right")
        spent = first < last
        tags, first, last = tags[spent], first[spent], last[spent]
        unnamed = self._entries[first] != tags
        pieces = [
            self._entries[start:stop] & self._low
            for start, stop in zip(first[unnamed].tolist(), last[unnamed].tolist(), strict=True)
        ]
        self._entries[first] = tags
        return np.concatenate(pieces).astype(np.int64) - 1 if pieces else _NONE
