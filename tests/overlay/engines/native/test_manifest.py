"""Manifest, stamp and tombstones: a commit is read whole or not at all, and every reader sees that it came."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overlay.engines import IndexContent, IndexPosition
from overlay.engines.native import manifest, segment_file
from overlay.engines.native.manifest import Manifest, SegmentEntry, commit_stamp
from overlay.engines.native.segment_file import SegmentError, SegmentFile
from overlay.text.compact_json import decode, encode
from tests.conftest import ROOT
from tests.overlay.engines.native.faults import failing
from tests.waiting import PATIENCE

ENTRY = SegmentEntry("base", 100, is_history=False, deleted_file="base-1", deleted=2)
SAMPLE = Manifest(7, IndexPosition("an epoch", 12), 1_700_000_000, (ENTRY, SegmentEntry("old", 3, True, "", 0)), "")

names = st.from_regex(r"[a-z0-9_-]{1,60}", fullmatch=True)
entries = st.builds(SegmentEntry, names, st.integers(5, 1 << 40), st.booleans(), names, st.integers(0, 5)) | st.builds(
    SegmentEntry, names, st.integers(0, 1 << 40), st.booleans(), st.just(""), st.just(0)
)
manifests = st.builds(
    Manifest,
    st.integers(0, 1 << 62),
    st.none() | st.builds(IndexPosition, st.text(), st.integers(0, 1 << 62)),
    st.integers(0, 1 << 62),
    st.lists(entries, max_size=4).map(tuple),
    st.text(max_size=64),
    st.builds(IndexContent, st.text(), st.integers(0, 1 << 62), st.lists(st.text(), max_size=3).map(tuple)),
)


def tombstones(*numbers: int, documents: int = 100) -> Any:
    bits = np.zeros(-(-documents // 64), np.uint64)
    for number in numbers:
        bits[number // 64] |= np.uint64(1 << number % 64)
    return bits


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(published=manifests)
def test_what_is_published_is_read(tmp_path: Path, published: Manifest) -> None:
    manifest.publish(tmp_path, published)
    assert manifest.read(tmp_path) == published


def test_a_folder_without_a_manifest_has_none(tmp_path: Path) -> None:
    assert manifest.read(tmp_path) is None
    assert manifest.read(tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("name", "documents", "deleted_file", "deleted"),
    [("", 1, "", 0), ("../a", 1, "", 0), ("a", 1, "b/c", 1), ("a", 1, "", 1), ("a", 1, "b", 2), ("a", 1, "b", -1)],
)
def test_entries_that_name_no_file_or_delete_more_than_there_is_are_refused(
    name: str, documents: int, deleted_file: str, deleted: int
) -> None:
    with pytest.raises(ValueError, match="segment"):
        SegmentEntry(name, documents, is_history=False, deleted_file=deleted_file, deleted=deleted)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_manifest_is_refused_by_name_or_reads_as_it_was(tmp_path: Path, data: st.DataObject) -> None:
    manifest.publish(tmp_path, SAMPLE)
    path = tmp_path / "manifest"
    stored = bytearray(path.read_bytes())
    index = data.draw(st.integers(0, len(stored) - 1))
    if data.draw(st.booleans()):
        stored[index] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del stored[index : index + data.draw(st.integers(1, len(stored)))]
    path.write_bytes(stored)
    try:
        result = manifest.read(tmp_path)
    except ValueError as error:
        assert str(path) in str(error)  # noqa: PT017  either is right
    else:
        assert result == SAMPLE


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=60) | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(encode))
def test_a_foreign_file_is_no_manifest(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "manifest").write_bytes(data)
    with pytest.raises(ValueError, match="manifest is damaged"):
        manifest.read(tmp_path)


@pytest.mark.parametrize("data", [b"[" * 200_000, b"{}", b"null", b'{"layout": 1}', b'{"layout": 1, "crc32c": 0}'])
def test_json_that_is_no_manifest_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "manifest").write_bytes(data)
    with pytest.raises(ValueError, match="manifest is damaged"):
        manifest.read(tmp_path)


def test_a_manifest_of_a_newer_layout_is_refused_by_name(tmp_path: Path) -> None:
    manifest.publish(tmp_path, SAMPLE)
    stored = decode((tmp_path / "manifest").read_bytes())
    (tmp_path / "manifest").write_bytes(encode(stored | {"layout": 2, "more": 1}))
    with pytest.raises(ValueError, match="manifest is of layout 2, and this release reads 1: rebuild the index"):
        manifest.read(tmp_path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents=st.integers(0, 200), chosen=st.sets(st.integers(0, 199)))
def test_tombstones_are_read_as_written(tmp_path: Path, documents: int, chosen: set[int]) -> None:
    chosen = {number for number in chosen if number < documents}
    bits = tombstones(*chosen, documents=documents)
    manifest.write_deleted(tmp_path, "base-1", bits)
    entry = SegmentEntry("base", documents, is_history=False, deleted_file="base-1", deleted=len(chosen))
    assert manifest.read_deleted(tmp_path, entry).tolist() == bits.tolist()


def test_a_segment_without_tombstones_has_none_set(tmp_path: Path) -> None:
    assert manifest.read_deleted(tmp_path, SegmentEntry("base", 65, False, "", 0)).tolist() == [0, 0]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_tombstones_are_refused_by_name_or_read_as_they_were(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "base-1.deleted"
    manifest.write_deleted(tmp_path, "base-1", tombstones(3, 99))
    stored = bytearray(path.read_bytes())
    index = data.draw(st.integers(0, len(stored) - 1))
    if data.draw(st.booleans()):
        stored[index] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del stored[index:]
    path.write_bytes(stored)
    try:
        bits = manifest.read_deleted(tmp_path, ENTRY)
    except SegmentError as error:
        assert str(path) in str(error)  # noqa: PT017  either is right
    else:
        assert bits.tolist() == tombstones(3, 99).tolist()


@pytest.mark.parametrize(
    ("documents", "deleted"),
    [(100, 1), (100, 3), (64, 2), (129, 2), (99, 2)],
)
def test_tombstones_of_another_segment_or_commit_are_refused(tmp_path: Path, documents: int, deleted: int) -> None:
    manifest.write_deleted(tmp_path, "base-1", tombstones(3, 99))
    with pytest.raises(SegmentError, match=r"base-1\.deleted"):
        manifest.read_deleted(tmp_path, replace(ENTRY, documents=documents, deleted=deleted))


def test_an_array_of_another_name_is_no_tombstones(tmp_path: Path) -> None:
    segment_file.write(tmp_path / "base-1.deleted", {"others": np.zeros(2, np.uint64)})
    with pytest.raises(SegmentError, match=r"base-1\.deleted is damaged"):
        manifest.read_deleted(tmp_path, ENTRY)


def commit(folder: Path, number: int) -> Manifest:
    """Write a segment with tombstones, and publish it as a commit of this number."""
    name = f"s{number}-{len(list(folder.iterdir()))}"
    segment_file.write(manifest.segment_path(folder, name), {"numbers": np.arange(number)})
    manifest.write_deleted(folder, f"{name}-d", tombstones(3, 99))
    published = Manifest(number, None, 0, (SegmentEntry(name, 100, False, f"{name}-d", 2),), "")
    manifest.publish(folder, published)
    return published


def check_all_is_there(folder: Path, shown: Manifest) -> None:
    for entry in shown.segments:
        assert not SegmentFile.open(manifest.segment_path(folder, entry.name)).damaged()
        assert manifest.read_deleted(folder, entry).tolist() == tombstones(3, 99).tolist()


def test_a_call_that_fails_leaves_the_earlier_commit_and_a_retry_works(tmp_path: Path) -> None:
    for number in range(100):
        folder = tmp_path / str(number)
        folder.mkdir()
        earlier = commit(folder, 1)
        seen = commit_stamp(folder).value()
        failed = False
        with failing(number) as calls:
            try:
                commit(folder, 2)
            except OSError:
                failed = True
        shown = manifest.read(folder)
        assert shown is not None
        check_all_is_there(folder, shown)
        if not failed:
            break
        is_synced_folder = calls[-2:] == ["replace", "fsync"] and commit_stamp(folder).value() > seen
        assert shown == earlier or (is_synced_folder and shown.number == 2)
        retried = commit(folder, 3)
        assert manifest.read(folder) == retried
        assert commit_stamp(folder).value() > seen
        manifest.sweep(folder, retried)
        check_all_is_there(folder, retried)
        assert len(list(folder.iterdir())) == 4
    assert {"write", "fsync", "replace"} <= set(calls)
    assert number == len(calls) > 12


def test_a_stamp_that_cannot_be_allocated_is_an_error(tmp_path: Path) -> None:
    with failing(0) as calls, pytest.raises(OSError, match="No space left"):
        commit_stamp(tmp_path)
    assert calls == ["posix_fallocate"]
    assert commit_stamp(tmp_path).value() == 0


def test_sweeping_removes_what_no_manifest_names_and_nothing_else(tmp_path: Path) -> None:
    published = commit(tmp_path, 1)
    for name in ("x.segment", "x.deleted", "x.segment.new", "x.deleted.new", "merged.segment", "merged.segment.new"):
        (tmp_path / name).write_bytes(b"")
    for name in ("notes.txt", "segment", "x.segments"):
        (tmp_path / name).write_bytes(b"")
    before = {path.name for path in tmp_path.iterdir()}
    view = SegmentFile.open(manifest.segment_path(tmp_path, published.segments[0].name)).arrays["numbers"]
    manifest.sweep(tmp_path, published, {"merged"})
    assert before - {path.name for path in tmp_path.iterdir()} == {
        "x.segment",
        "x.deleted",
        "x.segment.new",
        "x.deleted.new",
    }
    manifest.sweep(tmp_path, Manifest(2, None, 0, (), ""))
    assert {path.name for path in tmp_path.iterdir()} == {"manifest", "stamp", "notes.txt", "segment", "x.segments"}
    assert view.tolist() == [0]


READER = """
import sys
from pathlib import Path
from overlay.engines.native.manifest import commit_stamp, read
folder = Path(sys.argv[1])
stamp = commit_stamp(folder)
seen = stamp.value()
print(seen, flush=True)
for _ in range(5):
    while stamp.value() == seen:
        pass
    seen = stamp.value()
    print(read(folder).number, flush=True)
