"""Files that survive a crash at any instant: written beside, synced, and put in place whole."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def put(file: Path, document: bytes, *, replace: bool, mode: int = 0o666) -> None:
    """Make a file with these permissions less the umask; an existing one is replaced, and keeps its own, only with
    `replace`. Raises OSError, and
    FileExistsError."""
    part = file.with_name(f".{file.name}.{secrets.token_hex(8)}")  # never what a killed process left: it may be linked
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as opened:
            if replace:
                os.fchmod(opened.fileno(), file.stat().st_mode & 0o777)
            opened.write(document)
            opened.flush()
            os.fsync(opened.fileno())
        if replace:
            part.replace(file)
        else:
            _link(part, file)
    finally:
        part.unlink(missing_ok=True)
    with _folder(file) as folder:
        os.fsync(folder)  # its name survives a power cut, too


def _link(part: Path, file: Path) -> None:
    """Give a file its name, the whole file or none; an error names it, and not the part."""
    try:
        os.link(part, file)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from None


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
