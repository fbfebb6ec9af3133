"""Files that survive a crash at any instant: written beside, synced, and put in place whole."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def put(file: Path, document: bytes, *, replace: bool) -> None:
    """Make a file; an existing one is replaced, with its permissions, only with `replace`. Raises OSError, and
    FileExistsError."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with part.open("wb") as opened:
            if replace:
                os.fchmod(opened.fileno(), file.stat().st_mode & 0o777)
            opened.write(document)
            opened.flush()
            os.fsync(opened.fileno())
        if replace:
            part.replace(file)
        else:
            os.link(part, file)  # the whole file or none
    finally:
        part.unlink(missing_ok=True)
    with _folder(file) as folder:
        os.fsync(folder)  # its name survives a power cut, too


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Only one process at a time changes files of this folder. Raises OSError."""
    with _folder(file) as folder:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield


@contextmanager
def _folder(file: Path) -> Iterator[int]:
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        yield folder
    finally:
        os.close(folder)
