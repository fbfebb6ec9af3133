"""Completions of a text: the labels of the latest documents that contain its words (`suggesting`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import itemgetter

import numpy as np

from overlay.engines.native import label_kernels as kernels
from overlay.engines.native.labels import unpacked
from overlay.engines.native.search_kernels import admit, first
from overlay.engines.native.segment import Ints, Segment
from overlay.engines.native.tables import pack
from overlay.search.planner import QueryPlan
from overlay.search.query import Suggestion
from overlay.search.suggesting import MAX_LISTINGS, Completed, Typed

Row = tuple[int, bytes, Segment, int]
"""A document by age: its sorting key, then itself."""


def completed(segments: Sequence[Segment], typed: Typed) -> Completed:
    """The completions of a text in the documents of current segments."""
    latest = _latest(segments, typed.plan)
    names: dict[int, Suggestion] = {}
    labels: list[set[Suggestion]] = [set() for _ in latest]
    words: set[str] = set()
    for segment in dict.fromkeys(segment for _, _, segment, _ in latest):
        indexes = [index for index, row in enumerate(latest) if row[2] is segment]
        documents = np.array([latest[index][3] for index in indexes], np.int64)
        words |= _words(segment, documents, typed.completions)
        for position, label in _labels(segment, documents, typed.beginnings):
            index = indexes[position]
            if label.kind == "listing":
                names[index] = label._replace(id=latest[index][1].decode("utf-8", "surrogatepass"))
            else:
                labels[index].add(label)
    return Completed([names[index] for index in sorted(names)], labels, words)


def _latest(segments: Sequence[Segment], plan: QueryPlan) -> list[Row]:
    """The latest documents that contain all words, in the order of `sorting.LATEST`."""
    held = [(segment, _latest_of(segment, plan)) for segment in segments]
    times = [segment.arrays["newest"][documents].astype(np.int64) for segment, documents in held]
    newest = np.concatenate([np.empty(0, np.int64), *times])
    least = np.partition(newest, -MAX_LISTINGS)[-MAX_LISTINGS] if len(newest) > MAX_LISTINGS else 0
    rows: list[Row] = []
    for (segment, documents), segment_times in zip(held, times, strict=True):
        chosen = documents[segment_times >= least]
        ages, ids = (-segment_times[segment_times >= least]).tolist(), segment.rows("id", chosen)
        rows += zip(ages, ids, repeat(segment), chosen.tolist(), strict=False)
    return sorted(rows, key=itemgetter(0, 1))[:MAX_LISTINGS]


def _latest_of(segment: Segment, plan: QueryPlan) -> Ints:
    """The latest documents of a segment that contain all words, in no order."""
    a, mask = segment.arrays, segment.plain
    scratch = segment.take_scratch()
    for position, group in enumerate(plan.content):
        terms = segment.numbers("terms", [alternative.term for alternative in group.alternatives])
        admit(mask, scratch.masks[position % 2], a["term_offsets"], a["term_documents"], terms)
        mask = scratch.masks[position % 2]
    latest = first(np.flatnonzero(mask.view(np.bool_)), a["newest"], a["id_rank"], MAX_LISTINGS, False)
    segment.give_back(scratch)
    return latest


def _labels(segment: Segment, documents: Ints, beginnings: Sequence[str]) -> list[tuple[int, Suggestion]]:
    """The labels of documents that complete a text, each with the index of its document."""
    a, keys = segment.arrays, pack([beginning.encode("utf-8", "surrogatepass") for beginning in beginnings])
    of_documents, numbers = kernels.completing(
        documents, a["document_labels_offsets"], a["document_labels"], a["labels_bytes"], a["labels_offsets"], *keys
    )
    chosen = numbers.tolist()
    distinct = np.array(list(dict.fromkeys(chosen)), np.int64)
    by_number = dict(zip(distinct.tolist(), map(unpacked, segment.rows("labels", distinct, "_bytes")), strict=True))
    return list(zip(of_documents.tolist(), map(by_number.__getitem__, chosen), strict=True))


def _words(segment: Segment, documents: Ints, words: Sequence[str]) -> set[str]:
    """The words, of those passed in, that the name or the description of a document contains."""
    a, is_contained = segment.arrays, np.zeros(len(words), np.uint8)
    kernels.contained(
        documents, a["document_surfaces_offsets"], a["text_surfaces"], a["document_surfaces"],
        segment.positions("surfaces", words), is_contained,
    )  # fmt: skip
    return {words[index] for index in np.flatnonzero(is_contained).tolist()}
