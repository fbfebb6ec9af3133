"""Collections of unlimited size for the events and cards of a block: a part in memory, the remainder in an unnamed
file."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import finalize

from indexer import durable_files

_T = TypeVar("_T")
_K = TypeVar("_K")
_V = TypeVar("_V")

AT_ONCE = 2_000
"""Items in memory, and items that are written and read together."""

BYTES_AT_ONCE = 4 << 20
"""Bytes of items in memory, at most, besides the last item."""

_DISK = Path("/var/tmp")  # noqa: S108 - the files have no name


def folder() -> Path:
    """The folder of the files: `TMPDIR`, else `/var/tmp`, which is on a disk where `/tmp` may be in memory."""
    if "TMPDIR" not in os.environ and os.access(_DISK, os.W_OK):
        return _DISK
    return Path(tempfile.gettempdir())


def unnamed_file(owner: object) -> int:
    """The descriptor of a new file in that folder without a name, closed when `owner` is collected. Raises OSError."""
    with tempfile.TemporaryFile(dir=folder()) as file:
        descriptor = os.dup(file.fileno())
    finalize(owner, os.close, descriptor)
    return descriptor


def pieces(items: Iterable[_T], size: Callable[[_T], int] = lambda _: 0, most: int | None = None) -> Iterator[list[_T]]:
    """Items in order, in lists of at most AT_ONCE items and about `most` bytes, or BYTES_AT_ONCE; `size` gives an
    item's bytes."""
    most = BYTES_AT_ONCE if most is None else most
    some: list[_T] = []
    held = 0
    for item in items:
        some.append(item)
        held += size(item)
        if len(some) == AT_ONCE or held >= most:
            yield some
            some, held = [], 0
    if some:
        yield some


class Spill(Generic[_T]):
    """A list that grows at its end and is read from its start, any number of times and by several threads.

    Items are pickled: each pass gives equal ones, not the same. Raises OSError when the disk is full.
    """

    def __init__(self) -> None:
        self._held: list[_T] = []
        self._held_bytes = self._size = 0
        self._file: int | None = None
        self._ends = [0]

    def __len__(self) -> int:
        return self._size

    def append(self, item: _T, size: int = 0) -> None:
        """Append an item of about `size` bytes."""
        if len(self._held) >= AT_ONCE or self._held_bytes >= BYTES_AT_ONCE:
            if self._file is None:
                self._file = unnamed_file(self)
            raw = pickle.dumps(self._held, pickle.HIGHEST_PROTOCOL)
            self._ends.append(self._ends[-1] + len(raw))
            durable_files.write(self._file, raw)
            self._held, self._held_bytes = [], 0
        self._held.append(item)
        self._held_bytes += size
        self._size += 1

    def __iter__(self) -> Iterator[_T]:
        for piece in range(len(self._ends) - 1):
            yield from self._read(piece)
        yield from self._held

    @property
    def in_memory(self) -> list[_T] | None:
        """All items while none had to be written, None after that."""
        return self._held if self._file is None else None

    def _read(self, piece: int) -> list[_T]:
        assert self._file is not None  # noqa: S101 - there are pieces
        start, end = self._ends[piece : piece + 2]
        items: list[Any] = pickle.loads(os.pread(self._file, end - start, start))  # noqa: S301 - written above
        return items


class SpilledPairs(Spill[tuple[_K, _V]]):
    """Pairs of key and value in the order of their addition, keys perhaps repeated: the part of a mapping that the
    store needs."""

    def items(self) -> Iterator[tuple[_K, _V]]:
        """All pairs."""
        return iter(self)

    def settled(self) -> dict[_K, _V] | SpilledPairs[_K, _V]:
        """A dict, when all of it is in memory."""
        pairs = self.in_memory
        return self if pairs is None else dict(pairs)
