"""The text keys of all listings in memory: for each key its holders, the most senior first.

Most text keys are in two sorted arrays, of keys and of references to entries; a key that is read moves, with all its
entries, to a dictionary, where changes are made. `compact` moves the dictionary back. 100,000 listings take 25 MB.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Refs: TypeAlias = npt.NDArray[np.uint32]
Entries: TypeAlias = npt.NDArray[np.void]

PLACE_BYTES = 37
ENTRY = np.dtype("V41")
"""An entry: its position in the order of seniority (`Since.ordering`), and the number of the listing, big-endian."""

SENIORITY = np.dtype([("keys", "<u2"), ("place", f"V{PLACE_BYTES}")])
"""A position as it is stored, and how many keys in a row have it."""

FEWEST = 32_768
"""Keys in the dictionary before it is compacted, and at least a 32nd of the arrays."""

_GONE = np.uint32(2**32 - 1)


class TextKeyTable:
    """Not safe for threads."""

    def __init__(self) -> None:
        self._keys, self._refs = np.empty(0, np.int64), np.empty(0, np.uint32)
        self._entries = np.empty(0, ENTRY)
        self._runs: dict[int, list[bytes]] = {}

    def load(self, chunks: Iterable[Sequence[tuple[int, bytes, bytes]]]) -> None:
        """Fill an empty table with the text keys of listings: number, keys (8 bytes each, little-endian), places
        (`SENIORITY`)."""
        parts = [_columns(*zip(*chunk, strict=True)) for chunk in chunks]
        if not parts:
            return
        keys, counts, self._entries = (np.concatenate([part[index] for part in parts]) for index in range(3))
        del parts  # the peak of memory
        order = keys.argsort(kind="stable")
        self._keys, self._refs = keys[order], np.repeat(np.arange(len(self._entries), dtype=np.uint32), counts)[order]

    def fetch(self, keys: Iterable[int]) -> None:
        """Move keys to the dictionary; `run`, `add` and `remove` are for these keys."""
        missing = np.array([key for key in keys if key not in self._runs], np.int64)
        if not (missing.size and self._keys.size):
            return
        missing.sort()
        starts = np.searchsorted(self._keys, missing)
        hits = self._keys[starts.clip(max=self._keys.size - 1)] == missing
        ends = np.searchsorted(self._keys, missing[hits], "right")
        for key, start, end in zip(missing[hits].tolist(), starts[hits].tolist(), ends.tolist(), strict=True):
            refs = self._refs[start:end]
            if run := self._entries[refs[refs != _GONE]].tolist():
                self._runs[key] = sorted(run)
            refs[:] = _GONE

    def run(self, key: int) -> Sequence[bytes]:
        """The entries of a key, the most senior first."""
        return self._runs.get(key, ())

    def add(self, key: int, entry: bytes) -> bytes | None:
        """Add an entry; the first one before, None without one."""
        run = self._runs.get(key)
        if run is None:
            self._runs[key] = [entry]
            return None
        first = run[0]
        insort(run, entry)
        return first

    def remove(self, key: int, entry: bytes) -> bytes:
        """Remove an entry; returns the first one before. Raises ValueError where the entry is missing."""
        run = self._runs[key]
        first = run[0]
        run.remove(entry)
        if not run:
            del self._runs[key]
        return first

    def compact(self) -> None:
        """Move a large dictionary back to the arrays."""
        if len(self._runs) < max(FEWEST, self._keys.size // 32):
            return
        counts = np.fromiter(map(len, self._runs.values()), np.int64, len(self._runs))
        keys = np.repeat(np.fromiter(self._runs, np.int64, len(self._runs)), counts)
        entries = np.frombuffer(b"".join(chain.from_iterable(self._runs.values())), ENTRY)
        self._runs = {}
        differs = np.ones(len(entries), bool)  # the keys of a listing are mostly in a row
        differs[1:] = entries[1:] != entries[:-1]
        self._merge(keys, np.cumsum(differs, dtype=np.uint32) - np.uint32(1), entries[differs])

    def _merge(self, keys: Ints, refs: Refs, entries: Entries) -> None:
        """Add keys and their references to `entries`, and drop what is gone."""
        order, present = keys.argsort(kind="stable"), self._refs != _GONE
        keys, refs = keys[order], refs[order] + np.uint32(len(self._entries))
        positions = np.searchsorted(self._keys[present], keys)
        self._keys = np.insert(self._keys[present], positions, keys)
        refs = np.insert(self._refs[present], positions, refs)
        entries = np.concatenate([self._entries, entries])
        used = np.zeros(len(entries), bool)
        used[refs] = True
        self._refs, self._entries = (np.cumsum(used, dtype=np.uint32) - np.uint32(1))[refs], entries[used]


def _columns(numbers: Sequence[int], keys: Sequence[bytes], seniorities: Sequence[bytes]) -> tuple[Ints, Refs, Entries]:
    """The keys of listings, how many keys in a row have one entry, and these entries."""
    stored = np.frombuffer(b"".join(seniorities), SENIORITY)
    entries = np.empty(len(stored), [("place", f"V{PLACE_BYTES}"), ("number", ">u4")])
    entries["place"] = stored["place"]
    entries["number"] = np.repeat(
        np.array(numbers, np.uint32), [len(entry) // SENIORITY.itemsize for entry in seniorities]
    )
    return np.frombuffer(b"".join(keys), "<i8"), stored["keys"], entries.view(ENTRY)
