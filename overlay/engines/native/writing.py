"""A commit: new segments, tombstones in earlier ones, and a manifest.

Segments of like size are merged, so that there are few: what is added joins the last segment while that has at most
`SMALL` documents, and a segment joins the one before it while that is less than `FACTOR` times as large.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np

from overlay.engines import Cursor
from overlay.engines.native import manifest as manifests
from overlay.engines.native import segment_file
from overlay.engines.native.builder import Arrays, SegmentBuilder
from overlay.engines.native.derived import derived
from overlay.engines.native.manifest import Manifest, SegmentEntry
from overlay.engines.native.merging import merge
from overlay.engines.native.segment import Bytes, Segment
from overlay.engines.native.view import NativeView
from overlay.search.text_vectors import table_hash

if TYPE_CHECKING:
    from overlay.search.document import Document

SMALL = 1_000
FACTOR = 4


@dataclass(slots=True)
class _CommitPart:
    """Documents of a commit: of a segment on disk (`entry`), or new ones; `live` has 0 for deleted ones."""

    arrays: Arrays
    live: Bytes
    entry: SegmentEntry | None

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self.live))


def committed(
    folder: Path,
    view: NativeView,
    registrations: Sequence[str] | None,
    documents: Iterable[Document],
    cursor: Cursor | None,
) -> Manifest:
    """Write and publish a commit; its manifest. Raises OSError."""
    builders = {is_history: SegmentBuilder() for is_history in (False, True)}
    for document in documents:
        builders[document.until_height is not None].add(document)
    before = view.segments if registrations is not None else ()
    facts = [f"registration:{registration}" for registration in dict.fromkeys(registrations or ())]
    entries: list[SegmentEntry] = []
    for is_history, builder in builders.items():
        parts = [_without(segment, facts) for segment in before if segment.is_history == is_history]
        if builder.documents:
            parts.append(_CommitPart(builder.arrays(), np.ones(builder.documents, np.uint8), None))
        entries += [_stored(folder, part, is_history=is_history) for part in _merged(parts)]
    manifest = Manifest(
        view.manifest.number + 1,
        cursor,
        max(view.manifest.newest if before else 0, *(builder.newest for builder in builders.values())),
        tuple(entries),
        table_hash(),
    )
    manifests.publish(folder, manifest)
    return manifest


def _without(segment: Segment, facts: Sequence[str]) -> _CommitPart:
    """A segment without the documents that have one of these facts."""
    live, offsets = segment.live, segment.arrays["fact_offsets"]
    numbers = segment.numbers("facts", facts)
    gone = [segment.arrays["fact_documents"][offsets[number] : offsets[number + 1]] for number in numbers.tolist()]
    if gone and live[deleted := np.concatenate(gone)].any():
        live = live.copy()
        live[deleted] = 0
    return _CommitPart(dict(segment.arrays), live, segment.entry)


def _merged(parts: list[_CommitPart]) -> list[_CommitPart]:
    """Fewer parts with the same documents, larger ones first."""
    merged: list[_CommitPart] = []
    for part in parts:
        if not part.count:
            continue
        merged.append(part)
        while len(merged) > 1 and _are_alike(merged[-2].count, merged[-1].count):
            merged[-2:] = [_joined(merged[-2:])]
    return merged


def _are_alike(earlier: int, later: int) -> bool:
    return earlier <= SMALL or earlier < FACTOR * later


def _joined(parts: Sequence[_CommitPart]) -> _CommitPart:
    arrays = merge([part.arrays for part in parts], [part.live != 0 for part in parts])
    return _CommitPart(arrays, np.ones(sum(part.count for part in parts), np.uint8), None)


def _stored(folder: Path, part: _CommitPart, *, is_history: bool) -> SegmentEntry:
    """The entry of a part in the manifest, once its files are written."""
    entry, deleted = part.entry, int(np.count_nonzero(part.live == 0))
    if entry is None:
        entry = SegmentEntry(_new_name(), len(part.live), is_history, "", 0)
        segment_file.write(manifests.segment_path(folder, entry.name), part.arrays | derived(part.arrays))
    elif deleted != entry.deleted:
        name = _new_name()
        bits = np.packbits(part.live == 0, bitorder="little")
        words = np.zeros(-(-len(part.live) // 64), np.uint64)
        words.view(np.uint8)[: len(bits)] = bits
        manifests.write_deleted(folder, name, words)
        entry = replace(entry, deleted_file=name, deleted=deleted)
    return entry


def _new_name() -> str:
    return uuid4().hex[:16]
