"""A commit: new segments, tombstones in earlier ones, and a manifest.

Segments of similar size are merged to limit their number: a new segment joins the last one while that has at most
`SMALL` documents, and a segment joins the one before it while that is less than `FACTOR` times as large. Merged
segments of up to `AT_ONCE` documents are part of the commit; larger ones are written beside it, and published when they
are complete. An index that is being filled is merged once there are many segments, and into one segment of any size by
its last commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from overlay.engines import IndexContent, IndexPosition
from overlay.engines.native import manifest as manifests
from overlay.engines.native import segment_file
from overlay.engines.native.builder import SegmentBuilder
from overlay.engines.native.derived import derived
from overlay.engines.native.manifest import Manifest, SegmentEntry
from overlay.engines.native.merging import merge
from overlay.engines.native.segment import Bytes, Segment
from overlay.engines.native.segment_file import SegmentError, SegmentFile
from overlay.engines.native.view import NativeView
from overlay.search.piece_table import table_hash

if TYPE_CHECKING:
    from overlay.search.document import Document

SMALL = 200
FACTOR = 4
AT_ONCE = 20_000
FILLED = 32
"""Segments of an index that is being filled, before some are merged."""

Stretches = list[tuple[int, int]]
Grouping = Callable[[Sequence[int]], Stretches]
"""The neighbours to merge among segments of these numbers of documents: the number of the first, and the number after
the last."""


class DamagedSegmentError(SegmentError):
    """The file of a segment is damaged."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name
        """The name of the segment."""


@dataclass(slots=True)
class _CommitPart:
    """Documents of a commit: of a segment on disk (`entry`), or new ones; `live` has 0 for deleted ones."""

    arrays: Mapping[str, npt.NDArray[Any]]
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
    position: IndexPosition | None,
    content: IndexContent,
    *,
    merging: Collection[str] = (),
    grouping: Grouping | None = None,
) -> Manifest:
    """Write and publish a commit; its manifest. Segments are merged by their number of documents, or by a `grouping`,
    but those that are `merging` stay apart. Raises OSError."""
    builders = {is_history: SegmentBuilder() for is_history in (False, True)}
    for document in documents:
        builders[document.until_height is not None].add(document)
    before = view.segments if registrations is not None else ()
    facts = [f"registration:{registration}" for registration in dict.fromkeys(registrations or ())]
    newest = max(view.manifest.newest if before else 0, *(builder.newest for builder in builders.values()))
    entries: list[SegmentEntry] = []
    for is_history in (False, True):
        parts = [_without(segment, facts) for segment in before if segment.is_history == is_history]
        builder = builders.pop(is_history)
        if builder.documents:
            parts.append(_CommitPart(builder.arrays(), np.ones(builder.documents, np.uint8), None))
        del builder  # it takes more memory than its arrays
        parts = [part for part in parts if part.count]
        apart = [index for index, part in enumerate(parts) if part.entry is not None and part.entry.name in merging]
        group = grouping if grouping and not apart else partial(_groups, apart=apart, most=AT_ONCE)
        stretches = group([part.count for part in parts])
        merged = [parts[start] if end - start == 1 else _joined(folder, parts[start:end]) for start, end in stretches]
        entries += [_stored(folder, part, is_history=is_history) for part in merged]
    return _published(folder, view, Manifest(0, position, newest, tuple(entries), table_hash(), content))


def due(view: NativeView) -> tuple[Segment, ...]:
    """The segments to merge next with a result that is too large for a commit."""
    for is_history in (False, True):
        segments = [segment for segment in view.segments if segment.is_history == is_history]
        for start, end in _groups([segment.count for segment in segments]):
            if end - start > 1:
                return tuple(segments[start:end])
    return ()


def joined(folder: Path, name: str, sources: Sequence[Segment]) -> SegmentEntry:
    """Write a segment of the documents of others. Raises OSError; SegmentError, which names the segment, for a damaged
    source."""
    for source in sources:
        if damage := damaged(folder, source.entry):
            raise DamagedSegmentError(source.entry.name, damage)
    part = _joined(folder, [_CommitPart(source.arrays, source.live, source.entry) for source in sources])
    return _stored(folder, part, is_history=sources[0].is_history, name=name)


