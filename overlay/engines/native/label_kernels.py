"""Compiled loops over the labels and words of documents, for completions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from parsers.jit import compiled, kernel

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]

_NEWLINE = 10


@kernel()
def completing(
    documents: Ints, rows: Ints, labels: Numbers, data: Bytes, offsets: Ints, keys: Bytes, key_offsets: Ints
) -> tuple[Ints, Ints]:
    """The labels of documents with all keys in their first or second line: the position of each among the documents,
    and its number."""
    size = 0
    for document in documents:
        size += rows[document + 1] - rows[document]
    indexes, numbers = np.empty(size, np.int64), np.empty(size, np.int64)
    size = 0
    for index in range(len(documents)):
        for position in range(rows[documents[index]], rows[documents[index] + 1]):
            label = labels[position]
            if label < len(offsets) - 1 and _completes(data, offsets[label], offsets[label + 1], keys, key_offsets):
                indexes[size], numbers[size] = index, label
                size += 1
    return indexes[:size], numbers[:size]


@compiled
def _completes(data: Bytes, start: int, end: int, keys: Bytes, key_offsets: Ints) -> bool:
    """Whether a line of data[start:end], the first or the second, contains all keys."""
    for _ in range(2):
        for key in range(len(key_offsets) - 1):
            stop = _end_of_search(data, start, end, keys, key_offsets[key], key_offsets[key + 1])
            if stop >= 0:
                break
        else:
            return True
        start = stop + 1
    return False


@compiled
def _end_of_search(data: Bytes, start: int, end: int, keys: Bytes, key_start: int, key_end: int) -> int:
    """-1 if the line from `start` contains keys[key_start:key_end], else where it ends, at most `end`."""
    for index in range(start, end):
        if data[index] == _NEWLINE:
            return index
        same = 0
        while key_start + same < key_end and index + same < end and data[index + same] == keys[key_start + same]:
            same += 1
        if key_start + same == key_end:
            return -1
    return end


@kernel("is_contained")
def contained(
    documents: Ints, rows: Ints, counts: Numbers, surfaces: Numbers, chosen: Ints, is_contained: Bytes
) -> None:
    """Mark the chosen surfaces that are among the first surfaces of a document; `counts` has their number by
    document."""
    for document in documents:
        for position in range(rows[document], min(rows[document] + counts[document], rows[document + 1])):
            for index in range(len(chosen)):
                if surfaces[position] == chosen[index]:
                    is_contained[index] = 1
