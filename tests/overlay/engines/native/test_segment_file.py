"""A segment file gives back the arrays that were written, or says that it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from overlay.engines.native import segment_file
from overlay.engines.native.segment_file import TYPES, SegmentError, SegmentFile
from tests.overlay.engines.native.faults import failing

names = st.from_regex(r"[a-z_]{1,40}", fullmatch=True)
arrays = st.sampled_from(sorted(TYPES)).flatmap(
    lambda type_: (
        arrays_of.arrays(np.dtype(f"<{type_}"), st.integers(0, 40), elements={"allow_nan": False})
        if type_[0] == "f"
        else arrays_of.arrays(np.dtype(f"<{type_}"), st.integers(0, 40))
    )
)

SAMPLE = {
    "ids": np.frombuffer(b"some ids", np.uint8),
    "ids_offsets": np.array([0, 4, 8], np.int64),
    "empty": np.zeros(0, np.float32),
    "times": np.arange(30, dtype=np.float64),
}


def slow_crc32c(data: bytes) -> int:
    """CRC-32C as RFC 3720 defines it, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def equal(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return list(left) == list(right) and all(
        left[name].dtype == right[name].dtype and np.array_equal(left[name], right[name]) for name in left
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stored=st.dictionaries(names, arrays, max_size=6))
def test_what_is_written_is_read(tmp_path: Path, stored: dict[str, Any]) -> None:
    segment_file.write(tmp_path / "a.segment", stored)
    file = SegmentFile.open(tmp_path / "a.segment")
    assert equal(file.arrays, stored)
    assert not file.damaged()
    assert not any(array.flags.writeable for array in file.arrays.values())
    assert all(array.ctypes.data % 64 == 0 for array in file.arrays.values() if len(array))


def test_arrays_of_any_byte_order_and_stride_are_stored_little_endian(tmp_path: Path) -> None:
    numbers = np.arange(10, dtype=">u4")[::2]
    segment_file.write(tmp_path / "a.segment", {"numbers": numbers})
    assert np.arange(0, 10, 2, dtype="<u4").tobytes() in (tmp_path / "a.segment").read_bytes()


def test_the_table_holds_the_crc_32c_of_each_array(tmp_path: Path) -> None:
    assert slow_crc32c(b"123456789") == 0xE3069283  # the check value of its catalogue
    segment_file.write(tmp_path / "a.segment", SAMPLE)
    data = (tmp_path / "a.segment").read_bytes()
    for index, array in enumerate(SAMPLE.values()):
        entry = data[64 * (index + 1) : 64 * (index + 2)]
        assert int.from_bytes(entry[44:48], "little") == slow_crc32c(array.tobytes())


def test_a_crc_of_several_megabytes_is_that_of_one_pass() -> None:
    data = np.frombuffer(np.random.default_rng(1).bytes(2_500_000), np.uint8)
    assert segment_file.crc32c(data) == segment_file.crc32c(data[700_001:], segment_file.crc32c(data[:700_001]))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(offset=st.integers(0, 703), bit=st.integers(0, 7))
@example(offset=0, bit=0)
@example(offset=8, bit=1)
@example(offset=12, bit=7)
@example(offset=24, bit=0)
def test_a_flipped_bit_is_refused_or_its_array_is_named(tmp_path: Path, offset: int, bit: int) -> None:
    path = tmp_path / "a.segment"
    segment_file.write(path, SAMPLE)
    data = bytearray(path.read_bytes())
    assert len(data) == 704
    data[offset] ^= 1 << bit
    path.write_bytes(data)
    if offset < 28 or 64 <= offset < 320:
        with pytest.raises(SegmentError, match=str(path)):
            SegmentFile.open(path)
        return
    file = SegmentFile.open(path)
    assert file.damaged() == [name for name in SAMPLE if not np.array_equal(file.arrays[name], SAMPLE[name])]
    in_arrays = 320 <= offset < 328 or 384 <= offset < 408 or 448 <= offset < 448 + 240
    assert len(file.damaged()) == in_arrays


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 127, 319, 320, 400, 687, 703])
def test_a_shortened_file_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "a.segment"
    segment_file.write(path, SAMPLE)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(SegmentError, match=r"a\.segment is damaged"):
        SegmentFile.open(path)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300), is_after_head=st.booleans())
