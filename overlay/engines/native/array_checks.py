"""Whether the arrays of a segment fit together, on which kernels rely."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from overlay.engines.native.schema import DERIVED, MEMBERS, TABLES, VECTOR
from overlay.engines.native.segment_file import Array, SegmentError
from overlay.search.ranker import SECTIONS
from overlay.search.term_dictionary import LONGEST, SHORTEST

_STEP = 1 << 18
"""Numbers that are compared at once, which stay in the processor's cache."""


def check(arrays: Mapping[str, Array]) -> int:
    """The number of documents of a segment. Raises SegmentError, which names the array, when a primary one is missing,
    of another type or length, or when offsets decrease or lead outside. Numbers of strings are not read."""
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
        else:
            _check_length(member.name, values, count)
    return documents


def check_all(arrays: Mapping[str, Array], documents: int) -> None:
    """Check the primary and the derived arrays of a segment of so many documents, and that all numbers are inside.
    Raises SegmentError, which names the array."""
    if (held := check(arrays)) != documents:
        raise SegmentError(f"array offers_offsets is that of {held:,} documents, not {documents:,}")
    counts = {table: len(arrays[f"{table}_offsets"]) - 1 for table in TABLES}
    counts |= {"documents": documents, "offers": int(arrays["offers_offsets"][-1]), "lengths": LONGEST - SHORTEST + 1}
    _check_fixed_rows(arrays, documents)
    for member in MEMBERS:
        if member.table:
            _check_numbers(member.name, arrays[member.name], counts[member.table], is_broken=member.name == "forward")
    for derived in DERIVED:
        counts[derived.name] = len(_typed(arrays, derived.name, derived.dtype))
    counts["clusters"] = counts["cluster_centres"] // VECTOR
    for derived in DERIVED:
        values = arrays[derived.name]
        if derived.offsets_of:
            _check_offsets(derived.name, values, counts[derived.of], counts[derived.offsets_of])
        elif derived.of:
            _check_length(derived.name, values, counts[derived.of])
        if derived.below:
            _check_numbers(derived.name, values, counts[derived.below], is_broken=derived.name == "value_next")
    if (arrays["value_next"] <= np.arange(counts["values"])).any():
        raise SegmentError("array value_next does not lead onwards")
    _check_postings(arrays["term_offsets"], arrays["term_documents"], arrays["term_impacts"])
    if len(arrays["cluster_centres"]) % VECTOR:
        raise SegmentError(f"array cluster_centres is not that of rows of {VECTOR}")
    if counts["clusters"] and (np.bincount(arrays["cluster_documents"], minlength=documents) != 1).any():
        raise SegmentError("array cluster_documents does not have each document once")  # searches list it once


def _check_fixed_rows(arrays: Mapping[str, Array], documents: int) -> None:
    """Each document has its text vector, and its forward index sections with ends in order and inside."""
    for name, length in (("section_ends", SECTIONS), ("vector", VECTOR)):
        if (arrays[f"{name}_offsets"] != np.arange(0, length * documents + 1, length)).any():
            raise SegmentError(f"array {name}_offsets is not that of rows of {length}")
    rows = arrays["section_ends"].reshape(documents, SECTIONS)
    if (rows[:, 1:] < rows[:, :-1]).any() or (rows[:, -1] > np.diff(arrays["forward_offsets"])).any():
        raise SegmentError("array section_ends leads outside of forward")
    if (arrays["text_surfaces"] > np.diff(arrays["document_surfaces_offsets"])).any():
        raise SegmentError("array text_surfaces leads outside of document_surfaces")


def _check_numbers(name: str, numbers: Array, count: int, *, is_broken: bool) -> None:
    for start in range(0, len(numbers), _STEP):
        some = numbers[start : start + _STEP]
        # the number after BREAK is 0
        if (some + np.uint32(1)).max() > count if is_broken else some.max() >= count:
            raise SegmentError(f"array {name} has numbers outside of {count:,}")


def _check_postings(offsets: Array, documents: Array, impacts: Array) -> None:
    """Check that each document is at most once in the postings of a term, where it scores: searches list it once."""
    for start in range(0, len(documents), _STEP):
        stretch, chosen = documents[start : start + _STEP + 1], impacts[start : start + _STEP]
        begins = np.flatnonzero(stretch[1:] <= stretch[:-1]) + (start + 1)
        if (offsets[np.searchsorted(offsets, begins)] != begins).any():
            raise SegmentError("array term_documents decreases")
        if not (chosen.min() > 0 and chosen.max() <= 1):
            raise SegmentError("array term_impacts has values outside of 0 to 1")


def _typed(arrays: Mapping[str, Array], name: str, type_: str) -> Array:
    array = arrays.get(name)
    if array is None or array.dtype != f"<{type_}":
        raise SegmentError(f"array {name} is missing" if array is None else f"array {name} is of {array.dtype}")
    return array


def _check_length(name: str, values: Array, count: int) -> None:
    if len(values) != count:
        raise SegmentError(f"array {name} has {len(values):,} values, not {count:,}")


def _check_offsets(name: str, offsets: Array, rows: int, values: int) -> None:
    if rows < 0 or len(offsets) != rows + 1 or offsets[0] != 0 or offsets[-1] != values:
        raise SegmentError(f"array {name} is not the offsets of {rows:,} rows of {values:,} values")
    if (offsets[1:] < offsets[:-1]).any():
        raise SegmentError(f"array {name} decreases")
