"""How often results have each value of a facet. Values that differ in case only are one, a group (`derived`)."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from overlay.engines.native import search_kernels as kernels
from overlay.engines.native.segment import Ints, Segment

Numbers = npt.NDArray[np.uint32]
Longs = npt.NDArray[np.uint64]

_SALT = np.uint64(secrets.randbits(64) | 1)
_MAYBE = 2


class SegmentCounts:
    """The number of documents with each value of a segment, among some."""

    def __init__(self, segment: Segment, documents: Ints) -> None:
        a, self._segment = segment.arrays, segment
        self._counts = np.zeros(len(a["value_group"]), np.uint32)
        counted = np.empty_like(self._counts)
        size = kernels.count(
            documents, a["document_values_offsets"], a["document_values"], self._counts, counted
        )  # fmt: skip
        self._counted = counted[:size].copy()
        self._groups: dict[str, tuple[Numbers, Longs]] = {}

    def groups(self, field: str, prefix: str) -> tuple[Numbers, Longs, Longs]:
        """The groups of a field's values with a beginning: number, hash and total of each, in no order."""
        numbers, totals = self._of_field(field)
        if prefix:
            chosen = self._beginning(numbers, len(field) + 1, prefix)
            numbers, totals = numbers[chosen], totals[chosen]
        return numbers, self._segment.arrays["value_hash"][numbers], totals

    def _of_field(self, field: str) -> tuple[Numbers, Longs]:
        if field not in self._groups:
            bounds = self._segment.positions("values", [f"{field}:", f"{field};"]).tolist()
            low, high = (bound if bound >= 0 else -1 - bound for bound in bounds)
            totals = np.zeros_like(self._counts)
            numbers = kernels.total_groups(
                self._counted, low, high, self._segment.arrays["value_group"], self._counts, totals
            )
            self._groups[field] = numbers, totals[numbers].astype(np.uint64)
        return self._groups[field]

    def _beginning(self, numbers: Numbers, skip: int, prefix: str) -> npt.NDArray[np.bool_]:
        """Which groups have a beginning, after the name of the field (`skip` bytes)."""
        a, is_chosen = self._segment.arrays, np.empty(len(numbers), np.uint8)
        data = np.frombuffer(prefix.encode("utf-8", "surrogatepass"), np.uint8)
        kernels.may_begin(numbers, a["values_bytes"], a["values_offsets"], skip, data, is_chosen)
        for index in np.flatnonzero(is_chosen == _MAYBE).tolist():
            value = self._segment.string("values", int(numbers[index]))[skip:]
            is_chosen[index] = value.casefold().startswith(prefix)
        return np.asarray(is_chosen != 0)

    def spellings(self, group: int) -> Iterator[tuple[str, int]]:
        """The values of a group, each with its count."""
        following, before = self._segment.arrays["value_next"], -1
        while before < group < len(following):  # a damaged array leads nowhere, but not around
            if count := int(self._counts[group]):
                yield self._segment.string("values", group).partition(":")[2], count
            before, group = group, int(following[group])


class FieldCounts:
    """See `query.ValueCounts`: the counts of a field in all segments."""

    def __init__(self, parts: Sequence[SegmentCounts], field: str) -> None:
        self._parts, self._field = parts, field

    def commonest(self, prefix: str, limit: int) -> tuple[tuple[tuple[str, int], ...], int]:
        """The most frequent values with a beginning, and the number of all these."""
        groups = [part.groups(self._field, prefix) for part in self._parts]
        hashes, totals = _merged([(names, sums) for _, names, sums in groups])
        chosen = kernels.first(np.arange(len(totals)), totals, hashes, limit, False)
        chosen = chosen[np.lexsort((hashes[chosen], -totals[chosen].astype(np.int64)))]
        shown = self._shown([(numbers, names) for numbers, names, _ in groups], hashes[chosen])
        return tuple(zip(shown, totals[chosen].tolist(), strict=True)), len(totals)

    def _shown(self, groups: Sequence[tuple[Numbers, Longs]], chosen: Longs) -> list[str]:
        """The most frequent spelling of each of the chosen groups, by their hashes."""
        spellings = [Counter[str]() for _ in chosen]
        for part, (numbers, hashes) in zip(self._parts, groups, strict=True):
            ordinals = np.zeros(len(hashes), np.uint64)
            _join(hashes, ordinals, chosen, np.arange(1, len(chosen) + 1, dtype=np.uint64))
            for index in np.flatnonzero(ordinals).tolist():
                spellings[int(ordinals[index]) - 1].update(dict(part.spellings(int(numbers[index]))))
        return [min(counts, key=lambda text: (-counts[text], text)) for counts in spellings]


def _merged(parts: Sequence[tuple[Longs, Longs]]) -> tuple[Longs, Longs]:
    """The totals of all parts by hash. The largest part is only read once."""
    if len(parts) == 1:
        return parts[0]
    hashes, totals = np.empty(0, np.uint64), np.empty(0, np.uint64)
    for names, sums in sorted(parts, key=lambda part: -len(part[0])):
        is_new = ~_join(hashes, totals, names, sums)
        hashes, totals = np.concatenate((hashes, names[is_new])), np.concatenate((totals, sums[is_new]))
    return hashes, totals


def _join(hashes: Longs, totals: Longs, others: Longs, more: Longs) -> npt.NDArray[np.bool_]:
    is_joined = np.zeros(len(others), np.uint8)
    kernels.join(hashes, totals, others, more, _SALT, is_joined)
    return np.asarray(is_joined != 0)
