"""Several segments as one: the primary arrays of the documents that are still current, in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.engines.native import durable, tables
from overlay.engines.native.array_checks import check
from overlay.engines.native.schema import BREAK, MEMBERS, TABLES, ArrayMember
from overlay.engines.native.segment_file import Array, SegmentError
from overlay.engines.native.tables import Bytes, Numbers, Offsets, StringTable
from parsers.jit import kernel


class _MergedPart(NamedTuple):
    """A segment, and the numbers of its documents and offers that are merged."""

    arrays: Mapping[str, Array]
    documents: Offsets
    offers: Offsets

    def rows(self, member: ArrayMember) -> Offsets:
        return self.offers if member.of_offer else self.documents


def merge(
    segments: Sequence[Mapping[str, Array]], masks: Sequence[npt.NDArray[np.bool_]], folder: Path | None = None
) -> dict[str, Array]:
    """The primary arrays of one segment with the documents of all that their masks keep, in order; unused strings are
    dropped. Large arrays are in files in the folder (`durable.array`). Raises OSError, and SegmentError, which names
    the array, when the arrays of a segment do not fit together."""
    parts = []
    for arrays, mask in zip(segments, masks, strict=True):
        if len(mask) != (documents := check(arrays)):
            raise ValueError(f"a mask of {len(mask):,} for {documents:,} documents")
        of_offers = np.repeat(mask, np.diff(arrays["offers_offsets"]))
        parts.append(_MergedPart(arrays, np.flatnonzero(mask), np.flatnonzero(of_offers)))
    merged = {"offers_offsets": _offsets(parts, "offers_offsets", [part.documents for part in parts], folder)}
    for member in MEMBERS:
        if member.is_rows:
            name = f"{member.name}_offsets"
            offsets = _offsets(parts, name, [part.rows(member) for part in parts], folder)
            values = durable.array(folder, int(offsets[-1]), f"<{member.dtype}")
            merged |= {member.name: values, name: offsets}
            target, end = values.view(np.uint8), 0
            for part in parts:
                source = part.arrays[member.name].view(np.uint8)
                end = _copy_rows(source, part.arrays[name], part.rows(member), values.itemsize, target, end)
        else:
            columns = (part.arrays[member.name][part.rows(member)] for part in parts)
            merged[member.name] = durable.moved(folder, np.concatenate([np.zeros(0, f"<{member.dtype}"), *columns]))
    for table in TABLES:
        merged |= _renumbered(table, parts, merged, folder)
    return merged


def prepare() -> None:
    """Compile the kernels of merging and of tables."""
    tables.find(tables.pack([b"a"]), [b"a"])
    empty = merge([], [])
    merge([empty], [np.zeros(0, np.bool_)])


def _offsets(parts: Sequence[_MergedPart], name: str, rows: Sequence[Offsets], folder: Path | None) -> Array:
    """Offsets of these rows of all parts."""
    lengths = (np.diff(part.arrays[name])[of_part] for part, of_part in zip(parts, rows, strict=True))
    return durable.moved(folder, np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum())


def _renumbered(
    table: str, parts: Sequence[_MergedPart], merged: Mapping[str, Array], folder: Path | None
) -> dict[str, Array]:
    """The table of all parts; the gathered members get its numbers, in place."""
    members = [member for member in MEMBERS if member.table == table]
    pieces: list[list[Numbers]] = []  # by member, its merged values that are from each part
    for member in members:
        ends = np.array([len(part.rows(member)) for part in parts], np.int64).cumsum()
        if member.is_rows:
            ends = merged[f"{member.name}_offsets"][ends]
        pieces.append(np.split(merged[member.name], ends)[:-1])  # the last is empty
    sources = [StringTable(part.arrays[f"{table}_bytes"], part.arrays[f"{table}_offsets"]) for part in parts]
    used = [np.zeros(len(source.offsets) - 1, np.uint8) for source in sources]
    for member, of_parts in zip(members, pieces, strict=True):
        for values, marks in zip(of_parts, used, strict=True):
            if _mark(values, marks):
                raise SegmentError(f"array {member.name} holds numbers of strings that {table} does not have")
    (data, offsets), numbers = tables.merge(sources, used, folder)
    for of_parts in pieces:
        for values, new in zip(of_parts, numbers, strict=True):
            _renumber(values, new)
    return {f"{table}_bytes": data, f"{table}_offsets": offsets}


@kernel("target")
def _copy_rows(source: Bytes, offsets: Offsets, rows: Offsets, size: int, target: Bytes, end: int) -> int:
    """Copy rows of values of `size` bytes behind `end`; returns the new end. Neighbours are copied at once."""
    row = 0
    while row < len(rows):
        first = rows[row]
        last = first
        while row + 1 < len(rows) and rows[row + 1] == last + 1:
            row, last = row + 1, last + 1
        row += 1
        start, length = offsets[first] * size, (offsets[last + 1] - offsets[first]) * size
        for byte in range(length):  # a slice would take Numba a second to compile
            target[end + byte] = source[start + byte]
        end += length
    return end


@kernel("used")
def _mark(numbers: Numbers, used: Bytes) -> int:
    """Mark the strings with these numbers; returns how many numbers are outside."""
    outside = 0
    for number in numbers:
        if number < len(used):
            used[number] = 1
        elif number != BREAK:
            outside += 1
    return outside


@kernel("numbers")
def _renumber(numbers: Numbers, new: Numbers) -> None:
    """Replace numbers in place. All of them are in range, except BREAK."""
    for index in range(len(numbers)):
        if numbers[index] != BREAK:
            numbers[index] = new[numbers[index]]
