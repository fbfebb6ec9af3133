"""The care of the Whoosh engine: an old library, segments that Whoosh would let grow in number, the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from overlay.engines.whoosh import LAYOUT
from overlay.projection.search_index import SearchIndex
from tests.conftest import ROOT
from tests.contracts.listed import listing, matching_ids, put

USE = """
import sys
from overlay.engines import IndexPosition
from overlay.projection.search_index import SearchIndex
from overlay.search.query import Query
from tests.contracts.listed import ask, listing, put
engine = SearchIndex("whoosh:" + sys.argv[1])
put(engine, listing("1", "payment"), listing("2", "gone"))
put(engine, listing("2", "payments"), seq=2)
assert ask(engine, "paymnet", facets=("tag",), sort="price").total == 2
assert engine.suggest("pay", 3)
engine.close()
"""


@pytest.mark.parametrize("warnings", ["error", "default"])
def test_no_warning_about_whoosh_is_shown(tmp_path: Path, warnings: str) -> None:
    text = f"pycache_prefix={tmp_path / 'compiled'}"  # most warnings come when Whoosh is compiled
    options = ["-W", warnings, "-X", text]
    result = subprocess.run(
        [sys.executable, *options, "-c", USE, tmp_path / "index"], cwd=ROOT, capture_output=True, text=True
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_many_small_changes_leave_few_segments_and_no_files_behind(tmp_path: Path) -> None:
    engine = SearchIndex(f"whoosh:{tmp_path}")
    for seq in range(100):
        put(engine, listing(f"{seq % 50}", f"alpha {seq}"), seq=seq)
        files = [path.name for path in (tmp_path / LAYOUT).iterdir()]
        segments = sum(name.endswith(".seg") for name in files)
        assert 1 <= segments <= 7
        assert len(files) == segments + 2  # contents, lock
    assert matching_ids(engine, "alpha") == {str(number) for number in range(50)}
    engine.close()


def test_an_index_whose_files_are_being_removed_answers_as_before(tmp_path: Path) -> None:
    with closing(SearchIndex(f"whoosh:{tmp_path}")) as writer, closing(SearchIndex(f"whoosh:{tmp_path}")) as reader:
        put(writer, listing("1", "alpha"))
        assert matching_ids(reader, "alpha") == {"1"}
        for path in (tmp_path / LAYOUT).glob("*.toc"):
            path.unlink()
        assert matching_ids(reader, "alpha") == {"1"}


def test_all_is_on_the_disk_before_the_table_of_contents_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: set[int] = set()
    commits: list[set[str]] = []
    fsync, rename = os.fsync, os.rename

    def noted_fsync(opened: int) -> None:
        flushed.add(os.fstat(opened).st_ino)
        fsync(opened)

    def noted_rename(old: str, new: str) -> None:
        rename(old, new)
        if new.endswith(".toc"):
            folder = Path(new).parent
            lacking = {path.name for path in folder.iterdir() if path.is_file() and path.stat().st_ino not in flushed}
            commits.append(lacking)

    engine = SearchIndex(f"whoosh:{tmp_path}")
    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    first = {path.name for path in (tmp_path / LAYOUT).iterdir()}
    put(engine, listing("1", "alpha"))
    put(engine, listing("1", "beta"), listing("2", "alpha"), seq=2)
    assert len(commits) == 2
    assert all(lacking <= {"WRITELOCK", *first} for lacking in commits)
    assert (tmp_path / LAYOUT).stat().st_ino in flushed
    engine.close()
