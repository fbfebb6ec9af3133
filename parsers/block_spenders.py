"""Which transactions of a block spend an outpoint, as often as one likes after one pass over the block."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from parsers import block_loop as loop
from parsers.block_candidates import Candidate, Candidates
from parsers.tx import Outpoint
from parsers.watched import Watched, address, batches

_NONE = np.empty(0, np.int64)


class Spenders:
    """An index over the inputs of a block of n transactions, in which outpoints born in the block are followed.

    `offsets` (n + 1) is where each transaction begins and the last one ends, `direct` the numbers of those that spend
    one of the outpoints it was built with. Memory: 8 bytes an input and 9 a transaction; a block of 4 GB with 8 million
    transactions and 16 million inputs takes 200 MB. An entry is the upper bits of an input's fingerprint (see
    `Watched`) over the number of its transaction: at that size 41 bits, so that a transaction that spends something
    else is named once in 130,000 look-ups, and without the key nobody can make that happen.
    """

    __slots__ = ("_entries", "_key", "_low", "_sorted", "direct", "offsets")

    def __init__(self, count: int, size: int, born: Watched) -> None:
        """Room for a block of `size` bytes with `count` transactions, to be filled with `fill`."""
        self._key = born.arrays[0]
        self._low = np.uint64((1 << (count + 1).bit_length()) - 1)
        # as many as fit into the block; the system gives memory only to those that are written
        self._entries = np.empty(size // 41 + 1, np.uint64)
        self._sorted = False
        self.offsets: npt.NDArray[np.int64] = np.zeros(count + 1, np.int64)
        self.direct: npt.NDArray[np.int64] = _NONE

    def fill(self, base: int, at: int, end: int, wants: int, born: Watched) -> tuple[int, int]:
        """Walk the block's transactions from `at`; where that stopped, and an error or PLAIN."""
        direct = np.zeros(len(self.offsets) - 1, np.bool_)
        at, used, state = loop.spends(base, at, end, wants, born.arrays, self._low, self.offsets, self._entries, direct)
        self._entries = self._entries[:used]
        self.direct = np.flatnonzero(direct)
        return at, state

    def with_descendants(
        self, flagged: Candidates, outpoints_of: Callable[[Candidate], Iterable[Outpoint]]
    ) -> Candidates:
        """These transactions and all that descend from them within the block, in block order.

        `outpoints_of` gives the outpoints of a transaction that are followed; this was built with those of `flagged`.
        """
        is_flagged = np.zeros(len(self.offsets) - 1, np.bool_)
        is_flagged[flagged.numbers] = True
        fresh = self.direct[~is_flagged[self.direct]]
        while len(fresh):
            is_flagged[fresh] = True
            generation = Candidates.numbered(fresh, self.offsets)
            children = self.of(outpoint for candidate in generation for outpoint in outpoints_of(candidate))
            fresh = children[~is_flagged[children]]
        return Candidates.numbered(np.flatnonzero(is_flagged), self.offsets)

    def of(self, outpoints: Iterable[Outpoint]) -> npt.NDArray[np.int64]:
        """The numbers of the transactions that spend one of these outpoints, in block order.

        Spenders that an earlier call named may be left out, so that all calls together take no longer than the block
        has inputs, whatever strangers put into it.
        """
        named = [self._of_packed(packed) for packed in batches(outpoints)]
        return np.unique(np.concatenate(named)) if named else _NONE

    def _of_packed(self, packed: bytes) -> npt.NDArray[np.int64]:
        if not self._sorted:
            self._entries.sort()
            self._sorted = True
        data, base = address(packed)
        marks = np.empty(len(packed) // 36, np.uint64)
        loop.fingerprints(base, self._key, marks)
        del data
        tags = np.unique(marks & ~self._low)
        first = np.searchsorted(self._entries, tags)
        # an entry without a number is of spenders that were named before
        last = np.searchsorted(self._entries, tags | self._low, side="right")
        spent = first < last
        tags, first, last = tags[spent], first[spent], last[spent]
        fresh = self._entries[first] != tags
        pieces = [
            self._entries[start:stop] & self._low
            for start, stop in zip(first[fresh].tolist(), last[fresh].tolist(), strict=True)
        ]
        self._entries[first] = tags
        return np.concatenate(pieces).astype(np.int64) - 1 if pieces else _NONE
