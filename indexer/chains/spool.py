"""Bytes of a block that arrive piece by piece, in memory or in a file without a name."""

from __future__ import annotations

import asyncio
import mmap
import os
import tempfile
import threading
from typing import IO

from indexer.spill import folder

IN_MEMORY = 32 << 20
"""Bytes up to which a block stays in memory."""

_WRITTEN = 1 << 20
"""Bytes written at once, while the next ones arrive: few, to reuse memory."""

_PIECES = 512
"""Pieces per system call: half of what Linux allows."""


class Spool:
    """Bytes that arrive piece by piece, in memory or in a file without a name, which leaves nothing behind."""

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._pieces: list[bytes] = []
        self.size = 0
        self._file: IO[bytes] | None = None
        self._writing: asyncio.Future[None] | None = None
        self._lock = threading.Lock()
        self._turn = 0

    async def add(self, piece: bytes) -> None:
        """Add the next bytes. Raises OSError when earlier ones could not be written."""
        self._pieces.append(piece)
        self.size += len(piece)
        if self.size >= (_WRITTEN if self._writing else self._in_memory + 1):
            await self._write_on()

    async def view(self) -> memoryview:
        """All bytes, for as long as the view exists. Raises OSError."""
        if self._writing is None:
            return memoryview(b"".join(self._pieces))
        await self._write_on()
        await self._written()
        with self._lock:
            if self._file is None:
                raise ValueError("this spool was cleared while it was read")
            return memoryview(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ))

    def clear(self) -> None:
        """Drop all bytes and start again; views stay valid, as a memory map keeps the file open."""
        with self._lock:
            self._turn += 1
            self._pieces, self.size = [], 0
            if self._file is not None:
                self._file.close()
                self._file = None
        if self._writing is not None:
            self._writing.add_done_callback(_ignore_result)
            self._writing = None

    async def _write_on(self) -> None:
        """Start writing the buffered bytes, once the previous write is done."""
        await self._written()
        pieces, self._pieces, self.size = self._pieces, [], 0
        self._writing = asyncio.ensure_future(asyncio.to_thread(self._write, pieces, self._turn))

    async def _written(self) -> None:
        if self._writing is not None:
            await asyncio.wait([self._writing])
            self._writing.result()

    def _write(self, pieces: list[bytes], turn: int) -> None:
        """Write to the file, under a lock; nothing if the spool was cleared meanwhile."""
        with self._lock:
            if turn != self._turn:
                return
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=folder(), buffering=0)  # noqa: SIM115 - closed by clear
            for start in range(0, len(pieces), _PIECES):
                _write_all(self._file.fileno(), pieces[start : start + _PIECES])


def _ignore_result(writing: asyncio.Future[None]) -> None:
    """Ignore the result of a write that was cleared."""
    if not writing.cancelled():
        writing.exception()


def _write_all(descriptor: int, pieces: list[bytes]) -> None:
    """Write pieces in sequence, without joining them first. Raises OSError."""
    left = sum(map(len, pieces)) - os.writev(descriptor, pieces)
    rest = memoryview(b"".join(pieces)[-left:]) if left else memoryview(b"")
    while rest:
        rest = rest[os.write(descriptor, rest) :]
