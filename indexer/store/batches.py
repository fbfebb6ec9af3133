"""Statements that name many things, one batch after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

BATCH = 450
"""Names asked for in one statement: twice as many are below SQLite's oldest limit of 999 parameters."""

_T = TypeVar("_T")


def batches(items: Iterable[_T]) -> Iterator[list[_T]]:
    """All items in order, at most `BATCH` at once."""
    wanted = list(items)
    for at in range(0, len(wanted), BATCH):
        yield wanted[at : at + BATCH]