"""


def test_another_process_sees_each_commit_by_its_stamp(tmp_path: Path) -> None:
    """Its stamp changes only after the manifest can be read."""
    command = [sys.executable, "-c", READER, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as reader:
        try:
            assert reader.stdout
            assert reader.stdout.readline() == "0\n"
            for number in range(1, 6):
                manifest.publish(tmp_path, replace(SAMPLE, number=number))
                assert reader.stdout.readline() == f"{number}\n"
            assert reader.wait(PATIENCE) == 0
        finally:
            reader.kill()


def test_the_stamp_is_eight_bytes_little_endian(tmp_path: Path) -> None:
    stamp = commit_stamp(tmp_path)
    for _ in range(300):
        stamp.increase()
    assert (tmp_path / "stamp").read_bytes() == (300).to_bytes(8, "little")
    assert commit_stamp(tmp_path).value() == stamp.value() == 300
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "stamp").write_bytes(b"\xff" * 8)
    last = commit_stamp(tmp_path / "other")
    last.increase()
    assert last.value() == 0


def read_only(patch: pytest.MonkeyPatch, code: int) -> None:
    """Let no file be opened for writing; permissions do not stop root."""
    opened = os.open

    def refuse(path: Path, flags: int, *mode: int) -> int:
        if flags & os.O_RDWR:
            raise OSError(code, os.strerror(code), str(path))
        return opened(path, flags, *mode)

    patch.setattr(os, "open", refuse)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_reader_of_a_read_only_folder_maps_the_stamp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    writer = commit_stamp(tmp_path)
    read_only(monkeypatch, code)
    reader = commit_stamp(tmp_path)
    writer.increase()
    assert reader.value() == 1
    with pytest.raises(TypeError, match="read-only"):
        reader.increase()
    (tmp_path / "stamp").write_bytes(b"short")
    with pytest.raises(ValueError, match=r"stamp is damaged: it is shorter than 8 bytes"):
        commit_stamp(tmp_path)
    (tmp_path / "stamp").unlink()
    with pytest.raises(FileNotFoundError):
        commit_stamp(tmp_path)


def test_a_stamp_that_cannot_be_opened_for_another_reason_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_only(monkeypatch, errno.EMFILE)
    with pytest.raises(OSError, match="open files"):
        commit_stamp(tmp_path)


def test_a_short_stamp_is_extended_by_the_writer(tmp_path: Path) -> None:
    (tmp_path / "stamp").write_bytes(b"\x05")
    assert commit_stamp(tmp_path).value() == 5
