"""How often results have each value of a facet. Values that differ in case only are one, a group (`derived`)."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from overlay.engines.native import search_kernels as kernels
from overlay.engines.native.segment import FIELDS, Bytes, Ints, Segment

Numbers = npt.NDArray[np.uint32]
Longs = npt.NDArray[np.uint64]

_SALT = np.uint64(secrets.randbits(64) | 1)
_MAYBE = 2
_BY_FACTS = frozenset(("kind", "currency", "interval", "access", "transport", "auth", "protocol", "launcher", "health"))
"""Fields whose values are facts, as they are, and so few that their documents are counted by these."""
_FEW_VALUES = 32
_MOST_FOLDED = 1_000
"""The number of values beyond ASCII, the most frequent, whose beginnings are compared: each is folded by itself."""
_MOST_SPELLINGS = 8
"""Spellings of a value that are compared: the most frequent ones of each segment."""
_NONE: Longs = np.empty(0, np.uint64)


class SegmentCounts:
    """The number of documents with each value of some fields of a segment, among some."""

    def __init__(self, segment: Segment, documents: Ints, fields: Collection[str], mask: Bytes | None = None) -> None:
        """The values of these documents, or of the documents of a mask if there is one."""
        a, self._segment = segment.arrays, segment
        lows, values, chosen = segment.value_lows.tolist(), len(a["value_group"]), list(map(FIELDS.index, fields))
        low, high = lows[min(chosen)], [*lows, values][max(chosen) + 1]
        self._few, self._more = np.zeros(values, np.uint8), np.zeros(values, np.uint32)
        if mask is not None and high - low <= _FEW_VALUES and _BY_FACTS.issuperset(fields):
            facts = segment.positions("facts", segment.strings("values", np.arange(low, high)))
            kernels.count_admitted(mask, a["fact_offsets"], a["fact_documents"], facts, self._more[low:high])
            self._counted = (low + np.flatnonzero(self._more[low:high])).astype(np.uint32)
            return
        counted = np.empty(values + 1, np.uint32)
        size = kernels.count(
            documents, a["document_values_offsets"], a["document_values"], low, high, self._few, self._more, counted
        )
        self._counted = np.sort(counted[:size])

    def _counts(self, values: Ints | Numbers) -> Numbers:
        """The number of documents with each of some values."""
        return self._more[values] + self._few[values]

    def groups(self, field: str, prefix: str) -> tuple[Numbers, Longs, Longs]:
        """The groups of a field's values with a beginning: number, hash and total of each, in no order."""
        all_numbers, all_totals, starts = self._groups
        start, end = starts[FIELDS.index(field) :][:2]
        numbers, totals = all_numbers[start:end], all_totals[start:end]
        if prefix:
            chosen = self._beginning(numbers, totals, len(field) + 1, prefix)
            numbers, totals = numbers[chosen], totals[chosen]
        return numbers, self._segment.arrays["value_hash"][numbers], totals

    @cached_property
    def _groups(self) -> tuple[Numbers, Longs, list[int]]:
        """The groups of all fields with their totals, one field after the other, and where the groups of each field
        begin."""
        groups, counted = self._segment.arrays["value_group"], self._counted
        totals = np.zeros(len(groups), np.uint32)
        numbers = kernels.total_groups(counted, self._counts(counted), groups, totals)
        starts = np.searchsorted(numbers, self._segment.value_lows).tolist()  # they are in order but within a field
        return numbers, totals[numbers].astype(np.uint64), [*starts, len(numbers)]

    def _beginning(self, numbers: Numbers, totals: Longs, skip: int, prefix: str) -> npt.NDArray[np.bool_]:
        """Which groups have a beginning, after the name of the field (`skip` bytes)."""
        a, is_chosen = self._segment.arrays, np.empty(len(numbers), np.uint8)
        data = np.frombuffer(prefix.encode("utf-8", "surrogatepass"), np.uint8)
        kernels.may_begin(numbers, a["values_bytes"], a["values_offsets"], skip, data, is_chosen)
        maybe = np.flatnonzero(is_chosen == _MAYBE)
        is_chosen[maybe] = 0
        if len(maybe) > _MOST_FOLDED:
            maybe = maybe[np.argpartition(totals[maybe], -_MOST_FOLDED)[-_MOST_FOLDED:]]
        for index, value in zip(
            maybe.tolist(), self._segment.strings("values", numbers[maybe].astype(np.int64)), strict=True
        ):
            is_chosen[index] = value[skip:].casefold().startswith(prefix)
        return np.asarray(is_chosen != 0)

    def spellings(self, groups: Numbers) -> Iterator[tuple[int, str, int]]:
        """The most frequent values of some groups, each with the position of its group and its count."""
        numbers = np.empty((len(groups), _MOST_SPELLINGS), np.int64)
        kernels.commonest_of_groups(groups, self._segment.arrays["value_next"], self._few, self._more, numbers)
        positions, columns = np.nonzero(numbers >= 0)
        held = numbers[positions, columns]
        texts, counts = self._segment.strings("values", held), self._counts(held).tolist()
        for position, text, count in zip(positions.tolist(), texts, counts, strict=True):
            yield position, text.partition(":")[2], count


