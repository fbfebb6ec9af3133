"""A released lock is free, although a process that was started meanwhile still has a copy of its descriptor."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from indexer.durable_files import locked
from indexer.store.process_lock import writer_lock
from overlay.engines.native.folder_lock import FolderLock

Release = Callable[[], object]


def of_writer(folder: Path) -> Release:
    lock = writer_lock(create_engine(f"sqlite:///{folder}/a2b.db"))
    assert lock.acquire()
    return lock.release


def of_index(folder: Path) -> Release:
    lock = FolderLock(folder)
    return lambda: lock.release(is_whole=True)


def of_files(folder: Path) -> Release:
    held = locked(folder / "file")
    held.__enter__()
    return lambda: held.__exit__(None, None, None)


@pytest.fixture
def child() -> Iterator[Callable[[], None]]:
    """Starts a process that has all descriptors of this one and does nothing."""
    children: list[int] = []

    def start() -> None:
        number = os.fork()
        if number == 0:
            time.sleep(60)
            os._exit(0)
        children.append(number)

    yield start
    for number in children:
        os.kill(number, signal.SIGKILL)
        os.waitpid(number, 0)


@pytest.mark.parametrize("take", [of_writer, of_index, of_files])
def test_a_lock_is_free_once_it_is_released(
    take: Callable[[Path], Release], child: Callable[[], None], tmp_path: Path
) -> None:
    release = take(tmp_path)
    child()
    release()
    take(tmp_path)()
