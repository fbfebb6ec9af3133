"""What an index stores of its listings: records in one file that only grows, read by offset.

The file is mapped: reading twenty records costs 50 µs, against 105 µs by system calls (measured). A record is on the
disk before the index that points to it commits, so a crash leaves at worst bytes that nothing points to.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from weakref import finalize

_HEAD = Struct("<4I?")  # where id, forward index, offers and item end; is_listed
_LENGTH_BITS = 24
LARGEST = (1 << _LENGTH_BITS) - 1
_Bytes = bytes | mmap.mmap


class Record(NamedTuple):
    """One document as it is stored. `forward` is from `forward.encode`, `offers` from `prices.pack`; `words` are the
    surfaces of a listed one (`analysis.Tokens`), each once, joined by spaces."""

    id: str
    forward: bytes
    offers: bytes
    item: bytes
    is_listed: bool
    words: bytes = b""

    def pack(self) -> bytes:
        """To bytes. Raises ValueError when the record is larger than 16 MiB."""
        parts = (self.id.encode(), self.forward, self.offers, self.item)
        ends = accumulate(map(len, parts), initial=_HEAD.size)
        data = b"".join((_HEAD.pack(*list(ends)[1:], self.is_listed), *parts, self.words))
        if len(data) > LARGEST:
            raise ValueError(f"the document of {self.id} takes {len(data):,} bytes, more than an index holds")
        return data

    @classmethod
    def unpack(cls, data: _Bytes, at: int = 0, end: int | None = None) -> Record:
        """From packed bytes, which lie in `data` from `at` to `end`."""
        id_, forward, offers, item, is_listed = _HEAD.unpack_from(data, at)
        return cls(
            data[at + _HEAD.size : at + id_].decode(),
            data[at + id_ : at + forward],
            data[at + forward : at + offers],
            data[at + offers : at + item],
            is_listed,
            data[at + item : end],
        )


class LazyRecord:
    """A record of which `id` and `forward` are decoded when it is read, and the rest when it is shown: most candidates
    of a search are not."""

    __slots__ = ("_at", "_data", "_ends", "forward", "id")

    def __init__(self, data: _Bytes, at: int) -> None:
        self._data, self._at = data, at
        self._ends = ends = _HEAD.unpack_from(data, at)
        self.id = data[at + _HEAD.size : at + ends[0]].decode()
        self.forward = data[at + ends[0] : at + ends[1]]

    @property
    def offers(self) -> bytes:
        """As in `Record`."""
        return self._data[self._at + self._ends[1] : self._at + self._ends[2]]

    @property
    def item(self) -> bytes:
        """As in `Record`."""
        return self._data[self._at + self._ends[2] : self._at + self._ends[3]]


class Records:
    """The file of records. One process appends; any number read."""

    def __init__(self, path: Path, *, write: bool) -> None:
        """Open the file; for writing it is made when missing. Raises OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND if write else os.O_RDONLY
        self._file = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o644)
        # a search may still read an index that has been replaced; its file is closed with the last reference
        self._close = finalize(self, os.close, self._file)
        self._mapped: _Bytes = b""  # the file as of the last read beyond its end

    def append(self, data: bytes) -> int:
        """Add a packed record; its place, to be given to `read`. `sync` makes it durable."""
        end = os.lseek(self._file, 0, os.SEEK_END)
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        return end << _LENGTH_BITS | len(data)

    def sync(self) -> int:
        """Flush to the disk; the size of the file in bytes."""
        os.fsync(self._file)
        return self.size()

    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._file).st_size

    def read(self, places: Iterable[int]) -> list[Record]:
        """The records at places. Raises OSError when the file cannot be read, ValueError when it ends before them."""
        return [Record.unpack(*self._at(place)) for place in places]

    def candidates(self, places: Iterable[int]) -> list[LazyRecord]:
        """The records at places, decoded when they are needed. Raises what `read` raises."""
        return [LazyRecord(data, at) for data, at, _ in map(self._at, places)]

    def _at(self, place: int) -> tuple[_Bytes, int, int]:
        """The mapped file, and where a record begins and ends in it."""
        at = place >> _LENGTH_BITS
        end = at + (place & LARGEST)
        if end > len(self._mapped):
            self._mapped = mmap.mmap(self._file, 0, access=mmap.ACCESS_READ) if self.size() else b""
            if end > len(self._mapped):
                raise ValueError(f"the records end before {at:,} + {end - at:,}: rebuild the index")
        return self._mapped, at, end

    def close(self) -> None:
        """Close the file."""
        self._mapped = b""
        self._close()