def test_any_bytes_are_refused_or_opened(tmp_path: Path, data: bytes, is_after_head: bool) -> None:
    path = tmp_path / "a.segment"
    segment_file.write(path, SAMPLE)
    path.write_bytes(path.read_bytes()[:24] + data if is_after_head else data)
    with pytest.raises(SegmentError):
        SegmentFile.open(path)


def signed(entry: bytes, length: int) -> bytes:
    """A file of one table entry whose checks are right."""
    head = b"A2B-sgmt" + (1).to_bytes(4, "little") + (1).to_bytes(4, "little") + length.to_bytes(8, "little")
    check = slow_crc32c(head + entry).to_bytes(4, "little")
    return ((head + check).ljust(64, b"\0") + entry).ljust(length, b"\0")


@pytest.mark.parametrize(
    ("type_", "offset", "size"),
    [
        (b"u4", 128, 65),  # no whole number of values
        (b"u4", 128, 68),  # behind the end
        (b"u4", 1 << 63, 64),
        (b"u4", 128, 1 << 63),
        (b"u4", 100, 4),  # not aligned
        (b"O", 128, 8),  # pointers
        (b"U4", 128, 16),
        (b"\xff", 128, 8),
        (b"", 128, 8),
    ],
)
def test_a_table_that_leads_outside_is_refused(tmp_path: Path, type_: bytes, offset: int, size: int) -> None:
    entry = b"array".ljust(40, b"\0") + type_.ljust(4, b"\0") + bytes(4)
    path = tmp_path / "a.segment"
    path.write_bytes(signed(entry + offset.to_bytes(8, "little") + size.to_bytes(8, "little"), 192))
    with pytest.raises(SegmentError, match=r"a\.segment"):
        SegmentFile.open(path)


def test_a_file_of_another_layout_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.segment"
    segment_file.write(path, SAMPLE)
    data = bytearray(path.read_bytes())
    data[8] = 2
    path.write_bytes(data)
    with pytest.raises(SegmentError, match=r"a\.segment is of layout 2, and this release reads 1: rebuild"):
        SegmentFile.open(path)


@pytest.mark.parametrize("name", ["", "a b", "é", "a" * 41, "../a"])
def test_names_that_no_table_holds_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a name of an array"):
        segment_file.write(tmp_path / "a.segment", {name: np.zeros(1, np.uint8)})


@pytest.mark.parametrize(
    "array", [np.zeros((2, 2), np.uint8), np.zeros(2, object), np.zeros(2, "U4"), np.zeros(2, "?")]
)
def test_arrays_that_no_file_holds_are_refused(tmp_path: Path, array: Any) -> None:
    with pytest.raises(ValueError, match="array some has"):
        segment_file.write(tmp_path / "a.segment", {"some": array})
    with pytest.raises(ValueError, match="1,001 arrays"):
        segment_file.write(tmp_path / "a.segment", {f"a{i}": np.zeros(1, np.uint8) for i in range(1_001)})
    assert not list(tmp_path.iterdir())


def test_views_outlive_the_object_of_their_file_and_the_file(tmp_path: Path) -> None:
    segment_file.write(tmp_path / "a.segment", SAMPLE)
    view = SegmentFile.open(tmp_path / "a.segment").arrays["times"][10:20]
    segment_file.write(tmp_path / "a.segment", {"times": np.zeros(1)})
    (tmp_path / "a.segment").unlink()
    assert view.tolist() == list(range(10, 20))


def test_each_call_that_fails_leaves_the_earlier_file_or_the_new_one_and_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "a.segment"
    earlier = {"times": np.arange(3)}
    for number in range(100):
        segment_file.write(path, earlier)
        with failing(number) as calls:
            try:
                segment_file.write(path, SAMPLE)
            except OSError:
                assert equal(SegmentFile.open(path).arrays, SAMPLE if calls[-2:] == ["replace", "fsync"] else earlier)
            else:
                break
        assert [left.name for left in tmp_path.iterdir()] == ["a.segment"]
        segment_file.write(path, SAMPLE)
        assert equal(SegmentFile.open(path).arrays, SAMPLE)
    assert number == len(calls)
    assert {"write", "fsync", "replace"} <= set(calls)
