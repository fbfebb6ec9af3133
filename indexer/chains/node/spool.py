"""A block on its way in: in memory while it is small, else in a file without a name, mapped once it is whole."""

from __future__ import annotations

import asyncio
import mmap
import os
import tempfile
import threading
from pathlib import Path
from typing import IO

IN_MEMORY = 32 << 20
"""Bytes up to which a block is held in memory."""

_WRITTEN = 4 << 20
_DISK = Path("/var/tmp")  # noqa: S108 - a file without a name is nobody else's


def folder() -> Path:
    """Where large blocks are put: `TMPDIR`, else `/var/tmp`, which is a disk where `/tmp` may be memory."""
    if "TMPDIR" not in os.environ and os.access(_DISK, os.W_OK):
        return _DISK
    return Path(tempfile.gettempdir())


class Spool:
    """Bytes that arrive piece by piece. Nothing of a file is left behind, whatever happens: it never has a name."""

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._held = bytearray()
        self._file: IO[bytes] | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    @property
    def is_on_disk(self) -> bool:
        """Whether the bytes lie in a file."""
        return self._file is not None

    async def add(self, piece: bytes) -> None:
        """Take the next bytes. Raises OSError when the disk does not."""
        self._held += piece
        if len(self._held) >= (_WRITTEN if self._file else self._in_memory + 1):
            await asyncio.to_thread(self._write)

    async def view(self) -> memoryview:
        """All bytes, to be read (and in memory also written) for as long as the view is held. Raises OSError."""
        if self._file is None:
            return memoryview(self._held)
        await asyncio.to_thread(self._write)
        with self._lock:
            return memoryview(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ))

    def clear(self) -> None:
        """Forget all bytes, and begin anew."""
        with self._lock:
            self._held = bytearray()
            if self._file is not None:
                self._file.close()
                self._file = None

    def close(self) -> None:
        """Give back the file; views stay good, as the map has its own hold of it."""
        self.clear()
        self._is_closed = True

    def _write(self) -> None:
        """Move what is held to the file. Nobody closes it meanwhile, also when nobody waits for this any more."""
        with self._lock:
            if self._is_closed:
                return
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=folder(), buffering=0)  # noqa: SIM115 - closed by close
            rest = memoryview(self._held)
            while rest:
                rest = rest[self._file.write(rest) :]
            self._held = bytearray()
