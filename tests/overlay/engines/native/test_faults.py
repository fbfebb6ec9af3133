"""Every system call that fails, and every process that is killed: what is served afterwards equals a fresh index."""

from __future__ import annotations

import gc
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from overlay.engines import BusyError, EngineError, IndexPosition
from overlay.engines.native import NativeEngine, manifest
from overlay.engines.native.writing import damaged
from overlay.projection.search_index import SearchIndex
from tests.conftest import ROOT
from tests.contracts.listed import count, listing, matching_ids
from tests.overlay.engines.native import damaging, killing
from tests.overlay.engines.native.faults import failing

CHANGED = listing("2", "Alpha beta changed", tags=("a", "new"), until_height=None, height=102)
FINAL = [*(document for document in damaging.documents() if document.id not in "12"), CHANGED]


STEP = 1 if os.environ.get("A2B_SLOW_TESTS") == "1" else 3
"""Of so many calls one fails."""


def change(engine: NativeEngine) -> None:
    """A commit with a new segment, tombstones, and a merge."""
    engine.write(["2"], [CHANGED], IndexPosition("e", 3))
    engine.jobs.wait()


def clear_and_fill(engine: NativeEngine) -> None:
    """Clear and fill an index as a rebuild does."""
    engine.write(None, (), None)
    for some in (FINAL[:4], FINAL[4:]):
        engine.write([document.id for document in some], some, IndexPosition("e", 0))
    engine.write([], [], IndexPosition("e", 3))


def merge(engine: NativeEngine) -> None:
    """A commit, after which a merge in the background is due."""
    change(engine)
    engine.retry_at = 0.0
    engine.write([], [], IndexPosition("e", 3))
    engine.jobs.wait()


@contextmanager
def suppressed(folder: Path) -> Iterator[None]:
    """Whatever fails names the folder and the reason."""
    try:
        yield
    except EngineError as error:
        if str(folder) not in str(error) or "No space left on device" not in str(error):
            raise


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    engine = NativeEngine(tmp_path_factory.mktemp("fresh"), make=True)
    engine.write(None, FINAL, IndexPosition("e", 3))
    answers = damaging.answers(engine)
    engine.close()
    return answers


@pytest.mark.parametrize("work", [change, clear_and_fill, merge])
def test_after_each_call_that_fails_a_retry_serves_what_a_fresh_index_does(
    work: Callable[[NativeEngine], None], tmp_path: Path, expected: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # no power fails here
    if work is merge:
        monkeypatch.setattr("overlay.engines.native.writing.AT_ONCE", 2)
    source = damaging.index(tmp_path / "source")
    opened = NativeEngine(source, make=False)
    before = damaging.answers(opened)
    for number in range(0, 1_000, STEP):
        folder = Path(shutil.copytree(source, tmp_path / "index"))
        engine, reader = NativeEngine(folder, make=True), NativeEngine(folder, make=False)
        with failing(number) as calls, suppressed(folder):
            work(engine)
        if work is change:
            assert damaging.answers(reader) in (before, expected)
        work(engine)
        assert damaging.answers(reader) == expected
        for opened in (engine, reader, NativeEngine(folder, make=False)):
            assert (opened.position(), opened.damage()) == (IndexPosition("e", 3), "")
            opened.close()
        published = manifest.read(folder)
        assert published is not None
        used = {f"{entry.name}.segment" for entry in published.segments}
        used |= {f"{entry.deleted_file}.deleted" for entry in published.segments if entry.deleted_file}
        assert {path.name for path in folder.iterdir()} == used | {"manifest", "stamp", "lock"}
        shutil.rmtree(folder)
        if number >= len(calls):
            break
    assert {"write", "fsync", "replace"} <= set(calls)


def test_a_second_writer_is_refused_until_the_first_closes(tmp_path: Path) -> None:
    first, second = NativeEngine(tmp_path, make=True), NativeEngine(tmp_path, make=True)
    first.write([], [], IndexPosition("e", 1))
    with pytest.raises(BusyError, match=f"another process writes to the index in {tmp_path}"):
        second.write([], [], IndexPosition("e", 2))
    first.close()
    second.write([], [], IndexPosition("e", 2))
    assert second.position() == IndexPosition("e", 2)
    second.close()


def test_an_engine_that_is_forgotten_releases_its_lock(tmp_path: Path) -> None:
    NativeEngine(tmp_path, make=True).write([], [], IndexPosition("e", 1))
    gc.collect()
    second = NativeEngine(tmp_path, make=True)
    second.write([], [], IndexPosition("e", 2))
    second.close()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"layout": 2, "crc32c": 0}', "manifest is of layout 2, and this release reads 1: rebuild the index"),
        (b'{"layout": 0, "crc32c": 0}', "manifest is of layout 0, and this release reads 1: rebuild the index"),
        (b"<html>", "manifest is damaged: it is not JSON: rebuild the index"),
        (b'{"name": "a package"}', "manifest is damaged: it is not a manifest; rebuild the index"),
    ],
)
def test_a_folder_of_another_release_or_program_says_what_to_do(
    tmp_path: Path, content: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "manifest").write_bytes(content)
    engine = NativeEngine(tmp_path, make=True)
    assert (engine.position(), engine.damage()) == (None, reason)
    assert f"the index in {tmp_path} is damaged, and must be rebuilt: {reason}" in caplog.text
    with pytest.raises(EngineError, match=f"the index in {tmp_path} must be rebuilt: manifest"):
        engine.write(["1"], [listing("1")], IndexPosition("e", 1))
    engine.write(None, (), None)
    engine.write([], [], IndexPosition("e", 1))
    assert (engine.position(), engine.damage()) == (IndexPosition("e", 1), "")
    engine.close()


def test_a_path_that_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match=f"{tmp_path}/file"):
        SearchIndex(f"native:{tmp_path}/file")


@contextmanager
def killer(url: str) -> Iterator[Callable[[float], int]]:
    """Lets a process work on an index, and kills it some seconds after its first commit; returns its last one."""
    command = [sys.executable, "-m", "tests.overlay.engines.native.killing", url]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        stdin, stdout = program.stdin, program.stdout

        def killed(after: float) -> int:
            print(file=stdin, flush=True)
            pid, first = int(stdout.readline()), stdout.readline()
            time.sleep(after)
            os.kill(pid, signal.SIGKILL)
            seqs = [int(first)]
            while (line := stdout.readline()) != "ended\n":
                seqs.append(int(line))
            return seqs[-1]

        yield killed
        stdin.close()


def test_killed_at_any_instant_of_writing_merging_and_rebuilding_an_index_holds_one_whole_state(
    tmp_path: Path,
) -> None:
    chance, url, seq = random.Random(20), f"native:{tmp_path}/index", 0
    with killer(url) as killed:
        for _ in range(20):
            last = killed(chance.uniform(0, 0.4))
            assert last > seq
            index = SearchIndex(url)
            index.cleanup()
            position = index.position()
            assert position is not None
            seq = position.seq
            assert seq in {last, last + 1}
            state = killing.state(seq)
            assert count(index) == len(state)
            for word in set(state.values()):
                assert matching_ids(index, word) == {id_ for id_, text in state.items() if text == word}
            engine = index._engine
            assert isinstance(engine, NativeEngine)
            published = manifest.read(engine.folder)
            assert published is not None
            assert not any(damaged(engine.folder, entry) for entry in published.segments)
            index.close()
    assert len(killing.state(seq)) == killing.LISTINGS
