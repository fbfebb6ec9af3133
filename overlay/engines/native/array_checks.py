"""Whether the primary arrays of a segment fit together, on which kernels rely."""

from __future__ import annotations

from collections.abc import Mapping

from overlay.engines.native.schema import MEMBERS, TABLES
from overlay.engines.native.segment_file import Array, SegmentError


def check(arrays: Mapping[str, Array]) -> int:
    """The number of documents of a segment. Raises SegmentError, which names the array, when one is missing, of another
    type or length, or when offsets decrease or lead outside. Numbers of strings are not read."""
    offers_offsets = _typed(arrays, "offers_offsets", "i8")
    documents, offers = len(offers_offsets) - 1, int(offers_offsets[-1]) if len(offers_offsets) else 0
    _check_offsets("offers_offsets", offers_offsets, documents, offers)
    for table in TABLES:
        offsets = _typed(arrays, f"{table}_offsets", "i8")
        _check_offsets(f"{table}_offsets", offsets, len(offsets) - 1, len(_typed(arrays, f"{table}_bytes", "u1")))
    for member in MEMBERS:
        values, count = _typed(arrays, member.name, member.dtype), offers if member.of_offer else documents
        if member.is_rows:
            name = f"{member.name}_offsets"
            _check_offsets(name, _typed(arrays, name, "i8"), count, len(values))
        elif len(values) != count:
            raise SegmentError(f"array {member.name} has {len(values):,} values, not {count:,}")
    return documents


def _typed(arrays: Mapping[str, Array], name: str, type_: str) -> Array:
    array = arrays.get(name)
    if array is None or array.dtype != f"<{type_}":
        raise SegmentError(f"array {name} is missing" if array is None else f"array {name} is of {array.dtype}")
    return array


def _check_offsets(name: str, offsets: Array, rows: int, values: int) -> None:
    if rows < 0 or len(offsets) != rows + 1 or offsets[0] != 0 or offsets[-1] != values:
        raise SegmentError(f"array {name} is not the offsets of {rows:,} rows of {values:,} values")
    if (offsets[1:] < offsets[:-1]).any():
        raise SegmentError(f"array {name} decreases")
