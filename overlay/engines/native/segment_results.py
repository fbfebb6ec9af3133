"""The results of a search in one segment."""

from __future__ import annotations

from typing import NamedTuple

from overlay.engines.native import search_kernels as kernels
from overlay.engines.native.segment import Bytes, Ints, Scratch, Segment


class SegmentResults(NamedTuple):
    """The results in a segment, how many of them contain every word, the number of documents that were scored, and the
    numbers of the words' terms there (`ranker.PlanWords`), negative for those that it does not have. `admitted` has a
    byte for each document, 0 where the filters do not admit it; `is_all`: the results are all listings."""

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
        """Make the scratch as before the search."""
        used = self.scratch
        kernels.reset(used.scores, used.held, used.complete, used.touched, self.scored)
