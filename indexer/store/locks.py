"""PostgreSQL's advisory locks of this program, each declared by the module that takes it. SQLite has one writer at a
time anyway."""

from __future__ import annotations

from typing import NewType

AdvisoryLock = NewType("AdvisoryLock", int)

locks: dict[str, AdvisoryLock] = {}
"""Every declared lock by its letter, "" for the one without."""


def advisory_lock(letter: str) -> AdvisoryLock:
    """The lock whose number is the bytes "a2b" and a letter, as other programs may lock in the same database. Raises
    ValueError for a letter that another lock has."""
    if letter in locks:
        raise ValueError(f"the advisory lock {letter!r} is declared twice")
    locks[letter] = AdvisoryLock(int.from_bytes(f"a2b{letter}".encode()))
    return locks[letter]
