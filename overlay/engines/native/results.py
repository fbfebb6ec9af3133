"""A query in one segment: the documents that its filters admit, those that can be among the best, or all results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.engines.native import best_kernels, search_kernels
from overlay.engines.native.admission import admitted
from overlay.engines.native.segment import Bytes, Ints, Scratch, Segment
from overlay.search.planner import QueryPlan
from overlay.search.query import Query
from overlay.search.ranker import PlanArrays, PlanWords
from overlay.search.rerank import Bounded

_NONE: Ints = np.empty(0, np.int64)


class SegmentQuery(NamedTuple):
    """A query in a segment. `admitted` has a byte for each document, 0 where the filters do not admit it; `numbers` are
    those of the words' terms there (`ranker.PlanWords`), negative for those that it does not have."""

    segment: Segment
    scratch: Scratch
    admitted: Bytes
    plan: QueryPlan
    words: PlanWords
    numbers: Ints

    @classmethod
    def of(cls, segment: Segment, query: Query, plan: QueryPlan, words: PlanWords) -> SegmentQuery:
        """The query in a segment, whose working memory it takes until it is given back."""
        scratch = segment.take_scratch()
        numbers = np.array(segment.term_numbers(words.terms), np.int64) if words.terms else _NONE
        return cls(segment, scratch, admitted(segment, query, scratch), plan, words, numbers)

    def give_back(self) -> None:
        """Let other searches use the working memory."""
        self.segment.give_back(self.scratch)

    @property
    def plan_arrays(self) -> PlanArrays:
        """The words as kernels read them."""
        return self.words.numbered(self.numbers)

    def postings(self) -> int:
        """The number of postings of all words."""
        offsets, numbers = self.segment.arrays["term_offsets"], self.numbers[self.numbers >= 0]
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
    ) -> Best:
        """The documents from number `start` to `stop` that can be among the `most` of the highest scores, of which as
        many are known to reach `least`, without those of sources `left_out`. `newest` is the time of the newest block,
        in seconds since 1970; `to_count`: the number of results that are counted exactly."""
        segment = self.segment
        documents, upper, least, total, matched = best_kernels.select(
            self.admitted, start, stop, segment.postings, self.plan_arrays, self.words.is_stop, self.plan.all_words,
            segment.forwards, segment.names, newest, left_out, self.words.most_proximity, most, least, to_count,
        )  # fmt: skip
        return Best(Bounded(documents, upper, least), total, matched)

    def results(self) -> SegmentResults:
        """All results; `SegmentResults.reset` is due after them."""
        mask, scratch, a = self.admitted, self.scratch, self.segment.arrays
        if not self.plan.groups:
            documents = np.flatnonzero(mask.view(np.bool_))
            return SegmentResults(*self[:3], documents, len(documents), 0, _NONE, mask is self.segment.plain)
        count, matched = search_kernels.score(
            mask, a["term_offsets"], a["term_documents"], a["term_impacts"], self.words.starts, self.numbers,
            self.words.values, self.words.is_stop, scratch.scores, scratch.best, scratch.held, scratch.complete,
            scratch.touched,
        )  # fmt: skip
        documents = scratch.touched[:count]
        if self.plan.all_words and matched < count:
            documents = documents[scratch.complete[documents] != 0]
        return SegmentResults(*self[:3], documents, matched, count, self.numbers)


class Best(NamedTuple):
    """Documents that can be among the best, and how many results there are, and how many contain every word."""

    bounded: Bounded
    total: int
    matched: int


class SegmentResults(NamedTuple):
    """The results in a segment, how many of them contain every word, the number of documents that were scored, and the
    numbers of the words' terms there. `is_all`: the results are all listings."""

    segment: Segment
    scratch: Scratch
    admitted: Bytes
    documents: Ints
    matched: int
    scored: int
    numbers: Ints
    is_all: bool = False

    def tiers(self) -> tuple[Ints, Ints]:
        """The results that contain every word, and the others."""
        if self.matched == len(self.documents):
            return self.documents, self.documents[:0]
        is_complete = self.scratch.complete[self.documents] != 0
        return self.documents[is_complete], self.documents[~is_complete]

    def reset(self) -> None:
        """Make the working memory as before the search."""
        used = self.scratch
        search_kernels.reset(used.scores, used.held, used.complete, used.touched, self.scored)


SegmentQueries = Sequence[SegmentQuery]
"""A query in all segments."""
