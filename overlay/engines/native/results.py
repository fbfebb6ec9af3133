"""A query in one segment: the documents that its filters admit, those that can be among the best, or all results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.engines.native import best_kernels
from overlay.engines.native.admission import admitted
from overlay.engines.native.segment import Bytes, Ints, Scratch, Segment
from overlay.search.planner import QueryPlan
from overlay.search.query import TIERS, Query
from overlay.search.ranker import PlanArrays, PlanWords
from overlay.search.rerank import Bounded

_NONE: Ints = np.empty(0, np.int64)
_NO_MARKS: Bytes = np.empty(0, np.uint8)
_WHOLE = 3
"""The mark of a result that contains every word; that of one with two thirds of them, and of others, are less by 1 and
2."""
_NO_SOURCES = np.empty(0, np.uint64)


class SegmentQuery(NamedTuple):
    """A query in a segment. `admitted` has a byte for each document, 0 where the filters do not admit it; `plan_arrays`
    are the words with the numbers of their terms there, `ranking` the same with related words, which find nothing."""

    segment: Segment
    scratch: Scratch
    admitted: Bytes
    plan: QueryPlan
    words: PlanWords
    plan_arrays: PlanArrays
    ranking: PlanArrays

    @classmethod
    def of(cls, segment: Segment, query: Query, plan: QueryPlan, words: PlanWords) -> SegmentQuery:
        """The query in a segment, whose working memory it takes until it is given back."""
        scratch = segment.take_scratch()
        numbers = np.array(segment.term_numbers(words.terms), np.int64) if words.terms else _NONE
        ranking = selecting = words.numbered(numbers)
        if words.is_related.any():
            selecting = words.numbered(np.where(words.is_related, -1, numbers))
        return cls(segment, scratch, admitted(segment, query, scratch), plan, words, selecting, ranking)

    def postings(self) -> int:
        """The number of postings of all words."""
        offsets, numbers = self.segment.arrays["term_offsets"], self.plan_arrays.numbers
        numbers = numbers[numbers >= 0]
        return int((offsets[numbers + 1] - offsets[numbers]).sum())

    def best(
        self,
        newest: float,
        left_out: npt.NDArray[np.uint64],
        most: int,
        least: float,
        to_count: int,
        start: int,
        stop: int,
        marks: Bytes = _NO_MARKS,
    ) -> Best:
        """The documents from number `start` to `stop` that can be among the `most` of the highest scores, of which as
        many are known to reach `least`, without those of sources `left_out`. `newest` is the time of the newest block,
        in seconds since 1970; `to_count`: the number of results that are counted exactly; `marks`: see `select`."""
        segment = self.segment
        documents, upper, least, total, matched = best_kernels.select(
            self.admitted, marks, start, stop, segment.postings, self.plan_arrays, self.words.is_stop,
            self.plan.all_words, segment.forwards, segment.names, newest, left_out, self.words.most_proximity, most,
            least, to_count,
        )  # fmt: skip
        return Best(Bounded(documents, upper, least), total, matched)

    def results(self) -> SegmentResults:
        """All results."""
        segment, marks = self.segment, self.admitted
        if self.plan.groups:
            marks = self.scratch.marks
            self.best(0.0, _NO_SOURCES, 0, 0.0, segment.documents, 0, segment.documents, marks)
        documents = np.flatnonzero(marks.view(np.bool_))
        return SegmentResults(segment, self.scratch, self.admitted, documents, marks, marks is segment.plain)


class Best(NamedTuple):
    """Documents that can be among the best, and how many results there are, and how many contain every word."""

    bounded: Bounded
    total: int
    matched: int


class SegmentResults(NamedTuple):
    """The results in a segment, in the order of their numbers. Where the query has words, `marks` are 3 in those that
    contain every word, 2 in those with two thirds of them, and 1 in the others. `is_all`: the results are all
    listings."""

    segment: Segment
    scratch: Scratch
    admitted: Bytes
    documents: Ints
    marks: Bytes
    is_all: bool

    @property
    def matched(self) -> int:
        """The number of results that contain every word."""
        if self.marks is self.admitted:
            return len(self.documents)
        return int(np.count_nonzero(self.marks == _WHOLE))

    def tiers(self) -> list[Ints]:
        """The results that contain every word, those with at least two thirds of them, and the others."""
        if self.marks is self.admitted:
            return [self.documents, self.documents[:0], self.documents[:0]]
        marks = self.marks[self.documents]
        return [self.documents[marks == _WHOLE - tier] for tier in range(TIERS)]


SegmentQueries = Sequence[SegmentQuery]
"""A query in all segments."""
