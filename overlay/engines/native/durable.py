"""Files that are replaced and never changed: readers keep what they map. Also arrays in files without names."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import numpy.typing as npt

from indexer import durable_files

BESIDE = ".new"
"""Ends the name of a file until it is whole."""

LARGE = 1 << 20
"""Bytes from which on an array that is being computed is in a file: a merge of any size takes little memory."""


def replace(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Make a file of parts, which are bytes, durably (`durable_files.new_file`), for one writer at a time. Raises
    OSError; then `path` is as before, or new where only its folder could not be synced."""
    with durable_files.new_file(path, mode=0o600, beside=path.with_name(path.name + BESIDE)) as file:
        for part in parts:
            durable_files.write(file, part)


def array(folder: Path | None, length: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array to fill. A large one is in an unnamed file in the folder, which is deleted with the array, so the system
    can move it out of memory. Raises OSError, also where the disk has too little room for the whole array."""
    size = length * np.dtype(dtype).itemsize
    if folder is None or size < LARGE:
        return np.empty(length, dtype)
    with TemporaryFile(dir=folder) as file:
        os.posix_fallocate(file.fileno(), 0, size)  # or a write to the mapping would end the process on a full disk
        return np.frombuffer(mmap.mmap(file.fileno(), size), dtype)


def moved(folder: Path | None, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A computed array: a large one in a file, as `array` makes it, if it is not already. Raises OSError."""
    if folder is None or values.nbytes < LARGE or isinstance(getattr(values.base, "obj", None), mmap.mmap):
        return values
    target = array(folder, len(values), values.dtype)
    target[:] = values
    return target
