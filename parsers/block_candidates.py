"""Transactions of a block that are to be read, by where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

ROWS = 4096
"""Candidates that are made or unpacked at once."""


class Candidate(NamedTuple):
    """A transaction of a block: `offset` and `size` in bytes, `tx_index` from the coinbase's 0."""

    offset: int
    size: int
    tx_index: int


class Candidates(Sequence[Candidate]):
    """Transactions worth reading, in block order: 24 bytes each until one is used."""

    __slots__ = ("_rows",)

    def __init__(self, rows: npt.NDArray[np.int64]) -> None:
        self._rows = rows

    @classmethod
    def numbered(cls, numbers: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]) -> Candidates:
        """The transactions of these numbers of a block whose n transactions begin at `offsets` (n + 1)."""
        starts = offsets[numbers]
        return cls(np.column_stack((starts, offsets[numbers + 1] - starts, numbers)))

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """Their `tx_index` each."""
        return self._rows[:, 2]

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> Candidates: ...
    def __getitem__(self, index: int | slice) -> Candidate | Candidates:
        if isinstance(index, slice):
            return Candidates(self._rows[index])
        return Candidate(*self._rows[index].tolist())

    def __iter__(self) -> Iterator[Candidate]:
        for start in range(0, len(self._rows), ROWS):
            yield from map(Candidate._make, self._rows[start : start + ROWS].tolist())

    def __repr__(self) -> str:
        return f"Candidates({list(self)!r})"
