"""A copy of the search index and of its duplicate index, from which another `a2b serve` starts.

It is made beside its folder and renamed when it is complete. A file in it says that it is a copy, until the first start
has found that it belongs to the database there: an index of another database would be rebuilt, and a copy is refused.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from indexer.durable_files import flush, release_lock
from overlay.duplicates.duplicate_index import FILE, DuplicateIndex
from overlay.engines import BusyError, EngineError, IndexPosition
from overlay.engines.native.copying import link_commit
from overlay.projection.unread_changes import is_of_this_database

if TYPE_CHECKING:
    from indexer.store import Store
    from overlay.projection.search_index import SearchIndex

MARK = "copy"
"""The file that marks an index as a copy that has not been used yet."""


def copy_index(root: Path, folder: Path) -> IndexPosition:
    """Copy the native index of a folder, which other processes may be using, to a new folder; returns the position up
    to which it has read. Raises EngineError where there is nothing to copy, OSError."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise EngineError(f"{folder} is not empty: name a folder that is not there yet")
    with _beside(folder) as beside:
        # duplicates first: what the index has read further is read again, and nothing that waits is lost
        with closing(DuplicateIndex(str(root))) as duplicates, closing(DuplicateIndex(str(beside))) as copied:
            if duplicates.position() is None:
                raise EngineError(f"the duplicate index in {root} is being rebuilt: there is nothing to copy yet")
            copied.copy_from(duplicates)
        position = link_commit(root, beside)
        (beside / MARK).touch()
        for path in (beside / FILE, beside / MARK, beside):
            flush(path)
        os.replace(beside, folder)  # noqa: PTH105  as all system calls here, which the tests let fail
        flush(folder.parent)
    return position


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder`. It is removed unless it is renamed, as are the remains of a killed process."""
    beside = folder.with_name(f"{folder.name}.copying")
    beside.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder.with_name(f"{folder.name}.copying-lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyError(f"another process copies to {folder}") from error
        try:
            shutil.rmtree(beside, ignore_errors=True)
            beside.mkdir()
            yield beside
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    finally:
        release_lock(lock)


def check_copy(root: Path, store: Store, index: SearchIndex) -> None:
    """Refuse a copy that this database cannot continue; any other is an index from now on. Raises EngineError,
    OSError."""
    mark = root / MARK
    if not mark.is_file():  # a folder of that name may be a copy that was made there
        return
    position = index.position()
    if position is None:
        raise EngineError(f"{root} is a copy of an index that this release cannot read: remove it, or copy again")
    if not is_of_this_database(store, position):
        raise EngineError(
            f"{root} is a copy of the index of another database, or of a later state of this one (epoch "
            f"{position.epoch}, change {position.seq:,}): name the database that it was made from, or remove it"
        )
    mark.unlink(missing_ok=True)
