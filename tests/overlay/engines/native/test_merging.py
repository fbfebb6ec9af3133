"""Merged segments are the segment that the same documents would have been built as."""

from __future__ import annotations

import mmap
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.engines.native import durable, segment_file
from overlay.engines.native.array_checks import check
from overlay.engines.native.builder import SegmentBuilder
from overlay.engines.native.derived import derived
from overlay.engines.native.merging import merge
from overlay.engines.native.schema import BREAK
from overlay.engines.native.segment_file import SegmentError, SegmentFile
from tests.contracts.listed import listing
from tests.overlay.engines.native.segments import Twin, arrays_of


def assert_equal(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert set(left) == set(right)
    for name, array in right.items():
        assert left[name].dtype == array.dtype, name
        assert left[name].tolist() == array.tolist(), name


def documents(seed: int, count: int) -> list[Twin]:
    random = Random(seed)
    return [Twin(random) for _ in range(count)]


MASKS = st.lists(st.booleans(), max_size=6)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 32), masks=st.lists(MASKS, max_size=4), unused=st.sets(st.binary(max_size=2)))
def test_merged_segments_equal_one_built_of_the_documents(
    seed: int, masks: list[list[bool]], unused: set[bytes]
) -> None:
    of_segments = [documents(seed + number, len(mask)) for number, mask in enumerate(masks)]
    segments = [arrays_of(twins, unused) for twins in of_segments]
    pairs = [pair for twins, mask in zip(of_segments, masks, strict=True) for pair in zip(twins, mask, strict=True)]
    expected = [twin for twin, is_kept in pairs if is_kept]
    merged = merge(segments, [np.array(mask, bool) for mask in masks])
    assert_equal(merged, arrays_of(expected))
    assert check(merged) == len(expected)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1 << 32), counts=st.lists(st.integers(0, 4), min_size=3, max_size=3))
def test_merging_in_steps_equals_merging_at_once(seed: int, counts: list[int]) -> None:
    first, second, third = (arrays_of(documents(seed + count, count)) for count in counts)
    everything = [np.ones(count, bool) for count in counts]
    both = merge([first, second], everything[:2])
    in_steps = merge([both, third], [np.ones(sum(counts[:2]), bool), everything[2]])
    assert_equal(in_steps, merge([first, second, third], everything))


def test_mapped_segments_merge_as_arrays_in_memory_do(tmp_path: Path) -> None:
    arrays = arrays_of(documents(1, 5))
    segment_file.write(tmp_path / "a.segment", arrays)
    mapped = SegmentFile.open(tmp_path / "a.segment").arrays
    mask = np.array([True, False, True, True, False])
    assert_equal(merge([mapped, mapped], [mask, mask]), merge([arrays, arrays], [mask, mask]))
    assert not SegmentFile.open(tmp_path / "a.segment").damaged()


def test_large_arrays_are_merged_in_files_that_nobody_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "LARGE", 1)
    arrays, mask = arrays_of(documents(1, 5)), np.ones(5, bool)
    merged = merge([arrays, arrays], [mask, mask], tmp_path)
    expected = merge([arrays, arrays], [mask, mask])
    assert_equal(merged, expected)
    builder = SegmentBuilder()
    builder.add(listing("a", "alpha"))
    primary = builder.arrays()
    assert_equal(derived(primary, tmp_path), derived(primary))
    assert isinstance(merged["item"].base.obj, mmap.mmap)
    assert durable.moved(tmp_path, merged["item"]) is merged["item"]
    assert not list(tmp_path.iterdir())


def test_a_mask_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="a mask of 2 for 3 documents"):
        merge([arrays_of(documents(1, 3))], [np.ones(2, bool)])


@settings(max_examples=300, deadline=None)
@given(data=st.data(), seed=st.integers(0, 1 << 32))
def test_a_damaged_array_is_refused_or_merged_and_never_read_beyond(data: st.DataObject, seed: int) -> None:
    arrays = arrays_of(documents(seed, 4))
    name = data.draw(st.sampled_from(sorted(arrays)))
    damaged = bytearray(arrays[name].tobytes())
    if damaged and data.draw(st.booleans()):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    else:
        size = arrays[name].itemsize
        damaged = damaged[: data.draw(st.integers(0, max(0, len(damaged) // size - 1))) * size]
    arrays[name] = np.frombuffer(damaged, arrays[name].dtype)
    mask = np.array([True, False, True, True])
    try:
        merged = merge([arrays, arrays_of(documents(seed + 1, 4))], [mask, mask])
    except SegmentError as error:
        assert str(error).startswith("array ")  # noqa: PT017  either is right
    else:
        assert check(merged) == 6


@pytest.mark.parametrize("name", ["offers_offsets", "terms_offsets", "terms_bytes", "flags", "item", "item_offsets"])
def test_a_missing_array_or_one_of_another_type_is_named(name: str) -> None:
    arrays = arrays_of(documents(1, 3))
    with pytest.raises(SegmentError, match=f"array {name} is of float32"):
        check(arrays | {name: arrays[name].astype(np.float32)})
    del arrays[name]
    with pytest.raises(SegmentError, match=f"array {name} is missing"):
        check(arrays)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("offers_offsets", [], "is not the offsets"),
        ("offers_offsets", [0, 0, -1, 0], "offers_offsets decreases"),
        ("offers_offsets", [0, 0, 0, -1], "offers_offsets decreases"),
        ("terms_offsets", [], "is not the offsets"),
        ("id_offsets", [1, 1, 1, 1], "is not the offsets"),
        ("id_offsets", [0, 0, 0], "is not the offsets of 3 rows"),
        ("id_offsets", [0, 1 << 62, 0, 0], "is not the offsets|decreases"),
        ("height", [1, 2], "has 2 values, not 3"),
        ("offer_currency", [0] * 50, "has 50 values"),
    ],
)
def test_offsets_and_lengths_that_do_not_fit_are_refused(name: str, values: list[int], message: str) -> None:
    arrays = arrays_of(documents(1, 3))
    with pytest.raises(SegmentError, match=message):
        check(arrays | {name: np.array(values, arrays[name].dtype)})


def test_a_number_outside_of_its_table_is_refused() -> None:
    arrays = arrays_of(documents(3, 3))
    terms = len(arrays["terms_offsets"]) - 1
    forward = arrays["forward"].copy()
    assert len(forward)
    for number, is_refused in ((terms - 1, False), (terms, True), (BREAK - 1, True), (BREAK, False)):
        forward[0] = number
        if is_refused:
            with pytest.raises(SegmentError, match="array forward holds numbers of strings that terms does not have"):
                merge([arrays | {"forward": forward}], [np.ones(3, bool)])
        else:
            merge([arrays | {"forward": forward}], [np.ones(3, bool)])
