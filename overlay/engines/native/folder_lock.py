"""The lock of the process that writes to an index. Its file records whether the previous process ended cleanly."""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path

from indexer.durable_files import release_lock
from overlay.engines import BusyError, EngineError

_WRITING, _WHOLE = b"w", b"-"


class FolderLock:
    """The lock of a folder, which ends with its process."""

    def __init__(self, folder: Path) -> None:
        """Take it. Raises BusyError where another process holds it, or where this one may not write; EngineError when
        the disk fails."""
        try:
            file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BusyError(f"the index in {folder} cannot be written: {error}") from error
        self._file = file
        self._closing = weakref.finalize(self, release_lock, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._closing()
            raise BusyError(
                f"another process writes to the index in {folder}: stop it, or name another in A2B_SEARCH"
            ) from error
        try:
            self.was_interrupted = os.pread(file, 1, 0) == _WRITING
            """Whether a process that held the lock has ended without releasing it, or found damage."""
            os.pwrite(file, _WRITING, 0)
            os.fsync(file)
        except OSError as error:
            self._closing()
            raise EngineError(f"the index in {folder} cannot be written: {error}") from error

    def release(self, *, is_whole: bool) -> None:
        """Release it; the next process checks an index that is not `is_whole`. Raises OSError."""
        try:
            if is_whole:
                os.pwrite(self._file, _WHOLE, 0)
        finally:
            self._closing()
