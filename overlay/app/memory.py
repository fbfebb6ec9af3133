"""Return freed memory to the system after heavy work: glibc holds freed memory, and threads keep arenas of their own.
Put the remaining memory into large pages."""

from __future__ import annotations

import ctypes
import gc
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_M_ARENA_MAX = -8
ARENAS = 2
_BLOCK = 2 * 1024 * 1024
WORTH_RETURNING = 16 << 20
_NEARLY_WHOLE = 0.9
_MADV_COLLAPSE = 25
_SETTING = "/sys/kernel/mm/transparent_hugepage/enabled"


def limit_arenas() -> None:
    """Let all threads allocate from two arenas (mallopt(3)); no effect where the C library lacks it."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, ARENAS)


def collect_garbage_rarely() -> None:
    """Look for garbage in circles every 50,000 new objects instead of 700: answering makes none, and looking took a
    tenth of the time of a search, and a fifth of that of the imports of a server."""
    gc.set_threshold(50_000, 20, 20)


def tune_garbage_collection() -> None:
    """Look for garbage rarely, and never among the present objects."""
    gc.collect()
    gc.freeze()
    collect_garbage_rarely()


def return_freed_memory() -> None:
    """Return freed memory to the system (malloc_trim(3)); does nothing where the C library cannot. It takes up to
    milliseconds; of 277 MB after 15,000 changes of an index, 90 were free."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class FreedMemory:
    """Returns freed memory after work that has taken much: looking for it takes as long as a small change."""

    def __init__(self) -> None:
        self._before = _private_bytes()

    def give_back(self) -> None:
        """Return freed memory, if there is so much more memory than after the last time."""
        private = _private_bytes()
        if private - self._before >= WORTH_RETURNING:
            return_freed_memory()
            self._before = _private_bytes()
        self._before = min(self._before, private)


def _private_bytes() -> int:
    """The resident memory that belongs to no file; 0 where the system has no such number."""
    _, resident, of_files, *_ = [*map(int, read_system_file("/proc/self/statm").split()), 0, 0, 0]
    return (resident - of_files) * mmap.PAGESIZE


def release_memory() -> None:
    """Collect garbage after heavy work, return freed memory, and put the remaining memory into large pages."""
    gc.collect()
    return_freed_memory()
    use_large_pages()


def use_large_pages() -> int:
    """Move resident memory into pages of 2 MB where it nearly fills them, by madvise(2) as Linux 6.1 and later have it.
    Returns the bytes in large pages then, 0 where none are available, or the administrator disabled them. Memory that
    was read and never written counts as resident. A search reads many locations in hundreds of megabytes, and finding
    pages of 4 kB took a twentieth of its time."""
    library = ctypes.CDLL(None)
    collapse, resident = getattr(library, "madvise", None), getattr(library, "mincore", None)
    if collapse is None or resident is None or "[never]" in read_system_file(_SETTING):
        return 0
    return sum(
        _BLOCK
        for start, end in _anonymous()
        for address, pages in _blocks(resident, start, end)
        if pages.count(b"\1") >= _NEARLY_WHOLE * len(pages)
        and collapse(ctypes.c_void_p(address), ctypes.c_size_t(_BLOCK), _MADV_COLLAPSE) == 0
    )


def _anonymous() -> list[tuple[int, int]]:
    """The address ranges of written memory that belongs to no file."""
    ranges: list[tuple[int, int]] = []
    for line in read_system_file("/proc/self/maps").splitlines():
        where, mode, _, _, inode, *name = line.split(maxsplit=5)
        if mode == "rw-p" and inode == "0" and (not name or name[0].startswith(("[heap]", "[anon"))):
            start, end = where.split("-")
            ranges.append((int(start, 16), int(end, 16)))
    return ranges


def read_system_file(path: str) -> str:
    """The contents of a file of the kernel, "" where it cannot be read."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _blocks(resident: Any, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """The whole blocks between two addresses, and of each a byte for every page, 1 where it is in memory."""
    for address in range(-(-start // _BLOCK) * _BLOCK, end - _BLOCK + 1, _BLOCK):
        pages = ctypes.create_string_buffer(_BLOCK // mmap.PAGESIZE)
        if resident(ctypes.c_void_p(address), ctypes.c_size_t(_BLOCK), pages) == 0:
            yield address, pages.raw