def damaged(folder: Path, entry: SegmentEntry) -> str:
    """The damage of the file of a segment, all of which is read; "" for none. Raises OSError."""
    path = manifests.segment_path(folder, entry.name)
    try:
        arrays = SegmentFile.open(path).damaged()
    except (SegmentError, FileNotFoundError) as error:
        return str(error)
    return f"{path} is damaged: the CRC-32C of {', '.join(arrays)} differs" if arrays else ""


def replaced(folder: Path, view: NativeView, sources: Sequence[Segment], entry: SegmentEntry) -> Manifest | None:
    """Publish a segment instead of its `sources`; documents that were deleted meanwhile are deleted in it, too. None
    when nothing of them is left. Raises OSError."""
    now = {segment.entry.name: segment for segment in view.segments}
    if not any(source.entry.name in now for source in sources):
        return None
    live: list[Bytes] = []  # of each document that was merged, whether it is not deleted now
    for source in sources:
        chosen, segment = source.live != 0, now.get(source.entry.name)
        live.append(segment.live[chosen] if segment is not None else np.zeros(np.count_nonzero(chosen), np.uint8))
    part = _CommitPart({}, np.concatenate(live), entry)
    new = [_stored(folder, part, is_history=entry.is_history)] if part.count else []
    names = [source.entry.name for source in sources]
    entries: list[SegmentEntry] = []
    for before in view.manifest.segments:
        if before.name not in names:
            entries.append(before)
        elif new:
            entries.append(new.pop())
    return _published(folder, view, replace(view.manifest, segments=tuple(entries)))


def _published(folder: Path, view: NativeView, manifest: Manifest) -> Manifest:
    manifest = replace(manifest, number=view.manifest.number + 1)
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
    return _CommitPart(segment.arrays, live, segment.entry)


def while_filled(counts: Sequence[int]) -> Stretches:
    """The grouping of an index that is being filled and not searched."""
    return _groups(counts) if len(counts) > FILLED else [(index, index + 1) for index in range(len(counts))]


def as_one(counts: Sequence[int]) -> Stretches:
    """The grouping of all segments into one."""
    return [(0, len(counts))] if counts else []


def _groups(counts: Sequence[int], apart: Collection[int] = (), most: float = inf) -> Stretches:
    """The stretches of segments of like size: of up to `most` documents, and without those that are to stay `apart`."""
    groups: Stretches = []
    totals: list[int] = []
    for index, count in enumerate(counts):
        groups.append((index, index + 1))
        totals.append(count)
        while (
            len(groups) > 1 and (totals[-2] <= SMALL or totals[-2] < FACTOR * totals[-1]) and sum(totals[-2:]) <= most
        ):
            if groups[-1][0] in apart or groups[-2][0] in apart:
                break
            groups[-2:] = [(groups[-2][0], groups[-1][1])]
            totals[-2:] = [sum(totals[-2:])]
    return groups


def _joined(folder: Path, parts: Sequence[_CommitPart]) -> _CommitPart:
    arrays = merge([part.arrays for part in parts], [part.live != 0 for part in parts], folder)
    return _CommitPart(arrays, np.ones(sum(part.count for part in parts), np.uint8), None)


def _stored(folder: Path, part: _CommitPart, *, is_history: bool, name: str = "") -> SegmentEntry:
    """The entry of a part in the manifest, once its files are written."""
    entry, deleted = part.entry, int(np.count_nonzero(part.live == 0))
    if entry is None:
        entry = SegmentEntry(name or new_name(), len(part.live), is_history, "", 0)
        segment_file.write(
            manifests.segment_path(folder, entry.name), {**part.arrays, **derived(dict(part.arrays), folder)}
        )
    elif deleted != entry.deleted:
        name = new_name()
        bits = np.packbits(part.live == 0, bitorder="little")
        words = np.zeros(-(-len(part.live) // 64), np.uint64)
        words.view(np.uint8)[: len(bits)] = bits
        manifests.write_deleted(folder, name, words)
        entry = replace(entry, deleted_file=name, deleted=deleted)
    return entry


def new_name() -> str:
    """A name of a segment or of tombstones, which is used once."""
    return uuid4().hex[:16]
