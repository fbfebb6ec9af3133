"""A view of an index with one more document in memory: how a card would rank that is not listed yet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from overlay.engines.native.builder import SegmentBuilder
from overlay.engines.native.derived import derived
from overlay.engines.native.manifest import SegmentEntry
from overlay.engines.native.native_terms import NativeTerms
from overlay.engines.native.searching import search
from overlay.engines.native.segment import Segment
from overlay.engines.native.view import NativeView
from overlay.search.planner import QueryPlan
from overlay.search.query import Matches, Query
from overlay.search.term_dictionary import Terms

if TYPE_CHECKING:
    from overlay.search.document import Document


class ViewWithDocument:
    """The current listings of a view and a document of its newest block. See `overlay.engines.Searchable`."""

    def __init__(self, view: NativeView, document: Document) -> None:
        newest, builder = view.manifest.newest, SegmentBuilder()
        builder.add(replace(document, created_time=newest, updated_time=newest))
        arrays = builder.arrays()
        segment = Segment(SegmentEntry("card", 1, False, "", 0), arrays | derived(arrays), np.ones(1, np.uint8))
        self._segments, self._newest = (*view.current, segment), float(newest)
        self._terms = NativeTerms(self._segments)

    def search(self, query: Query, plan: QueryPlan, start: int, stop: int) -> Matches:
        """Run a plan with the filters of a query."""
        return search(self._segments, self._newest, query, plan, start, stop)

    def terms(self) -> Terms:
        """The words of the listings and of the document."""
        return self._terms
