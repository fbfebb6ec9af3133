"""A copy of the index from which another server starts, and a server whose index cannot be written."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from indexer.retries import Backoff
from overlay.app import background
from overlay.app.composition import build
from overlay.app.storage import open_index
from overlay.duplicates.duplicate_index import DuplicateIndex
from overlay.engines import BusyError, EngineError, IndexPosition
from overlay.engines.native import manifest as manifests
from overlay.projection.copied_index import MARK, copy_index
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from overlay.search.query import Query
from tests.chainkit import ChainKit, agent
from tests.contracts.listed import listing
from tests.fakes import MemoryChain
from tests.overlay.calls import get
from tests.overlay.engines.native.faults import failing
from tests.overlay.engines.native.killing import changed, documents, state
from tests.running import a2b, environment
from tests.serving import new_app, running, serving, settings
from tests.waiting import until


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SearchIndex]:
    """An index with claims beside it, in `index`."""
    with (
        closing(SearchIndex(f"native:{tmp_path}/index")) as opened,
        closing(DuplicateIndex(f"{tmp_path}/index")) as duplicates,
    ):
        commit(opened, duplicates, 1)
        yield opened


def commit(index: SearchIndex, claims: DuplicateIndex, seq: int) -> None:
    """Change some listings."""
    claims.update([], [], IndexPosition("e", seq))
    index.replace(changed(seq), documents(seq, changed(seq)), IndexPosition("e", seq))


def contents(folder: Path) -> tuple[dict[str, str], int]:
    """The word of each listing in a copy, and the change that it has read."""
    with closing(SearchIndex(f"native:{folder}")) as copy:
        position = copy.position()
        assert position is not None
        names = {hit.id: json.loads(bytes(hit.item))["name"] for hit in copy.search(Query(limit=100)).hits}
    return {id_: name.removeprefix("alpha ") for id_, name in names.items()}, position.seq


def test_a_copy_is_one_commit_while_the_index_is_changed(index: SearchIndex, tmp_path: Path) -> None:
    is_done = threading.Event()

    def write() -> None:
        with closing(DuplicateIndex(f"{tmp_path}/index")) as claims:
            seq = 1
            while not is_done.is_set():
                seq += 1
                commit(index, claims, seq)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        copies = [tmp_path / f"copy{number}" for number in range(6)]
        for folder in copies:
            copy_index(tmp_path / "index", folder)
            copied = index.position()
            while index.position() == copied:
                pass
    finally:
        is_done.set()
        writer.join()
    for folder in copies:
        words, seq = contents(folder)
        assert words == state(seq)
    assert contents(copies[0])[1] < contents(copies[-1])[1]


def test_a_copy_and_its_index_change_apart(index: SearchIndex, tmp_path: Path) -> None:
    copy_index(tmp_path / "index", tmp_path / "copy")
    with closing(SearchIndex(f"native:{tmp_path}/copy")) as copy:
        copy.replace(["0"], [listing("0", "alpha elsewhere")], IndexPosition("e", 2))
        copy.replace([str(number) for number in range(1, 30)], [], IndexPosition("e", 3))
    assert contents(tmp_path / "copy")[0] == {"0": "elsewhere"}
    assert contents(tmp_path / "index") == (state(1), 1)
    index.replace(changed(2), documents(2, changed(2)), IndexPosition("e", 2))
    assert contents(tmp_path / "index") == (state(2), 2)


def test_a_copy_that_was_not_completed_does_not_count(index: SearchIndex, tmp_path: Path) -> None:
    """Whichever system call the disk refuses: the next copy succeeds."""
    folder, number = tmp_path / "copy", 0
    while True:
        with failing(number) as calls:
            try:
                copy_index(tmp_path / "index", folder)
            except (OSError, EngineError):
                assert not folder.exists() or calls[-1] == "fsync", calls
        if len(calls) <= number:
            break
        if folder.exists():
            assert contents(folder) == (state(1), 1), calls
            for path in sorted(folder.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
        number += 1
    assert number > 5
    assert contents(folder) == (state(1), 1)


KILLED = """
import os, signal, sys
from pathlib import Path
from overlay.projection.copied_index import copy_index
real = os.link
def link(*paths):
    real(*paths)
    os.kill(os.getpid(), signal.SIGKILL)
