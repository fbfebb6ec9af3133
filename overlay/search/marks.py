"""What a search writes while it counts: a few numbers for every row of a segment, for one search at a time."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from overlay.search import scoring
from overlay.search.listed import U64
from overlay.search.ranking import LEVELS
from overlay.search.scoring import COLUMNS
from overlay.search.segment import Terms

if TYPE_CHECKING:
    from overlay.search.segment import Segment

Mask = npt.NDArray[np.bool_]
_MOST = (1 << 16) - 1
_ANY: Mask = np.ones(1, np.bool_)
_USUAL = 64  # hits that a search asks for at most, nearly always


class Marks:
    """Room to count in for a number of rows: 14 bytes each. It is not cleared between searches: they count on, until
    the numbers end (`scoring`)."""

    __slots__ = ("_base", "_counts", "_found", "_out", "_points", "_spans", "_told", "_views")

    def __init__(self, rows: int) -> None:
        self._counts = np.zeros((5, rows), np.uint16)
        self._found = np.zeros(rows, np.uint32)
        self._base = 0
        self._out = np.zeros((4, _USUAL), np.uint64)
        self._make_room(64)

    def _make_room(self, most: int) -> None:
        """For so many terms and words. What is told of terms is copied to where the loop reads it: to make arrays of it
        for each search takes longer."""
        room = bytes(8 * most)
        self._told = Terms(array("Q", COLUMNS * room), array("d", room), array("q", room), array("d", room))
        lines, worth, ends, units = self._told
        self._views = (
            np.frombuffer(lines, np.uint64).reshape(most, COLUMNS), np.frombuffer(worth, np.float64),
            np.frombuffer(ends, np.int64), np.frombuffer(units, np.float64),
        )  # fmt: skip
        self._spans = np.zeros((most, 2), np.int64)
        self._points = np.zeros((most, LEVELS + 1), np.int64)

    def latest(self, segment: Segment, mask: Mask | None, number: int) -> tuple[int, U64]:
        """What `Segment.latest` tells."""
        out = np.empty((3, number), np.uint64)
        masked = mask is not None
        return scoring.latest(segment.newest, segment.places, masked, _ANY if mask is None else mask, number, out), out

    def best(
        self, segment: Segment, terms: Terms, words: int, mask: Mask | None, number: int, *, every: bool
    ) -> tuple[int, U64]:
        """What `Segment.best` tells."""
        most = len(terms.worth) + words
        if self._base + most > _MOST:
            self._counts[:] = 0
            self._base = 0
        if most > len(self._spans):
            self._make_room(most)
        out = self._out if number <= _USUAL else np.empty((4, number), np.uint64)
        told = self._told
        told.lines[: len(terms.lines)], told.worth[: len(terms.worth)] = terms.lines, terms.worth
        told.ends[:words], told.units[:words] = terms.ends, terms.units
        held = segment.held
        total = scoring.best(
            held.keys, held.starts, held.rows, segment.levels, segment.newest, segment.places, *self._views, words,
            every, mask is not None, _ANY if mask is None else mask, self._base, self._counts, self._found, self._spans,
            self._points, number, out,
        )  # fmt: skip
        self._base += most
        return total, out.copy() if out is self._out else out