class FieldCounts:
    """See `query.ValueCounts`: the counts of a field in all segments."""

    def __init__(self, parts: Sequence[SegmentCounts], field: str) -> None:
        self._parts, self._field = parts, field

    def commonest(self, prefix: str, limit: int) -> tuple[tuple[tuple[str, int], ...], int]:
        """The most frequent values with a beginning, and the number of all these."""
        parts = [(part, *part.groups(self._field, prefix)) for part in self._parts]
        parts.sort(key=lambda part: -len(part[1]))
        hashes, totals = _merged([(names, sums) for _, _, names, sums in parts])
        chosen = kernels.first(np.arange(len(totals)), totals, hashes, limit, False)
        chosen = chosen[np.lexsort((hashes[chosen], -totals[chosen].astype(np.int64)))]
        spellings = [Counter[str]() for _ in chosen]
        for index, (part, numbers, names, _) in enumerate(parts):
            ranks, positions = _positions(names, hashes[chosen]) if index else _below(chosen, len(names))
            of_rank = ranks.tolist()
            for position, text, count in part.spellings(numbers[positions]):
                spellings[of_rank[position]][text] += count
        shown = [min(counts, key=lambda text: (-counts[text], text)) for counts in spellings]
        return tuple(zip(shown, totals[chosen].tolist(), strict=True)), len(totals)


def _merged(parts: Sequence[tuple[Longs, Longs]]) -> tuple[Longs, Longs]:
    """The totals of all parts by hash: those of the first part, which is the largest and is read once, then others."""
    if len(parts) < 2:
        return parts[0] if parts else (_NONE, _NONE)
    hashes, totals = parts[0][0], parts[0][1].copy()
    for names, sums in parts[1:]:
        is_new = ~_join(hashes, totals, names, sums)
        hashes, totals = np.concatenate((hashes, names[is_new])), np.concatenate((totals, sums[is_new]))
    return hashes, totals


def _below(chosen: Ints, end: int) -> tuple[Ints, Ints]:
    """The ranks of the positions of chosen hashes that are below `end`, and these positions."""
    ranks = np.flatnonzero(chosen < end)
    return ranks, chosen[ranks]


def _positions(hashes: Longs, chosen: Longs) -> tuple[Ints, Ints]:
    """The ranks of the chosen hashes that are among some, and their positions there."""
    ranks = np.zeros(len(hashes), np.uint64)
    _join(hashes, ranks, chosen, np.arange(1, len(chosen) + 1, dtype=np.uint64))
    positions = np.flatnonzero(ranks)
    return ranks[positions].astype(np.int64) - 1, positions


def _join(hashes: Longs, totals: Longs, others: Longs, more: Longs) -> npt.NDArray[np.bool_]:
    is_joined = np.zeros(len(others), np.uint8)
    kernels.join(hashes, totals, others, more, _SALT, is_joined)
    return np.asarray(is_joined != 0)
