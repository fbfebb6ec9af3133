"""A counter in a file that readers map: they see a change without a system call."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path

_BYTES = 8
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


class ChangeCounter:
    """Eight bytes, little-endian. The file is never truncated."""

    def __init__(self, path: Path, *, make: bool = True) -> None:
        """Map the counter of a file; with `make`, a missing file is created, and one that may be written can be
        increased. Raises OSError; ValueError when the file is too short and may not be written."""
        try:
            flags = os.O_RDWR | os.O_CREAT if make else os.O_RDONLY
            file = os.open(path, flags | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if not make or error.errno not in _READ_ONLY:
                raise
            file, make = os.open(path, os.O_RDONLY | os.O_CLOEXEC), False
        try:
            if make and os.fstat(file).st_size < _BYTES:
                os.posix_fallocate(file, 0, _BYTES)  # a mapped hole would end the process on a full disk
            access = mmap.ACCESS_WRITE if make else mmap.ACCESS_READ
            self._counter = memoryview(mmap.mmap(file, _BYTES, access=access)).cast("Q")
        except ValueError as error:
            raise ValueError(f"{path} is damaged: it is shorter than {_BYTES} bytes") from error
        finally:
            os.close(file)

    def value(self) -> int:
        """The counter; takes no system call."""
        return self._counter[0]

    def increase(self) -> None:
        """Notify readers of a change. Raises TypeError where the file is not writable."""
        self._counter[0] = (self._counter[0] + 1) % (1 << 64)
