"""One commit of an index, for reading."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from errno import EIO
from functools import cached_property
from pathlib import Path

import numpy as np

from overlay.engines import IndexPosition
from overlay.engines.native import manifest as manifests
from overlay.engines.native.array_checks import check_all
from overlay.engines.native.manifest import Manifest, SegmentEntry
from overlay.engines.native.native_terms import NativeTerms
from overlay.engines.native.segment import Segment
from overlay.engines.native.segment_file import Array, SegmentError, SegmentFile
from overlay.search.piece_table import table_hash

_EMPTY = Manifest(0, None, 0, (), "")


@dataclass(frozen=True)
class NativeView:
    """The segments of a manifest, in its order, but for damaged ones, which `damage` names ("" for none)."""

    manifest: Manifest
    segments: tuple[Segment, ...]
    damage: str = ""

    @classmethod
    def empty(cls, damage: str = "") -> NativeView:
        """A view of an index without a commit that can be read."""
        return cls(_EMPTY, (), damage)

    @classmethod
    def read(cls, folder: Path, before: NativeView, damaged: Mapping[str, str], *, for_search: bool) -> NativeView:
        """The newest commit. Segments that are in `before` are not opened again, and those in `damaged` (name to fault)
        are left out. Unless it is read `for_search`, it has no segments, and only the heads of their files are checked.
        Raises FileNotFoundError when another commit has replaced it meanwhile, and OSError when no more files can be
        read for now."""
        prefix = f"{folder}{os.sep}"  # of files of this machine: the damage is public
        try:
            manifest = manifests.read(folder) or _EMPTY
        except ValueError as error:
            return cls.empty(str(error).replace(prefix, ""))
        opened = {segment.entry: segment for segment in before.segments}
        files = {segment.entry.name: segment for segment in before.segments}
        segments, damages = list[Segment](), list[str]()
        for entry in manifest.segments:
            try:
                if entry.name in damaged:
                    raise SegmentError(damaged[entry.name])
                if for_search:
                    segments.append(opened.get(entry) or _opened(folder, entry, files.get(entry.name)))
                else:
                    SegmentFile.open(manifests.segment_path(folder, entry.name))
                    manifests.read_deleted(folder, entry)
            except (SegmentError, OSError) as error:
                damages.append(_damage(folder, manifest, error))
        return cls(manifest, tuple(segments), "; ".join(damages).replace(prefix, ""))

    @property
    def position(self) -> IndexPosition | None:
        """How far the index has read the outbox; None when it must be rebuilt, also where its text vectors are of
        another table than ours."""
        return None if self.damage or self.manifest.vectors != table_hash() else self.manifest.position

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


def _damage(folder: Path, manifest: Manifest, error: SegmentError | OSError) -> str:
    """The damage of a segment that could not be opened, in words. Raises the error where another try may soon
    succeed."""
    if isinstance(error, SegmentError):
        return str(error)
    is_missing = isinstance(error, FileNotFoundError)
    if (is_missing and manifests.read(folder) == manifest) or error.errno == EIO:
        return f"{error.filename} cannot be read ({error.strerror})"
    raise error


def _opened(folder: Path, entry: SegmentEntry, same: Segment | None) -> Segment:
    """A segment, checked; `same` has the same arrays and other tombstones."""
    same = same if same is not None and same.documents == entry.documents else None
    if same is None:
        path = manifests.segment_path(folder, entry.name)
        arrays: Mapping[str, Array] = SegmentFile.open(path).arrays
        try:
            check_all(arrays, entry.documents)
        except SegmentError as error:
            raise SegmentError(f"{path} is damaged: {error}") from error
    else:
        arrays = same.arrays
    live = np.ones(entry.documents, np.uint8)
    if entry.deleted_file:
        words = manifests.read_deleted(folder, entry)
        live = np.unpackbits(words.view(np.uint8), count=entry.documents, bitorder="little") ^ np.uint8(1)
    segment = Segment(entry, arrays, live)
    if same is not None:
        vars(segment).update({name: days for name, days in vars(same).items() if name == "interval_days"})
    return segment
