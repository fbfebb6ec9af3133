"""Read data of another user, or on a read-only file system: without a lock and without creating files."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from overlay.text.terminal import complain

COPIED_BYTES = 1 << 20
"""Files of an index up to this size are copied, larger ones are linked to."""


def is_writable(path: Path) -> bool:
    """Whether this process may write a file, or make files in a folder."""
    return os.access(path, os.W_OK)


@cache
def warn_read_only(folder: Path) -> None:
    """Say once that a folder is only read."""
    complain(f"{folder} cannot be written by this user: it is only read, and what is being written may be missing")


def readable_copy(index: Path) -> Path:
    """A folder of the same files as an index, for an engine that locks and makes files where it reads: small files are
    copied, large ones are symbolic links. It is removed when the process ends. Raises OSError."""
    root = Path(tempfile.mkdtemp(prefix="a2b-index-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    for folder, _, files in os.walk(index):
        copy = root / Path(folder).relative_to(index)
        copy.mkdir(exist_ok=True)
        for name in files:
            _link_or_copy(Path(folder, name), copy / name)
    return root


def _link_or_copy(file: Path, copy: Path) -> None:
    try:
        if file.stat().st_size > COPIED_BYTES:
            copy.symlink_to(file.absolute())
        else:
            shutil.copyfile(file, copy)
    except FileNotFoundError:
        return  # the process that writes the index has removed it meanwhile
