"""What a search writes while it counts: a few numbers for every row of a segment, for one search at a time."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from overlay.search import scoring
from overlay.search.coverage import COVERED
from overlay.search.listed import U32
from overlay.search.ranking import LEVELS
from overlay.search.scoring import COLUMNS, KEPT, LINES
from overlay.search.segment import NOBODY, Counted, Found

if TYPE_CHECKING:
    from overlay.search.matching import Word
    from overlay.search.segment import Segment

Mask = npt.NDArray[np.bool_]
_MOST = (1 << 16) - 1
_ANY: Mask = np.ones(1, np.bool_)
_USUAL = 64  # hits that a search asks for at most, nearly always


def latest(segment: Segment, mask: Mask | None, number: int, enough: int, ahead: int) -> Counted:
    """What `Segment.latest` tells."""
    out = np.empty((LINES, max(number, KEPT)), np.uint64)
    total, several, moved = scoring.latest(
        segment.by_time, segment.newest, segment.seniority, segment.places, mask is not None,
        _ANY if mask is None else mask, number, out, enough, ahead,
    )  # fmt: skip
    return Counted(total, out, min(total, number), several, moved)


class Marks:
    """Room to count in for a number of rows: 14 bytes each. It is not cleared between searches: they count on, until
    the numbers end (`scoring`)."""

    __slots__ = ("_asked", "_base", "_counts", "_found", "_lines", "_out", "_points", "_spans",
                 "_total", "_units", "_views")  # fmt: skip

    def __init__(self, rows: int) -> None:
        self._counts = np.zeros((5, rows), np.uint16)
        self._found = np.zeros(rows, np.uint32)
        self._base = self._total = 0
        self._out = np.zeros((LINES, _USUAL), np.uint64)
        self._make_room(64)

    def _make_room(self, most: int) -> None:
        """For so many terms and words. What is told of words is put where the loop reads it: to make arrays of it for
        each search takes longer."""
        self._asked, self._units = array("q", bytes(16 * most)), array("d", bytes(8 * most))
        self._views = np.frombuffer(self._asked, np.int64).reshape(most, 2), np.frombuffer(self._units, np.float64)
        self._lines = np.zeros((most, COLUMNS), np.uint64)
        self._spans = np.zeros((most, 2), np.int64)
        self._points = np.zeros((most, LEVELS + 1), np.int64)

    def best(
        self,
        segment: Segment,
        words: Sequence[Word],
        mask: Mask | None,
        number: int,
        enough: int,
        ahead: int,
        covering: U32 = NOBODY,
        *,
        every: bool,
    ) -> Counted:
        """The rows that hold the terms of `every` word, or of any, of one or more, and are in `mask`; of more than
        `enough` also the most senior that make enough points (`kept`), placed behind those `ahead`. Rows that are
        `covering` make more (`coverage`); they hold any word."""
        most = len(words) + sum([known.terms for known, _ in words])
        if self._base + most > _MOST:
            self._counts[:] = 0
            self._base = 0
        if most > len(self._spans):
            self._make_room(most)
        out = self._out if number <= _USUAL else np.empty((LINES, number), np.uint64)
        asked, units = self._asked, self._units
        for at, (known, unit) in enumerate(words):
            asked[2 * at], asked[2 * at + 1], units[at] = known.address, known.terms, unit
        held = segment.held
        total, several, moved = scoring.best(
            held.keys, held.starts, held.rows, segment.levels, segment.seniority, segment.places, *self._views,
            len(words), self._lines, every, mask is not None, _ANY if mask is None else mask, self._base,
            self._counts, self._found, self._spans, self._points, covering, COVERED, number, out, enough,
            ahead,
        )  # fmt: skip
        self._base += most
        self._total = total
        return Counted(total, out.copy() if out is self._out else out, min(total, number), several, moved)

    def rows(self) -> U32:
        """The rows that `best` found last, in no order."""
        return self._found[: self._total].copy()

    def senior(self, segment: Segment, least: int) -> list[Found]:
        """Of the rows that `best` found last the most senior that make so many points at least."""
        out = np.empty((LINES, KEPT), np.uint64)
        seniority, places = segment.seniority, segment.places
        several = scoring.senior(self._found, self._total, self._counts, least, seniority, places, out)
        return Counted(self._total, out, 0, several).senior
