"""Tables of distinct strings, sorted by their bytes (`schema`): packing, finding, merging."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.engines.native import durable
from overlay.engines.native.schema import BREAK
from parsers.jit import compiled, kernel

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint32]


class StringTable(NamedTuple):
    """String i is bytes[offsets[i]:offsets[i + 1]]."""

    bytes: Bytes
    offsets: Offsets


def pack(strings: Sequence[bytes]) -> StringTable:
    """A table of strings, which are distinct and sorted."""
    offsets = np.fromiter(accumulate(map(len, strings), initial=0), np.int64, len(strings) + 1)
    return StringTable(np.frombuffer(b"".join(strings), np.uint8), offsets)


def find(table: StringTable, strings: Sequence[bytes]) -> Offsets:
    """The number of each of some strings in a table; -1 minus the number of the first one after it when the table does
    not hold it."""
    keys = pack(strings)
    return _find(table.bytes, table.offsets, keys.bytes, keys.offsets)


def merge(
    tables: Sequence[StringTable], used: Sequence[Bytes], folder: Path | None = None
) -> tuple[StringTable, list[Numbers]]:
    """One table of the strings that are used in any of some tables (`used`: 1 for each used string), and for each table
    the new numbers of its strings; the number of an unused one is BREAK. Large arrays are in files in the folder
    (`durable.array`). Raises OSError."""
    counts = [len(table.offsets) - 1 for table in tables]
    bounds = np.fromiter(accumulate(counts, initial=0), np.int64, len(tables) + 1)
    starts = accumulate((len(table.bytes) for table in tables), initial=0)
    size = sum(len(table.bytes) for table in tables)
    data, merged = (durable.array(folder, size, np.uint8) for _ in range(2))
    np.concatenate([np.zeros(0, np.uint8), *(table.bytes for table in tables)], out=data)
    shifted = (table.offsets[1:] + start for table, start in zip(tables, starts, strict=False))
    offsets, merged_offsets = (durable.array(folder, int(bounds[-1]) + 1, np.int64) for _ in range(2))
    np.concatenate([np.zeros(1, np.int64), *shifted], out=offsets)
    marks, numbers = np.concatenate([np.zeros(0, np.uint8), *used]), durable.array(folder, int(bounds[-1]), np.uint32)
    merged_offsets[0] = 0
    numbers.fill(BREAK)
    count = _merge(data, offsets, marks, bounds, merged, merged_offsets, numbers)
    table = StringTable(merged[: merged_offsets[count]], merged_offsets[: count + 1])
    return table, np.split(numbers, bounds[1:])[:-1]


@compiled
def compare(left: Bytes, start: int, end: int, right: Bytes, right_start: int, right_end: int) -> int:
    """Below, at or above 0, as one[start:end] sorts before, with or after other[other_start:other_end]."""
    length, other_length = end - start, right_end - right_start
    for index in range(min(length, other_length)):
        difference = np.int64(left[start + index]) - np.int64(right[right_start + index])
        if difference != 0:
            return int(difference)
    return length - other_length


@compiled
def _first(data: Bytes, offsets: Offsets, keys: Bytes, start: int, end: int) -> int:
    """The number of the first string that does not sort before keys[start:end]."""
    low, high = 0, len(offsets) - 1
    while low < high:
        middle = (low + high) >> 1
        if compare(data, offsets[middle], offsets[middle + 1], keys, start, end) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def _find(data: Bytes, offsets: Offsets, keys: Bytes, key_offsets: Offsets) -> Offsets:
    numbers = np.empty(len(key_offsets) - 1, np.int64)
    for key in range(len(numbers)):
        low = _first(data, offsets, keys, key_offsets[key], key_offsets[key + 1])
        is_equal = low < len(offsets) - 1 and not compare(
            data, offsets[low], offsets[low + 1], keys, key_offsets[key], key_offsets[key + 1]
        )
        numbers[key] = low if is_equal else -1 - low
    return numbers


@kernel()
def in_order(data: Bytes, offsets: Offsets) -> Numbers:
    """The numbers of strings sorted by their bytes, equal ones in their own order, by merging ever longer runs."""
    size = len(offsets) - 1
    order, merged = np.arange(size).astype(np.uint32), np.empty(size, np.uint32)
    length = 1
    while length < size:
        for start in range(0, size, 2 * length):
            left, right = start, start + length
            middle, end = min(right, size), min(right + length, size)
            for target in range(start, end):
                is_left = left < middle
                if is_left and right < end:
                    first, second = order[left], order[right]
                    is_left = (
                        compare(data, offsets[first], offsets[first + 1], data, offsets[second], offsets[second + 1])
                        <= 0
                    )
                if is_left:
                    merged[target], left = order[left], left + 1
                else:
                    merged[target], right = order[right], right + 1
        order, merged = merged, order
        length *= 2
    return order


@kernel()
def commonest(data: Bytes, offsets: Offsets, counts: Numbers, prefix: Bytes, most: int) -> Offsets:
    """The numbers of the strings with a prefix which are counted, at most so many of the highest counts: in falling
    order, equal ones by number."""
    low = _first(data, offsets, prefix, 0, len(prefix))
    chosen, size = np.empty(most, np.int64), 0
    for number in range(low, len(offsets) - 1):
        start, end = offsets[number], min(offsets[number + 1], offsets[number] + len(prefix))
        if compare(data, start, end, prefix, 0, len(prefix)) != 0:
            break
        if counts[number] == 0 or (size == most and counts[number] <= counts[chosen[size - 1]]):
            continue
        index = min(size, most - 1)
        size = index + 1
        while index > 0 and counts[chosen[index - 1]] < counts[number]:
            chosen[index] = chosen[index - 1]
            index -= 1
        chosen[index] = number
    return chosen[:size]


@compiled
def _next_used(used: Bytes, number: int, end: int) -> int:
    while number < end and not used[number]:
        number += 1
    return number


@compiled
def _settle(data: Bytes, offsets: Offsets, heads: Offsets, order: Offsets, first: int) -> int:
    """Move the first table of order[first:] behind all tables with a smaller next string."""
    table, index = order[first], first
    head = heads[table]
    while index + 1 < len(order):
        other = heads[order[index + 1]]
        if compare(data, offsets[other], offsets[other + 1], data, offsets[head], offsets[head + 1]) >= 0:
            break
        order[index] = order[index + 1]
        index += 1
    order[index] = table
    return index


@kernel("merged", "merged_offsets", "numbers")
def _merge(
    data: Bytes,
    offsets: Offsets,
    used: Bytes,
    bounds: Offsets,
    merged: Bytes,
    merged_offsets: Offsets,
    numbers: Numbers,
) -> int:
    """Merge the tables of strings bounds[t] to bounds[t + 1]. Returns the number of distinct strings. order[first:] are
    the tables with strings left, sorted by the next string: a large table among small ones is compared once a
    string."""
    heads, order = bounds[:-1].copy(), np.zeros(len(bounds) - 1, np.int64)
    first, count, size, last = len(order), 0, 0, -1
    for table in range(len(order)):
        heads[table] = _next_used(used, heads[table], bounds[table + 1])
        if heads[table] < bounds[table + 1]:
            first -= 1
            order[first] = table
            _settle(data, offsets, heads, order, first)
    while first < len(order):
        table = order[first]
        head = heads[table]
        start, end = offsets[head], offsets[head + 1]
        if last < 0 or compare(data, offsets[last], offsets[last + 1], data, start, end) != 0:
            for index in range(start, end):
                merged[size] = data[index]
                size += 1
            count, last = count + 1, head
            merged_offsets[count] = size
        numbers[head] = count - 1
        heads[table] = _next_used(used, head + 1, bounds[table + 1])
        if heads[table] < bounds[table + 1]:
            _settle(data, offsets, heads, order, first)
        else:
            first += 1
    return count
