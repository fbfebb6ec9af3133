"""The results of a search in one segment, and a plan by the numbers of its terms."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.engines.native import search_kernels as kernels
from overlay.engines.native.segment import Bytes, Ints, Scratch, Segment
from overlay.search.planner import QueryPlan
from overlay.search.ranker import PlanArrays


class SegmentResults(NamedTuple):
    """The results in a segment, how many of them contain every word, and the number of documents that were scored;
    `admitted` has a byte for each document, 0 where the filters do not admit it."""

    segment: Segment
    scratch: Scratch
    admitted: Bytes
    documents: Ints
    matched: int
    scored: int

    def tiers(self) -> tuple[Ints, Ints]:
        """The results that contain every word, and the others."""
        if self.matched == len(self.documents):
            return self.documents, self.documents[:0]
        is_complete = self.scratch.complete[self.documents] != 0
        return self.documents[is_complete], self.documents[~is_complete]

    def reset(self) -> None:
        """Make the scratch as before the search."""
        used = self.scratch
        kernels.reset(used.scores, used.held, used.complete, used.touched, self.scored)


class PlanTerms(NamedTuple):
    """A plan by the numbers of a segment's terms, -1 for terms that it does not have: content groups, then stop words.
    The alternatives of group g are from `starts[g]` until before `starts[g + 1]`."""

    starts: Ints
    numbers: Ints
    values: npt.NDArray[np.float32]
    is_stop: Bytes

    @classmethod
    def of(cls, segment: Segment, plan: QueryPlan) -> PlanTerms:
        """The plan in a segment."""
        groups = (*plan.content, *plan.stop)
        numbers = segment.positions("terms", [one.term for group in groups for one in group.alternatives])
        return cls(
            np.cumsum([0, *(len(group.alternatives) for group in groups)]),
            np.where(numbers < 0, -1, numbers),
            np.array([one.value for group in groups for one in group.alternatives], np.float32),
            np.array([group.is_stop for group in groups], np.uint8),
        )


_ABSENT = 0xFFFF_FFF0
"""From here on: the numbers of terms that a segment does not have."""


def question_of(segment: Segment, plan: QueryPlan) -> PlanArrays:
    """The words of a plan for the compiled ranker, in their order."""
    alternatives = list(chain.from_iterable(group.alternatives for group in plan.groups))
    positions = segment.positions("terms", [one.term for one in alternatives])
    numbers = np.where(positions < 0, _ABSENT, positions)
    return PlanArrays.of(plan, numbers.astype(np.uint32))
