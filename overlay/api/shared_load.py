"""Calls of clients that are under way, counted in memory that all processes of `a2b serve --workers N` share.

Each process writes to its own part, without a lock: two that admit a client at the same moment may admit one call more
than its share. Counts are 16-bit numbers in a table of cells, of which two keys share one by chance (0.3 % at 200 calls
under way); then a call may be refused too early. A worker that ends ends the others, so that no count is left over.
"""

from __future__ import annotations

import mmap
import secrets
from hashlib import blake2b

_CELLS = 65_536
"""Cells of each process: 128 KiB, of which the system provides the pages that are used."""


class SharedLoad:
    """Calls under way by key, such as a kind of call and a client. To be made before processes are forked; this is
    process number `own` after `take`."""

    def __init__(self, processes: int = 1) -> None:
        self._processes, self._base = processes, 0
        self._salt = secrets.token_bytes(16)  # so that nobody can choose addresses that share a cell
        self._cells = memoryview(mmap.mmap(-1, 2 * _CELLS * processes)).cast("H")

    def take(self, own: int) -> None:
        """Write to the part of process number `own` from now on."""
        self._base = own * _CELLS

    def add(self, key: str, calls: int) -> None:
        """Add to the calls of this process."""
        self._cells[self._base + self._cell(key)] += calls

    def count(self, key: str) -> int:
        """The calls of all processes."""
        cell = self._cell(key)
        return sum(self._cells[process * _CELLS + cell] for process in range(self._processes))

    def _cell(self, key: str) -> int:
        digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=2, key=self._salt).digest()
        return int.from_bytes(digest, "little")
