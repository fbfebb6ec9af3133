"""Memory is given back and kept in large pages, and holds what it held."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

import pytest

from overlay.app import memory
from overlay.app.memory import read_system_file, release_memory, use_large_pages

BLOCK = 2 * 1024 * 1024
BYTES = 24 * BLOCK


def anonymous(size: int) -> mmap.mmap:
    """Memory of this process alone, which the kernel gives page by page as it is written to."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def memory_bytes(name: str) -> int:
    """Bytes of this process, as the kernel counts them."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


class Library:
    """The C library, with a kernel that always has a large page."""

    def __init__(self) -> None:
        self.mincore = ctypes.CDLL(None).mincore
        self.moved: set[int | None] = set()

    def madvise(self, start: ctypes.c_void_p, size: ctypes.c_size_t, advice: int) -> int:
        assert (size.value, advice) == (BLOCK, 25)
        self.moved.add(start.value)
        return 0


def test_memory_is_unchanged_and_in_the_returned_number_of_large_pages() -> None:
    held = bytearray(range(256)) * (BYTES // 256)
    moved = use_large_pages()
    assert held == bytes(range(256)) * (BYTES // 256)
    assert moved % BLOCK == 0
    assert moved <= memory_bytes("AnonHugePages")


def test_every_full_block_is_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    held = bytearray(range(256)) * (BYTES // 256)
    library = Library()
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: library)
    monkeypatch.setattr(memory, "read_system_file", lambda path: "" if "huge" in path else read_system_file(path))
    moved = use_large_pages()
    first = ctypes.addressof(ctypes.c_char.from_buffer(held))
    assert moved == BLOCK * len(library.moved)
    assert library.moved >= set(range(-(-first // BLOCK) * BLOCK, first + BYTES - BLOCK + 1, BLOCK))


def test_memory_that_is_hardly_used_is_not_made_larger() -> None:
    empty = anonymous(BYTES)
    empty[::BLOCK] = b"x" * (BYTES // BLOCK)
    before = memory_bytes("Anonymous")
    use_large_pages()
    assert memory_bytes("Anonymous") - before < BYTES // 2


def test_disabled_large_pages_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    real = memory.read_system_file
    monkeypatch.setattr(
        memory, "read_system_file", lambda path: "always madvise [never]" if "huge" in path else real(path)
    )
    assert use_large_pages() == 0


def test_what_another_system_does_not_have_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: object())
    release_memory()
    assert use_large_pages() == 0


def test_freed_memory_is_returned_once_much_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    returned: list[int] = []
    monkeypatch.setattr(memory, "return_freed_memory", lambda: returned.append(1))
    freed = memory.FreedMemory()
    freed.give_back()
    assert not returned
    much = anonymous(2 * memory.WORTH_RETURNING)
    much.write(b"x" * len(much))
    freed.give_back()
    assert len(returned) == 1
    freed.give_back()
    assert len(returned) == 1
    much.close()
    freed.give_back()
    again = anonymous(2 * memory.WORTH_RETURNING)
    again.write(b"x" * len(again))
    freed.give_back()
    assert len(returned) == 2


def test_a_system_that_tells_nothing_of_its_memory_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "Path", lambda _: Path("/nowhere"))
    assert use_large_pages() == 0
