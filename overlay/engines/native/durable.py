"""Files that are replaced, never changed: readers that map one keep what they map."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from overlay.engines.index_versions import flush

BESIDE = ".new"
"""Ends the name of a file until it is whole."""


def replace(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Make a file of parts, which are bytes, durably: written beside, synced, renamed, and its folder synced. Raises
    OSError; then `path` is as before, or new where only its folder could not be synced."""
    beside = path.with_name(path.name + BESIDE)
    try:
        _write(beside, parts)
        os.replace(beside, path)  # noqa: PTH105  as all system calls here, which the tests let fail
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    flush(path.parent)


def _write(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        for part in parts:
            view = memoryview(part)
            while view:
                view = view[os.write(file, view) :]
        os.fsync(file)
    finally:
        os.close(file)
