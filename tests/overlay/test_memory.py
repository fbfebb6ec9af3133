"""Memory is given back and kept in large pages, and holds what it held."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlay import memory
from overlay.memory import tidy_up, use_large_pages

BYTES = 48 * 1024 * 1024


def in_large_pages() -> int:
    """Bytes of this process, as the kernel counts them."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("AnonHugePages:"))


def test_memory_holds_what_it_held_and_lies_in_as_many_large_pages_as_is_said() -> None:
    held = bytearray(range(256)) * (BYTES // 256)
    moved = use_large_pages()
    assert held == bytes(range(256)) * (BYTES // 256)
    assert moved % (2 * 1024 * 1024) == 0
    told = in_large_pages()  # 0 where the kernel has none of them to give
    assert moved <= told
    assert moved >= BYTES - 4 * 1024 * 1024 or told < BYTES


def test_memory_that_is_hardly_used_is_not_made_larger() -> None:
    empty = bytearray(BYTES)  # which the kernel gives when it is written to
    before = resident()
    use_large_pages()
    assert resident() - before < BYTES // 2
    assert not any(empty[:: 1024 * 1024])


def resident() -> int:
    """Bytes of this process that are in memory."""
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])


def test_what_another_system_does_not_have_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: object())
    tidy_up()
    assert use_large_pages() == 0


def test_a_system_that_tells_nothing_of_its_memory_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "Path", lambda _: Path("/nowhere"))
    assert use_large_pages() == 0
