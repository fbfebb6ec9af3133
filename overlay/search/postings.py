"""All listed documents in a few segments: questions are put to each, and their best hits together are the answer.

Every commit makes a small segment; neighbours of like size are built into one, so that there are few, and each document
is built in again a few times only (a log-structured merge).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from overlay.search import kept
from overlay.search.coverage import ENOUGH, drive_out
from overlay.search.listed import U32, Block, fact_key
from overlay.search.matching import Plan, Word
from overlay.search.segment import (
    ANY_NUMBER,
    LINES,
    NOBODY,
    NONE,
    Counted,
    Flat,
    Found,
    Mask,
    Segment,
    Wanted,
    flattened,
    joined,
)

if TYPE_CHECKING:
    from overlay.search.marks import Marks

MOST = 64_000_000
"""Postings that are kept in memory, five bytes each: those of half a million listings of the usual size."""
_RATIO = 3  # a segment at most so many times as large as the next one is built into one with it
_LARGEST = 16_000_000  # postings of a segment that is still built into another: it takes seconds, and 500 MB meanwhile
_MOST_REMEMBERED = 10_000
_FULL = 2_000_000  # postings that are gathered while a log is read


class TooManyError(Exception):
    """There are more postings than are kept in memory."""


@dataclass(frozen=True, slots=True)
class Postings:
    """What is listed as of one commit."""

    segments: tuple[Segment, ...] = ()
    _driven_out: dict[str, bool] = field(default_factory=dict)  # by questions, as long as this is what is listed

    @classmethod
    def read(cls, blocks: Iterable[Block]) -> Postings:
        """Of a whole log. Raises TooManyError, and what reading does."""
        postings = cls()
        waiting: list[Block] = []
        for block in blocks:
            waiting.append(block)
            if sum(len(each.keys) for each in waiting) >= _FULL:
                postings, waiting = postings.after(waiting), []
        segments = postings.after(waiting).segments
        if len(segments) > 1 and sum(each.size for each in segments) <= _LARGEST:
            segments = (Segment.build(joined([each.flat() for each in segments])),)
        return cls(segments)

    def after(self, blocks: list[Block]) -> Postings:
        """Of what more blocks say. Raises TooManyError."""
        segments = list(self.segments)
        gone = [block.gone for block in blocks if len(block.gone)]
        if gone:
            places = np.concatenate(gone)
            segments = [each.without(places) for each in segments]
        new = _coming(blocks)
        if new is not None:
            segments.append(new)
        segments = _merged([each for each in segments if each.count])
        if sum(each.size for each in segments) > MOST:
            raise TooManyError(f"more than {MOST:,} postings are listed")
        return Postings(tuple(segments))

    @property
    def listings(self) -> int:
        """How many documents there are."""
        return sum(each.count for each in self.segments)

    def offers(self, fact: str) -> bool:
        """Whether there may be an offer with a fact."""
        return any(len(each.offered.under(fact_key(fact))) for each in self.segments)

    def latest(self, wanted: Wanted, number: int, ahead: int = 0) -> Counted:
        """The latest of what is wanted, with kept places as `best` has them."""
        enough = _enough(number, ahead)
        here = 0 if len(self.segments) > 1 and enough < ANY_NUMBER else enough
        parts = [each.latest(each.allowed(wanted), number, here, ahead) for each in self.segments]
        found = _together(parts)
        if found.total <= enough or len(parts) == 1:
            return found
        return _placed(found, [each.senior for each in parts], ahead)

    def best(self, plan: Plan, wanted: Wanted, number: int, ahead: int = 0) -> Counted:
        """What is wanted and says all words of a question, if they are few and anything does that is not too quiet
        (`coverage`); else any of them. The best come first, of those that tie the most senior. Where so many as are
        `ahead` are fewer than is asked for, places are kept behind these."""
        if not plan.words:
            return NONE
        enough = _enough(number, ahead)
        rooms = [_Room(each, each.taken(), each.allowed(wanted)) for each in self.segments]
        found = self._asked(rooms, plan, wanted, max(1, number), enough, ahead)
        for segment, marks, _ in rooms:
            segment.given(marks)
        return found

    def _asked(self, rooms: list[_Room], plan: Plan, wanted: Wanted, number: int, enough: int, ahead: int) -> Counted:
        some = partial(_best, rooms, plan.words, number, enough, ahead)
        if not plan.covers:
            return some()
        found = _best(rooms, plan.words, number, enough, ahead, every=True)
        if not found.total:
            return some()
        alone = True if found.most >= ENOUGH else self._driven_out.get(plan.text)  # once: others remember meanwhile
        covering = [] if alone else [marks.rows() for _, marks, _ in rooms]
        if alone is None:
            if len(self._driven_out) >= _MOST_REMEMBERED:
                self._driven_out.clear()
            listed = [room._replace(mask=room.segment.allowed(_ALL)) for room in rooms]
            best = partial(_best, listed, plan.words, 1)
            most = found.most if wanted == _ALL else best(every=True).most
            alone = self._driven_out[plan.text] = drive_out(most, lambda points: best().most > points)
        return found if alone else some(covering=covering)


def _enough(number: int, ahead: int) -> int:
    """Of how many more than these the most senior are told, where so many are asked for."""
    return kept.PAGE if 0 < ahead < number else ANY_NUMBER


class _Room(NamedTuple):
    """A segment, where a search counts in it, and the rows that it looks at: None for all."""

    segment: Segment
    marks: Marks
    mask: Mask | None


_ALL = Wanted()


def _best(
    rooms: list[_Room],
    words: tuple[Word, ...],
    number: int,
    enough: int = ANY_NUMBER,
    ahead: int = 0,
    covering: Sequence[U32] = (),
    *,
    every: bool = False,
) -> Counted:
    """What holds `every` word, or any; `covering` are those rows of each segment that hold all, where that counts."""
    more = covering or [NOBODY] * len(rooms)
    if len(rooms) == 1:
        ((segment, marks, mask),) = rooms
        return marks.best(segment, words, mask, number, enough, ahead, more[0], every=every)
    found = _together(
        [
            marks.best(segment, words, mask, number, ANY_NUMBER, ahead, rows, every=every)
            for (segment, marks, mask), rows in zip(rooms, more, strict=True)
        ]
    )
    if found.total <= enough:
        return found
    least = kept.least(found.most)
    return _placed(found, [marks.senior(segment, least) for segment, marks, _ in rooms], ahead)


def _coming(blocks: list[Block]) -> Segment | None:
    """The documents that come in some blocks and do not leave in a later one."""
    flats: list[Flat] = []
    for at, block in enumerate(blocks):
        if not len(block.places):
            continue
        later = [each.gone for each in blocks[at + 1 :] if len(each.gone)]
        alive = ~np.isin(block.places, np.concatenate(later)) if later else None
        flats.append(flattened(block) if alive is None else flattened(block).of(alive))
    found = joined(flats) if flats else None
    return Segment.build(found) if found and len(found.places) else None


def _merged(segments: list[Segment]) -> list[Segment]:
    """Fewer segments, the larger ones first."""
    while len(segments) > 1:
        one, other = segments[-2:]
        if one.size > _RATIO * other.size or one.size + other.size > _LARGEST:
            break
        segments[-2:] = [Segment.build(joined([one.flat(), other.flat()]))]
    return segments


def _together(found: list[Counted]) -> Counted:
    if len(found) < 2:
        return found[0] if found else NONE
    columns = np.concatenate([part.columns[:3, : part.number] for part in found], axis=1)
    points, numbers, _ = columns
    order = np.lexsort((~numbers, ~points))
    return Counted(sum(part.total for part in found), columns.take(order, axis=1), len(order))


def _placed(found: Counted, parts: list[list[Found]], ahead: int) -> Counted:
    """With places kept for the most senior, of which all are told that may be of them: ids decide about those that
    tie."""
    from overlay.search.scoring import place  # with Numba, which only those who hold postings need

    senior = sorted((each for part in parts for each in part), key=lambda each: -each[1])
    columns = np.zeros((LINES, max(found.number, len(senior))), np.uint64)
    columns[:3, : found.number] = found.columns
    columns[-3:, : len(senior)] = np.array(senior, np.uint64).T
    moved = place(columns, found.number, min(len(senior), kept.KEPT), ahead)
    return Counted(found.total, columns, found.number, len(senior), moved)
