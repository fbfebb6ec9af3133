"""A node's block file: magic, size, block; again and again, with what nodes and accidents leave between.

A node writes blocks as they arrive, often into a file filled with zeros beforehand; it may be in the middle of one now.
A size of ffffffff is followed by the true one in eight bytes, for blocks over 4 GB. Newer Bitcoin Core hides its blocks
behind an eight-byte key (`xor.dat`). Reads are positional: a file that is cut off while it is read gives fewer bytes,
where a memory map would kill the process.
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
"""Whether a header can be one: asked quickly where a block is expected, strictly (True) where one was only found."""


class Frame(NamedTuple):
    """A block in a file: where its magic stands, the `offset` of its header and its `size` in bytes, and the header.

    `follows`: it stands where the block before it ends (or at the start), while one that was only found by its magic
    may be a stranger's bytes inside another block. `last`: no other is known to stand behind it.
    """

    start: int
    offset: int
    size: int
    header: bytes
    follows: bool = True
    last: bool = False

    @property
    def end(self) -> int:
        """The offset behind the block."""
        return self.offset + self.size


class Garbage(NamedTuple):
    """Bytes that are neither a block nor zeros: from `start` to `end`, with the first of them."""

    start: int
    end: int
    first: bytes


class Stamp(NamedTuple):
    """What tells that a file changed."""

    device: int
    inode: int
    size: int
    modified: int


class BlkFile:
    """One block file, read on from where reading stopped. `number` is its place among the files known."""

    def __init__(self, path: Path, number: int, magic: bytes, key: bytes, is_real: IsReal) -> None:
        self.path, self.number = path, number
        self._magic, self._key, self._is_real = magic, key if any(key) else b"", is_real
        self._stamp: Stamp | None = None
        self._at = 0
        self._last: Frame | None = None

    @property
    def size(self) -> int:
        """The file's size in bytes when it was last read."""
        return self._stamp.size if self._stamp else 0

    def stamp(self) -> Stamp:
        """The file's identity, size and time of change as they are now. Raises OSError."""
        status = self.path.stat()
        return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    def changed(self) -> bool:
        """Whether the file differs from when it was last read. Raises OSError."""
        return self.stamp() != self._stamp

    def read_on(self) -> Iterator[Frame | Garbage]:
        """What stands behind what was read before; all from the start if the file was replaced or cut. Raises OSError.

        Frames come whole: a block still in writing comes when it is complete.
        """
        stamp = self.stamp()
        with self.path.open("rb", buffering=0) as file:
            if not self._continues(file.fileno(), stamp):
                self._at, self._last = 0, None
            self._stamp = stamp
            kept: Frame | None = None
            for item in self._items(file.fileno(), stamp.size):
                if kept and isinstance(item, Frame):
                    yield kept
                    kept = None
                if isinstance(item, Frame):
                    kept = item
                else:
                    yield item
            if kept:
                yield kept._replace(last=True)

    @property
    def is_hidden(self) -> bool:
        """Whether the file is obfuscated by a key."""
        return bool(self._key)

    def rewind(self) -> None:
        """Read all from the start next time, changed or not."""
        self._at, self._last, self._stamp = 0, None, None

    def unread(self, frame: Frame) -> None:
        """Go back before the last frame, which cannot be used yet: it comes again when the file has changed."""
        self._at, self._last = frame.start, None

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
            hidden = np.frombuffer(target, np.uint8)
            np.bitwise_xor(hidden, self._mask(offset, len(target)), out=hidden)

    def _continues(self, descriptor: int, stamp: Stamp) -> bool:
        """Whether the file is still the one read before: not replaced, not cut, its last known block still there."""
        if self._stamp is None or stamp[:2] != self._stamp[:2] or stamp.size < self._at:
            return False
        return self._last is None or self._bytes(descriptor, self._last.offset, HEADER) == self._last.header

    def _mask(self, offset: int, size: int) -> npt.NDArray[np.uint8]:
        turn = offset % len(self._key)
        return np.resize(np.frombuffer(self._key[turn:] + self._key[:turn], np.uint8), size)

    def _shown(self, raw: bytes, offset: int) -> bytes:
        return (np.frombuffer(raw, np.uint8) ^ self._mask(offset, len(raw))).tobytes() if self._key else raw

    def _bytes(self, descriptor: int, offset: int, size: int) -> bytes:
        return self._shown(os.pread(descriptor, size, offset), offset)

    def _items(self, descriptor: int, end: int) -> Iterator[Frame | Garbage]:
        follows = True
        while self._at < end:
            frame = self._frame(descriptor, self._at)
            if frame and frame.end <= end and self._is_real(frame.header, not follows):
                self._at, self._last = frame.end, frame
                yield frame._replace(follows=follows)
                follows = True
                continue
            if self._is_unfinished(frame, descriptor, end):
                return
            place, garbage = self._search(descriptor, self._at, end)
            if place is None and frame and (len(frame.header) < HEADER or not any(frame.header[76:])):
                return  # its header has not been written to the end
            if garbage is not None:
                yield Garbage(garbage, place or end, self._bytes(descriptor, garbage, 4))
            if place is None:
                return
            self._at, follows = place, False

    def _frame(self, descriptor: int, at: int) -> Frame | None:
        """What the bytes at `at` say that stands there; None without magic, or for what is too small to be a block."""
        start = self._bytes(descriptor, at, 16 + HEADER)
        if start[:4] != self._magic or len(start) < 16:
            return None
        size, shift = int.from_bytes(start[4:8], "little"), 8
        if size == _LONG:
            size, shift = int.from_bytes(start[8:16], "little"), 16
        return Frame(at, at + shift, size, start[shift : shift + HEADER]) if size > HEADER else None

    def _is_unfinished(self, frame: Frame | None, descriptor: int, end: int) -> bool:
        """Whether what stands at the place reached may be a block in writing, for which to wait.

        A size beyond the end is believed when the header has proof of work.
        """
        if frame is None:
            start = self._bytes(descriptor, self._at, 16)
            return len(start) < 16 and start[:4] == self._magic[: len(start)]
        return frame.end > end and len(frame.header) == HEADER and self._is_real(frame.header, True)

    def _search(self, descriptor: int, start: int, end: int) -> tuple[int | None, int | None]:
        """The next place with a real block, and where passed bytes begin that are not zeros; None for nowhere."""
        garbage: int | None = None
        at = start
        while at < end:
            raw = os.pread(descriptor, min(_CHUNK, end - at), at)
            if not raw:
                break
            place = self._place(descriptor, at, raw, start, end)
            skipped = raw[: place - at] if place is not None else raw
            if garbage is None and (rest := skipped.lstrip(b"\0")):
                garbage = at + len(skipped) - len(rest)
            if place is not None:
                return place, garbage
            at += len(raw) - 3 if len(raw) == _CHUNK else len(raw)
        return None, garbage

    def _place(self, descriptor: int, at: int, raw: bytes, start: int, end: int) -> int | None:
        """The first place behind `start` in a chunk of the file where a real block stands."""
        chunk = self._shown(raw, at)
        found = chunk.find(self._magic)
        while found >= 0:
            frame = self._frame(descriptor, at + found) if at + found > start else None
            if frame and (frame.end <= end or len(frame.header) == HEADER) and self._is_real(frame.header, True):
                return at + found
            found = chunk.find(self._magic, found + 1)
        return None
