"""Arrays in one file, mapped by any number of processes. All numbers are little-endian.

    0   the magic bytes, the layout (u32), the number of arrays (u32), the length of the file (u64),
        the CRC-32C (u32) of the bytes before it and of the table
    64  the table, 64 bytes for an array: name (ASCII, filled with zeros), type as numpy names it, CRC-32C (u32),
        offset and length in bytes (u64)
    …   the arrays, each from a multiple of 64 on, filled up with zeros

A CRC-32C of 200 MB takes 35 ms (measured), so what is written is always checked when an index is suspected.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from google_crc32c import extend

from overlay.engines.native import durable

LAYOUT = 1

Array = np.ndarray[tuple[int], np.dtype[Any]]

TYPES = frozenset(("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8"))
"""Types of arrays, as numpy names them but for the byte order."""

_ALIGNMENT = 64
_MAGIC = b"A2B-sgmt"
_HEAD = Struct("<8sIIQ")
_CHECK = Struct("<I")
_ENTRY = Struct("<40s4sIQQ")
_MOST = 1_000
"""Arrays of a file at most."""

_STEP = 1 << 20
"""Bytes whose CRC is computed at once: other threads wait 0.2 ms."""


class SegmentError(ValueError):
    """A segment is damaged, or of a layout that this release cannot read; the message names it."""


class _ArrayEntry(NamedTuple):
    name: str
    type: str
    crc: int
    offset: int
    length: int


def crc32c(data: Array, start: int = 0) -> int:
    """The CRC-32C of the bytes of an array, continuing from `start`."""
    data = data.view(np.uint8)
    for offset in range(0, len(data), _STEP):
        start = extend(start, data[offset : offset + _STEP])
    return start


def write(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays of one dimension to a file, durably (`durable.replace`). Raises OSError, ValueError for a name or
    type that no file can hold."""
    stored: dict[str, Array] = {}
    for name, array in arrays.items():
        if not (name.isascii() and name.isidentifier() and len(name) <= 40):
            raise ValueError(f"{name!a} is not a name of an array in a segment file")
        if array.ndim != 1 or array.dtype.str[1:] not in TYPES:
            raise ValueError(f"array {name} has {array.ndim} dimensions of {array.dtype}, which no segment file holds")
        stored[name] = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    if len(stored) > _MOST:
        raise ValueError(f"{len(stored):,} arrays, more than the {_MOST:,} of a segment file")
    durable.replace(path, _parts(stored))


def _parts(arrays: Mapping[str, Array]) -> Iterator[bytes | memoryview]:
    """The bytes of a file: its head and table, and the arrays, each filled up to a multiple of the alignment."""
    size = _ALIGNMENT + len(arrays) * _ENTRY.size
    table, end = bytearray(), size + -size % _ALIGNMENT
    for name, array in arrays.items():
        table += _ENTRY.pack(name.encode(), array.dtype.str[1:].encode(), crc32c(array), end, array.nbytes)
        end += array.nbytes + -array.nbytes % _ALIGNMENT
    head = _HEAD.pack(_MAGIC, LAYOUT, len(arrays), end)
    yield (head + _CHECK.pack(extend(extend(0, head), bytes(table)))).ljust(_ALIGNMENT, b"\0") + table
    for array in arrays.values():
        yield array.view(np.uint8).data
        yield bytes(-array.nbytes % _ALIGNMENT)


class SegmentFile(NamedTuple):
    """The arrays of a file by name, read-only and mapped: nothing is read from disk until an array is; and their
    CRC-32Cs as written. The file is unmapped with the last array."""

    arrays: dict[str, Array]
    crcs: dict[str, int]

    @classmethod
    def open(cls, path: Path) -> SegmentFile:
        """Map a file. Raises OSError; SegmentError when its head, table or length is wrong, while its arrays are
        checked by `damaged` only."""
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(file).st_size < _ALIGNMENT:
                raise SegmentError(f"{path} is damaged: it is shorter than the head of a segment file")
            mapped = mmap.mmap(file, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(file)
        try:
            entries = _entries(mapped)
            arrays = {
                entry.name: np.frombuffer(mapped, f"<{entry.type}", entry.length // int(entry.type[1:]), entry.offset)
                for entry in entries
            }
        except ValueError as error:
            raise SegmentError(f"{path} {error}") from error
        return cls(arrays, {entry.name: entry.crc for entry in entries})

    def damaged(self) -> list[str]:
        """The names of arrays with bytes other than those written. Reads the whole file."""
        return [name for name, array in self.arrays.items() if crc32c(array) != self.crcs[name]]


def _entries(mapped: mmap.mmap) -> list[_ArrayEntry]:
    """The table, every entry of it within the file. Raises ValueError."""
    magic, layout, count, length = _HEAD.unpack_from(mapped)
    if magic != _MAGIC:
        raise ValueError("is not a segment file")
    if layout != LAYOUT:
        raise ValueError(f"is of layout {layout}, and this release reads {LAYOUT}: rebuild the index")
    if length != len(mapped):
        raise ValueError(f"is damaged: it has {len(mapped):,} bytes, not {length:,}")
    table = mapped[_ALIGNMENT : _ALIGNMENT + min(count, _MOST) * _ENTRY.size]
    (check,) = _CHECK.unpack_from(mapped, _HEAD.size)
    if len(table) != count * _ENTRY.size or extend(extend(0, mapped[: _HEAD.size]), table) != check:
        raise ValueError("is damaged: its table is not as written")
    entries = []
    for name, type_, crc, offset, size in _ENTRY.iter_unpack(table):
        entry = _ArrayEntry(name.rstrip(b"\0").decode("ascii"), type_.rstrip(b"\0").decode("ascii"), crc, offset, size)
        if entry.type not in TYPES or size % int(entry.type[1:]):
            raise ValueError(f"holds {entry.name} of type {entry.type!a} in {size:,} bytes")
        if offset % _ALIGNMENT or offset + size > length:
            raise ValueError(f"holds {entry.name} from {offset:,} on in {size:,} bytes, outside of it")
        entries.append(entry)
    return entries
