"""What an index shows of its listings: records in one file that only grows, read by offset.

Reading twenty of them costs 20 µs, against 200 µs from a compressed document store (measured). A record is on the disk
before the index that points to it commits, so a crash leaves at worst bytes nobody points to.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from struct import Struct
from typing import NamedTuple

_HEAD = Struct("<5IQ??")  # where the id, the cheapest, the offers, the item and the words end
_START, _ends = _HEAD.size, _HEAD.unpack_from
_END_OF_ID, _ID = Struct("<I"), 256  # bytes that nearly all ids end in
_LENGTH_BITS = 24
LARGEST = (1 << _LENGTH_BITS) - 1


class Record(NamedTuple):
    """One document as it is kept. `newest` is the number that puts the latest first, `listed` says whether a plain
    search finds it; `cheapest` is what holds without filters: its members joined by NUL, or empty; `offers` is from
    `prices.pack`; `words` are the folded words of a listed one, each once, joined by spaces; `said` is from
    `closeness.said`; `ages` says whether the item holds warnings that are told for a time only."""

    id: str
    newest: int
    listed: bool
    cheapest: str
    offers: bytes
    item: bytes
    words: bytes
    said: bytes = b""
    ages: bool = False

    def pack(self) -> bytes:
        """To bytes. Raises ValueError when the record is larger than 16 MiB."""
        parts = (self.id.encode(), self.cheapest.encode(), self.offers, self.item, self.words)
        ends = accumulate(map(len, parts), initial=_HEAD.size)
        head = _HEAD.pack(*list(ends)[1:], self.newest, self.listed, self.ages)
        data = b"".join((head, *parts, self.said))
        if len(data) > LARGEST:
            raise ValueError(f"the document of {self.id} takes {len(data):,} bytes, more than an index holds")
        return data

    @classmethod
    def unpack(cls, data: bytes) -> Record:
        """From bytes that `pack` made."""
        a, b, c, d, e, newest, listed, ages = _ends(data)
        id_, usual = data[_START:a].decode(), data[a:b].decode()
        return cls(id_, newest, listed, usual, data[b:c], data[c:d], data[d:e], data[e:], ages)


class Records:
    """The file of records. One process appends; any number read."""

    def __init__(self, path: Path, *, write: bool) -> None:
        """Open the file; for writing it is made when missing. Raises OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND if write else os.O_RDONLY
        self._file = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o644)

    def append(self, data: bytes) -> int:
        """Add a record; its place, to be given to `read`. Not yet durable: `sync` makes it so."""
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

    def read(self, places: Iterable[int]) -> Iterator[bytes]:
        """The bytes of records. Raises OSError when the file cannot be read, ValueError when it ends before them."""
        pread, file = os.pread, self._file
        for place in places:
            size = place & LARGEST
            data = pread(file, size, place >> _LENGTH_BITS)
            if len(data) != size:
                raise ValueError(f"the records end before {place >> _LENGTH_BITS:,} + {size:,}: rebuild the index")
            yield data

    def ids(self, places: Iterable[int]) -> Iterator[str]:
        """The ids of records, which takes a third of reading them. Raises what `read` raises."""
        pread, file = os.pread, self._file
        for place in places:
            data = pread(file, min(_ID, place & LARGEST), place >> _LENGTH_BITS)
            end = _END_OF_ID.unpack_from(data)[0] if len(data) >= _START else _ID + 1
            yield data[_START:end].decode() if end <= len(data) else Record.unpack(next(self.read([place]))).id

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
