"""A block on its way in: in memory while it is small, else in a file without a name, mapped once it is whole."""

from __future__ import annotations

import asyncio
import mmap
import os
import tempfile
import threading
from typing import IO

from indexer.spill import folder

IN_MEMORY = 32 << 20
"""Bytes up to which a block is held in memory."""

_WRITTEN = 1 << 20
"""Bytes written at a time, while the next ones arrive: few, so that the same memory is used again."""

_PIECES = 512
"""Pieces that the system takes in one call: half of what Linux allows."""


class Spool:
    """Bytes that arrive piece by piece. Nothing of a file is left behind, whatever happens: it never has a name."""

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._held: list[bytes] = []
        self._size = 0
        self._file: IO[bytes] | None = None
        self._writing: asyncio.Future[None] | None = None
        self._lock = threading.Lock()
        self._turn = 0

    @property
    def is_on_disk(self) -> bool:
        """Whether the bytes go to a file."""
        return self._writing is not None

    async def add(self, piece: bytes) -> None:
        """Take the next bytes. Raises OSError when the disk did not take those before."""
        self._held.append(piece)
        self._size += len(piece)
        if self._size >= (_WRITTEN if self._writing else self._in_memory + 1):
            await self._write_on()

    async def view(self) -> memoryview:
        """All bytes, for as long as the view is held. Raises OSError."""
        if self._writing is None:
            return memoryview(b"".join(self._held))
        await self._write_on()
        await self._written()
        with self._lock:
            if self._file is None:
                raise ValueError("this spool was cleared while its bytes were asked for")
            return memoryview(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ))

    def clear(self) -> None:
        """Forget all bytes, and begin anew; views stay good, as a map has its own hold of the file."""
        with self._lock:
            self._turn += 1
            self._held, self._size = [], 0
            if self._file is not None:
                self._file.close()
                self._file = None
        if self._writing is not None:
            self._writing.add_done_callback(_look_away)
            self._writing = None

    async def _write_on(self) -> None:
        """Have what is held written, once what was held before it is."""
        await self._written()
        held, self._held, self._size = self._held, [], 0
        self._writing = asyncio.ensure_future(asyncio.to_thread(self._write, held, self._turn))

    async def _written(self) -> None:
        if self._writing is not None:
            await asyncio.wait([self._writing])
            self._writing.result()

    def _write(self, held: list[bytes], turn: int) -> None:
        """Write to the file, which nobody closes meanwhile; nothing once the bytes were given up."""
        with self._lock:
            if turn != self._turn:
                return
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=folder(), buffering=0)  # noqa: SIM115 - closed by clear
            for start in range(0, len(held), _PIECES):
                _write_all(self._file.fileno(), held[start : start + _PIECES])


def _look_away(writing: asyncio.Future[None]) -> None:
    """What becomes of bytes that were given up is nobody's concern."""
    if not writing.cancelled():
        writing.exception()


def _write_all(descriptor: int, pieces: list[bytes]) -> None:
    """Write pieces one after the other, without joining them first. Raises OSError."""
    left = sum(map(len, pieces)) - os.writev(descriptor, pieces)
    rest = memoryview(b"".join(pieces)[-left:]) if left else memoryview(b"")
    while rest:
        rest = rest[os.write(descriptor, rest) :]
