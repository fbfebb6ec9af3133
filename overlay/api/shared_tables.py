"""Tables of numbers by key that all processes of `a2b serve --workers N` share. Each process writes to its own part,
without a lock, and reads those of all."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from hashlib import blake2b

WAYS = 8

DAY_SECONDS = 86_400

KEPT_DAYS = 90
"""Days of which counts of searches are stored."""

FEWEST_CLIENTS = 5
"""Clients of a word before it is more than a hash."""


class SharedTable:
    """A row of `width` numbers (64 bits) for each key, of which a process has room for `SETS` times `WAYS`. Create it
    before processes are forked."""

    def __init__(self, processes: int, sets: int, width: int) -> None:
        self._processes, self._sets, self._number = processes, sets, 0
        self._row = width + 1
        self._part = sets * WAYS * self._row
        self._cells = memoryview(mmap.mmap(-1, 8 * self._part * processes)).cast("Q")

    def take(self, number: int) -> None:
        """Write to the part of the process with this number from now on."""
        self._number = number

    def local(self, digest: int) -> memoryview[int] | None:
        """The numbers of a key, which is not 0, in the part of this process; None where there is no room for it."""
        for row in self._rows(self._number, digest):
            if row[0] in (digest, 0):
                row[0] = digest
                return row[1:]
        return None

    def all(self, digest: int) -> Iterator[memoryview[int]]:
        """The numbers of a key in the part of every process that has it."""
        for process in range(self._processes):
            yield from (row[1:] for row in self._rows(process, digest) if row[0] == digest)

    def clear(self) -> None:
        """Forget the keys and numbers of this process."""
        start = self._number * self._part
        self._cells[start : start + self._part] = memoryview(bytes(8 * self._part)).cast("Q")

    def _rows(self, process: int, digest: int) -> Iterator[memoryview[int]]:
        first = process * self._part + digest % self._sets * WAYS * self._row
        for start in range(first, first + WAYS * self._row, self._row):
            yield self._cells[start : start + self._row]


class SharedCounts:
    """A count for each of some names, 1,024 of them."""

    def __init__(self, processes: int = 1) -> None:
        self._table = SharedTable(processes, sets=128, width=1)
        self.take = self._table.take

    def add(self, name: str) -> None:
        """Count one more of a name, where there is room for it."""
        row = self._table.local(_digest(name))
        if row is not None:
            row[0] += 1

    def count(self, name: str) -> int:
        """The count of all processes."""
        return sum(row[0] for row in self._table.all(_digest(name)))


class WordAskers:
    """How many clients searched for a word today, as far as `FEWEST_CLIENTS`: words and clients are hashes under a key
    that is in memory only. At the end of the day it is replaced by its own hash, from which it cannot be computed, and
    all is forgotten. A process has room for 16,384 words a day, and passes over others.

    All processes have one key, which follows from the day alone: a process that is a day behind finds nothing of the
    others.
    """

    def __init__(self, key: bytes, day: int, processes: int = 1) -> None:
        self._table = SharedTable(processes, sets=2_048, width=FEWEST_CLIENTS)
        self.take = self._table.take
        self._key, self._day = key, day

    def begin(self, day: int) -> None:
        """Forget what is of an earlier day."""
        if day > self._day:
            self._table.clear()
        while day > self._day:
            self._key, self._day = blake2b(self._key, digest_size=32).digest(), self._day + 1

    def ask(self, word: str, client: str) -> tuple[int, int]:
        """Note that a client searched for a word; the number of its clients before and after."""
        digest = _digest(word, self._key)
        row = self._table.local(digest)
        before = {number for numbers in self._table.all(digest) for number in numbers} - {0}
        if row is None:
            return 0, 0
        number = _digest(f"{word}\n{client}", self._key)
        if number not in before and 0 in row:
            row[list(row).index(0)] = number
            return len(before), len(before) + 1
        return len(before), len(before)


def _digest(text: str, key: bytes = b"") -> int:
    """A hash that is not 0."""
    return (
        int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest(), "little") or 1
    )