os.link = link
copy_index(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def test_a_killed_process_leaves_no_copy(index: SearchIndex, tmp_path: Path) -> None:
    folders = [f"{tmp_path}/index", f"{tmp_path}/copy"]
    ended = subprocess.run([sys.executable, "-c", KILLED, *folders], env=environment(), check=False)
    assert ended.returncode == -9
    assert not (tmp_path / "copy").exists()
    assert (tmp_path / "copy.copying").exists()
    copy_index(tmp_path / "index", tmp_path / "copy")
    assert contents(tmp_path / "copy") == (state(1), 1)
    assert not (tmp_path / "copy.copying").exists()


def test_two_copies_to_one_folder_exclude_each_other(
    index: SearchIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, folders = os.link, (tmp_path / "index", tmp_path / "copy")

    def link(*paths: Any) -> None:
        real(*paths)
        with pytest.raises(BusyError, match="another process copies to"):
            copy_index(*folders)

    monkeypatch.setattr(os, "link", link)
    copy_index(*folders)
    assert contents(tmp_path / "copy") == (state(1), 1)


def test_a_folder_with_files_and_an_index_without_a_commit_are_refused(index: SearchIndex, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="is not empty"):
        copy_index(tmp_path / "index", tmp_path / "index")
    index.clear()
    with pytest.raises(EngineError, match="nothing to copy yet"):
        copy_index(tmp_path / "index", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


async def test_a_server_goes_on_from_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = ChainKit()
    kit.mine(*(kit.inscribe(agent(f"Router {number}")) for number in range(3)))
    async with serving(new_app(tmp_path, MemoryChain(*kit.blocks, name="live"))):
        pass
    copied = a2b("index-copy", str(tmp_path / "copy"), "--data", str(tmp_path / "data"), cwd=tmp_path)
    assert copied.returncode == 0, copied.stderr
    assert copied.stdout.startswith("copied the index up to change ")
    kit.mine(kit.inscribe(agent("Newer")))
    async with serving(new_app(tmp_path, MemoryChain(*kit.blocks, name="live"))):
        pass
    monkeypatch.setattr(IndexProjector, "fill", None)  # from the beginning
    options = settings(tmp_path, search=f"native:{tmp_path}/copy")
    assert (tmp_path / "copy" / MARK).exists()
    async with running(build(options, follow=False, serve=True)) as (runner, _):
        engine = runner.context.engine
        assert engine is not None
        await until(lambda: not engine.is_compiling and engine.search(Query()).total == 4)
        assert engine.search(Query(text="newer")).total == 1
    assert not (tmp_path / "copy" / MARK).exists()


async def test_a_copy_beside_the_files_of_an_index_is_not_taken_for_a_mark(tmp_path: Path) -> None:
    async with serving(new_app(tmp_path, MemoryChain(*ChainKit().blocks, name="live"))):
        pass
    root = Path(settings(tmp_path).search.partition(":")[2])
    copy_index(root, root / MARK)
    async with serving(new_app(tmp_path, MemoryChain(*ChainKit().blocks, name="live"))):
        pass
    assert (root / MARK / MARK).is_file()


async def test_a_copy_of_another_database_is_refused(tmp_path: Path) -> None:
    for name in ("one", "other"):
        kit = ChainKit()
        kit.mine(kit.inscribe(agent(f"Router {name}")))
        async with serving(new_app(tmp_path / name, MemoryChain(*kit.blocks, name="live"))):
            pass
    copy_index(Path(settings(tmp_path / "one").search.partition(":")[2]), tmp_path / "copy")
    options = settings(tmp_path / "other", search=f"native:{tmp_path}/copy")
    for _ in range(2):
        with pytest.raises(EngineError, match="is a copy of the index of another database"):
            build(options, follow=False, serve=True)
    with closing(open_index(options, create=True)) as copy:
        assert copy.search(Query(text="one")).total == 1, "it is as it was"


@contextmanager
def full_disk() -> Iterator[None]:
    """Every commit fails."""

    def publish(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifests, "publish", publish)
        yield


async def test_a_server_with_a_full_disk_answers_says_so_and_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "FAILED", Backoff(0.01, 0.05))
    kit = ChainKit()
    kit.mine(kit.inscribe(agent("Router")))
    chain = MemoryChain(*kit.blocks, name="live")
    async with serving(new_app(tmp_path, chain)) as session:
        assert (await get(session, "/v1/search"))["total"] == 1
        with full_disk():
            kit.mine(kit.inscribe(agent("Newer")))
            chain.arrive(*kit.blocks)
            status: dict[str, Any] = {}
            while "error" not in status:
                status = (await get(session, "/v1/status"))["index"]
            assert status["error"].endswith("No space left on device")
            assert str(tmp_path) not in status["error"]
            assert status["behind"] > 0
            assert (await get(session, "/v1/search"))["total"] == 1
        while "error" in (await get(session, "/v1/status"))["index"]:
            pass
        assert (await get(session, "/v1/search"))["total"] == 2
