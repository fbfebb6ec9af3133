"""A data folder of another user, or on a read-only file system: what only reads works there, and says so."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from indexer.sqlite_heights import heights
from indexer.store import Store, StoreError
from indexer.store.layout import connect_read_only
from overlay.app import storage
from tests.overlay.calls import TOWER
from tests.overlay.test_cli import alone, data
from tests.running import environment
from tests.waiting import PATIENCE

__all__ = ["alone", "data"]

UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"]
"""The prefix that runs a command as root to whom permissions apply as to anybody else."""

Run = Callable[..., subprocess.CompletedProcess[str]]


def permit(folder: Path, *, writing: bool) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod((0o755 if writing else 0o555) if path.is_dir() else (0o644 if writing else 0o444))


@pytest.fixture
def locked(data: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of the data that nobody may write."""
    folder = tmp_path / "theirs"
    shutil.copytree(data, folder, ignore=shutil.ignore_patterns("numba"))
    permit(folder, writing=False)
    yield folder
    permit(folder, writing=True)


@pytest.fixture
def run(locked: Path, tmp_path: Path) -> Run:
    prefix = UNPRIVILEGED if os.geteuid() == 0 else []
    probe = [*prefix, sys.executable, "-c", f"open({str(locked / 'probe')!r}, 'w')"]
    try:
        refused = subprocess.run(probe, capture_output=True, timeout=PATIENCE).stderr
    except OSError as error:
        pytest.skip(f"permissions do not bind root, and {error}")
    if b"PermissionError" not in refused:
        pytest.skip(f"permissions do not bind here: {refused.decode()[-200:]}")

    def command(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*prefix, sys.executable, "-m", "overlay", *map(str, arguments), "--data", str(locked)],
            cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip

    return command


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_what_only_reads_works_and_says_that_it_does(run: Run, locked: Path, data: Path, tmp_path: Path) -> None:
    before = files(locked)
    for arguments, answer in (
        (["search", "tower"], "Tower"),
        (["show", TOWER], "outpoint"),
        (["history", TOWER], "inscribed"),
        (["status"], "block 125"),
        (["diagnose", TOWER], "ok  seen"),
        (["verify", TOWER], "verified"),
        (["export", tmp_path / "snapshot.jsonl"], "wrote 126 blocks"),
    ):
        done = run(*arguments)
        assert (done.returncode in (0, 1), answer in done.stdout) == (True, True), (arguments, done.stderr)
        note = (
            f"a2b: {locked} cannot be written by this user: it is only read, and what is being written may be missing\n"
        )
        assert done.stderr == note, arguments
    assert files(locked) == before
    assert run("rebuild").returncode == 3


def test_what_is_being_written_is_read_from_the_log_where_that_can_be(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "a2b.db"
    shutil.copyfile(data / "a2b.db", file)
    with closing(sqlite3.connect(file)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("DELETE FROM blocks WHERE height > 100")
        writer.commit()
        engine = connect_read_only(file)
        newest = Store(engine).blocks.newest("demo")
        assert newest is not None
        assert (newest.height, heights(file)) == (100, {"demo": 100})
        engine.dispose()


def test_a_database_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a2b.db").write_bytes(b"")
    with pytest.raises(StoreError, match=r"the database .*a2b\.db.* holds no registry yet: run `a2b index`"):
        connect_read_only(tmp_path / "a2b.db")


def test_a_readable_copy_of_an_index_copies_what_is_small_and_links_to_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "COPIED_BYTES", 3)
    index = tmp_path / "index"
    (index / "first").mkdir(parents=True)
    (index / "live").write_text("one")
    (index / "first" / "large").write_text("four")
    copy = storage.readable_copy(index)
    assert files(copy) == {"first", "live", "first/large"}
    assert [(copy / name).is_symlink() for name in ("live", "first/large")] == [False, True]
    assert (copy / "first" / "large").read_text() == "four"
    shutil.rmtree(copy)
    assert (index / "first" / "large").exists()
