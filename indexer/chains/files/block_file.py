"""A node's block file: records of magic, size and block, possibly with zeros or garbage between them.

A node writes blocks in order of arrival, often into a preallocated file of zeros; the last block may be incomplete.
A size of ffffffff is followed by the true size in eight bytes, for blocks over 4 GB. Newer versions of Bitcoin Core
obfuscate block files with an eight-byte key (`xor.dat`). Reads are positional: from a file that is truncated meanwhile
they return fewer bytes, while a memory map would kill the process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

HEADER = 80
_LONG = 0xFFFFFFFF
_CHUNK = 1 << 20

IsReal = Callable[[bytes, bool], bool]
"""Whether 80 bytes are a header: a quick test where a block is expected, a strict one (True) after a search."""


class Frame(NamedTuple):
    """A block in a file: the `start` of its magic, the `offset` of its header, its `size` in bytes, and the header.

    `follows`: it starts where the previous block ends, or at the start of the file. Others were located by a search for
    the magic, and may be data inside another block. `last`: no later block is known in the file.
    """

    start: int
    offset: int
    size: int
    header: bytes
    follows: bool = True
    last: bool = False

    @property
    def end(self) -> int:
        """The offset of the first byte after the block."""
        return self.offset + self.size


class Garbage(NamedTuple):
    """Bytes that are neither a block nor zeros, from `start` up to `end`; `first` are the first four."""

    start: int
    end: int
    first: bytes


class Stamp(NamedTuple):
    """A file's identity, size and modification time, which detect changes."""

    device: int
    inode: int
    size: int
    modified: int


