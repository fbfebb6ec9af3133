"""One commit of an index, for reading."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from overlay.engines import Cursor
from overlay.engines.native import manifest as manifests
from overlay.engines.native.manifest import Manifest, SegmentEntry
from overlay.engines.native.native_terms import NativeTerms
from overlay.engines.native.segment import Bytes, Segment
from overlay.engines.native.segment_file import SegmentFile
from overlay.search.text_vectors import table_hash

_EMPTY = Manifest(0, None, 0, (), "")


@dataclass(frozen=True)
class NativeView:
    """The segments of a manifest, in its order."""

    manifest: Manifest
    segments: tuple[Segment, ...]

    @classmethod
    def empty(cls) -> NativeView:
        """That of an index without a commit."""
        return cls(_EMPTY, ())

    @classmethod
    def read(cls, folder: Path, before: NativeView) -> NativeView:
        """The newest commit; segments that are as `before` are not opened again. Raises OSError, ValueError."""
        manifest = manifests.read(folder) or _EMPTY
        opened = dict(zip(before.manifest.segments, before.segments, strict=True))
        files = {entry.name: segment for entry, segment in opened.items()}
        return cls(
            manifest,
            tuple(opened.get(entry) or _opened(folder, entry, files.get(entry.name)) for entry in manifest.segments),
        )

    @property
    def cursor(self) -> Cursor | None:
        """How far the index has read the outbox; None also where its text vectors are of another table than ours."""
        return self.manifest.cursor if self.manifest.vectors == table_hash() else None

    @cached_property
    def current(self) -> tuple[Segment, ...]:
        """The segments of documents without an end height."""
        return tuple(segment for segment in self.segments if not segment.is_history)

    @cached_property
    def terms(self) -> NativeTerms:
        """The words of the current segments."""
        return NativeTerms(self.current)

    def item(self, id_: str) -> bytes | None:
        """The stored item of a current listing."""
        for segment in self.current:
            for document in segment.with_fact(f"id:{id_}").tolist():
                if segment.id(document) == id_:
                    return segment.row("item", document)
        return None


def _opened(folder: Path, entry: SegmentEntry, same: Segment | None) -> Segment:
    """A segment; `same` has the same arrays and other tombstones."""
    arrays = same.arrays if same else SegmentFile.open(manifests.segment_path(folder, entry.name)).arrays
    return Segment(entry, arrays, _live(folder, entry))


def _live(folder: Path, entry: SegmentEntry) -> Bytes:
    """A byte for each document of a segment: 0 for deleted ones."""
    if not entry.deleted_file:
        return np.ones(entry.documents, np.uint8)
    words = manifests.read_deleted(folder, entry)
    return np.unpackbits(words.view(np.uint8), count=entry.documents, bitorder="little") ^ np.uint8(1)
