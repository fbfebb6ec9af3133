"""Files that survive a crash: whichever system call fails, a file is as before or whole, and its folder is synced."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from indexer import durable_files, sqlite_integrity
from indexer.snapshot import exporter
from overlay.engines.native import durable
from tests.overlay.engines.native.faults import failing
from tests.test_rooms import modules, name_of, parsed


def export(path: Path) -> None:
    with exporter.new_file(path) as file:
        file.write(b"new")


WRITERS: dict[str, Callable[[Path], None]] = {
    "a file": lambda path: durable_files.put(path, b"new", replace=True),
    "a snapshot or backup": export,
    "a file of the index": lambda path: durable.replace(path, [b"ne", memoryview(b"w")]),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_whichever_call_fails_the_file_is_as_before_or_whole(tmp_path: Path, writer: str) -> None:
    file, number = tmp_path / "file", 0
    while True:
        file.write_bytes(b"old")
        with failing(number) as calls:
            try:
                WRITERS[writer](file)
            except OSError:
                assert os.listdir(tmp_path) == ["file"]  # noqa: PTH208
                assert file.read_bytes() == (b"new" if calls[-2:] == ["replace", "fsync"] else b"old")
        if len(calls) <= number:
            break
        number += 1
    assert file.read_bytes() == b"new"
    assert calls[-3:] == ["fsync", "replace", "fsync"]  # the file, its name, and the folder


def test_a_new_file_replaces_none_and_its_folder_is_synced(tmp_path: Path) -> None:
    with failing(99) as calls:
        durable_files.put(tmp_path / "file", b"one", replace=False)
    assert calls == ["write", "fsync", "fsync"]
    with pytest.raises(FileExistsError, match="file"):
        durable_files.put(tmp_path / "file", b"two", replace=False)
    assert (os.listdir(tmp_path), (tmp_path / "file").read_bytes()) == (["file"], b"one")  # noqa: PTH208


@pytest.mark.parametrize("writer", ["a file", "a snapshot or backup"])
def test_a_file_that_cannot_be_made_is_named_as_the_caller_named_it(tmp_path: Path, writer: str) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "nowhere" / "a.gz", tmp_path / "file" / "a.gz"):
        with pytest.raises(OSError) as refused:  # noqa: PT011 - two kinds of it
            WRITERS[writer](path)
        assert refused.value.filename == str(path)


def test_a_writer_replaces_a_killed_one(tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(b"what a killed process left, and it is longer")
    export(tmp_path / "file")
    assert (os.listdir(tmp_path), (tmp_path / "file").read_bytes()) == (["file"], b"new")  # noqa: PTH208


def test_a_report_on_a_database_is_synced(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"")
    with failing(99) as calls:
        sqlite_integrity.write(f"{tmp_path}/a.db", sqlite_integrity.IntegrityReport("ok", 1))
    assert calls == ["write", "fsync", "replace", "fsync"]


PUT_IN_PLACE = {
    "indexer/durable_files.py",
    "overlay/engines/native/copying.py",  # hard links of files that are on disk
    "overlay/projection/copied_index.py",  # a folder of them
}
"""The files that rename or link."""


def test_files_are_put_in_place_by_one_function() -> None:
    calls = [
        name_of(path)
        for path in modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _puts_in_place(node, node.func)
    ]
    assert set(calls) == PUT_IN_PLACE


def _puts_in_place(call: ast.Call, method: ast.Attribute) -> bool:
    if isinstance(method.value, ast.Name) and method.value.id in ("os", "shutil"):
        return method.attr in ("replace", "rename", "link", "move")
    is_path_s = method.attr == "replace" and len(call.args) == 1 and not call.keywords  # a text's takes two arguments
    return is_path_s or method.attr in ("rename", "hardlink_to")