class BlockFile:
    """One block file, read incrementally. `number` is its index among the files of the folder."""

    def __init__(self, path: Path, number: int, magic: bytes, key: bytes, is_real: IsReal) -> None:
        self.path, self.number = path, number
        self._magic, self._key, self._is_real = magic, key if any(key) else b"", is_real
        self._stamp: Stamp | None = None
        self._position = 0
        self._last: Frame | None = None

    @property
    def size(self) -> int:
        """The file's size in bytes when it was last read."""
        return self._stamp.size if self._stamp else 0

    def stamp(self) -> Stamp:
        """The current stamp of the file. Raises OSError."""
        status = self.path.stat()
        return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    def changed(self) -> bool:
        """Whether the file differs from when it was last read. Raises OSError."""
        return self.stamp() != self._stamp

    def read_on(self) -> Iterator[Frame | Garbage]:
        """The items after the last position; from the start if the file was replaced or truncated. Raises OSError.

        Frames are complete: a block that is still being written is returned by a later call.
        """
        stamp = self.stamp()
        with self.path.open("rb", buffering=0) as file:
            if not self._continues(file.fileno(), stamp):
                self._position, self._last = 0, None
            self._stamp = stamp
            pending: Frame | None = None
            for item in self._items(file.fileno(), stamp.size):
                if pending and isinstance(item, Frame):
                    yield pending
                    pending = None
                if isinstance(item, Frame):
                    pending = item
                else:
                    yield item
            if pending:
                yield pending._replace(last=True)

    @property
    def is_obfuscated(self) -> bool:
        """Whether the file is obfuscated by a key."""
        return bool(self._key)

    def rewind(self) -> None:
        """Make the next call read from the start, whether or not the file changes."""
        self._position, self._last, self._stamp = 0, None, None

    def unread(self, frame: Frame) -> None:
        """Move back before the last frame, which cannot be used yet: it is returned again when the file has changed."""
        self._position, self._last = frame.start, None

    def load(self, offset: int, target: memoryview) -> None:
        """Fill `target` with the bytes from `offset`. Raises OSError, also when the file is too short."""
        with self.path.open("rb", buffering=0) as file:
            done = 0
            while done < len(target):
                count = os.preadv(file.fileno(), [target[done:]], offset + done)
                if not count:
                    raise OSError(f"{self.path} ends at byte {offset + done:,}, inside a block")
                done += count
        if self._key:
            obfuscated = np.frombuffer(target, np.uint8)
            np.bitwise_xor(obfuscated, self._mask(offset, len(target)), out=obfuscated)

    def _continues(self, descriptor: int, stamp: Stamp) -> bool:
        """Whether the file is the same as before: not replaced, not truncated, and with the same header at the last
        block."""
        if self._stamp is None or stamp[:2] != self._stamp[:2] or stamp.size < self._position:
            return False
        return self._last is None or self._bytes(descriptor, self._last.offset, HEADER) == self._last.header

    def _mask(self, offset: int, size: int) -> npt.NDArray[np.uint8]:
        turn = offset % len(self._key)
        return np.resize(np.frombuffer(self._key[turn:] + self._key[:turn], np.uint8), size)

    def _deobfuscate(self, raw: bytes, offset: int) -> bytes:
        return (np.frombuffer(raw, np.uint8) ^ self._mask(offset, len(raw))).tobytes() if self._key else raw

    def _bytes(self, descriptor: int, offset: int, size: int) -> bytes:
        return self._deobfuscate(os.pread(descriptor, size, offset), offset)

    def _items(self, descriptor: int, end: int) -> Iterator[Frame | Garbage]:
        follows = True
        while self._position < end:
            frame = self._frame(descriptor, self._position)
            if frame and frame.end <= end and self._is_real(frame.header, not follows):
                self._position, self._last = frame.end, frame
                yield frame._replace(follows=follows)
                follows = True
                continue
            if self._is_unfinished(frame, descriptor, end):
                return
            block_start, garbage = self._search(descriptor, self._position, end)
            if block_start is None and frame and (len(frame.header) < HEADER or not any(frame.header[76:])):
                return  # the header is incomplete
            if garbage is not None:
                yield Garbage(garbage, block_start or end, self._bytes(descriptor, garbage, 4))
            if block_start is None:
                return
            self._position, follows = block_start, False

    def _frame(self, descriptor: int, start: int) -> Frame | None:
        """The frame at offset `start`; None without magic, or if the size is too small for a block."""
        head = self._bytes(descriptor, start, 16 + HEADER)
        if head[:4] != self._magic or len(head) < 16:
            return None
        size, shift = int.from_bytes(head[4:8], "little"), 8
        if size == _LONG:
            size, shift = int.from_bytes(head[8:16], "little"), 16
        return Frame(start, start + shift, size, head[shift : shift + HEADER]) if size > HEADER else None

    def _is_unfinished(self, frame: Frame | None, descriptor: int, end: int) -> bool:
        """Whether the bytes at the current position may be a block that is still being written.

        A size beyond the end of the file is accepted if the header has proof of work.
        """
        if frame is None:
            start = self._bytes(descriptor, self._position, 16)
            return len(start) < 16 and start[:4] == self._magic[: len(start)]
        return frame.end > end and len(frame.header) == HEADER and self._is_real(frame.header, True)

    def _search(self, descriptor: int, start: int, end: int) -> tuple[int | None, int | None]:
        """The offset of the next real block, and of the first skipped byte that is not zero; None without one."""
        garbage: int | None = None
        offset = start
        while offset < end:
            raw = os.pread(descriptor, min(_CHUNK, end - offset), offset)
            if not raw:
                break
            block_start = self._find_block(descriptor, offset, raw, start, end)
            skipped = raw[: block_start - offset] if block_start is not None else raw
            if garbage is None and (rest := skipped.lstrip(b"\0")):
                garbage = offset + len(skipped) - len(rest)
            if block_start is not None:
                return block_start, garbage
            offset += len(raw) - 3 if len(raw) == _CHUNK else len(raw)
        return None, garbage

    def _find_block(self, descriptor: int, offset: int, raw: bytes, start: int, end: int) -> int | None:
        """The offset of the first real block after `start` in a chunk of the file that begins at `offset`."""
        chunk = self._deobfuscate(raw, offset)
        index = chunk.find(self._magic)
        while index >= 0:
            frame = self._frame(descriptor, offset + index) if offset + index > start else None
            if frame and (frame.end <= end or len(frame.header) == HEADER) and self._is_real(frame.header, True):
                return offset + index
            index = chunk.find(self._magic, index + 1)
        return None
