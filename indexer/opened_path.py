"""A path that was opened, and that may be removed or made again while the opened file is still used."""

from __future__ import annotations

import os
import weakref
from pathlib import Path


class OpenedPath:
    """A file or folder; its number is not used again while this object lives."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._path = path
        self._file = os.open(path, os.O_PATH | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._file)

    def is_there(self) -> bool:
        """Whether its path leads to it still."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._file))
        except OSError:
            return False
