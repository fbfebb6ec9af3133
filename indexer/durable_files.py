"""Files that survive a crash at any instant: written beside, synced, and put in place whole."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def new_file(path: Path, *, replace: bool = True, mode: int = 0o666, beside: Path | None = None) -> Iterator[int]:
    """The descriptor of a file that is put in place at `path`, whole and durably, when the block ends; after an error
    `path` is as before, or new where only its folder could not be synced. It has these permissions less the umask. An
    existing file is replaced only with `replace`. `beside` is its name until then, for a single writer at a time: what
    a killed one left there is removed; by default a new name. Raises OSError, and FileExistsError."""
    part = beside or path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        if beside is not None:
            part.unlink(missing_ok=True)
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # the name that the user gave
    try:
        try:
            yield file
            os.fsync(file)
        finally:
            os.close(file)
        if replace:
            os.replace(part, path)  # noqa: PTH105  as all system calls here, which the tests let fail
        else:
            _link(part, path)
            part.unlink()
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    flush(path.parent)  # its name survives a power cut, too


def put(path: Path, document: bytes, *, replace: bool, mode: int = 0o666) -> None:
    """Make a file of these bytes; an existing one is replaced only with `replace`, and keeps its permissions. Raises
    OSError, and FileExistsError."""
    with new_file(path, replace=replace, mode=mode) as file:
        if replace:
            with suppress(FileNotFoundError):
                os.fchmod(file, path.stat().st_mode & 0o777)
        write(file, document)


def write(file: int, document: bytes | memoryview) -> None:
    """Write all of these bytes to a descriptor. Raises OSError."""
    view = memoryview(document)
    while view:
        view = view[os.write(file, view) :]


def flush(path: Path) -> None:
    """Sync a file, or the names in a folder, to disk. Raises OSError."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def release_lock(file: int) -> None:
    """Release flock(2) and close the file. Closing alone is not enough: a process that is being started holds a copy of
    the descriptor until its program begins."""
    fcntl.flock(file, fcntl.LOCK_UN)
    os.close(file)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process at a time changes files of this folder. Raises OSError."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        release_lock(folder)


def _link(part: Path, path: Path) -> None:
    """Give a file its name, the whole file or none; an error names it, and not the part."""
    try:
        os.link(part, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
