"""What a search writes while it counts: a few numbers for every row of a segment, for one search at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from overlay.search import scoring
from overlay.search.ranking import LEVELS

if TYPE_CHECKING:
    from overlay.search.segment import Segment, Terms

Mask = npt.NDArray[np.bool_]
U64 = npt.NDArray[np.uint64]
_MOST = (1 << 16) - 1
_ANY: Mask = np.ones(1, np.bool_)


class Marks:
    """Room to count in for a number of rows: 14 bytes each. It is not cleared between searches: they count on, until
    the numbers end (`scoring`)."""

    __slots__ = ("_base", "_counts", "_found", "_out", "_points", "_spans")

    def __init__(self, rows: int) -> None:
        self._counts = np.zeros((5, rows), np.uint16)
        self._found = np.zeros(rows, np.uint32)
        self._spans = np.zeros((64, 2), np.int64)
        self._points = np.zeros((64, LEVELS + 1), np.int64)
        self._out = np.zeros((4, 64), np.uint64)
        self._base = 0

    def best(
        self, segment: Segment, terms: Terms, words: int, mask: Mask | None, number: int, *, every: bool
    ) -> tuple[int, U64]:
        """How many rows hold `terms` (`scoring`) of `every` word, or of any, and are in `mask`; and three lines: the
        points, the number that puts the latest first and the place of those with the most points, the first of those
        that tie."""
        most = len(terms.most) + words
        if self._base + most > _MOST:
            self._counts[:] = 0
            self._base = 0
        if most > len(self._spans):
            self._spans = np.zeros((most, 2), np.int64)
            self._points = np.zeros((most, LEVELS + 1), np.int64)
        if number > self._out.shape[1]:
            self._out = np.zeros((4, number), np.uint64)
        held = segment.held
        total = scoring.best(
            held.keys, held.starts, held.rows, segment.levels, segment.newest, segment.places, terms.lines, terms.most,
            words, every, mask is not None, _ANY if mask is None else mask, self._base, self._counts, self._found,
            self._spans, self._points, number, self._out,
        )  # fmt: skip
        self._base += most
        return total, self._out[:3, : min(total, number)].copy()
