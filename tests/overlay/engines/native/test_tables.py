"""Tables of sorted strings: what is packed is found, and what is merged is the sorted set of what is used."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.engines.native import tables
from overlay.engines.native.schema import BREAK
from overlay.engines.native.tables import StringTable

strings = st.binary(max_size=4) | st.text("ab", max_size=6).map(str.encode)
sorted_strings = st.sets(strings, max_size=12).map(sorted)


def unpacked(table: StringTable) -> list[bytes]:
    data = table.bytes.tobytes()
    return [data[start:end] for start, end in pairwise(table.offsets.tolist())]


@given(packed=sorted_strings)
def test_what_is_packed_is_there(packed: list[bytes]) -> None:
    assert unpacked(tables.pack(packed)) == packed


@given(packed=sorted_strings, searched=strings)
def test_a_string_is_found_by_its_number(packed: list[bytes], searched: bytes) -> None:
    table = tables.pack(packed)
    assert tables.find(table, packed).tolist() == list(range(len(packed)))
    before = sum(string < searched for string in packed)
    assert tables.find(table, [searched]).tolist() == [before if searched in packed else -1 - before]


@settings(deadline=None)
@given(texts=st.lists(strings, max_size=40))
def test_strings_are_sorted_by_their_bytes_and_equal_ones_stay_in_order(texts: list[bytes]) -> None:
    expected = sorted(range(len(texts)), key=texts.__getitem__)
    assert tables.in_order(*tables.pack(texts)).tolist() == expected


@pytest.mark.parametrize("string", [b"", b"a", b"a\0", b"b" * 1000, "ähnlich".encode(), b"\xff"])
def test_an_empty_table_holds_nothing(string: bytes) -> None:
    assert tables.find(tables.pack([]), [string]).tolist() == [-1]
    assert tables.find(tables.pack([string]), [string]).tolist() == [0]


@settings(deadline=None)
@given(data=st.data(), packed=sorted_strings, prefix=strings, most=st.integers(1, 4))
def test_the_commonest_with_a_prefix_are_the_most_counted(
    data: st.DataObject, packed: list[bytes], prefix: bytes, most: int
) -> None:
    counts = data.draw(st.lists(st.integers(0, 3), min_size=len(packed), max_size=len(packed)))
    with_prefix = [number for number, one in enumerate(packed) if one.startswith(prefix) and counts[number]]
    expected = sorted(with_prefix, key=lambda number: (-counts[number], number))[:most]
    table, text = tables.pack(packed), np.frombuffer(prefix, np.uint8)
    assert tables.commonest(*table, np.array(counts, np.uint32), text, most).tolist() == expected


@given(data=st.data(), packed=st.lists(sorted_strings, max_size=5))
def test_merged_tables_are_the_sorted_set_of_used_strings(data: st.DataObject, packed: list[list[bytes]]) -> None:
    used: list[Any] = [
        np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(part), max_size=len(part))), np.uint8)
        for part in packed
    ]
    merged, numbers = tables.merge([tables.pack(part) for part in packed], used)
    expected = sorted({part[i] for part, marks in zip(packed, used, strict=True) for i in np.flatnonzero(marks)})
    assert unpacked(merged) == expected
    assert [new.tolist() for new in numbers] == [
        [expected.index(string) if mark else BREAK for string, mark in zip(part, marks, strict=True)]
        for part, marks in zip(packed, used, strict=True)
    ]


@settings(deadline=None, max_examples=50)
@given(offsets=st.lists(st.integers(0, 6), max_size=6).map(sorted), used=st.lists(st.integers(0, 1), max_size=6))
def test_unsorted_strings_are_merged_to_something(offsets: list[int], used: list[int]) -> None:
    """A damaged table, whose offsets were checked, ends the merge all the same."""
    table = StringTable(np.frombuffer(b"cabcab", np.uint8), np.array([0, *offsets, 6], np.int64))
    marks = np.resize(np.array([*used, 1], np.uint8), len(offsets) + 1)
    merged, (new, again) = tables.merge([table, table], [marks, marks])
    assert (new[marks == 1] < len(merged.offsets) - 1).all()
    assert (new == BREAK).tolist() == (again == BREAK).tolist() == (marks == 0).tolist()
