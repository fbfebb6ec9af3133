"""The records of an index: one append-only file, read by offset.

The file is memory-mapped: reading twenty records takes 50 µs, by system calls 105 µs (measured). Records are synced to
disk before the index commits, so a crash leaves at worst unreferenced bytes.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING
from weakref import finalize

from overlay.search import prices
from overlay.search.facts import is_listed
from overlay.search.forward import Analysed, encode
from overlay.search.term_dictionary import TermCounts

if TYPE_CHECKING:
    from overlay.search.document import Document

_HEAD = Struct("<4I?")  # ends of id, forward index, offers and item from the start of the record; is_listed
_LENGTH_BITS = 24
LARGEST = (1 << _LENGTH_BITS) - 1
_Bytes = bytes | mmap.mmap


def pack(id_: str, forward: bytes, offers: bytes, item: bytes, *, is_listed: bool, words: bytes = b"") -> bytes:
    """The bytes of a record. `forward` is from `forward.encode`, `offers` from `prices.pack`; `words` are the surfaces
    of a listed document (`analysis.Tokens`), each once, separated by spaces. Raises ValueError above 16 MiB."""
    parts = (id_.encode(), forward, offers, item)
    ends = accumulate(map(len, parts), initial=_HEAD.size)
    data = b"".join((_HEAD.pack(*list(ends)[1:], is_listed), *parts, words))
    if len(data) > LARGEST:
        raise ValueError(f"the document of {id_} takes {len(data):,} bytes, more than an index holds")
    return data


def pack_document(document: Document, analysed: Analysed, changes: TermCounts) -> bytes:
    """The record of a document that is added to an index. The words of a listed one are counted in `changes`. Raises
    ValueError above 16 MiB."""
    listed = is_listed(document)
    if listed:
        changes.add(analysed.surfaces)
    words = " ".join(sorted(analysed.surfaces)).encode() if listed else b""
    forward, offers = encode(analysed, document), prices.pack(document)
    return pack(document.id, forward, offers, document.item, is_listed=listed, words=words)


class IndexRecord:
    """One stored document, in `data` from `start` to `end`. Its `id` is decoded at once, the rest when it is read: most
    candidates of a search are not shown."""

    __slots__ = ("_data", "_end", "_head", "_start", "id")

    def __init__(self, data: _Bytes, start: int = 0, end: int | None = None) -> None:
        self._data, self._start, self._end = data, start, len(data) if end is None else end
        self._head: tuple[int, int, int, int, bool] = _HEAD.unpack_from(data, start)
        self.id: str = data[start + _HEAD.size : start + self._head[0]].decode()

    @property
    def is_listed(self) -> bool:
        """Whether its words are counted in the term dictionary."""
        return self._head[4]

    @property
    def forward(self) -> bytes:
        """The encoded forward index."""
        return self._data[self._start + self._head[0] : self._start + self._head[1]]

    @property
    def offers(self) -> bytes:
        """The packed offers."""
        return self._data[self._start + self._head[1] : self._start + self._head[2]]

    @property
    def item(self) -> bytes:
        """The item (UTF-8 JSON object)."""
        return self._data[self._start + self._head[2] : self._start + self._head[3]]

    @property
    def words(self) -> list[str]:
        """The words of a listed document, each once."""
        return self._data[self._start + self._head[3] : self._end].decode().split()

    @property
    def packed(self) -> bytes:
        """The bytes that `pack` made."""
        return self._data[self._start : self._end]


class RecordFile:
    """The file of records. One process appends; any number read."""

    def __init__(self, path: Path, *, write: bool) -> None:
        """Open the file; for writing, create it when missing. Raises OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND if write else os.O_RDONLY
        self._file = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o644)
        # searches may still read a replaced index: its file is closed with the last reference
        self._close = finalize(self, os.close, self._file)
        self._mapped: _Bytes = b""  # the file as of the last read beyond its end

    def append(self, data: bytes) -> int:
        """Add a packed record; its address, for `read`. `sync` makes it durable."""
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

    def read(self, addresses: Iterable[int]) -> list[IndexRecord]:
        """The records at addresses. Raises OSError when the file is unreadable, ValueError when it ends before them."""
        starts = [(address >> _LENGTH_BITS, address & LARGEST) for address in addresses]
        start, length = max(starts, default=(0, 0))
        if start + length > len(self._mapped):
            self._mapped = mmap.mmap(self._file, 0, access=mmap.ACCESS_READ) if self.size() else b""
            if start + length > len(self._mapped):
                raise ValueError(f"the records end before {start:,} + {length:,}: rebuild the index")
        mapped = self._mapped
        return [IndexRecord(mapped, start, start + length) for start, length in starts]

    def close(self) -> None:
        """Close the file."""
        self._mapped = b""
        self._close()
