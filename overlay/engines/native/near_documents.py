"""The documents whose text vectors a question is compared with, over the segments of a commit (`search.meaning`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overlay.engines.native.segment import Segment
from overlay.engines.native.segment_results import SegmentResults
from overlay.search.diversity import flooding, spread
from overlay.search.meaning import NEAREST
from overlay.search.nearest import cosines_of, nearest
from overlay.search.query import Query
from overlay.search.text_vectors import of_question

Place = tuple[Segment, int]
"""A document."""


def nearest_documents(results: Sequence[SegmentResults], query: Query) -> dict[Place, float]:
    """The documents that the filters admit with the greatest cosines, and these, the greatest first. Where most of them
    are of one owner or domain, others are searched for, as among the candidates by words."""
    cosines = _nearest(results, query, ())
    floods = [] if query.owners or query.domains or query.group else flooding([_sources(*place) for place in cosines])
    if floods:
        cosines |= _nearest(results, query, floods)
        merged = sorted(cosines, key=lambda place: -cosines[place])
        order = spread([_sources(*place) for place in merged], NEAREST)
        cosines = {merged[position]: cosines[merged[position]] for position in order[:NEAREST]}
    return cosines


def _nearest(results: Sequence[SegmentResults], query: Query, left_out: Sequence[int]) -> dict[Place, float]:
    vector, cosines = of_question(query.text), dict[Place, float]()
    for one in results:
        segment, admitted = one.segment, one.admitted
        if left_out:
            a = segment.arrays
            admitted = admitted * ~(np.isin(a["owner"], left_out) | np.isin(a["domain"], left_out))
        near = nearest(segment.vectors, segment.arrays["vector_inverse"], admitted, vector, NEAREST)
        cosines |= {
            (segment, document): cosine
            for document, cosine in zip(near.documents.tolist(), near.cosines.tolist(), strict=True)
        }
    best = sorted(cosines, key=lambda place: -cosines[place])[:NEAREST]
    return {place: cosines[place] for place in best}


def cosines_of_documents(documents: Sequence[Place], query: Query) -> list[float]:
    """The cosine of each of these documents."""
    vector, cosines = of_question(query.text), [0.0] * len(documents)
    for segment in dict.fromkeys(segment for segment, _ in documents):
        indexes = [index for index, (own, _) in enumerate(documents) if own is segment]
        numbers = np.array([documents[index][1] for index in indexes], np.int64)
        of_segment = cosines_of(segment.vectors, segment.arrays["vector_inverse"], numbers, vector)
        for index, cosine in zip(indexes, of_segment.tolist(), strict=True):
            cosines[index] = cosine
    return cosines


def _sources(segment: Segment, document: int) -> tuple[int, int]:
    return int(segment.arrays["owner"][document]), int(segment.arrays["domain"][document])
