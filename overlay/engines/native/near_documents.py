"""The documents with text vectors that a question is compared with, over the segments of a commit
(`search.meaning`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overlay.engines.native.results import SegmentQueries
from overlay.engines.native.segment import Ints
from overlay.search.diversity import flooding, spread
from overlay.search.meaning import NEAREST
from overlay.search.nearest import Nearest
from overlay.search.piece_table import Vector
from overlay.search.query import Query


def nearest_documents(queries: SegmentQueries, query: Query, vector: Vector) -> list[Nearest]:
    """For each segment its documents among the ones with the greatest cosines to the question's vector of all that the
    filters admit. Where most of them are of one source, others are searched for, as among the candidates by words."""
    near = _nearest(queries, vector, ())
    sources = _sources(queries, near)
    floods = [] if query.owners or query.domains or query.group else flooding(sources)
    if not floods:
        return near
    both = list(map(_union, near, _nearest(queries, vector, floods)))
    cosines = np.concatenate([source.cosines for source in both])
    order = np.argsort(-cosines, kind="stable")
    sources = _sources(queries, both)
    positions = spread([sources[position] for position in order.tolist()], NEAREST)[:NEAREST]
    return _chosen(both, order[positions])


def _nearest(queries: SegmentQueries, vector: Vector, left_out: Sequence[int]) -> list[Nearest]:
    parts = list[Nearest]()
    for part in queries:
        admitted = part.admitted
        if left_out:
            admitted = admitted * ~np.isin(part.segment.arrays["source"], np.array(left_out, np.uint64))
        parts.append(part.segment.nearest(admitted, vector, NEAREST))
    if len(parts) == 1:
        return parts
    return _chosen(parts, np.argsort(-np.concatenate([result.cosines for result in parts]), kind="stable")[:NEAREST])


def _chosen(parts: Sequence[Nearest], positions: Ints) -> list[Nearest]:
    """The nearest documents at some positions, counted over all parts."""
    is_chosen = np.zeros(sum(len(part.documents) for part in parts), bool)
    is_chosen[positions] = True
    marks = np.split(is_chosen, np.cumsum([len(part.documents) for part in parts])[:-1])
    return [Nearest(part.documents[marked], part.cosines[marked]) for part, marked in zip(parts, marks, strict=True)]


def _union(left: Nearest, right: Nearest) -> Nearest:
    documents, first = np.unique(np.concatenate((left.documents, right.documents)), return_index=True)
    return Nearest(documents, np.concatenate((left.cosines, right.cosines))[first])


def _sources(queries: SegmentQueries, parts: Sequence[Nearest]) -> list[int]:
    columns = [part.segment.arrays["source"][near.documents] for part, near in zip(queries, parts, strict=True)]
    sources: list[int] = np.concatenate(columns).tolist()
    return sources
