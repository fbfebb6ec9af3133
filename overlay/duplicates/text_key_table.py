"""The text keys of all listings in memory: for each key its holders, the most senior first.

Most text keys are in two sorted arrays, of keys and of references to entries; a key that is read moves, with all its
entries, to a dictionary, where changes are made. `compact` moves the dictionary back. The arrays take 28 MB for 100,000
listings; large ones are in files without names, so that the system can move them out of memory.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from overlay.engines.native import durable

Ints: TypeAlias = npt.NDArray[np.int64]
Refs: TypeAlias = npt.NDArray[np.uint32]
Entries: TypeAlias = npt.NDArray[np.void]

PLACE_BYTES, AGE_BYTES = 45, 20
"""Bytes of a position in the order of seniority, and of its end, the age of the registration."""

ENTRY = np.dtype("V49")
"""An entry: its position in the order of seniority (`Since.ordering`), and the number of the listing, big-endian."""

SENIORITY = np.dtype([("keys", "<u2"), ("place", f"V{PLACE_BYTES}")])
"""A position as it is stored, and how many keys in a row have it."""

FEWEST, MOST = 32_768, 262_144
"""Keys in the dictionary before it is compacted: between these numbers, a 32nd of the arrays. One takes 280 bytes."""

SLICE = 1 << 18
"""Values of an array that are changed at once, which take some more memory."""

_GONE = np.uint32(2**32 - 1)


class TextKeyTable:
    """A table of text keys. Not safe for threads."""

    def __init__(self, folder: Path | None = None) -> None:
        """Create an empty table, with large arrays in files in the folder, if there is one (`durable.array`)."""
        self._folder = folder
        self._keys, self._refs = np.empty(0, np.int64), np.empty(0, np.uint32)
        self._entries = np.empty(0, ENTRY)
        self._runs: dict[int, list[bytes]] = {}

    def load(self, chunks: Iterable[Sequence[tuple[int, bytes, bytes]]]) -> None:
        """Fill an empty table with the text keys of listings: number, keys (8 bytes each, little-endian), places
        (`SENIORITY`). Raises OSError."""
        parts = [_columns(*zip(*chunk, strict=True)) for chunk in chunks]
        if not parts:
            return
        keys, counts, entries = zip(*parts, strict=True)
        del parts  # the peak of memory
        self._entries = self._joined(entries)
        unsorted = self._joined(keys)
        repeats = np.concatenate(counts)
        del keys, counts, entries
        order = unsorted.argsort()
        self._keys, self._refs = self._array(len(order), np.int64), self._array(len(order), np.uint32)
        refs = np.repeat(np.arange(len(repeats), dtype=np.uint32), repeats)
        for part in _slices(order):
            self._keys[part], self._refs[part] = unsorted[order[part]], refs[order[part]]

    def _array(self, length: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        return durable.array(self._folder, length, dtype)

    def _joined(self, arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        joined = self._array(sum(map(len, arrays)), arrays[0].dtype)
        np.concatenate(arrays, out=joined)
        return joined

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
        """Move a large dictionary back to the arrays. Raises OSError."""
        if len(self._runs) < min(max(FEWEST, self._keys.size // 32), MOST):
            return
        counts = np.fromiter(map(len, self._runs.values()), np.int64, len(self._runs))
        keys = np.repeat(np.fromiter(self._runs, np.int64, len(self._runs)), counts)
        entries = np.frombuffer(b"".join(chain.from_iterable(self._runs.values())), ENTRY)
        self._runs = {}
        differs = np.ones(len(entries), bool)  # the keys of a listing are mostly in a row
        differs[1:] = entries[1:] != entries[:-1]
        self._merge(keys, np.cumsum(differs, dtype=np.uint32) - np.uint32(1), entries[differs])

    def _merge(self, keys: Ints, refs: Refs, entries: Entries) -> None:
        """Add keys and their references to `entries`, and drop the removed ones."""
        order = keys.argsort(kind="stable")
        keys, refs = keys[order], refs[order] + np.uint32(len(self._entries))
        size = len(keys) + sum(int(np.count_nonzero(self._refs[part] != _GONE)) for part in _slices(self._refs))
        merged_keys, merged_refs, end = self._array(size, np.int64), self._array(size, np.uint32), 0
        for part_keys, part_refs in self._merged(keys, refs):
            merged_keys[end : end + len(part_keys)] = part_keys
            merged_refs[end : end + len(part_keys)] = part_refs
            end += len(part_keys)
        self._keys, self._refs = merged_keys, merged_refs
        self._entries = self._used(self._joined([self._entries, entries]))

    def _merged(self, keys: Ints, refs: Refs) -> Iterator[tuple[Ints, Refs]]:
        """The arrays in slices, each with the new keys below the first one of the next slice."""
        start = 0
        for part in _slices(self._keys):
            end = len(keys) if part.stop >= len(self._keys) else int(np.searchsorted(keys, self._keys[part.stop]))
            present = self._refs[part] != _GONE
            old, old_refs = self._keys[part][present], self._refs[part][present]
            positions = np.searchsorted(old, keys[start:end])
            yield np.insert(old, positions, keys[start:end]), np.insert(old_refs, positions, refs[start:end])
            start = end
        yield keys[start:], refs[start:]

    def _used(self, entries: Entries) -> Entries:
        """The entries that are referred to, which get new references."""
        used = np.zeros(len(entries), bool)
        for part in _slices(self._refs):
            used[self._refs[part]] = True
        numbers = np.cumsum(used, dtype=np.uint32) - np.uint32(1)
        for part in _slices(self._refs):
            self._refs[part] = numbers[self._refs[part]]
        remaining, end = self._array(int(np.count_nonzero(used)), ENTRY), 0
        for part in _slices(entries):
            chosen = entries[part][used[part]]
            remaining[end : end + len(chosen)] = chosen
            end += len(chosen)
        return remaining


def _slices(array: npt.NDArray[Any]) -> Iterator[slice]:
    return (slice(start, start + SLICE) for start in range(0, len(array), SLICE))


def _columns(numbers: Sequence[int], keys: Sequence[bytes], seniorities: Sequence[bytes]) -> tuple[Ints, Refs, Entries]:
    """The keys of listings, the number of keys in a row with the same entry, and these entries."""
    stored = np.frombuffer(b"".join(seniorities), SENIORITY)
    entries = np.empty(len(stored), [("place", f"V{PLACE_BYTES}"), ("number", ">u4")])
    entries["place"] = stored["place"]
    entries["number"] = np.repeat(
        np.array(numbers, np.uint32), [len(entry) // SENIORITY.itemsize for entry in seniorities]
    )
    return np.frombuffer(b"".join(keys), "<i8"), stored["keys"], entries.view(ENTRY)
